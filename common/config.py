"""Settings of both processes, from the environment (`GPURES_…`); the only place that reads it.

A Service called `gpures` or `gpures-webhook` makes Kubernetes set GPURES_PORT and GPURES_WEBHOOK_… in every pod of its
namespace, so no setting may have a name of that shape.
"""

import os
import socket
from collections.abc import Mapping
from datetime import UTC, timedelta, tzinfo
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import structlog
from pydantic import AliasChoices, BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from common.adapters.wire.quantity import duration
from common.domain.errors import GpuresError, MalformedObject
from common.domain.texts import Display

PREFIX = "GPURES_"
_MADE_BY_SERVICES = ("_SERVICE_HOST", "_PORT", "_TCP", "_TCP_ADDR", "_TCP_PORT", "_TCP_PROTO")

_log = structlog.get_logger(__name__)


class BadSettings(GpuresError):
    """All that is wrong with the settings, one line each."""


def _span(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return duration(value)
    except MalformedObject as error:
        raise ValueError(str(error)) from error


Span = Annotated[timedelta, BeforeValidator(_span)]
"""A duration as people write it in our objects: `2s`, `30m`."""
Positive = Annotated[Span, Field(gt=timedelta())]
Port = Annotated[int, Field(ge=1, le=65535)]


class CommonSettings(BaseSettings):
    """What both processes read."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="ignore")

    kubeconfig: Path | None = Field(default=None, description="File to reach the API server with; unset: in-cluster.")
    kube_context: str = Field(default="", description="Context of the kubeconfig; empty: its current one.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least level logged.")
    system_namespace: str = Field(default="gpures-system", min_length=1, description="Namespace that we run in.")
    listen_host: str = Field(default="", description="Address to listen on; empty: all, IPv4 and IPv6.")
    probe_port: Port = Field(default=8081, description="Port of /livez, /readyz and /metrics.")
    instance: str = Field(
        default_factory=socket.gethostname,
        validation_alias=AliasChoices("GPURES_INSTANCE", "POD_NAME", "HOSTNAME"),
        description="Name of this replica, in the Lease and in Events.",
    )
    event_display_timezone: str = Field(
        default="", validation_alias="EVENT_DISPLAY_TIMEZONE", description="Zone of the instants that people read."
    )
    tz: str = Field(default="", validation_alias="TZ", description="Zone used when EVENT_DISPLAY_TIMEZONE names none.")

    def display(self) -> Display:
        """The zone that people read; one that is not known is said in the log and passed over."""
        for name, value in (("EVENT_DISPLAY_TIMEZONE", self.event_display_timezone), ("TZ", self.tz)):
            if value:
                zone = _zone(value)
                if zone is not None:
                    return Display(zone)
                _log.warning("config.unknown_zone", setting=name, value=value[:64])
        return Display(UTC)


class WebhookSettings(CommonSettings):
    """What the webhook reads besides."""

    listen_port: Port = Field(default=8443, description="Port of /mutate and /validate.")
    cert_file: Path = Field(default=Path("/tls/tls.crt"), description="Serving certificate, followed as it changes.")
    key_file: Path = Field(default=Path("/tls/tls.key"), description="Its private key.")
    cert_poll: Annotated[Positive, Field(le=timedelta(minutes=1))] = Field(
        default=timedelta(seconds=10), description="Pause between looks at both files."
    )
    claim_deadline: Annotated[Positive, Field(le=timedelta(seconds=4))] = Field(
        default=timedelta(seconds=2), description="After that a pod is stored held, with its claim under way."
    )
    drain: Annotated[Span, Field(le=timedelta(minutes=2))] = Field(
        default=timedelta(seconds=5), description="Not ready any more, but still answering, before it stops."
    )
    reviews_at_once: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1024, description="Admission reviews worked on at once; more are asked to come back in a second."
    )


class CertificateSettings(CommonSettings):
    """What `python -m certs` reads besides, and the reconciler with it."""

    certs: Literal["selfManaged", "certManager", "files"] = Field(
        default="selfManaged", description="Who makes and injects the certificates; only selfManaged makes us do it."
    )
    cert_secret: str = Field(
        default="gpures-webhook-tls", min_length=1, description="Secret of the serving certificate and the CA bundle."
    )
    cert_ca_secret: str = Field(
        default="gpures-webhook-ca", min_length=1, description="Secret of the CA and its key, which no webhook reads."
    )
    cert_ca_life: Positive = Field(default=timedelta(days=3650), description="Life of a CA; renewed after two thirds.")
    cert_life: Positive = Field(
        default=timedelta(days=90), description="Life of a serving certificate; renewed after two thirds."
    )
    cert_propagation: Positive = Field(
        default=timedelta(minutes=2),
        description="Time for a bundle to reach every API server, and for a Secret to reach every webhook.",
    )
    cert_overlap: Span = Field(
        default=timedelta(hours=24), description="An old CA stays trusted for so long after it was replaced."
    )
    cert_check: Annotated[Positive, Field(le=timedelta(minutes=1))] = Field(
        default=timedelta(seconds=5), description="Pause between looks at Secrets and injected bundles."
    )

    @model_validator(mode="after")
    def _lives_in_order(self) -> Self:
        if not 10 * self.cert_propagation <= self.cert_life <= self.cert_ca_life:
            msg = "10 × GPURES_CERT_PROPAGATION <= GPURES_CERT_LIFE <= GPURES_CERT_CA_LIFE must hold"
            raise ValueError(msg)
        return self


class ReconcilerSettings(CertificateSettings):
    """What the reconciler reads besides."""

    lease_duration: Positive = Field(
        default=timedelta(seconds=4), description="A Lease not renewed for so long is free."
    )
    lease_renew: Positive = Field(
        default=timedelta(seconds=3), description="A leader that cannot renew for so long stops."
    )
    lease_retry: Positive = Field(
        default=timedelta(seconds=1), description="Pause between attempts to get or renew it."
    )
    event_repeat: Positive = Field(
        default=timedelta(minutes=30), description="The same thing about the same object is told again after that."
    )

    @model_validator(mode="after")
    def _lease_in_order(self) -> Self:
        if not self.lease_retry < self.lease_renew < self.lease_duration:
            msg = "GPURES_LEASE_RETRY < GPURES_LEASE_RENEW < GPURES_LEASE_DURATION must hold, or two may lead at once"
            raise ValueError(msg)
        return self


S = TypeVar("S", bound=CommonSettings)


def load(kind: type[S]) -> S:
    """Read the environment; raises BadSettings with everything that is wrong."""
    for name, meant in unknown(os.environ).items():
        _log.warning("config.unknown_setting", setting=name, did_you_mean=meant)
    try:
        return kind()
    except ValidationError as error:
        problems = [_problem(kind, entry["loc"], entry["msg"], entry["input"]) for entry in error.errors()]
        raise BadSettings("\n".join(["the settings cannot be used:", *(f"  {line}" for line in problems)])) from error


def unknown(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Names that look like settings of ours and are none, with what may have been meant."""
    known = {_variable(kind, field) for kind in (WebhookSettings, ReconcilerSettings) for field in kind.model_fields}
    strange = (name for name in environment if name.startswith(PREFIX) and name not in known)
    return {
        name: next(iter(get_close_matches(name, known, n=1)), None)
        for name in strange
        if not name.endswith(_MADE_BY_SERVICES) and "_SERVICE_PORT" not in name
    }


def _problem(kind: type[CommonSettings], place: tuple[int | str, ...], message: str, value: object) -> str:
    message = message.removeprefix("Value error, ")
    if not place:
        return message
    field = str(place[0])
    variable = _variable(kind, field) if field in kind.model_fields else field
    return f"{variable}={str(value)[:64]!r}: {message}"


def _variable(kind: type[CommonSettings], field: str) -> str:
    alias = kind.model_fields[field].validation_alias
    if isinstance(alias, AliasChoices):
        return str(alias.choices[0])
    return str(alias) if alias else f"{PREFIX}{field.upper()}"


def _zone(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name.removeprefix(":"))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
