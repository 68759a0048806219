"""Registers the consumers that ship: topics, grade, maintenance and inbound-package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import SecretStr

from afterturn.clock import Clock, system_clock
from afterturn.consumers import grade, inbound_package, maintenance, topics
from afterturn.consumers.maintenance import AlertSink
from afterturn.consumers.repairs import load_repair_rules
from afterturn.consumers.tone import load_tone_rules
from afterturn.consumers.webhook import endpoint, log_alert, webhook_alert
from afterturn.reactions.registry import Registry


class ConsumerSettings(Protocol):
    """The settings that shipped consumers read: those of the app, or :class:`ShippedOptions`."""

    @property
    def taxonomy(self) -> Path | None: ...

    @property
    def webhook_url(self) -> str | None: ...

    @property
    def webhook_secret(self) -> SecretStr | None: ...

    @property
    def alert_url(self) -> str | None: ...

    @property
    def alert_secret(self) -> SecretStr | None: ...

    @property
    def model(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class ShippedOptions:
    """Options for a registry of one's own. ``model``: a language model judges in place of the rules."""

    taxonomy: Path | None = None
    webhook_url: str | None = None
    webhook_secret: SecretStr | None = None
    alert_url: str | None = None
    alert_secret: SecretStr | None = None
    model: str | None = None


def register_shipped(
    registry: Registry,
    options: ConsumerSettings,
    *,
    alert: AlertSink | None = None,
    clock: Clock = system_clock,
) -> None:
    """Register the four; ``alert`` takes the place of the sink that the options describe.

    Raises ConfigError for a taxonomy, an address or a secret that cannot be used, and MissingExtra where a model is
    named and the extra is not installed.
    """
    taxonomy = topics.load_taxonomy(options.taxonomy)
    packages = endpoint(options.webhook_url, options.webhook_secret, name="webhook")
    alerts = endpoint(options.alert_url, options.alert_secret, name="alert")
    sink = alert or (webhook_alert(alerts, clock) if alerts else log_alert)
    topic_judge = topics.by_rules(taxonomy)
    repair_judge = maintenance.by_rules(load_repair_rules())
    grade_judge = None
    if options.model:
        from afterturn.consumers import llm  # noqa: PLC0415 - the extra is imported only where a model is named

        model = llm.open_model(options.model)
        topic_judge = llm.topic_judge(model, taxonomy)
        repair_judge = llm.repair_judge(model)
        grade_judge = llm.grade_judge(model)
    registry.add("topics", topics.topics_handler(topic_judge), quiet="30s", max_wait="5m")
    registry.add("grade", grade.grade_handler(load_tone_rules(), grade_judge), quiet="90s", max_wait="10m")
    registry.add(
        "maintenance", maintenance.maintenance_handler(repair_judge, sink), quiet="5s", max_wait="30s", attempts=8
    )
    registry.add(
        "inbound-package",
        inbound_package.inbound_package_handler(packages),
        quiet="60s",
        max_wait="5m",
        attempts=8,
        timeout="5m",
    )
