"""Every sentence that people read about holds and windows; golden shapes in `tests/golden`.

One display zone, always printed. Relative times only in admission warnings. Nothing names another tenant's things.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from common.domain import keys
from common.domain.pod import PodView
from common.domain.reservation import Granted, Reservation
from common.domain.time import Instant, Window

WARNING_LIMIT = 240
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_ITSELF = "; the pod starts by itself, nothing to do"


@dataclass(frozen=True, slots=True)
class Display:
    """Instants as people read them."""

    zone: tzinfo = UTC

    def instant(self, instant: Instant, same_day_as: Instant | None = None) -> str:
        """`2026-12-01 09:00 UTC`, or `09:00 UTC` on the day of `same_day_as`; seconds only where there are any."""
        local = self._local(instant)
        clock = local.strftime("%H:%M:%S" if local.second else "%H:%M")
        if same_day_as is not None and self._local(same_day_as).date() == local.date():
            return f"{clock} {local.tzname()}"
        return f"{local:%Y-%m-%d} {clock} {local.tzname()}"

    def window(self, window: Window) -> str:
        """`2026-12-01 09:00–13:00 UTC`; the end with its date when that is another day."""
        end = self.instant(window.end, same_day_as=window.start)
        return f"{self._beside(self.instant(window.start), end)}\N{EN DASH}{end}"

    def clock(self, instant: Instant, window: Window) -> str:
        """`11:00`, for a sentence that prints `window` already; the date and the zone only where they differ."""
        return self._beside(self.instant(instant, same_day_as=window.start), self.instant(window.end))

    def _local(self, instant: Instant) -> datetime:
        try:
            return instant.astimezone(self.zone)
        except OverflowError:  # an hour before the calendar begins, or after it ends
            return instant.astimezone(UTC)

    def _beside(self, text: str, other: str) -> str:
        """Without the zone where the other text names the same; when clocks are set back, both are needed."""
        bare, zone = text.rsplit(" ", 1)
        return bare if other.endswith(f" {zone}") else text


def span(duration: timedelta) -> str:
    """`4h`, `90m`, `45s`, `2d`: the largest unit that loses nothing below a tenth."""
    seconds = int(duration.total_seconds())
    if seconds % _DAY == 0 and seconds >= 2 * _DAY:
        return f"{seconds // _DAY}d"
    if seconds % _HOUR == 0 and seconds:
        return f"{seconds // _HOUR}h"
    if seconds % _MINUTE == 0 and seconds:
        return f"{seconds // _MINUTE}m"
    return f"{seconds}s"


def in_time(duration: timedelta) -> str:
    """`in 14 h`: for admission warnings only, a stored sentence would go stale."""
    seconds = max(0, round(duration.total_seconds()))
    if seconds < 2 * _MINUTE:
        return f"in {seconds} s"
    if seconds < 2 * _HOUR:
        return f"in {round(seconds / _MINUTE)} min"
    if seconds < 2 * _DAY:
        return f"in {round(seconds / _HOUR)} h"
    return f"in {round(seconds / _DAY)} d"


def names(items: Sequence[str], others: int = 0, limit: int = 3) -> str:
    """`a, b and c`, `a, b, c and 2 others`; at most `limit` names."""
    shown = list(items[:limit])
    rest = len(items) - len(shown) + others
    if rest:
        shown.append(f"{rest} other{'s' if rest > 1 else ''}")
    *before, last = shown or [""]
    return f"{', '.join(before)} and {last}" if before else last


def clip(text: str, limit: int) -> str:
    """Cut to `limit` characters with an ellipsis, control characters replaced."""
    clean = text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)
    return clean if len(clean) <= limit else clean[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"


def quoted(text: str) -> str:
    """What a user wrote, safe to print back."""
    return f'"{clip(text, 64)}"'


def held_warning(reason: str, sentence: str, until: Instant | None, now: Instant) -> str:
    """The admission warning for a hold: the stored sentence, with the relative time where it is about an opening."""
    if until is not None and " opens " in sentence and ";" in sentence:
        head, tail = sentence.split(";", 1)
        return clip(f"held: {head}, {in_time(until - now)};{tail}", WARNING_LIMIT)
    return clip(f"held: {reason}: {sentence}", WARNING_LIMIT)


def refused_instead(warning: str) -> str:
    """The sentence of a hold, for a pod that would rather not exist than wait; nothing starts by itself then."""
    return f"refused instead of {warning.removesuffix(_ITSELF)}"


def if_held_ignored(asked: str, *, controlled: bool) -> str:
    """Why `gpures.dev/if-held` has no effect here."""
    if asked != keys.REFUSE:
        return f"annotation {keys.IF_HELD} is {quoted(asked)}, which means nothing; the only word is {keys.REFUSE}"
    if controlled:
        return f"annotation {keys.IF_HELD} is for pods without a controller, which would only try again; it is ignored"
    return f"annotation {keys.IF_HELD} is ignored, for it is not decided yet whether the pod has to wait"


def deadline_too_early(pods: str, until: str, reservation: str, seconds: int) -> str:
    """Warning for whoever creates a Job that would be over before its window; `pods` as in "its pods will be"."""
    return (
        f"{pods} held until {until} (reservation {reservation}), but activeDeadlineSeconds {seconds} ends before that: "
        "remove it or submit later"
    )


def label_outside(kind: str, value: str, place: str) -> str:
    """Warning for a class label where no pod inherits it."""
    return (
        f"label {keys.CLASS_LABEL}={clip(value, 64)} is on the {kind} and not on its pod template, so its pods name no "
        f"GPU class: put it into {place}"
    )


def opens(reservation: Reservation, class_label: str, window: Window, units: int, display: Display) -> str:
    return (
        f"reservation {reservation.name} ({units} \N{MULTIPLICATION SIGN} {class_label}) opens "
        f"{display.instant(window.start)}{_ITSELF}"
    )


def full(reservation: Reservation, class_label: str, granted: Granted, asked: int, display: Display) -> str:
    end = display.instant(granted.window.end, same_day_as=granted.window.start)
    free, units = reservation.room, granted.units
    if free:
        return (
            f"{reservation.name} holds {units} {class_label}, {free} of them free, and the pod asks {asked}; "
            f"starts when more are free; open until {end}"
        )
    return (
        f"{reservation.name} holds {units} {class_label}, all used{_by(reservation)}; "
        f"starts when one ends; open until {end}"
    )


def _by(reservation: Reservation) -> str:
    if not reservation.used_by:
        return ""
    listed = [name for name in reservation.used_by if not name.startswith("+")]
    others = sum(int(name[1:]) for name in reservation.used_by if name.startswith("+"))
    return f" by your pod{'s' if len(listed) + others > 1 else ''} {names(listed, others)}"


def no_reservation(namespace: str, class_label: str, near: Iterable[Reservation]) -> str:
    misses = sorted({f'{r.wish.gpu_class} "{r.name}"' for r in near})
    has = f" (it has {names(misses)})" if misses else ""
    return (
        f"namespace {namespace} has no {class_label} reservation that this pod can use{has}; "
        "book one: kubectl explain gpures.spec"
    )


def ended_early(reservation: Reservation, pods: int) -> str:
    """Warning for whoever deletes or cancels a reservation inside its window."""
    run = f"{pods} pod{'s' if pods != 1 else ''}"
    go_on = "run" if pods != 1 else "runs"
    return f"{reservation.name} ended: {run} {go_on} on without guarantee and may be stopped when others need the GPUs"


def unplaced(pod: PodView, over: Reservation | None, display: Display) -> str:
    """Why a pod that was let in and never placed is deleted; `over` is its reservation, where it is still there."""
    name = pod.booking.name
    since = f" since {display.instant(over.finished)}" if over is not None and over.finished is not None else ""
    again = f"{pod.owner} makes a new one, which waits" if pod.owner else "create it again and it waits"
    return (
        f"no node took pod {pod.name} (see its FailedScheduling Events) before its guarantee ended: reservation {name} "
        f"is over{since}; deleted, or it would start outside your window; {again} for an open reservation"
    )


def unknown_class(asked: str, known: Iterable[str]) -> str:
    classes = sorted(known)
    close = difflib.get_close_matches(asked, classes, n=1)
    hint = f" did you mean {quoted(close[0])}?" if close else ""
    here = f" classes here: {', '.join(classes[:10])}." if classes else " there are no classes here."
    return f"no class {quoted(asked)};{hint}{here} Fix label gpu-class on the pod template"
