"""Back to the version that served before: one call, which moves the alias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afterturn.aws.names import Names
from afterturn.errors import ConfigError, NotFound
from afterturn.operations.account import Account
from afterturn.operations.deploy import history
from afterturn.operations.deploy.calls import functions, told
from afterturn.operations.deploy.functions import ALIAS, Part
from afterturn.operations.deploy.looking import look_at_function, version_of


@dataclass(frozen=True, slots=True)
class Rollback:
    """``there``: the version that serves, ``back``: the one that is to; the same where nothing is to be done."""

    function: str
    there: str
    back: str
    revision: str


async def plan_rollback(
    account: Account, part: Part, names: Names, *, to: str | None = None, expected: str | None = None
) -> Rollback:
    """Reads only. Raises ConfigError where lane, account and credentials disagree, and NotFound as below."""
    found = await look_at_function(account, part, names, expected=expected)
    name = names.function(part)
    if found.latest is None or found.alias is None:
        raise NotFound(f"function {name} was never deployed, so there is nothing to go back from")
    back = target(name, found.alias, to)
    if back != found.serving and await version_of(account, name, back) is None:
        raise NotFound(f"function {name} has no version {back} any more; name another one with --to VERSION")
    return Rollback(name, str(found.serving), back, found.alias["RevisionId"])


async def carry_back(account: Account, given: Rollback) -> None:
    """The one call. Whoever moved the alias since we looked is not overruled."""
    if given.back == given.there:
        return
    with told(f"alias {ALIAS} of function {given.function}"):
        await functions(account).update_alias(
            FunctionName=given.function,
            Name=ALIAS,
            FunctionVersion=given.back,
            Description=history.rolled_back(given.there),
            RoutingConfig={"AdditionalVersionWeights": {}},
            RevisionId=given.revision,
        )


def target(name: str, alias: Mapping[str, Any], to: str | None) -> str:
    """Which version to go back to, pure. Raises NotFound where nobody can know, and ConfigError for no number."""
    if to is not None:
        if not (to.isascii() and to.isdigit()):
            raise ConfigError(f"--to {to}: a published version is a number, such as 7; nothing was changed")
        return str(int(to))
    if back := history.before(alias):
        return back
    serving = alias["FunctionVersion"]
    if gone := history.withdrawn(alias):
        raise NotFound(
            f"function {name} was rolled back already, from version {gone} to {serving}; a second rollback goes "
            "where you say: --to VERSION"
        )
    raise NotFound(
        f"version {serving} of function {name} is the first that served, as far as its alias tells; name another one "
        "with --to VERSION"
    )
