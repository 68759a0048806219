"""What a provider declares about itself, and what it contributes once it is connected."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pydantic import BaseModel

    from afterturn.channels.sending import OutboundMessage, Sender
    from afterturn.channels.types import ChannelEvent
    from afterturn.channels.webhooks import Fetch, HandleSubscription, WebhookEndpoint
    from afterturn.clock import Clock
    from afterturn.jobs.runner import JobHandler, JobStore
    from afterturn.model import Channel


@dataclass(frozen=True, slots=True)
class Provider:
    """A service that delivers and sends the messages of one channel or several.

    Attributes:
        name: in logs, such as ``twilio``.
        settings: its settings. A field ``acme_token`` is the variable ``AFTERTURN_ACME_TOKEN``.
        opened_by: the setting that opens its webhook, such as a token or a secret.
        module: the module with ``connect(settings, context)``, an async context manager that yields a
            :class:`ProviderConnection`. It is imported only if one of the settings is set, so it may load heavy
            packages.
        mailboxes: the setting that lists mailboxes of ours. Mail from them is our own.
    """

    name: str
    settings: type[BaseModel]
    opened_by: str
    module: str
    mailboxes: str | None = None

    def is_configured(self, settings: object) -> bool:
        """Whether any of its settings differs from the default."""
        return any(getattr(settings, name) != field.default for name, field in self.settings.model_fields.items())

    def connect(self, settings: object, context: ProviderContext) -> AbstractAsyncContextManager[ProviderConnection]:
        """Import the provider's module and connect.

        Raises:
            ConfigError: its settings make no sense.
            MissingExtra: it needs a package that is not installed.
        """
        connect = import_module(self.module).connect
        return cast("AbstractAsyncContextManager[ProviderConnection]", connect(settings, context))


@dataclass(frozen=True, slots=True)
class ProviderContext:
    """What a provider may use while it is connected.

    Attributes:
        receive: processes an event that the provider found without a webhook call.
        aws: the :class:`afterturn.aws.session.Access` of this deployment.
        own_addresses: mail addresses of ours, or domains such as ``@example.com``.
        phone_region: the country whose national numbers are completed, see :func:`afterturn.ids.normalise`.
    """

    clock: Clock
    store: JobStore
    receive: Callable[[ChannelEvent, datetime], Awaitable[None]]
    aws: Any
    own_addresses: frozenset[str] = frozenset()
    public_url: str | None = None
    phone_region: str | None = None


@dataclass(frozen=True, slots=True)
class SenderBinding:
    """A sender of a channel. ``accounts``: the numbers, mailboxes or bots of ours that it sends for; None: any."""

    channel: Channel
    sender: Sender
    accounts: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class ProviderConnection:
    """What a connected provider contributes.

    Attributes:
        endpoints: its webhooks, by the path below ``/hooks/``.
        fetchers: by the source of the FetchRequest that they serve.
        subscriptions: handlers of SubscriptionEvents, by their source.
        jobs: handlers of its jobs.
    """

    endpoints: Mapping[str, WebhookEndpoint] = field(default_factory=dict)
    senders: Sequence[SenderBinding] = ()
    fetchers: Mapping[str, Fetch] = field(default_factory=dict)
    subscriptions: Mapping[str, HandleSubscription] = field(default_factory=dict)
    jobs: Sequence[JobHandler] = ()


def choose_sender(bindings: Sequence[SenderBinding], message: OutboundMessage) -> Sender | None:
    """The sender for the account that the customer wrote to.

    The provider that claims the account sends; otherwise the first one of the channel that takes any account, or else
    the first one of the channel (an alias of a mailbox is claimed by nobody). None: the channel is not set up.
    """
    candidates = [binding for binding in bindings if binding.channel is message.channel]
    account = message.account.strip().casefold()
    claims = [binding for binding in candidates if binding.accounts is not None and account in binding.accounts]
    unbound = [binding for binding in candidates if binding.accounts is None]
    return next((binding.sender for binding in (*claims, *unbound, *candidates)), None)


def webhooks_only(
    endpoints: Callable[[Any, ProviderContext], Mapping[str, WebhookEndpoint]],
) -> Callable[[Any, ProviderContext], AbstractAsyncContextManager[ProviderConnection]]:
    """The ``connect`` of a provider that has webhooks and nothing else."""

    @asynccontextmanager
    async def connect(settings: Any, context: ProviderContext) -> AsyncIterator[ProviderConnection]:
        yield ProviderConnection(endpoints(settings, context))

    return connect
