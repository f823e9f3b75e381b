"""The world of `tests/faults` on kind: the same load and auditor, with the release in the place of processes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final, Self

from tests.controlplane.polling import until
from tests.e2e.leaders import Candidate
from tests.faults.auditor import Auditor
from tests.faults.world import DEADLINE_S, World
from tests.kind.installation import DEPLOYMENTS, Installation
from tests.kind.stage import KindStage

UNITS: Final = 24
SLOWER: Final = 4.0
"""Every pod here is a real one, and kubelets share two cores with everything else."""


class KindWorld(World):
    """Context manager. What may break is the release; nothing of it is a process here."""

    def __init__(self, installation: Installation) -> None:
        super().__init__(installation.cluster, brief=True)
        self.installation = installation
        self.slower = SLOWER

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.installation.ensure()
            self.installation.spread()
            self.stage: KindStage = KindStage(self.installation)
            stack.callback(self.stage.close)
            self.stage.open(UNITS)
            self.alice, self.bob = self.stage.tenant("alice"), self.stage.tenant("bob")
            self.base()
            self.auditor = stack.enter_context(Auditor(self.admin, self.stage.gpu_class, UNITS, self.stage.nodes))
            until(self._held_by_policy, DEADLINE_S, "the hold policy knows the class")
            self._stack = stack.pop_all()
        return self

    @property
    def ours(self) -> Sequence[Candidate]:
        """Nobody who could be healed by hand."""
        return ()

    def heal(self, *, anew: bool) -> None:
        """Kubernetes does that; wait for it."""
        del anew
        for name in DEPLOYMENTS:
            self.installation.wait_ready(name)
