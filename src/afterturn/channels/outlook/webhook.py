"""Microsoft Graph change notifications for Outlook mail.

https://learn.microsoft.com/graph/change-notifications-overview. A notification only names a message: :func:`parse`
returns a FetchRequest, which :class:`~afterturn.channels.outlook.fetch.GraphFetcher` serves.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, urlsplit

from afterturn.channels.http_client import open_http
from afterturn.channels.outlook import OutlookSettings
from afterturn.channels.outlook.fetch import EXPAND, SELECT, GraphFetcher
from afterturn.channels.outlook.graph import GraphClient
from afterturn.channels.outlook.mailbox import GraphMailboxes
from afterturn.channels.outlook.send import GraphSender
from afterturn.channels.outlook.subscriptions import GraphSubscriptions
from afterturn.channels.provider import ProviderConnection, ProviderContext, SenderBinding
from afterturn.channels.sanitize import clean_line, clean_string, get_path, json_object, public_url, secrets_equal
from afterturn.channels.types import (
    ChannelEvent,
    FetchRequest,
    Ignored,
    ImmediateResponse,
    Rejected,
    SubscriptionEvent,
    WebhookRequest,
)
from afterturn.channels.webhooks import WEBHOOKS_PATH, WebhookEndpoint, WebhookResponse
from afterturn.errors import ConfigError
from afterturn.model import Channel

MAX_BODY_BYTES = 2 * 2**20
MAX_TOKEN_CHARS = 4096
MAX_CLIENT_STATE = 128


_MAILBOX = re.compile(r"[^\s@/\\'()?#%]{1,64}@[^\s@/\\'()?#%]{1,255}\Z")
_RESOURCE = re.compile(r"(?:users|me|groups)(?:\([^()/?#%\\\s]{1,300}\))?(?:/[^/?#%\\\s]{1,600}){1,6}", re.I)
_LIFECYCLE = {
    "reauthorizationRequired": "reauthorize",
    "subscriptionRemoved": "recreate",
    "missed": "resynchronize",
}


def endpoints(settings: OutlookSettings, context: ProviderContext) -> Mapping[str, WebhookEndpoint]:
    if settings.graph_client_state is None:
        return {}
    states = (settings.graph_client_state.get_secret_value(),)
    return {
        "graph": WebhookEndpoint(
            verify=lambda request, now: verify(request, client_states=states),
            parse=lambda request, now: parse(request, client_states=states),
            response=WebhookResponse(202),
        )
    }


@asynccontextmanager
async def connect(settings: OutlookSettings, context: ProviderContext) -> AsyncIterator[ProviderConnection]:
    _check_mailboxes(settings, context)
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
        sender = GraphSender(graph)
        if not settings.graph_mailboxes or settings.graph_client_state is None:
            fetcher = GraphFetcher(graph, own_addresses=context.own_addresses)
            senders = [SenderBinding(Channel.EMAIL, sender)]
            yield ProviderConnection(endpoints(settings, context), senders, {"graph": fetcher.fetch})
            return
        mailboxes = [name.lower() for name in settings.graph_mailboxes]
        subscriptions = GraphSubscriptions(
            GraphMailboxes(graph),
            context.store,
            context.clock,
            mailboxes=mailboxes,
            url=public_url(str(context.public_url), f"{WEBHOOKS_PATH}/graph"),
            client_state=settings.graph_client_state.get_secret_value(),
            receive=context.receive,
        )
        fetcher = GraphFetcher(
            graph,
            own_addresses=context.own_addresses,
            accounts={name: name for name in mailboxes},
            mailbox_of=subscriptions.mailbox_of,
        )
        yield ProviderConnection(
            endpoints(settings, context),
            [SenderBinding(Channel.EMAIL, sender, frozenset(mailboxes))],
            {"graph": fetcher.fetch},
            {"graph": subscriptions.handle},
            [subscriptions.handler],
        )


def _check_mailboxes(settings: OutlookSettings, context: ProviderContext) -> None:
    """Raises ConfigError if mailboxes are set, and they or the settings that they need are invalid."""
    if not settings.graph_mailboxes:
        return
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
    for name in settings.graph_mailboxes:
        if not _MAILBOX.match(name.lower()):
            raise ConfigError(
                f"AFTERTURN_GRAPH_MAILBOXES: {name!r} is not a mail address; write it like office@example.com"
            )


def _missing(name: str) -> ConfigError:
    return ConfigError(f"AFTERTURN_GRAPH_MAILBOXES: needs AFTERTURN_{name.upper()}; set it, or remove the mailboxes")


def verify(request: WebhookRequest, *, client_states: Collection[str]) -> None:
    """Raises Rejected unless this is the handshake, or one notification at least names a secret of ours.

    ``client_states``: the secrets that our subscriptions were made with.
    """
    if _token(request) is None and not any(
        _is_ours(notification, client_states) for notification in _notifications(request)
    ):
        raise Rejected(401, "no notification names the clientState of a subscription of ours")


def parse(request: WebhookRequest, *, client_states: Collection[str]) -> tuple[ChannelEvent, ...]:
    """The events of a verified request, in order, each message once. A bad notification does not affect the others.

    Raises Rejected (400, 413) for a body that Graph would not send.
    """
    token = _token(request)
    if token is not None:
        return (ImmediateResponse(200, token),)
    events = (_event(notification, client_states) for notification in _notifications(request))
    return tuple(_without_repeats(events))


def _token(request: WebhookRequest) -> str | None:
    """What the handshake asks to have repeated, or None for what is no handshake."""
    try:
        query = parse_qsl(urlsplit(request.url).query, keep_blank_values=True, max_num_fields=50)
    except ValueError:
        raise Rejected(400, "the address cannot be read") from None
    token = dict(query).get("validationToken")
    if token is not None and not (0 < len(token) <= MAX_TOKEN_CHARS and token.isprintable()):
        raise Rejected(400, "validationToken is empty, too long or not printable")
    return token


def _notifications(request: WebhookRequest) -> list[object]:
    if len(request.body) > MAX_BODY_BYTES:
        raise Rejected(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
    value = get_path(json_object(request.body), "value")
    if not isinstance(value, list):
        raise Rejected(400, 'the body is not a JSON object with a list "value"')
    return value


def _is_ours(notification: object, client_states: Collection[str]) -> bool:
    client_state = get_path(notification, "clientState")
    return isinstance(client_state, str) and any(secrets_equal(client_state, state) for state in client_states)


def _event(notification: object, client_states: Collection[str]) -> ChannelEvent:
    if not _is_ours(notification, client_states):
        return Ignored("wrong-client-state")
    reference = {
        "subscription": clean_line(get_path(notification, "subscriptionId")),
        "tenant": clean_line(get_path(notification, "tenantId")),
    }
    event = get_path(notification, "lifecycleEvent")
    if event is not None:
        action = _LIFECYCLE.get(event) if isinstance(event, str) else None
        return SubscriptionEvent("graph", action, reference) if action else Ignored("unknown-lifecycle-event")
    change = get_path(notification, "changeType")
    if change != "created":
        return Ignored("message-changed" if change in ("updated", "deleted") else "unknown-change")
    kind = get_path(notification, "resourceData", "@odata.type")
    if isinstance(kind, str) and not kind.lower().endswith("message"):
        return Ignored("not-a-message")
    resource = clean_string(get_path(notification, "resource"))
    # It becomes part of an address that is called with our credentials.
    if not _RESOURCE.fullmatch(resource) or ".." in resource:
        return Ignored("bad-resource")
    return FetchRequest("graph", {"resource": resource, "select": SELECT, "expand": EXPAND, **reference})


def _without_repeats(events: Iterator[ChannelEvent]) -> Iterator[ChannelEvent]:
    seen: set[tuple[str, str, str]] = set()
    for event in events:
        if isinstance(event, FetchRequest):
            # Notifications of two subscriptions are two: one subscription may not be ours. Ids are case-sensitive.
            where, _, mail = event.reference["resource"].rpartition("/")
            name = (where.lower(), mail, event.reference["subscription"])
            if name in seen:
                continue
            seen.add(name)
        yield event
