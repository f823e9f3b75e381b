"""The closed list of reasons, and how one is stored."""

from common.domain.reasons import Hold, Reason


def test_the_list_is_closed() -> None:
    listed = (
        "Undecided, NoReservation, ReservationNotFound, ReservationPending, WaitingForReservation, ReservationFull, "
        "ReservationTooSmall, ReservationFragmented, WaitingForUnits, UnknownGpuClass, NoGpuRequest, NoMatchingNode, "
        "WaitingForNode, OtherGate, HeldByOwnSibling"
    )
    assert [str(reason) for reason in Reason] == listed.split(", ")


def test_the_annotation_reads_reason_colon_sentence() -> None:
    assert Hold(Reason.OTHER_GATE, "why").annotation == "OtherGate: why"
