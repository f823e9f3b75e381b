"""What `tests/kind` says of a run, without a cluster."""
