"""Amazon SES: mail that SNS delivers or S3 stores, and mail that is sent."""

from __future__ import annotations

from pydantic import BaseModel, Field

from afterturn.channels.provider import Provider
from afterturn.setting_types import Words


class SesSettings(BaseModel):
    """Topics, buckets and the sender."""

    ses_from: str | None = Field(
        None,
        description="Sender of mail through SES, such as Homes <office@example.com>. Default: the mailbox "
        "that the customer wrote to.",
    )
    sns_topics: Words = Field((), description="ARNs of the SNS topics that deliver mail from SES, separated by commas.")
    mail_buckets: Words = Field(
        (), description="S3 buckets that SES stores mail in, separated by commas. No other bucket is read."
    )


PROVIDER = Provider(
    name="ses",
    settings=SesSettings,
    opened_by="sns_topics",
    module="afterturn.channels.ses.webhook",
)
