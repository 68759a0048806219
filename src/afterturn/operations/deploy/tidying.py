"""Old versions of a function: which have to stay, and the deletion of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from afterturn.aws.errors import code_of
from afterturn.errors import StoreError
from afterturn.operations.account import Account
from afterturn.operations.deploy import history
from afterturn.operations.deploy.calls import functions, told

KEPT = 5
"""Versions that stay where nothing is said, the one that serves among them."""

_STAYS = frozenset({"ResourceConflictException", "ResourceNotFoundException"})


def stale(versions: Iterable[int], aliases: Iterable[Mapping[str, Any]], *, keep: int, coming: bool) -> tuple[str, ...]:
    """Of the published versions those that may go, the oldest first, pure.

    The newest ``keep`` stay (one less of those that are there, where one more is ``coming``), and whatever an alias
    names: by itself, with a share of its calls, or as what served before it or was withdrawn from it.
    """
    there = sorted(set(versions))
    newest = there[max(len(there) - (keep - coming), 0) :]
    stay = {str(one) for one in newest} | {name for alias in aliases for name in _named(alias)}
    return tuple(str(one) for one in there if str(one) not in stay)


def _named(alias: Mapping[str, Any]) -> Iterable[str]:
    yield str(alias.get("FunctionVersion"))
    yield from (alias.get("RoutingConfig") or {}).get("AdditionalVersionWeights") or {}
    yield from filter(None, (history.before(alias), history.withdrawn(alias)))


async def delete(account: Account, name: str, versions: Iterable[str], heard: Callable[[str], None]) -> None:
    """One by one. What serves does so whatever comes of this, so a refusal is told and is no error.

    Lambda keeps what an alias has come to name since we looked.
    """
    for version in versions:
        try:
            with told(f"deleting version {version} of function {name}"):
                await functions(account).delete_function(FunctionName=name, Qualifier=version)
        except StoreError as error:
            if isinstance(cause := error.__cause__, Exception) and code_of(cause) in _STAYS:
                heard(f"version {version} of {name} was left: it is named by now, or gone")
                continue
            heard(f"{error}; old versions stay, and the next deployment tries again")
            return
        heard(f"deleted version {version} of {name}")
