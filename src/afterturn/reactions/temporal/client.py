"""A connection to Temporal, made on first use: opening an app neither waits for Temporal nor fails without it."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from datetime import timedelta

from temporalio.client import Client, Interceptor
from temporalio.service import RetryConfig, RPCError, RPCStatusCode, TLSConfig

from afterturn.errors import EngineUnavailable
from afterturn.reactions.run import error_kind

_RETRIES = RetryConfig(
    initial_interval_millis=50, max_interval_millis=500, max_elapsed_time_millis=2_000, max_retries=3
)
"""The stream repeats what failed, so a call gives up early."""

_LOOK = "check AFTERTURN_TEMPORAL_ADDRESS (host:port), and that it runs there"
_WORDS = re.compile(r'(?:message|error): "([^"]+)"')

ENGINE_WIDE = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.UNAUTHENTICATED,
        RPCStatusCode.PERMISSION_DENIED,
        RPCStatusCode.UNIMPLEMENTED,
        RPCStatusCode.NOT_FOUND,
    }
)
"""What says nothing of a single reaction: no answer, too many calls, wrong credentials, no such namespace."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where Temporal is. An API key (Temporal Cloud) implies TLS."""

    target: str = "localhost:7233"
    namespace: str = "default"
    api_key: str | None = None
    tls: TLSConfig | bool = False


class Connection:
    """Connects once for all who ask, and again after a failure."""

    def __init__(
        self, address: Address, *, timeout: timedelta = timedelta(seconds=5), interceptors: tuple[Interceptor, ...] = ()
    ) -> None:
        self.address = address
        self._timeout = timeout
        self._interceptors = interceptors
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    async def client(self) -> Client:
        """Raises EngineUnavailable."""
        async with self._connecting:
            if self._client is None:
                self._client = await self._connect()
            return self._client

    async def _connect(self) -> Client:
        address = self.address
        try:
            async with asyncio.timeout(self._timeout.total_seconds()):
                return await Client.connect(
                    address.target,
                    namespace=address.namespace,
                    api_key=address.api_key,
                    tls=address.tls or address.api_key is not None,
                    retry_config=_RETRIES,
                    interceptors=list(self._interceptors),
                )
        except TimeoutError:
            raise EngineUnavailable(f"Temporal at {address.target} does not answer; {_LOOK}") from None
        except (RuntimeError, ValueError, RPCError) as error:
            raise EngineUnavailable(
                f"Temporal at {address.target} cannot be reached ({reason_of(error)}); {_LOOK}"
            ) from error


def reason_of(error: Exception) -> str:
    """Of an error of the client's other half, the words: it tells them in the depths of its own structures."""
    text = str(error)
    words = _WORDS.findall(text)
    return str(words[-1]) if words else text


def unavailable(error: RPCError, address: str) -> EngineUnavailable:
    """What to raise for an engine-wide error."""
    return EngineUnavailable(f"{address}: {error.status.name.lower()}: {error.message}")


def rpc_kind(error: BaseException) -> str:
    """What may be told of an error of one call."""
    return error.status.name.lower() if isinstance(error, RPCError) else error_kind(error)
