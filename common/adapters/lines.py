"""Lines of a stream that arrives in pieces."""

from common.domain.errors import OutcomeUnknown

LONGEST_LINE = 16 << 20
"""etcd holds objects of 1.5 MiB; as JSON within an event they are a few times that at most."""


class Lines:
    """Puts pieces together again; what follows the last newline is incomplete and waits for the next piece."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._held: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """Complete lines without their newline, empty ones left out.

        Raises OutcomeUnknown when a line grows longer than allowed: the stream is not what it should be.
        """
        *complete, rest = piece.split(b"\n")
        if complete and self._held:
            complete[0] = b"".join((*self._held, complete[0]))
            self._held.clear()
            self._size = 0
        if rest:
            self._held.append(rest)
            self._size += len(rest)
        if self._size > self._longest:
            raise OutcomeUnknown(0, f"a line of the stream is longer than {self._longest} bytes")
        return [line for line in complete if line]
