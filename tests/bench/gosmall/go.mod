module gpures.dev/bench/gosmall

go 1.26.0
