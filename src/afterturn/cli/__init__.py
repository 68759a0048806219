"""The ``afterturn`` command."""

from __future__ import annotations

import contextlib
import io
import os
import sys


def main() -> None:
    """Run the command of ``sys.argv`` and exit; the exit codes are those of :mod:`afterturn.cli.exits`."""
    try:
        # Here, so that Ctrl-C while everything is still being imported is no traceback either.
        from afterturn.cli.app import app  # noqa: PLC0415
        from afterturn.cli.exits import Exit  # noqa: PLC0415
    except KeyboardInterrupt:
        sys.exit(130)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # An argument or a path can hold what the terminal's encoding cannot show.
            stream.reconfigure(errors="backslashreplace")
    code: object = Exit.OK
    try:
        app(prog_name="afterturn")
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    try:
        sys.stdout.flush()
    except OSError as error:
        with contextlib.suppress(OSError):
            # Or the interpreter would try, and complain, once more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            code = Exit.CLOSED
        else:
            print(f"error: the output cannot be written: {error.strerror}", file=sys.stderr)
            code = code or Exit.FAILED
    try:
        sys.stderr.flush()
    except OSError:  # nobody reads it any more; the interpreter would end with 120 for what is left in the buffer
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    sys.exit(code if isinstance(code, int) else Exit.FAILED)
