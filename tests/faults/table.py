"""The 42 faults: what breaks, how it is staged here, what has to hold meanwhile, and how soon all is well again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from tests.faults import (
    staging_api,
    staging_clock,
    staging_cluster,
    staging_leaders,
    staging_machine,
    staging_others,
    staging_webhooks,
)
from tests.faults.judge import STORED
from tests.faults.world import World

Staging: TypeAlias = Callable[[World], Sequence[str]]
"""Injects the fault, lets it last, ends it; returns what is worth telling."""

ALL: Final = ("I1", "I2", "I3", "I5", STORED, "I8")
"""What the auditor judges; I4 and I14 are asked of every fault."""
GUARDLESS: Final = ("I1", "I2", "I3", "I5", "I8")
"""Without the guard copied claims are stored; hold and fence see to it that they open nothing."""
NO_LEDGER: Final = "no external ledger yet"


@dataclass(frozen=True)
class Fault:
    """`bound_s` is meant for a quiet machine. `cluster_down`: while it lasts, nobody's pods can be created."""

    id: str
    sentence: str
    how: str
    stage: Staging | None = None
    starred: bool = False
    promises: Sequence[str] = ALL
    bound_s: float = 10.0
    cluster_down: bool = False
    not_run: str = ""


def _not(id_: str, sentence: str, reason: str, *, starred: bool = False) -> Fault:
    return Fault(id_, sentence, "", starred=starred, not_run=reason)


webhooks, leaders, api = staging_webhooks, staging_leaders, staging_api
cluster, clock, others, machine = staging_cluster, staging_clock, staging_others, staging_machine

A_CLOCK_IS_SET_S: Final = 20.0
"""A lie that lasted is believed in the end, and so the truth has to be proven again afterwards, which takes 10 s."""

