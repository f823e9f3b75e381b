module gpures.dev/tests/kind/workload

go 1.26
