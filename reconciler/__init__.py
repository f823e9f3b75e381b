"""The elected reconciler: gathers with informers, decides with `common.domain`, and carries the actions out.

May import certs and common; never webhook.
"""
