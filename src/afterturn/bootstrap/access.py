"""The way into the AWS of a deployment. Loads no adapter."""

from __future__ import annotations

from afterturn.aws.session import Access
from afterturn.config import Settings


def access_of(settings: Settings) -> Access:
    """Where the AWS of a deployment is; credentials come from where every AWS tool takes them."""
    return Access(region=settings.aws_region, endpoint=settings.aws_endpoint_url)
