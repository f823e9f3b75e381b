"""Shapes of pods, and how many units of what each one needs, worked out by hand."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from common.domain.gpu_class import Unit

GPU = "nvidia.com/gpu"
GIB = Decimal(2**30)
ONE_GPU = Unit()
SLOT = Unit("slot", {"cpu": Decimal(2), "memory": 4 * GIB})
BIG_GPU = Unit("GPU", {GPU: Decimal(1), "memory": 16 * GIB})

Resources = dict[str, dict[str, str]]
OVERHEADS: dict[str, dict[str, str]] = {"one-gpu-more": {GPU: "1"}, "one-gib-more": {"memory": "1Gi"}}
"""Runtime classes, and what each adds to a pod."""


@dataclass(frozen=True)
class Shape:
    """`starting` are the init containers in order; a pair with True is a sidecar."""

    name: str
    units: int
    unit: Unit
    running: tuple[Resources, ...]
    starting: tuple[tuple[Resources, bool], ...] = ()
    runtime: str = ""
    pod_level: Resources | None = None

    def spec(self) -> dict[str, Any]:
        containers = [_container(f"run-{n}", resources) for n, resources in enumerate(self.running)]
        init = [
            _container(f"init-{n}", resources) | ({"restartPolicy": "Always"} if sidecar else {})
            for n, (resources, sidecar) in enumerate(self.starting)
        ]
        return {
            "containers": containers,
            "initContainers": init,
            **({"runtimeClassName": self.runtime} if self.runtime else {}),
            **({"resources": self.pod_level} if self.pod_level else {}),
        }


def _container(name: str, resources: Resources) -> dict[str, Any]:
    return {"name": name, "image": "example.invalid/main", "resources": resources}


def gpus(count: int) -> Resources:
    return {"limits": {GPU: str(count)}}


def asks(**requests: str) -> Resources:
    return {"requests": requests}


def limits(**amounts: str) -> Resources:
    return {"limits": amounts}


def step(resources: Resources) -> tuple[Resources, bool]:
    """An init container that ends."""
    return resources, False


def sidecar(resources: Resources) -> tuple[Resources, bool]:
    return resources, True


SHAPES = (
    Shape("limits-only", 1, ONE_GPU, (gpus(1),)),
    Shape("containers-add-up", 3, ONE_GPU, (gpus(1), gpus(2))),
    Shape("requests-and-limits", 2, ONE_GPU, ({"requests": {GPU: "2"}, "limits": {GPU: "2"}},)),
    Shape("zero-beside-two", 2, ONE_GPU, (gpus(0), gpus(2))),
    Shape("init-is-larger", 3, ONE_GPU, (gpus(1),), (step(gpus(3)),)),
    Shape("init-is-smaller", 4, ONE_GPU, (gpus(4),), (step(gpus(2)),)),
    Shape("inits-do-not-add-up", 3, ONE_GPU, (gpus(1),), (step(gpus(2)), step(gpus(3)))),
    Shape("sidecar-beside-containers", 3, ONE_GPU, (gpus(2),), (sidecar(gpus(1)),)),
    Shape("sidecar-before-init", 4, ONE_GPU, (gpus(1),), (sidecar(gpus(1)), step(gpus(3)))),
    Shape("sidecar-after-init", 3, ONE_GPU, (gpus(1),), (step(gpus(3)), sidecar(gpus(1)))),
    Shape(
        "sidecars-around-inits",
        6,
        ONE_GPU,
        (gpus(1),),
        (sidecar(gpus(1)), step(gpus(2)), sidecar(gpus(2)), step(gpus(3))),
    ),
    Shape("sidecars-only", 3, ONE_GPU, ({},), (sidecar(gpus(1)), sidecar(gpus(1)), sidecar(gpus(1)))),
    Shape("overhead", 3, ONE_GPU, (gpus(2),), runtime="one-gpu-more"),
    Shape("overhead-on-a-large-init", 4, ONE_GPU, (gpus(1),), (step(gpus(3)),), runtime="one-gpu-more"),
    Shape("pod-level-beside-gpus", 2, ONE_GPU, (gpus(2),), pod_level=asks(cpu="3", memory="1Gi")),
    Shape("cpu-rounds-up", 2, SLOT, (asks(cpu="3"),)),
    Shape("a-thousandth-more", 2, SLOT, (asks(cpu="2001m"),)),
    Shape("memory-decides", 3, SLOT, (asks(cpu="1", memory="9Gi"),)),
    Shape("cpu-limits-only", 2, SLOT, (limits(cpu="4"),)),
    Shape("requests-below-limits", 1, SLOT, ({"requests": {"cpu": "1"}, "limits": {"cpu": "8"}},)),
    Shape("overhead-of-memory", 3, SLOT, (asks(memory="8Gi"),), runtime="one-gib-more"),
    Shape(
        "small-sidecars",
        2,
        SLOT,
        (asks(cpu="1"),),
        (sidecar(asks(cpu="500m")), step(asks(cpu="3")), sidecar(asks(cpu="500m")), sidecar(asks(cpu="500m"))),
    ),
    Shape("pod-level-requests", 3, SLOT, (asks(cpu="1"), asks(cpu="1")), pod_level=asks(cpu="5")),
    Shape("pod-level-limits-only", 3, SLOT, ({},), pod_level=limits(memory="9Gi")),
    Shape("pod-level-limits-over-requests", 1, SLOT, (asks(memory="1Gi"),), pod_level=limits(memory="9Gi")),
    Shape("pod-level-over-init", 3, SLOT, ({},), (step(asks(cpu="3")),), pod_level=asks(cpu="5")),
    Shape("pod-level-and-overhead", 3, SLOT, ({},), runtime="one-gib-more", pod_level=asks(memory="8Gi")),
    Shape("mixed-memory-decides", 3, BIG_GPU, ({"requests": {"memory": "33Gi"}, "limits": {GPU: "1"}},)),
    Shape("mixed-gpus-decide", 2, BIG_GPU, ({"requests": {"memory": "1Gi"}, "limits": {GPU: "2"}},)),
)
