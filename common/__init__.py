"""What webhook and reconciler share: the decisions (domain) and the ways to the outside (adapters).

Must not import webhook, reconciler, certs or tests.
"""
