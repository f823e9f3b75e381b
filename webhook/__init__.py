"""The admission webhook: lets pods in under an open reservation, holds the others behind our gate.

Must not import reconciler or tests; reaches Kubernetes through common.adapters only.
"""
