"""Connects Amazon SES: the webhook that SNS calls, mail in S3, and the sender."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime

from afterturn.channels.http_client import open_http
from afterturn.channels.provider import ProviderConnection, ProviderContext, SenderBinding
from afterturn.channels.ses import SesSettings, sns, webhook
from afterturn.channels.ses.fetch import S3MailFetcher, open_s3
from afterturn.channels.ses.send import SesSender, open_ses
from afterturn.channels.types import WebhookRequest
from afterturn.channels.webhooks import Fetch, WebhookEndpoint
from afterturn.model import Channel

MAX_MAIL_BYTES = 300_000
"""SNS sends no more in one call; larger mail lies in S3."""


def endpoints(
    settings: SesSettings, context: ProviderContext, certificates: sns.SigningCertificates
) -> Mapping[str, WebhookEndpoint]:
    topics, own_addresses = frozenset(settings.sns_topics), context.own_addresses
    if not topics:
        return {}

    async def verify(request: WebhookRequest, now: datetime) -> None:
        await sns.verify(request, topics=topics, certificates=certificates, now=now)

    return {
        "ses": WebhookEndpoint(
            verify,
            lambda request, now: webhook.parse(request, now=now, own_addresses=own_addresses),
            max_body=MAX_MAIL_BYTES,
        )
    }


@asynccontextmanager
async def connect(settings: SesSettings, context: ProviderContext) -> AsyncIterator[ProviderConnection]:
    if not settings.sns_topics:
        yield ProviderConnection()
        return
    access, clock = context.aws, context.clock
    async with AsyncExitStack() as stack:
        topic = sns.SnsClient(await stack.enter_async_context(open_http(sns.TIMEOUTS)), clock)
        fetchers: dict[str, Fetch] = {}
        if settings.mail_buckets:
            s3 = await stack.enter_async_context(open_s3(access))
            fetchers["s3"] = S3MailFetcher(
                s3, clock=clock, own_addresses=context.own_addresses, buckets=settings.mail_buckets
            ).fetch
        sender = SesSender(await stack.enter_async_context(open_ses(access)), clock=clock, sender=settings.ses_from)
        yield ProviderConnection(
            endpoints(settings, context, sns.SigningCertificates(topic.certificate)),
            [SenderBinding(Channel.EMAIL, sender)],
            fetchers,
            {"sns": topic.confirm_subscription},
        )
