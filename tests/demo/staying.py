"""KEEP=1: what is left for the spectator to try, as lines to copy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import yaml

from tests.controlplane.programs import ensure_programs
from tests.demo import cast
from tests.demo.house import House

COMMANDS = (
    ("k get gpures,gpuc --all-namespaces", "the calendar and the classes"),
    ("k create --as=carol -n carol -f $try/pod.yaml", "held, and told why: carol has no h100 reservation"),
    ("k create --as=carol -n carol -f $try/book.yaml", "she books, and her pod runs: k get pods -n carol -w"),
    ("k create --as=bob -n bob -f $try/too-much.yaml --dry-run=server", "the first slot, without booking it"),
    ("k create --as=bob -n bob -f $try/forged.yaml", "a forged toleration: refused"),
)


def things_to_try(house: House) -> Sequence[str]:
    """Write manifests beside the kubeconfig, and say what to do with them."""
    folder = house.cluster.directory / "try"
    folder.mkdir(exist_ok=True)
    manifests = {
        "book.yaml": cast.reservation("mine", "h100", 2, timedelta(minutes=30)),
        "pod.yaml": house.wearable(cast.pod("my-pod", "h100")),
        "too-much.yaml": cast.reservation("too-much", "h100", 12, timedelta(minutes=30)),
        "forged.yaml": cast.forged("my-intruder", "h100"),
    }
    for name, manifest in manifests.items():
        (folder / name).write_text(yaml.safe_dump(manifest, sort_keys=False))
    return [
        f"export KUBECONFIG={house.cluster.admin_kubeconfig}",
        f"alias k={ensure_programs().kubectl}",
        f"try={folder}",
        *(line for command, why in COMMANDS for line in ("", f"# {why}", command)),
    ]