FAULTS: Final[Sequence[Fault]] = (
    Fault("F1", "One webhook is killed", "SIGKILL, started again", webhooks.one_killed, starred=True),
    Fault("F2", "All webhooks are killed", "SIGKILL of both, started again", webhooks.all_killed, starred=True),
    Fault("F3", "One webhook is frozen", "SIGSTOP past the timeout, then SIGCONT", webhooks.one_frozen, starred=True),
    Fault("F4", "The webhooks are slow", "lane: answers 1 s late, then 6 s", webhooks.slow),
    Fault("F5", "The webhooks accept, and never shake hands", "lane: black hole", webhooks.silent),
    Fault("F6", "Connections are cut in the middle", "lane: cut after 0 … 6000 bytes", webhooks.cut, starred=True),
    Fault("F7", "Connections idle until one side drops them", "no review for 90 s, then many", webhooks.idle),
    Fault(
        "F8", "The serving certificate is replaced", "its Secret is deleted under load", webhooks.certificate_replaced
    ),
    Fault("F9", "The CA is replaced", "its Secret is deleted under load", webhooks.authority_replaced),
    Fault("F10", "The certificate has expired", "one webhook is told a Date after its end", webhooks.expired),
    Fault("F11", "The leader is killed between its writes", "SIGKILL at writes", leaders.killed, starred=True),
    Fault("F12", "The leader is frozen past its lease, then thawed", "SIGSTOP, SIGCONT", leaders.frozen),
    Fault("F13", "The leader is cut off from the API server", "proxy: drop", leaders.cut_off),
    Fault("F14", "Two leaders act at once", "proxy: a lease that lies", leaders.two, starred=True),
    Fault("F15", "The API server is killed", "SIGKILL, started again", api.killed, starred=True, cluster_down=True),
    Fault("F16", "The API server is frozen", "SIGSTOP, SIGCONT", api.frozen, cluster_down=True),
    Fault("F17", "etcd is frozen, then killed", "SIGSTOP, SIGKILL", api.etcd_lost, cluster_down=True),
    Fault(
        "F18",
        "etcd is restored from an older backup",
        "its data folder as it was some seconds ago",
        api.etcd_restored,
        promises=("I1", "I2", "I5"),
        bound_s=30.0,
        cluster_down=True,
    ),
    Fault("F19", "Watches stall without closing", "proxy holds the lines back", leaders.watches_stall, starred=True),
    Fault("F20", "Watches are cut every 2 s", "proxy", leaders.watches_cut),
    Fault("F21", "Every watch that is taken up again is answered 410 Gone", "proxy", leaders.watches_gone),
    Fault("F22", "A storm of pod updates", "as many as this machine gives, for 10 s", others.storm),
    Fault("F23", "The API server answers 429 or 503 to half of our writes", "proxy", leaders.writes_refused),
    Fault("F24", "Every first write to an object is answered 409", "proxy", leaders.writes_conflict),
    _not("F25", "Lease API: reply lost after success", NO_LEDGER, starred=True),
    _not("F26", "Lease API: down for 30 s across the start of a window", NO_LEDGER),
    _not("F27", "Lease API: duplicates, reordering, forgotten keys", NO_LEDGER),
    _not("F28", "Reservation API: empty list, part of a page, HTML, 100 MB, older generation", NO_LEDGER),
    Fault(
        "F29",
        "The clock of the reconcilers is wrong, and jumps",
        "±5 min",
        clock.wrong,
        starred=True,
        bound_s=A_CLOCK_IS_SET_S,
    ),
    Fault(
        "F30",
        "The clocks that two replicas go by differ by 60 s",
        "proxy: one is told another Date",
        clock.differ,
        promises=("I2", "I5", "I8"),
        bound_s=A_CLOCK_IS_SET_S,
    ),
    Fault("F31", "Pods of a megabyte and a half", "environment variables, five a second", others.giants),
    Fault(
        "F32",
        "The memory limit is hit",
        "a cgroup with a megabyte of room, and pods of more",
        machine.memory_runs_out if machine.CAN_LIMIT_MEMORY else None,
        not_run="" if machine.CAN_LIMIT_MEMORY else machine.NO_LIMIT,
    ),
    Fault("F33", "The webhooks get 5 % of a CPU", "SIGSTOP, SIGCONT 10 times a second", webhooks.starved),
    Fault("F34", "The disk is full", "RLIMIT_FSIZE 0: not even the log can be written", others.disk_full),
    Fault(
        "F35",
        "Our webhook configuration is deleted",
        "deleted in mid-attack, applied again",
        webhooks.unregistered,
        promises=GUARDLESS,
    ),
    Fault("F36", "Another webhook strips our gate and adds a GPU", "a second webhook", others.stranger),
    Fault("F37", "Everything of ours is restarted in turn", "SIGTERM, one by one", others.rolled, starred=True),
    Fault("F38", "Old and new run side by side", "an older commit's webhook, then reconciler", others.skew),
    Fault(
        "F39",
        "Loss, jitter and reordering on every link",
        "lane and proxy: what they come to above TCP, up to 50 ms a piece, 5 % of them 200 ms later",
        machine.links_are_bad,
    ),
    Fault("F40", "The scheduler is down across the start of a window", "SIGSTOP, SIGCONT", cluster.scheduler_down),
    Fault("F41", "A node vanishes with the pods on it", "the Node is deleted", cluster.node_vanishes),
    Fault("F42", "Many held pods, and all windows open at once", "200 pods here, not 10,000", cluster.all_at_once),
)
STARRED: Final = tuple(fault for fault in FAULTS if fault.starred)


def by_id(names: Sequence[str]) -> Sequence[Fault]:
    """In the order of the table; raises LookupError."""
    unknown = sorted(set(names) - {fault.id for fault in FAULTS})
    if unknown:
        message = f"no fault is called {', '.join(unknown)}"
        raise LookupError(message)
    return [fault for fault in FAULTS if fault.id in names]
