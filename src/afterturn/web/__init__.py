"""The API and the pages of an open backbone: :func:`make_app` and :class:`AccessControl`. No adapter is imported.

``make_app`` is loaded when it is first used: it needs the ``web`` extra, which tokens and settings do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from afterturn.web.access import AccessControl

if TYPE_CHECKING:
    from afterturn.web.app import make_app

__all__ = ["AccessControl", "make_app"]


def __getattr__(name: str) -> Any:
    if name != "make_app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from afterturn.web.app import make_app  # noqa: PLC0415

    return make_app
