"""What the bridge and the whole app share of Temporal: a client, never a worker."""

from __future__ import annotations

from afterturn.config import Settings
from afterturn.errors import MissingExtra

try:
    from afterturn.reactions.temporal.client import Address
except ImportError as error:
    raise MissingExtra("Temporal needs the temporal extra: pip install 'afterturn[temporal]'") from error


def address_of(settings: Settings) -> Address:
    """Where the Temporal of a deployment is."""
    key = settings.temporal_api_key
    return Address(
        target=settings.temporal_address,
        namespace=settings.temporal_namespace,
        api_key=None if key is None else key.get_secret_value(),
    )
