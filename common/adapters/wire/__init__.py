"""The API server's JSON, typed: only the fields that we read, decoded straight to values of the domain.

What is unknown is skipped. An object that cannot be read raises `common.domain.errors.MalformedObject` in one sentence.
"""

from common.adapters.wire.conditions import encode_conditions
from common.adapters.wire.gpu_class import decode_class, encode_class_status
from common.adapters.wire.metadata import MetaWire, decode_identity
from common.adapters.wire.node import decode_node
from common.adapters.wire.pod import PodWire, decode_pod, pod_view
from common.adapters.wire.quantity import duration, encode_duration, quantity
from common.adapters.wire.reservation import decode_reservation, encode_granted, reservation_status

__all__ = [
    "MetaWire",
    "PodWire",
    "decode_class",
    "decode_identity",
    "decode_node",
    "decode_pod",
    "decode_reservation",
    "duration",
    "encode_class_status",
    "encode_conditions",
    "encode_duration",
    "encode_granted",
    "pod_view",
    "quantity",
    "reservation_status",
]
