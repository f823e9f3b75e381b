"""Issued pairs verify; files are checked as a pair; a running context takes over a new pair and survives a bad one."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from certs.files import BadPair, Files, Served, check, keep_renewed, load
from certs.issue import Pair, issue_ca, issue_leaf
from tests.support.waiting import eventually

NAME = "gpures-webhook.gpures-system.svc"
ISSUED = datetime(2024, 1, 1, tzinfo=UTC)
CENTURY = timedelta(days=36500)
"""OpenSSL judges by the machine's clock, which no test sets."""


def a_ca(name: str = "test CA") -> Pair:
    return issue_ca(name, ISSUED, CENTURY)


def a_leaf(ca: Pair, *names: str, life: timedelta = CENTURY) -> Pair:
    return issue_leaf(ca, names or (NAME,), ISSUED, life)


def written(folder: Path, pair: Pair) -> Files:
    files = Files(folder / "tls.crt", folder / "tls.key")
    files.cert.write_bytes(pair.cert)
    files.key.write_bytes(pair.key)
    return files


def handshake(server: ssl.SSLContext, ca: Pair, name: str = NAME, newest: ssl.TLSVersion | None = None) -> int:
    """Without a socket; returns the serial number of the certificate that the client verified."""
    client = ssl.create_default_context(cadata=ca.cert.decode())
    if newest is not None:
        client.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        client.maximum_version = newest
    upward, downward = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(downward, upward, server_hostname=name),
        server.wrap_bio(upward, downward, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    der = ends[0].getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der).serial_number


def serial(pair: Pair) -> int:
    return x509.load_pem_x509_certificate(pair.cert).serial_number


@pytest.mark.parametrize("name", [NAME, "127.0.0.1", "localhost"])
def test_a_client_that_trusts_the_ca_trusts_the_leaf(tmp_path: Path, name: str) -> None:
    ca = a_ca()
    leaf = a_leaf(ca, NAME, "localhost", "127.0.0.1")
    assert handshake(Served(written(tmp_path, leaf)).context, ca, name) == serial(leaf)


def test_another_ca_of_the_same_name_is_not_trusted(tmp_path: Path) -> None:
    served = Served(written(tmp_path, a_leaf(a_ca())))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(served.context, a_ca())


def test_another_name_is_not_trusted(tmp_path: Path) -> None:
    ca = a_ca()
    served = Served(written(tmp_path, a_leaf(ca)))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(served.context, ca, "somewhere.else")


def test_tls_older_than_1_2_is_not_spoken(tmp_path: Path) -> None:
    ca = a_ca()
    context = Served(written(tmp_path, a_leaf(ca))).context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert handshake(context, ca, newest=ssl.TLSVersion.TLSv1_2)


def test_a_leaf_does_not_outlive_its_ca() -> None:
    ca = issue_ca("short", ISSUED, timedelta(days=10))
    leaf = x509.load_pem_x509_certificate(issue_leaf(ca, (NAME,), ISSUED).cert)
    assert leaf.not_valid_after_utc == ISSUED + timedelta(days=10)


def test_a_ca_signs_leaves_and_no_further_ca() -> None:
    constraints = x509.load_pem_x509_certificate(a_ca().cert).extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)


def test_days_left_are_counted_to_the_end_of_validity() -> None:
    checked = check(a_leaf(a_ca(), life=timedelta(days=90)))
    assert checked.days_left(ISSUED + timedelta(days=30)) == 60
    assert checked.days_left(ISSUED + timedelta(days=91)) == -1


@pytest.mark.parametrize(
    ("life", "left", "ending"),
    [
        (timedelta(days=90), timedelta(hours=24), False),
        (timedelta(days=90), timedelta(hours=23), True),
        (timedelta(days=90), timedelta(hours=-1), True),
        # Of those that live for a day, a tenth.
        (timedelta(hours=20), timedelta(hours=3), False),
        (timedelta(hours=20), timedelta(hours=2), True),
    ],
)
def test_a_certificate_near_its_end_is_no_longer_ready(life: timedelta, left: timedelta, *, ending: bool) -> None:
    assert check(a_leaf(a_ca(), life=life)).ending(ISSUED + life - left) is ending


@pytest.mark.parametrize("life", [timedelta(seconds=12), timedelta(hours=5), timedelta(days=90), timedelta(days=3650)])
def test_the_instant_of_issue_is_read_back_from_a_certificate(life: timedelta) -> None:
    valid = check(a_leaf(a_ca(), life=life)).valid
    assert abs(valid.issued - ISSUED) <= timedelta(seconds=1)
    assert timedelta(0) < valid.renewal - ISSUED < life


def test_keys_are_never_printed() -> None:
    pair = a_leaf(a_ca())
    assert "PRIVATE" not in repr(pair)
    assert "PRIVATE" not in repr(check(pair))


def test_what_cannot_serve_is_told_in_one_sentence(tmp_path: Path) -> None:
    ca = a_ca()
    one, other = a_leaf(ca), a_leaf(ca)
    with pytest.raises(BadPair, match="does not belong"):
        check(Pair(one.cert, other.key))
    with pytest.raises(BadPair, match="not PEM"):
        check(Pair(b"nonsense", one.key))
    with pytest.raises(BadPair, match=r"tls.crt: No such file"):
        load(Files(tmp_path / "tls.crt", tmp_path / "tls.key"))


def test_a_new_pair_is_taken_over_by_the_running_context(tmp_path: Path) -> None:
    ca = a_ca()
    first, second = a_leaf(ca), a_leaf(ca)
    served = Served(written(tmp_path, first))
    context = served.context
    assert not served.renew()
    written(tmp_path, second)
    assert served.renew()
    assert served.context is context
    assert handshake(context, ca) == serial(second)
    assert served.checked.pair == second


@pytest.mark.parametrize("broken", ["half", "nonsense", "gone"])
def test_a_bad_pair_leaves_the_old_one_serving(tmp_path: Path, broken: str) -> None:
    ca = a_ca()
    first, second = a_leaf(ca), a_leaf(ca)
    served = Served(written(tmp_path, first))
    match broken:
        case "half":
            written(tmp_path, Pair(second.cert, first.key))
        case "nonsense":
            written(tmp_path, Pair(second.cert[:200], second.key))
        case _:
            (tmp_path / "tls.key").unlink()
    with pytest.raises(BadPair):
        served.renew()
    assert handshake(served.context, ca) == serial(first)
    written(tmp_path, second)
    assert served.renew()
    assert handshake(served.context, ca) == serial(second)


async def test_the_files_are_followed_until_cancelled(tmp_path: Path) -> None:
    ca = a_ca()
    served = Served(written(tmp_path, a_leaf(ca)))
    told: list[BadPair | None] = []
    turn = asyncio.Semaphore(0)
    task = asyncio.create_task(keep_renewed(served, told.append, turn.acquire))
    second = a_leaf(ca)
    written(tmp_path, Pair(second.cert, b"not yet"))
    turn.release()
    await eventually(lambda: len(told) == 1)
    written(tmp_path, second)
    turn.release()
    await eventually(lambda: len(told) == 2)
    turn.release()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert isinstance(told[0], BadPair)
    assert told[1] is None
    assert served.checked.pair == second
