"""The reconciler shell without an API server; may import everything, nothing imports it."""
