"""Settings from the environment."""

from datetime import UTC, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from common.config import BadSettings, ReconcilerSettings, WebhookSettings, load, unknown
from common.domain.texts import Display
from tests.support.builders import NINE


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment is what these settings are read from, so here it is set for real."""
    for name in ("TZ", "EVENT_DISPLAY_TIMEZONE", "POD_NAME"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_nothing_is_required() -> None:
    webhook, reconciler = load(WebhookSettings), load(ReconcilerSettings)
    assert webhook.claim_deadline == timedelta(seconds=2)
    assert webhook.kubeconfig is None
    assert (reconciler.lease_duration, reconciler.lease_renew, reconciler.lease_retry) == (
        timedelta(seconds=4),
        timedelta(seconds=3),
        timedelta(seconds=1),
    )
    assert reconciler.event_repeat == timedelta(minutes=30)
    assert reconciler.system_namespace == "gpures-system"
    assert reconciler.instance
    assert webhook.display() == Display(UTC)


def test_what_the_environment_says(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("GPURES_KUBECONFIG", "/k")
    environment.setenv("GPURES_LISTEN_PORT", "9443")
    environment.setenv("GPURES_CLAIM_DEADLINE", "1s500ms")
    environment.setenv("POD_NAME", "webhook-0")
    environment.setenv("GPURES_LOG_LEVEL", "")
    settings = load(WebhookSettings)
    assert settings.kubeconfig == Path("/k")
    assert settings.listen_port == 9443
    assert settings.claim_deadline == timedelta(seconds=1.5)
    assert settings.instance == "webhook-0"
    assert settings.log_level == "info"


def test_everything_that_is_wrong_is_said_at_once(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("GPURES_LISTEN_PORT", "many")
    environment.setenv("GPURES_CLAIM_DEADLINE", "2 seconds")
    environment.setenv("GPURES_LOG_LEVEL", "loud")
    with pytest.raises(BadSettings) as raised:
        load(WebhookSettings)
    first, *rest = str(raised.value).splitlines()
    assert first == "the settings cannot be used:"
    assert sorted(line.split("=")[0].strip() for line in rest) == [
        "GPURES_CLAIM_DEADLINE",
        "GPURES_LISTEN_PORT",
        "GPURES_LOG_LEVEL",
    ]
    assert any("'2 seconds' is not a duration such as 4h, 1h30m or 90s" in line for line in rest)


def test_a_lease_that_would_let_two_lead_is_refused(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("GPURES_LEASE_RENEW", "5s")
    with pytest.raises(BadSettings, match="GPURES_LEASE_RETRY < GPURES_LEASE_RENEW < GPURES_LEASE_DURATION must hold"):
        load(ReconcilerSettings)


@pytest.mark.parametrize(
    ("display", "tz", "shown", "warnings"),
    [
        ("Europe/Berlin", "America/New_York", "10:00 CET", 0),
        ("", "America/New_York", "04:00 EST", 0),
        ("", ":Europe/Berlin", "10:00 CET", 0),
        ("Mars/Olympus", "Europe/Berlin", "10:00 CET", 1),
        ("../../etc/passwd", "/etc/localtime", "09:00 UTC", 2),
        ("America", "", "09:00 UTC", 1),
        ("", "", "09:00 UTC", 0),
    ],
)
def test_the_zone_that_people_read(
    environment: pytest.MonkeyPatch, display: str, tz: str, shown: str, warnings: int
) -> None:
    environment.setenv("EVENT_DISPLAY_TIMEZONE", display)
    environment.setenv("TZ", tz)
    with capture_logs() as logs:
        zone = load(WebhookSettings).display()
    assert zone.instant(NINE).endswith(shown)
    assert [entry["event"] for entry in logs] == ["config.unknown_zone"] * warnings


def test_misspelt_settings_are_noticed_and_what_services_make_is_not() -> None:
    strange = {
        "GPURES_CLAIM_DEADLIN": "1s",
        "GPURES_LISTEN_PORT": "1",
        "GPURES_PORT": "tcp://10.0.0.1:443",
        "GPURES_WEBHOOK_SERVICE_HOST": "10.0.0.1",
        "GPURES_WEBHOOK_SERVICE_PORT_HTTPS": "443",
        "GPURES_WEBHOOK_PORT_443_TCP_ADDR": "10.0.0.1",
        "HOME": "/",
    }
    assert unknown(strange) == {"GPURES_CLAIM_DEADLIN": "GPURES_CLAIM_DEADLINE"}
