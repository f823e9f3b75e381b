"""The serving certificates of the webhook: planned, issued, stored, injected and rotated.

Must not import webhook, reconciler or tests; the only home of cryptography.
"""
