"""Workflows that were started by earlier code go on under this code: their saved histories replay.

``tests/replay/record.py`` says when to record more.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from afterturn.reactions.temporal.runner import sandbox
from afterturn.reactions.temporal.workflow import ReactionWorkflow

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))


def load(path: Path) -> WorkflowHistory:
    """With the workflow id, which is part of what a reaction knows."""
    text = path.read_text("utf-8")
    started = json.loads(text)["events"][0]["workflowExecutionStartedEventAttributes"]
    return WorkflowHistory.from_json(started["workflowId"], text)


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_saved_history_replays(path: Path) -> None:
    await Replayer(workflows=[ReactionWorkflow], workflow_runner=sandbox()).replay_workflow(load(path))


async def test_a_changed_workflow_is_found_out() -> None:
    """The same replay fails where the history says that another activity was run."""
    path = next(path for path in HISTORIES if path.stem == "one_turn-0")
    text = path.read_text("utf-8").replace('"afterturn-react"', '"another"')
    history = WorkflowHistory.from_json(load(path).workflow_id, text)
    with pytest.raises(NondeterminismError):
        await Replayer(workflows=[ReactionWorkflow], workflow_runner=sandbox()).replay_workflow(history)


def test_the_histories_show_every_path() -> None:
    names = {path.stem.rsplit("-", 1)[0] for path in HISTORIES}
    assert names == {
        *("one_turn", "a_burst_and_then_now", "a_turn_during_a_run"),
        *("a_failure_that_passes", "a_failure_for_good", "odd_signals", "more_than_a_run_takes"),
    }
    assert sum(path.stem.startswith("more_than_a_run_takes") for path in HISTORIES) >= 2
