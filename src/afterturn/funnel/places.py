"""Where in a user's own code something went wrong: a file and a line, which hold nothing of what was said."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

_FOREIGN = tuple(
    f"{Path(folder).resolve()}/"
    for folder in {
        str(Path(__file__).parents[1]),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)


def place_of(error: BaseException) -> str | None:
    """``/srv/my_agent.py:12``: the innermost line that is neither ours nor a library's; None where there is none."""
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [f"{file}:{line}" for file, line in lines if not file.startswith(("<", *_FOREIGN))]
    return own[-1] if own else None
