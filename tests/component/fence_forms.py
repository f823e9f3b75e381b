"""Every form in which a toleration may be written, for its verdict must be the scheduler's."""

from __future__ import annotations

from tests.component.fence_scene import NUMBER
from tests.controlplane.discovery import JsonObject

CLASS = "<class>"
KEY = "gpu-class-reservation"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _form(
    key: str | None = KEY,
    operator: str | None = None,
    value: str | None = None,
    effect: str | None = None,
    seconds: int | None = None,
) -> JsonObject:
    given = {"key": key, "operator": operator, "value": value, "effect": effect, "tolerationSeconds": seconds}
    return {field: content for field, content in given.items() if content is not None}


FORMS: list[JsonObject] = [
    # as we write it, and shorter
    *(_form(operator=operator, value=CLASS, effect="NoSchedule") for operator in ("Equal", None, "")),
    *(_form(operator=operator, value=CLASS) for operator in ("Equal", None)),
    _form(operator="Equal", value=CLASS, effect=""),
    # other effects
    *(_form(operator="Equal", value=CLASS, effect=effect) for effect in EFFECTS[1:]),
    _form(operator="Equal", value=CLASS, effect="NoExecute", seconds=60),
    # the key of every class
    *(_form(operator="Exists", effect=effect) for effect in (None, "", *EFFECTS)),
    _form(operator="Exists", effect="NoExecute", seconds=60),
    _form(operator="Exists", value=CLASS),
    # values of other nodes: a number, none
    *(_form(operator=operator, value=NUMBER, effect="NoSchedule") for operator in ("Equal", "Lt", "Gt")),
    _form(operator="Gt", value="1"),
    _form(operator="Lt", value="1000"),
    _form(effect="NoSchedule"),
    _form(operator="Equal", value=""),
    # every taint
    *(_form(None, "Exists", effect=effect) for effect in (None, "", *EFFECTS)),
    _form("", "Exists"),
    _form("", "Exists", effect="NoSchedule"),
    _form(None, "Exists", effect="NoExecute", seconds=60),
    _form(None, "Exists", value=CLASS),
    _form(None, "Equal", CLASS),
    _form(None, None, CLASS, "NoSchedule"),
    _form("", "", "", ""),
    # keys that look alike
    *(
        _form(key, "Exists")
        for key in (
            "gpu-class",
            "GPU-CLASS-RESERVATION",
            "gpu-class-reservation.",
            "gpures.dev/hold",
            "gpures.dev/gpu-class-reservation",
            "nvidia.com/gpu",
            " gpu-class-reservation",
        )
    ),
    _form("gpu-class", "Equal", CLASS, "NoSchedule"),
    # no words of the API
    _form(operator="exists", effect="NoSchedule"),
    _form(operator="In", value=CLASS),
    _form(operator="Exists", effect="noschedule"),
    _form(operator="Exists", effect="*"),
]


def written(form: JsonObject, gpu_class: str) -> JsonObject:
    """The form for a class."""
    return {field: gpu_class if content == CLASS else content for field, content in form.items()}
