"""A real Kubernetes control plane for tests, without Docker.

etcd, kube-apiserver, kube-scheduler and kube-controller-manager from Go modules, KWOK for kubelets; `ControlPlane` in
`cluster.py` is where to start reading.
"""
