"""AdmissionReviews as the API server sends them; pure."""

from __future__ import annotations

import json
from typing import Any

from common.domain import keys

SIZE = 4000
UID = "3c1f2c3e-8a39-4f0c-9f5f-6f1d2b7a5e10"


def training_pod(name: str, namespace: str, gpu_class: str) -> dict[str, Any]:
    """A pod of a Job after defaulting, of the size that such pods have; asks for one GPU."""
    mounts = [
        {"name": "data", "mountPath": "/data", "readOnly": True},
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
    ]
    amounts = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}
    environment = [{"name": f"TRAIN_OPTION_{index:02}", "value": f"value-{index:02}"} for index in range(12)]
    container = {
        "name": "main",
        "image": "registry.example.com/team/train:2026.11.3",
        "command": ["python", "-m", "train"],
        "args": ["--config", "/data/config.yaml", "--epochs", "40"],
        "env": environment,
        "resources": {"limits": amounts, "requests": amounts},
        "volumeMounts": mounts,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": UID, "controller": True}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": "7d9b5f0a-52f5-4a43-8a3c-0b0a4f5f7c11",
            "creationTimestamp": None,
            "labels": {keys.CLASS_LABEL: gpu_class, "app": "train", "batch.kubernetes.io/job-name": "train"},
            "annotations": {"example.com/owner": "team-a"},
            "ownerReferences": [owner],
        },
        "spec": {
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
                {"name": "scratch", "emptyDir": {}},
                {"name": "kube-api-access-x7k2p", "projected": {"sources": [], "defaultMode": 420}},
            ],
            "containers": [container],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{name}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for name in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {},
    }


def review(namespace: str, gpu_class: str, *, dry_run: bool, size: int = SIZE) -> bytes:
    """One CREATE, filled up with an annotation to the size asked for."""
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    pod = training_pod("train-0", namespace, gpu_class)
    content = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": UID,
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": "train-0",
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {
                "username": "system:serviceaccount:kube-system:job-controller",
                "uid": UID,
                "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
            },
            "object": pod,
            "oldObject": None,
            "dryRun": dry_run,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }
    missing = size - len(_encoded(content))
    filler = ',"example.com/notes":""'
    if missing > len(filler):
        pod["metadata"]["annotations"]["example.com/notes"] = "n" * (missing - len(filler))
    return _encoded(content)


def _encoded(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
