"""Log lines and metrics. Both can hold ids, enums, counters and times only: the allowed keys stand here.

A key outside the list is a programming error and raises, so no content can slip in by an afterthought.
"""

from __future__ import annotations

import json
import logging
import sysconfig
import traceback
from pathlib import Path
from typing import Any

from prometheus_client import Counter

LOG_KEYS = frozenset(
    {
        "action",
        "age_s",
        "attempt",
        "channel",
        "consumer",
        "conversation_id",
        "count",
        "delay_s",
        "error",
        "event_id",
        "kind",
        "message_id",
        "location",
        "property_id",
        "queue",
        "receives",
        "stage",
        "status",
        "through",
        "worker",
    }
)
METRIC_LABELS = frozenset({"channel", "consumer", "error", "kind", "outcome", "queue"})

_FOREIGN = tuple(
    f"{Path(folder).resolve()}/"
    for folder in {
        str(Path(__file__).parent),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)

_logger = logging.getLogger("afterturn")


def set_level(name: str) -> None:
    """What is logged: ``info`` and the like, or ``off``; ``info`` where the name is unknown."""
    levels = {**logging.getLevelNamesMapping(), "OFF": logging.CRITICAL + 1}
    _logger.setLevel(levels.get(name.upper(), logging.INFO))


def log(action: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """One structured line with a stable ``action`` and identifiers: ``action=settle conversation_id=c1``."""
    unknown = fields.keys() - LOG_KEYS
    if unknown:
        raise ValueError(f"log keys {sorted(unknown)} are not on the list of keys that hold no content")
    if _logger.isEnabledFor(level):
        words = [f"{key}={_word(value)}" for key, value in fields.items() if value is not None]
        line = " ".join([f"action={action}", *words])
        _logger.log(level, "%s", line, extra={"action": action, "fields": fields})


def error_location(error: BaseException) -> str | None:
    """Where in a user's own code something went wrong, which holds nothing of what was said.

    ``/srv/my_agent.py:12``: the innermost line that is neither ours nor a library's; None where there is none.
    """
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own_lines = [f"{file}:{line}" for file, line in lines if not file.startswith(("<", *_FOREIGN))]
    return own_lines[-1] if own_lines else None


def _word(value: object) -> str:
    """As it is, or quoted where it could be taken for more than one word: an id may hold spaces."""
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(character in text for character in ' ="') else text


def _counter(name: str, text: str, *labels: str) -> Counter:
    unknown = set(labels) - METRIC_LABELS
    if unknown:
        raise ValueError(f"metric labels {sorted(unknown)} are not on the list of labels that hold no content")
    return Counter(f"afterturn_{name}", text, labels)


turns_settled = _counter("turns_settled", "Turns settled.", "channel")
publish_failures = _counter("publish_failures", "Events left to the sweep after a failed publish.")
records_dead_lettered = _counter(
    "records_dead_lettered", "Stream records moved to the dead letters by the bridge.", "queue"
)
signals_deferred = _counter(
    "signals_deferred", "Signals moved to the retry queue because one consumer refused them.", "consumer"
)
reactions_run = _counter("reactions_run", "Reaction runs by outcome.", "consumer", "outcome")
reactions_reemitted = _counter(
    "reactions_reemitted", "Owed reactions that the sweep put into the stream again.", "consumer"
)
alerts_raised = _counter("alerts_raised", "Red alerts raised.", "kind")
auto_replies_limited = _counter(
    "auto_replies_limited", "Messages left to people, as a machine seems to answer ours.", "channel"
)
webhooks_unreadable = _counter("webhooks_unreadable", "Calls of a provider that could not be read.", "channel")
mail_found = _counter("mail_found", "Mail found by polling a mailbox for which no notification came.")
