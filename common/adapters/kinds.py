"""The resources that our reflectors watch."""

from typing import Final

from common.adapters import paths
from common.adapters.watching import Kind
from common.adapters.wire import decode_class, decode_node, decode_pod, decode_reservation
from common.domain.gpu_class import GpuClass
from common.domain.pod import NodeView, PodView
from common.domain.reservation import ObjectKey, Reservation

PODS: Final[Kind[PodView]] = Kind("pods", paths.pods(), decode_pod, lambda pod: pod.key)
NODES: Final[Kind[NodeView]] = Kind("nodes", paths.nodes(), decode_node, lambda node: ObjectKey("", node.name))
CLASSES: Final[Kind[GpuClass]] = Kind("gpuclasses", paths.classes(), decode_class, lambda c: ObjectKey("", c.name))
RESERVATIONS: Final[Kind[Reservation]] = Kind(
    "gpureservations", paths.reservations(), decode_reservation, lambda reservation: reservation.key
)
