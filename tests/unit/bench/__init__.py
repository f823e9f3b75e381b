"""The arithmetic of the benchmarks, on made-up rounds and made-up audit logs."""
