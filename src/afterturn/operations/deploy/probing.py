"""The smoke check: a version is called with a probe before anything that matters reaches it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from afterturn.errors import AfterturnError
from afterturn.operations.account import Account
from afterturn.operations.deploy.calls import functions, told
from afterturn.operations.deploy.functions import EMITTERS, Part, Wanted

EVENT = {"afterturn": "probe"}

_LONGEST = 400


async def check(account: Account, wanted: Wanted, version: str) -> Mapping[str, Any]:
    """What a version answers. Raises AfterturnError that says what is wrong with it."""
    with told(f"calling version {version} of function {wanted.name}"):
        answer = await functions(account).invoke(
            FunctionName=wanted.name, Qualifier=version, Payload=json.dumps(EVENT).encode()
        )
        body = await answer["Payload"].read()
    if answer.get("FunctionError"):
        problem: str | None = _error(body)
    else:
        problem = judge(wanted, read(body))
        if problem is None and answer.get("ExecutedVersion", version) != version:
            problem = f"version {answer['ExecutedVersion']} answered in its place"
    if problem is not None:
        raise AfterturnError(
            f"version {version} of function {wanted.name} failed its smoke check: {problem}. What served before goes "
            "on serving; mend it, and deploy again"
        )
    return read(body) or {}


def read(body: bytes) -> Mapping[str, Any] | None:
    """The answer, where it is a JSON object."""
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def judge(wanted: Wanted, answer: Mapping[str, Any] | None) -> str | None:
    """What is wrong with an answer; none where it is as wanted. Pure."""
    if answer is None or "lane" not in answer:
        return "it does not answer the probe as a function of afterturn does"
    names = wanted.names
    expected: dict[str, object] = {"lane": names.lane, "table": names.table}
    if wanted.part is Part.BRIDGE:
        expected |= {"queues": list(wanted.queues), "engine": "ok"}
    else:
        expected |= {"emitter": EMITTERS[Part.WEBHOOKS].value}
    for key, value in expected.items():
        if answer.get(key) == value:
            continue
        if key == "engine":
            return "Temporal does not answer it; check its address, namespace and key, and its way to the network"
        return f"its {key} is {answer.get(key)!r} in place of {value!r}"
    if wanted.part is Part.BRIDGE and not answer.get("consumers"):
        return "its app declares no consumer; name the app with --app"
    return None


def _error(body: bytes) -> str:
    """What Lambda tells of an exception: kind and text of ours, cut where they are long."""
    said = read(body) or {}
    text = " ".join(f"{said.get('errorType', 'error')}: {said.get('errorMessage', 'no message')}".split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
