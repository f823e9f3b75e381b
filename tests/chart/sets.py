"""Values that people set, each set for a corner of the chart."""

from __future__ import annotations

from tests.controlplane.discovery import JsonObject

MONITORED = {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}}
SETS: dict[str, JsonObject] = {
    "defaults": {},
    "everything on": {
        "monitoring": MONITORED,
        "networkPolicy": {"metricsFrom": [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]},
        "commonLabels": {"team": "gpu"},
        "displayTimezone": "Europe/Berlin",
        "excludedNamespaces": ["infra"],
        "image": {"digest": f"sha256:{'0' * 64}"},
        "imagePullSecrets": [{"name": "registry"}],
        "webhook": {"replicas": 3, "podLabels": {"a": "b"}, "podAnnotations": {"c": "d"}, "nodeSelector": {"e": "f"}},
        "reconciler": {"extraEnv": [{"name": "GPURES_EVENT_REPEAT", "value": "1h"}]},
    },
    "everything off": {
        "crds": {"enabled": False},
        "flowControl": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
        "policies": {"hold": "off", "devices": False, "unlabelled": False},
        "priorityClassName": "",
        "tenantRoles": {"view": False, "edit": False, "classesForAll": False},
        "uninstall": {"enabled": False},
    },
    "cert-manager": {"certificates": {"mode": "certManager"}},
    "certificate files": {"certificates": {"mode": "files", "caBundle": "PEM"}},
}
