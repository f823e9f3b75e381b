"""The demo's pure parts, on snapshots and histories that are made up."""
