"""The AWS emulator of the local profile: ministack, in a virtual environment of its own, started and stopped here.

It pins one exact botocore, so it cannot share an environment with aiobotocore. It is for development and tests: what
it holds is gone when it stops, unless it is given a folder to keep it in.
"""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from afterturn.errors import ConfigError
from afterturn.local import HOST, free_port, is_free

VERSION = "1.5.33"
_READY_WITHIN = 30.0
_STOP_WITHIN = 10.0

_RUN = """
import os, signal, sys, threading
def stop_with_parent():
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=stop_with_parent, daemon=True).start()
sys.argv = ["ministack"]
from ministack.app import main
main()
"""
"""Its standard input is a pipe from us that carries nothing: it closes when we end, however we end."""


def default_folder() -> Path:
    """Where the emulator is installed for this user."""
    home = Path.home()
    if sys.platform == "darwin":
        cache = home / "Library" / "Caches"
    elif sys.platform == "win32":
        cache = Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return cache / "afterturn" / f"ministack-{VERSION}"


def install(folder: Path, constraints: Sequence[Path] = ()) -> Path:
    """Its Python interpreter; the environment is made on first use, and whole or not at all.

    ``constraints``: pip constraint files. Raises ConfigError with pip's words where it cannot be installed.
    """
    python = _python_of(folder)
    if (folder / f"ministack-{VERSION}").exists():
        return python
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _run([sys.executable, "-m", "venv", str(making)], "make a virtual environment")
        options = [word for path in constraints for word in ("--constraint", str(path))]
        pip = [str(_python_of(making)), "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", "install"]
        _run([*pip, *options, f"ministack=={VERSION}"], "install it with pip")
        (making / f"ministack-{VERSION}").touch()
        if folder.exists() and not (folder / f"ministack-{VERSION}").exists():
            shutil.rmtree(folder)
        with suppress(OSError):  # somebody else was faster; theirs is as good
            making.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return python


@contextmanager
def running(
    python: Path,
    *,
    port: int | None = None,
    keep_in: Path | None = None,
    log: Path | None = None,
    hold: IO[bytes] | None = None,
) -> Iterator[str]:
    """The endpoint of an emulator that runs while the block does, on this machine's own address only.

    ``port``: a free one is taken where none is given. ``keep_in``: a folder for its state, which is then there again at
    the next start. ``log``: where its output goes. ``hold``: a file that it keeps open as long as it lives. Raises
    ConfigError where it does not come up.
    """
    if port is not None and not is_free(port):
        raise ConfigError(f"port {port} is in use; stop what listens there, or choose another port for the emulator")
    process, endpoint = _start(python, port, keep_in, log, hold)
    try:
        yield endpoint
    finally:
        _stop(process)


def _start(
    python: Path, port: int | None, keep_in: Path | None, log: Path | None, hold: IO[bytes] | None
) -> tuple[subprocess.Popen[bytes], str]:
    for _ in range(1 if port else 5):  # a port that was free may be taken by the time we get there
        chosen = port or free_port()
        with open(log or os.devnull, "ab") as output:
            process = subprocess.Popen(
                [str(python), "-c", _RUN],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=_environment(chosen, keep_in),
                pass_fds=[hold.fileno()] if hold else [],
                start_new_session=True,  # Ctrl-C is for us: we stop it when our work is done
            )
        try:
            if _becomes_ready(process, chosen):
                return process, f"http://{HOST}:{chosen}"
        except BaseException:
            _stop(process)
            raise
        _stop(process)
    words = f"; its last words are in {log}" if log else ""
    raise ConfigError(
        f"the AWS emulator (ministack {VERSION}) did not start{words}; remove {python.parent.parent} and "
        "try again to have it installed anew"
    )


def _environment(port: int, keep_in: Path | None) -> dict[str, str]:
    """Bound to this machine (its default is every address), without the listeners that nobody asked for."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON", "MINISTACK_"))}
    return {
        **kept,
        "BIND_HOST": HOST,
        "GATEWAY_PORT": str(port),
        "MINISTACK_HOST": HOST,
        "LAMBDA_EXECUTOR": "local",
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
        "PERSIST_STATE": "1" if keep_in else "0",
        **({"STATE_DIR": str(keep_in)} if keep_in else {}),
    }


def _becomes_ready(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + _READY_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        connection = http.client.HTTPConnection(HOST, port, timeout=2)
        try:
            connection.request("GET", "/_ministack/health")
            if connection.getresponse().status == http.client.OK:
                return process.poll() is None
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.03)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin:
        process.stdin.close()
    process.terminate()
    try:
        process.wait(_STOP_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        words = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise ConfigError(
            f"the AWS emulator (ministack {VERSION}) is needed for the local profile, but could not {what}; "
            f"check that this machine reaches its package index, and try again:\n{words}"
        )


def _python_of(folder: Path) -> Path:
    return folder / "Scripts" / "python.exe" if sys.platform == "win32" else folder / "bin" / "python"


def main() -> None:
    """Install into the folder given as the first argument, under the constraint files given as the others."""
    folder, *constraints = map(Path, sys.argv[1:])
    try:
        install(folder.absolute(), constraints)
    except ConfigError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
