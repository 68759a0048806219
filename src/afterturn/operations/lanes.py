"""Whether lane, account and credentials agree, decided before the first write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from afterturn.aws.names import Names, check_names
from afterturn.errors import ConfigError
from afterturn.operations.resources import LANE_TAG

__all__ = ["Bearer", "Identity", "check_lane", "check_names"]


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the credentials are, as GetCallerIdentity says."""

    account: str
    arn: str


@dataclass(frozen=True, slots=True)
class Bearer:
    """A resource that is there, and its tags."""

    name: str
    tags: Mapping[str, str]

    @property
    def lane(self) -> str | None:
        return self.tags.get(LANE_TAG)


def check_lane(
    names: Names,
    caller: Identity,
    bearers: Iterable[Bearer],
    *,
    account: str | None = None,
    adopt: bool = False,
    emulated: bool = False,
) -> None:
    """Raise ConfigError where anything speaks for another lane or another account.

    ``account``: the account that the lane belongs to, as far as the operator knows. ``adopt``: take resources that
    bear no lane. ``emulated``: nobody is harmed by a first resource in the wrong account.
    """
    check_names(names)
    if account is not None and account != caller.account:
        raise ConfigError(
            f"lane {names.lane} belongs to account {account}, but the credentials are of {caller.account} "
            f"({caller.arn}); nothing was changed"
        )
    known = False
    for bearer in bearers:
        if bearer.lane is None and not adopt:
            raise ConfigError(
                f"{bearer.name} in account {caller.account} bears no lane (tag {LANE_TAG}); nothing was changed. Where "
                f"it is lane {names.lane}'s, `afterturn aws provision --adopt` says so"
            )
        if bearer.lane not in (None, names.lane):
            raise ConfigError(
                f"{bearer.name} in account {caller.account} is lane {bearer.lane}'s, not {names.lane}'s (tag "
                f"{LANE_TAG}); nothing was changed"
            )
        known = known or bearer.lane == names.lane
    if names.lane == "prod" and account is None and not known and not emulated:
        raise ConfigError(
            f"account {caller.account} holds nothing of lane prod yet; say with --account that it is the right one"
        )
