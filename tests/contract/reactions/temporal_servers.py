"""Temporal for tests: the real dev server and the time-skipping test server, each started once by a test process."""

from __future__ import annotations

import asyncio
import shutil
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from temporalio.api.common.v1 import FastForwardConfig, TimeSkippingConfig, WorkflowExecution
from temporalio.api.testservice.v1 import SleepRequest
from temporalio.api.workflow.v1 import WorkflowExecutionOptions
from temporalio.api.workflowservice.v1 import UpdateWorkflowExecutionOptionsRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment

T = TypeVar("T")

_shared = ExitStack()

Skip = Callable[[Client, "list[str]", timedelta], Coroutine[Any, Any, None]]

DYNAMIC = (
    "frontend.WorkflowTimeSkippingEnabled=true",
    'history.timerProcessorMaxTimeShift="1ms"',
    "history.timerProcessorMaxPollRPS=1000",
    "history.transferProcessorMaxPollRPS=1000",
)
"""Skipping time is off by default; and by default a queue looks for work no more than 20 times a second."""


@dataclass(frozen=True)
class Server:
    """``skip``: let the timers of some workflows fire that were started for so long at most. ``stop`` may be early."""

    name: str
    target: str
    skip: Skip
    stop: Callable[[], None]


@contextmanager
def dev_server() -> Iterator[Server]:
    """The real server. Each workflow has a clock of its own, which can be put forward."""
    arguments = [word for value in DYNAMIC for word in ("--dynamic-config-value", value)]
    start = WorkflowEnvironment.start_local(
        dev_server_existing_path=_program("temporal"), dev_server_log_level="error", dev_server_extra_args=arguments
    )
    with _kept(start) as (target, stop):
        yield Server("dev", target, fast_forward, stop)


@cache
def shared_dev_server() -> Server:
    """The one dev server of this test process; ``stop_shared`` ends it."""
    return _shared.enter_context(dev_server())


def stop_shared() -> None:
    """End the shared server, if there is one."""
    _shared.close()


@contextmanager
def skipping_server() -> Iterator[Server]:
    """The test server, with one clock for all."""
    start = WorkflowEnvironment.start_time_skipping(test_server_existing_path=_program("temporal-test-server"))
    with _kept(start) as (target, stop):
        yield Server("skipping", target, _sleep, stop)


async def fast_forward(client: Client, workflow_ids: list[str], by: timedelta) -> None:
    duration = Duration()
    duration.FromTimedelta(by)
    config = TimeSkippingConfig(enabled=True, fast_forward_config=FastForwardConfig(id="rig", duration=duration))
    for workflow_id in workflow_ids:
        request = UpdateWorkflowExecutionOptionsRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=workflow_id),
            workflow_execution_options=WorkflowExecutionOptions(time_skipping_config=config),
            update_mask=FieldMask(paths=["time_skipping_config"]),
        )
        try:
            await client.workflow_service.update_workflow_execution_options(request)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise


async def _sleep(client: Client, _: list[str], by: timedelta) -> None:
    request = SleepRequest()
    request.duration.FromTimedelta(by)
    await client.test_service.unlock_time_skipping_with_sleep(request)


def _program(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    assert found is not None, f"{name} is not installed beside this Python"
    return found


@contextmanager
def _kept(start: Coroutine[Any, Any, WorkflowEnvironment]) -> Iterator[tuple[str, Callable[[], None]]]:
    """A server on an event loop of its own, for tests have one each."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(given: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(given, loop).result(timeout=60)

    environment = run(start)
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            run(environment.shutdown())

    try:
        yield environment.client.service_client.config.target_host, stop
    finally:
        stop()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
