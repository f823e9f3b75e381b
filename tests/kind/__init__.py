"""The product on a kind cluster with real kubelets, deployed by its own image and chart: `python -m tests.kind`."""
