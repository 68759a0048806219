"""Connects Outlook: the webhook that Microsoft Graph calls, the mailboxes and the sender."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from afterturn.channels.http_client import open_http
from afterturn.channels.outlook import OutlookSettings, webhook
from afterturn.channels.outlook.fetch import GraphFetcher
from afterturn.channels.outlook.graph import GraphClient
from afterturn.channels.outlook.mailbox import GraphMailboxes
from afterturn.channels.outlook.polling import Mailboxes
from afterturn.channels.outlook.send import GraphSender
from afterturn.channels.outlook.subscriptions import GraphSubscriptions
from afterturn.channels.provider import ProviderConnection, ProviderContext, SenderBinding
from afterturn.channels.sanitize import public_url
from afterturn.channels.webhooks import WEBHOOKS_PATH, WebhookEndpoint, WebhookResponse
from afterturn.errors import ConfigError
from afterturn.model import Channel

MAX_CLIENT_STATE = 128

_MAILBOX = re.compile(r"[^\s@/\\'()?#%]{1,64}@[^\s@/\\'()?#%]{1,255}\Z")


def endpoints(settings: OutlookSettings, context: ProviderContext) -> Mapping[str, WebhookEndpoint]:
    if settings.graph_client_state is None:
        return {}
    states = (settings.graph_client_state.get_secret_value(),)
    return {
        "graph": WebhookEndpoint(
            verify=lambda request, now: webhook.verify(request, client_states=states),
            parse=lambda request, now: webhook.parse(request, client_states=states),
            response=WebhookResponse(202),
        )
    }


@asynccontextmanager
async def connect(settings: OutlookSettings, context: ProviderContext) -> AsyncIterator[ProviderConnection]:
    mailboxes = _mailboxes(settings, context)
    if not (settings.graph_tenant and settings.graph_client_id and settings.graph_client_secret):
        yield ProviderConnection(endpoints(settings, context))
        return
    async with open_http() as http:
        graph = GraphClient(
            http,
            tenant=settings.graph_tenant,
            client_id=settings.graph_client_id,
            client_secret=settings.graph_client_secret,
            clock=context.clock,
            api=settings.graph_api,
            login=settings.graph_login,
        )
        if mailboxes is None:
            fetcher = GraphFetcher(graph, own_addresses=context.own_addresses)
            yield ProviderConnection(
                endpoints(settings, context),
                [SenderBinding(Channel.EMAIL, GraphSender(graph))],
                {"graph": fetcher.fetch},
            )
            return
        names = mailboxes.names
        fetcher = GraphFetcher(
            graph, own_addresses=context.own_addresses, accounts={name: name for name in names}, mailbox_of=mailboxes.of
        )
        assert settings.graph_client_state is not None
        subscriptions = GraphSubscriptions(
            GraphMailboxes(graph),
            mailboxes,
            context.store,
            context.clock,
            url=public_url(str(context.public_url), f"{WEBHOOKS_PATH}/graph"),
            client_state=settings.graph_client_state.get_secret_value(),
            receive=context.receive,
        )
        yield ProviderConnection(
            endpoints(settings, context),
            [SenderBinding(Channel.EMAIL, GraphSender(graph), frozenset(names))],
            {"graph": fetcher.fetch},
            {"graph": subscriptions.handle},
            [subscriptions],
        )


def _mailboxes(settings: OutlookSettings, context: ProviderContext) -> Mailboxes | None:
    """The mailboxes to subscribe to, if there are any. Raises ConfigError for an invalid or incomplete setting."""
    if not settings.graph_mailboxes:
        return None
    for name in ("graph_tenant", "graph_client_id", "graph_client_secret", "graph_client_state"):
        if not getattr(settings, name):
            raise _missing(name)
    if context.public_url is None:
        raise _missing("public_url")
    if not context.public_url.startswith("https://"):
        raise ConfigError("AFTERTURN_PUBLIC_URL: Microsoft Graph calls only https URLs; set one")
    if settings.graph_client_state is not None and len(settings.graph_client_state) > MAX_CLIENT_STATE:
        raise ConfigError(
            f"AFTERTURN_GRAPH_CLIENT_STATE: is too long; Graph takes at most {MAX_CLIENT_STATE} characters; shorten it"
        )
    names = [name.lower() for name in settings.graph_mailboxes]
    for name in names:
        if not _MAILBOX.match(name):
            raise ConfigError(
                f"AFTERTURN_GRAPH_MAILBOXES: {name!r} is not a mail address; write it like office@example.com"
            )
    return Mailboxes(context.store, context.clock, names)


def _missing(name: str) -> ConfigError:
    return ConfigError(f"AFTERTURN_GRAPH_MAILBOXES: needs AFTERTURN_{name.upper()}; set it, or remove the mailboxes")
