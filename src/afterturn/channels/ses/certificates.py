"""What is fetched from Amazon SNS: its certificates, and the address that confirms a subscription."""

from __future__ import annotations

import logging
import re

from afterturn import telemetry
from afterturn.channels.http_client import HttpClient, HttpTimeouts, failure_of, send_repeatable
from afterturn.channels.sending import Reason, TryLater, Uncertain, Undeliverable
from afterturn.channels.ses.sns import MAX_CERTIFICATE_BYTES
from afterturn.channels.types import SubscriptionEvent
from afterturn.clock import Clock

LIMITS = HttpTimeouts(connect=3.0, silence=5.0, whole=8.0)
"""A webhook waits for it, and SNS gives up after fifteen seconds."""

_OF_SNS = re.compile(r"https://sns\.[a-z0-9-]{3,40}\.amazonaws\.com(?:\.cn)?/[\x21-\x7e]{1,4096}")
"""Looked at again, where the call is made: whatever a stranger's envelope says, nobody else is called."""
_CONFIRMED = re.compile(rb"<SubscriptionArn>\s*arn:[\x21-\x7e]{1,400}?</SubscriptionArn>")


class SnsFetching:
    """``http``: opened with :data:`LIMITS`. Raises TryLater, and Undeliverable for what is refused for good."""

    def __init__(self, http: HttpClient, clock: Clock) -> None:
        self._http = http
        self._clock = clock

    async def certificate(self, url: str) -> bytes:
        """The certificate; a :data:`~afterturn.channels.ses.sns.FetchUrl`."""
        return await self._get(url, MAX_CERTIFICATE_BYTES)

    async def confirm(self, url: str) -> None:
        """Confirm the subscription; a second time changes nothing."""
        answer = await self._get(url, MAX_CERTIFICATE_BYTES)
        if not _CONFIRMED.search(answer):
            raise TryLater("sns", Reason.UNAVAILABLE, "unreadable")

    async def keep(self, upkeep: SubscriptionEvent) -> None:
        """Confirm a subscription of a topic that our settings name, also one that has ended.

        Whoever has read a notification can end it, as each holds the address that does. It is over for good where the
        settings name its topic no longer.
        """
        if upkeep.action == "resubscribe":
            telemetry.log("unsubscribed", level=logging.ERROR, stage="sns", status="to-be-confirmed-anew")
        await self.confirm(upkeep.reference["url"])

    async def _get(self, url: str, max_bytes: int) -> bytes:
        if not _OF_SNS.fullmatch(url):
            raise Undeliverable("sns", Reason.REFUSED, "not-a-host-of-sns")
        answer = await send_repeatable(self._http, "sns", "GET", url, {"accept": "*/*"}, max_bytes=max_bytes)
        if answer.status == 200 and not answer.truncated:
            return answer.body
        found = failure_of("sns", answer, self._clock())
        if isinstance(found, TryLater) and answer.status >= 400:
            raise found
        if isinstance(found, Uncertain) or answer.truncated:
            raise TryLater("sns", Reason.UNAVAILABLE, str(answer.status))
        raise Undeliverable("sns", Reason.REFUSED, str(answer.status))
