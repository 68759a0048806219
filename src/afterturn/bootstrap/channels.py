"""The webhooks of the channels that the settings set up, on whatever store."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Protocol

from pydantic import SecretStr

from afterturn.channels.agent import TIMEOUTS as AGENT_LIMITS
from afterturn.channels.agent import AgentWebhook
from afterturn.channels.auto_reply import AutoReply
from afterturn.channels.directory import Directory, load_directory
from afterturn.channels.email.addresses import spelt
from afterturn.channels.fetching import Fetching
from afterturn.channels.http_client import HttpClient, open_http
from afterturn.channels.ingest import Ingest, Remembers, Writes
from afterturn.channels.outbox import Outbox, Sendable
from afterturn.channels.outlook.fetch import GraphFetching
from afterturn.channels.outlook.graph import GraphClient
from afterturn.channels.outlook.mailbox import GraphMailboxes
from afterturn.channels.outlook.polling import Mailboxes
from afterturn.channels.outlook.send import GraphSender
from afterturn.channels.outlook.subscriptions import GraphUpkeep
from afterturn.channels.rate_limit import RateLimit
from afterturn.channels.registry import HOOKS, Secrets, doors_of
from afterturn.channels.responder import Responder
from afterturn.channels.runner import ChannelRunner
from afterturn.channels.sanitize import public_url
from afterturn.channels.sending import OutboundMessage, Sender
from afterturn.channels.ses.certificates import LIMITS, SnsFetching
from afterturn.channels.ses.fetch import S3Fetching, open_s3
from afterturn.channels.ses.send import SesSender, open_ses
from afterturn.channels.ses.sns import SigningCertificates
from afterturn.channels.telegram.send import TelegramSender
from afterturn.channels.twilio.send import TwilioSender
from afterturn.channels.types import ChannelEvent, FetchRequest, SubscriptionEvent
from afterturn.channels.webhooks import Fetched, Upkept, WebhookRouter
from afterturn.clock import Clock
from afterturn.config import Settings
from afterturn.errors import ConfigError
from afterturn.model import Channel

MAX_CLIENT_STATE = 128

_MAILBOX = re.compile(r"[^\s@/\\'()?#%]{1,64}@[^\s@/\\'()?#%]{1,255}\Z")


class Everything(Remembers, Sendable, Protocol):
    """What the webhooks asks of a store."""


@asynccontextmanager
async def open_channels(
    writes: Writes, store: Everything, settings: Settings, clock: Clock, *, responder: Responder | None = None
) -> AsyncIterator[ChannelRunner]:
    """Closed when the block ends. Raises ConfigError for settings that make no sense, and MissingExtra."""
    directory = Directory() if settings.directory is None else load_directory(settings.directory, settings.phone_region)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(open_http())
        webhook_http = await stack.enter_async_context(open_http(LIMITS))
        graph = _graph(settings, http, clock)
        mailboxes = _mailboxes(settings, store, clock)
        if responder is None and settings.agent_url:
            responder = _agent(settings, await stack.enter_async_context(open_http(AGENT_LIMITS)), clock)
        fetchers: dict[str, Fetched] = {}
        senders: dict[str, Sender] = {}
        sns = SnsFetching(webhook_http, clock)
        own = own_addresses(settings)
        if settings.sns_topics:
            from afterturn.bootstrap.access import access_of  # noqa: PLC0415 - whoever gets no mail there needs no AWS

            access = access_of(settings)
            if settings.mail_buckets:
                s3 = await stack.enter_async_context(open_s3(access))
                fetchers["s3"] = _fetched(S3Fetching(s3, clock=clock, own=own, buckets=settings.mail_buckets))
            client = await stack.enter_async_context(open_ses(access))
            senders["ses"] = SesSender(client, clock=clock, sender=settings.ses_from)
        if graph is not None:
            fetchers["graph"] = _fetched(_graph_fetching(graph, own, mailboxes))
            senders["graph"] = GraphSender(graph)
        if settings.twilio_account_sid and settings.twilio_auth_token:
            senders["twilio"] = TwilioSender(
                http,
                account_sid=settings.twilio_account_sid,
                auth_token=settings.twilio_auth_token,
                clock=clock,
                status_callback=settings.public_url and public_url(settings.public_url, "/hooks/twilio"),
                region=settings.phone_region,
            )
        if settings.telegram_token:
            senders["telegram"] = TelegramSender(
                http, token=settings.telegram_token, clock=clock, api=settings.telegram_api
            )

        wake, wished = asyncio.Event(), asyncio.Event()
        intake = Ingest(writes, store, clock, directory=directory, answering=responder is not None)
        upkeep: dict[str, Upkept] = {"sns": sns.keep}
        doors = WebhookRouter(
            intake,
            clock,
            doors_of(secrets_of(settings), SigningCertificates(sns.certificate)),
            fetchers=fetchers,
            upkeep=upkeep,
            woken=wake.set,
        )
        keeping = None
        if graph is not None and mailboxes is not None:
            keeping = GraphUpkeep(
                GraphMailboxes(graph),
                mailboxes,
                store,
                clock,
                url=public_url(str(settings.public_url), f"{HOOKS}/graph"),
                client_state=str(_shown(settings.graph_client_state)),
                take=doors.take,
            )
            upkeep["graph"] = _graph_upkeep(keeping, wished)
        yield ChannelRunner(
            doors,
            AutoReply(
                writes,
                store,
                store,
                clock,
                responder=responder,
                cap=RateLimit(settings.answers_cap, settings.answers_window),
            ),
            Outbox(store, clock, lambda message: choose(message, senders)),
            wake,
            upkeep=keeping,
            wished=wished,
        )


def own_addresses(settings: Settings) -> frozenset[str]:
    """What is ours, by itself or by its domain."""
    return frozenset(spelt(one) for one in (*settings.own_addresses, *settings.graph_mailboxes))


def _graph_fetching(graph: GraphClient, own: frozenset[str], mailboxes: Mailboxes | None) -> GraphFetching:
    if mailboxes is None:
        return GraphFetching(graph, own=own)
    return GraphFetching(graph, own=own, accounts={one: one for one in mailboxes.names}, mailbox_of=mailboxes.of)


def _mailboxes(settings: Settings, store: Everything, clock: Clock) -> Mailboxes | None:
    """Those to subscribe to. Raises ConfigError for one that is none, and where something is missing for it."""
    if not settings.graph_mailboxes:
        return None
    for name in ("graph_tenant", "graph_client_id", "graph_client_secret", "graph_client_state", "public_url"):
        if not getattr(settings, name):
            raise ConfigError(
                f"AFTERTURN_GRAPH_MAILBOXES: needs AFTERTURN_{name.upper()}; set it, or leave the mailboxes out"
            )
    if not str(settings.public_url).startswith("https://"):
        raise ConfigError("AFTERTURN_PUBLIC_URL: Microsoft Graph calls https addresses only; give one")
    if len(str(_shown(settings.graph_client_state))) > MAX_CLIENT_STATE:
        raise ConfigError(
            f"AFTERTURN_GRAPH_CLIENT_STATE: Graph takes {MAX_CLIENT_STATE} characters at most; shorten it"
        )
    names = [one.lower() for one in settings.graph_mailboxes]
    for one in names:
        if not _MAILBOX.match(one):
            raise ConfigError(f"AFTERTURN_GRAPH_MAILBOXES: {one!r} is no mail address; give such as office@example.com")
    return Mailboxes(store, clock, names)


def _graph_upkeep(keeping: GraphUpkeep, wished: asyncio.Event) -> Upkept:
    async def keep(upkeep: SubscriptionEvent) -> None:
        await keeping.wish(upkeep)
        wished.set()

    return keep


def _agent(settings: Settings, http: HttpClient, clock: Clock) -> Responder:
    if settings.agent_secret is None:
        raise ConfigError(
            "AFTERTURN_AGENT_SECRET: is not set; it signs what an agent is asked: `openssl rand -base64 24` makes one"
        )
    return AgentWebhook(http, str(settings.agent_url), settings.agent_secret, clock)


def choose(message: OutboundMessage, senders: dict[str, Sender]) -> Sender | None:
    """Who sends a message: by its channel, and mail through Outlook where that is set up."""
    match message.channel:
        case Channel.SMS:
            return senders.get("twilio")
        case Channel.TELEGRAM:
            return senders.get("telegram")
        case Channel.EMAIL:
            return senders.get("graph") or senders.get("ses")
        case _:
            return None


def secrets_of(settings: Settings) -> Secrets:
    """What providers prove themselves with."""
    bot = _shown(settings.telegram_token)
    states = _shown(settings.graph_client_state)
    return Secrets(
        twilio_auth_token=_shown(settings.twilio_auth_token),
        telegram_secret=_shown(settings.telegram_secret),
        telegram_bot=(bot or "bot").partition(":")[0],
        sns_topics=settings.sns_topics,
        graph_client_states=() if states is None else (states,),
        vapi_secret=_shown(settings.vapi_secret),
        retell_api_key=_shown(settings.retell_api_key),
        livekit_api_key=settings.livekit_api_key,
        livekit_api_secret=_shown(settings.livekit_api_secret),
        web_secret=settings.web_secret,
        own=own_addresses(settings),
        region=settings.phone_region,
    )


def _graph(settings: Settings, http: HttpClient, clock: Clock) -> GraphClient | None:
    if not (settings.graph_tenant and settings.graph_client_id and settings.graph_client_secret):
        return None
    return GraphClient(
        http,
        tenant=settings.graph_tenant,
        client_id=settings.graph_client_id,
        client_secret=settings.graph_client_secret,
        clock=clock,
        api=settings.graph_api,
        login=settings.graph_login,
    )


def _fetched(fetching: Fetching) -> Fetched:
    async def fetch(asked: FetchRequest, now: datetime) -> ChannelEvent:
        return await fetching.fetch(asked)

    return fetch


def _shown(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
