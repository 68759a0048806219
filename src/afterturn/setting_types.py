"""Types of settings: how the text of an environment variable is read."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

from afterturn.clock import parse_duration


def _read_duration(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


def _longer_than_nothing(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("must be longer than 0s")
    return value


Duration = Annotated[timedelta, BeforeValidator(_read_duration)]
"""A number and a unit, such as ``90s``."""

Pause = Annotated[Duration, AfterValidator(_longer_than_nothing)]
"""An interval, a window or a lease: longer than zero."""


def _split(value: Any) -> Any:
    return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""Several values in one variable, separated by commas."""


def _are_networks(value: tuple[str, ...]) -> tuple[str, ...]:
    for number, text in enumerate(value, 1):
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise ValueError(f"number {number} is not an address or a network; write it like 10.0.0.0/8") from None
        if network.prefixlen == 0:
            raise ValueError(
                f"number {number} trusts every address; use the network of your proxies, such as 10.0.0.0/8"
            )
    return value


Networks = Annotated[Words, AfterValidator(_are_networks)]
"""Addresses and networks, separated by commas."""

ServiceUrl = Annotated[str, Field(pattern=r"\Ahttps?://[^\s?#]+\z")]
"""Base URL of a provider's API."""
