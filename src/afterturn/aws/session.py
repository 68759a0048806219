"""Clients of AWS services. The driver is loaded when the first one is opened."""

from __future__ import annotations

import io
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from afterturn.aws.errors import translated
from afterturn.errors import MissingExtra

_LARGE_BODY = 500_000


@dataclass(frozen=True, slots=True)
class Access:
    """Where AWS is and who asks. What is left out comes from the environment, as with every AWS tool; ``AWS_REGION``
    too, which this driver alone does not know.

    ``endpoint`` is set for an emulator only. ``connect_timeout`` and ``read_timeout`` are in seconds.
    """

    region: str | None = None
    endpoint: str | None = None
    profile: str | None = None
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    connect_timeout: float = 3
    read_timeout: float = 10
    connections: int = 64
    attempts: int = 3


def open_session(access: Access) -> Any:
    """A session: it loads and keeps what clients are made of. Raises MissingExtra where the driver is not installed."""
    try:
        from aiobotocore.session import AioSession  # noqa: PLC0415 - an extra, and slow to load
    except ImportError as error:
        raise MissingExtra("AWS needs the aws extra: pip install 'afterturn[aws]'") from error
    return AioSession(profile=access.profile)


@asynccontextmanager
async def open_client(service: str, access: Access, session: Any = None) -> AsyncIterator[Any]:
    """A client of ``service``, closed when the block ends.

    Raises MissingExtra, and StoreError where region, profile or endpoint make no sense. Wrong credentials show at the
    first call.
    """
    session = session or open_session(access)
    from aiobotocore.config import AioConfig  # noqa: PLC0415 - see above

    with translated(service):
        opening = session.create_client(
            service,
            region_name=access.region or os.environ.get("AWS_REGION"),
            endpoint_url=access.endpoint,
            aws_access_key_id=access.access_key,
            aws_secret_access_key=access.secret_key,
            config=AioConfig(
                connect_timeout=access.connect_timeout,
                read_timeout=access.read_timeout,
                max_pool_connections=access.connections,
                retries={"mode": "standard", "total_max_attempts": access.attempts},
                user_agent_extra="afterturn",
            ),
        )
        client = await opening.__aenter__()
    client.meta.events.register("before-send", _hand_on_in_pieces)
    try:
        yield client
    finally:
        await opening.__aexit__(None, None, None)


async def list_all(client: Any, operation: str, key: str, **query: Any) -> list[Mapping[str, Any]]:
    """All items of a paginated operation: ``list_all(client, "list_aliases", "Aliases", FunctionName="f")``."""
    pages = client.get_paginator(operation).paginate(**query)
    return [item async for page in pages for item in page.get(key, ())]


def _hand_on_in_pieces(request: Any, **_: Any) -> None:
    """aiohttp warns of a body above 1 MB that it gets in one piece; a turn may have four."""
    if isinstance(request.body, bytes) and len(request.body) > _LARGE_BODY:
        request.body = io.BytesIO(request.body)
