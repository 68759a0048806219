"""Connects the providers that the settings configure to a store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from afterturn.bootstrap import access_of
from afterturn.channels.agent import TIMEOUTS, AgentWebhook
from afterturn.channels.auto_reply import AutoReply, RateLimit
from afterturn.channels.email.addresses import normalise_address
from afterturn.channels.http_client import open_http
from afterturn.channels.ingest import Ingest, IngestStore, IngestWriter
from afterturn.channels.outbox import Outbox, OutboxStore
from afterturn.channels.provider import Provider, ProviderContext, SenderBinding, choose_sender
from afterturn.channels.registry import PROVIDERS
from afterturn.channels.responder import Responder
from afterturn.channels.routing import Directory, load_directory
from afterturn.channels.webhooks import WEBHOOKS_PATH, Fetch, HandleSubscription, WebhookEndpoint, WebhookRouter
from afterturn.clock import Clock
from afterturn.config import Settings
from afterturn.errors import ConfigError
from afterturn.jobs.runner import JobRunner


class ChannelStore(IngestStore, OutboxStore, Protocol):
    """What channels use of a store."""


@dataclass(frozen=True, slots=True)
class Channels:
    """The webhooks of the configured providers, and the jobs that follow from them."""

    router: WebhookRouter
    jobs: JobRunner


@asynccontextmanager
async def open_channels(
    writer: IngestWriter,
    store: ChannelStore,
    settings: Settings,
    clock: Clock,
    *,
    responder: Responder | None = None,
    providers: Sequence[Provider] = PROVIDERS,
) -> AsyncIterator[Channels]:
    """Connections are closed when the block ends.

    Raises:
        ConfigError: a provider's settings make no sense.
        MissingExtra: a configured provider needs a package that is not installed.
    """
    directory = Directory() if settings.directory is None else load_directory(settings.directory, settings.phone_region)
    async with AsyncExitStack() as stack:
        if responder is None and settings.agent_url:
            responder = await _agent(settings, clock, stack)
        endpoints: dict[str, WebhookEndpoint] = {}
        fetchers: dict[str, Fetch] = {}
        subscriptions: dict[str, HandleSubscription] = {}
        senders: list[SenderBinding] = []
        ingest = Ingest(writer, store, clock, directory=directory, auto_reply=responder is not None)
        rate_limit = RateLimit(settings.auto_reply_limit, settings.auto_reply_window)
        auto_reply = AutoReply(writer, store, store, clock, responder=responder, limit=rate_limit)
        outbox = Outbox(store, clock, lambda message: choose_sender(senders, message))
        jobs = JobRunner(store, clock, [*auto_reply.handlers, outbox.handler])
        router = WebhookRouter(
            ingest, clock, endpoints, fetchers=fetchers, subscriptions=subscriptions, on_job=jobs.wake
        )
        context = ProviderContext(
            clock=clock,
            store=store,
            receive=router.receive,
            aws=access_of(settings),
            own_addresses=own_addresses(settings, providers),
            public_url=settings.public_url,
            phone_region=settings.phone_region,
        )
        for provider in providers:
            if provider.is_configured(settings):
                connection = await stack.enter_async_context(provider.connect(settings, context))
                endpoints |= {f"{WEBHOOKS_PATH}/{path}": endpoint for path, endpoint in connection.endpoints.items()}
                fetchers |= connection.fetchers
                subscriptions |= connection.subscriptions
                senders += connection.senders
                for handler in connection.jobs:
                    jobs.add(handler)
        yield Channels(router, jobs)


def own_addresses(settings: Settings, providers: Sequence[Provider] = PROVIDERS) -> frozenset[str]:
    """The company's mail addresses and domains: those that are set, and the providers' mailboxes."""
    mailboxes = [getattr(settings, provider.mailboxes) for provider in providers if provider.mailboxes]
    return frozenset(
        normalise_address(address) for addresses in (settings.own_addresses, *mailboxes) for address in addresses
    )


async def _agent(settings: Settings, clock: Clock, stack: AsyncExitStack) -> Responder:
    if settings.agent_secret is None:
        raise ConfigError(
            "AFTERTURN_AGENT_SECRET: is not set; it signs requests to the agent. `openssl rand -base64 24` makes one"
        )
    http = await stack.enter_async_context(open_http(TIMEOUTS))
    return AgentWebhook(http, str(settings.agent_url), settings.agent_secret, clock)
