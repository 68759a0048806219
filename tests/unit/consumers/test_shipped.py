"""Registering what ships: four consumers, nothing heavy imported, mistakes told at once."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr
from tests.unit.consumers.helpers import context, customer, window

from afterturn.clock import parse_duration
from afterturn.consumers.maintenance import Alert
from afterturn.consumers.shipped import ShippedOptions, register_shipped
from afterturn.errors import ConfigError, MissingExtra
from afterturn.reactions.registry import Registry


def test_four_consumers_with_their_debounces() -> None:
    registry = Registry()
    register_shipped(registry, ShippedOptions())
    assert [consumer.name for consumer in registry] == ["topics", "grade", "maintenance", "inbound-package"]
    assert registry["topics"].debounce.quiet == parse_duration("30s")
    assert registry["topics"].debounce.max_wait == parse_duration("5m")


async def test_alerts_go_to_the_log_without_content_where_nothing_else_is_set(caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry()
    register_shipped(registry, ShippedOptions())
    with caplog.at_level(logging.INFO):
        await registry["maintenance"].handler(window([customer("I smell gas")]), context(consumer="maintenance"))
    (record,) = caplog.records
    assert record.levelname == "CRITICAL"
    assert record.getMessage() == "action=red_alert kind=gas conversation_id=c1 property_id=p1 message_id=m0"


async def test_a_sink_of_ones_own_takes_the_place_of_the_log() -> None:
    alerts: list[Alert] = []

    async def page(alert: Alert) -> None:
        alerts.append(alert)

    registry = Registry()
    register_shipped(registry, ShippedOptions(), alert=page)
    await registry["maintenance"].handler(window([customer("I smell gas")]), context(consumer="maintenance"))
    assert [alert.kind for alert in alerts] == ["gas"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (ShippedOptions(taxonomy=Path("/nowhere/t.toml")), "cannot be read"),
        (ShippedOptions(webhook_url="https://example.com"), "webhook_secret: is not set"),
        (ShippedOptions(alert_url="nope", alert_secret=SecretStr("whsec_AAAA")), "alert: webhook URL"),
    ],
)
def test_a_mistake_is_told_at_registration(options: ShippedOptions, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        register_shipped(Registry(), options)


def test_the_rules_import_no_language_model_library_and_no_store() -> None:
    """In a fresh interpreter, since other tests have imported it."""
    code = (
        "import sys, pkgutil, importlib\n"
        "import afterturn.consumers as room\n"
        "for module in pkgutil.iter_modules(room.__path__): importlib.import_module(f'{room.__name__}.{module.name}')\n"
        "from afterturn.consumers.shipped import ShippedOptions, register_shipped\n"
        "from afterturn.reactions.registry import Registry\n"
        "register_shipped(Registry(), ShippedOptions())\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pydantic_ai', 'openai', 'anthropic', 'httpx')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_model_without_the_extra_says_what_to_install() -> None:
    """In a fresh interpreter in which the library cannot be found."""
    code = (
        "import sys\n"
        "sys.modules['pydantic_ai'] = None\n"
        "from afterturn.consumers.shipped import ShippedOptions, register_shipped\n"
        "from afterturn.errors import MissingExtra\n"
        "from afterturn.reactions.registry import Registry\n"
        "try: register_shipped(Registry(), ShippedOptions(model='openai:gpt-4o-mini'))\n"
        "except MissingExtra as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'afterturn[llm]'" in done.stdout
    assert issubclass(MissingExtra, ConfigError)
