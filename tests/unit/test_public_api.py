"""What users import stays where it is, documented and typed."""

from __future__ import annotations

import inspect
import re
from importlib import resources
from pathlib import Path

import pytest

import afterturn
from afterturn import errors

EXPORTED = [
    "AfterturnError",
    "App",
    "Attachment",
    "Backbone",
    "Channel",
    "Conversation",
    "ConversationMeta",
    "Direction",
    "FlushMode",
    "InboxPage",
    "InboxQuery",
    "InboxRow",
    "Lane",
    "Message",
    "Profile",
    "ReactionContext",
    "ReplyRequest",
    "Role",
    "Settings",
    "SettleResult",
    "Stamp",
    "Turn",
    "TurnSettled",
    "TurnWindow",
    "Urgency",
    "WorkOrder",
    "all_conversations",
    "open_settler",
    "system_clock",
]

SUBMODULES = {"afterturn.consumers.topics", "afterturn.event", "afterturn.testing", "afterturn.web"}
"""Submodules that a page of the docs describes."""


def test_the_exported_names_are_exactly_these() -> None:
    assert afterturn.__all__ == EXPORTED


@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_name_is_there_and_documented(name: str) -> None:
    exported = getattr(afterturn, name)
    assert inspect.getdoc(exported)
    assert exported.__name__ == name


@pytest.mark.parametrize("name", ["App", "Backbone"])
def test_every_public_method_is_documented_and_typed(name: str) -> None:
    for method, function in inspect.getmembers(getattr(afterturn, name), inspect.isfunction):
        if not method.startswith("_"):
            assert inspect.getdoc(function), method
            assert "return" in inspect.get_annotations(function), method


def test_a_misspelt_keyword_is_a_type_error_for_python_and_for_mypy() -> None:
    """mypy reports an unused ``type: ignore``, so each comment proves that mypy refuses its line."""
    app = afterturn.App()
    with pytest.raises(TypeError, match="bd"):
        app.open(bd="afterturn.db")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="quite"):
        app.consumer("sentiment", quite="90s")  # type: ignore[call-arg]


def test_the_docs_import_from_afterturn_and_documented_submodules_only() -> None:
    root = Path(__file__).parents[2]
    imports = {
        module
        for path in (root / "README.md", *sorted((root / "docs").rglob("*.md")))
        for module in re.findall(r"^\s*(?:from|import) (afterturn[\w.]*)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert imports <= SUBMODULES | {"afterturn"}


def test_the_package_is_marked_as_typed() -> None:
    assert resources.files("afterturn").joinpath("py.typed").is_file()


def test_the_drawn_error_tree_is_the_real_one() -> None:
    """The module's docstring names every error, under the parent that it has, and no other."""
    drawn: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        bare = line.lstrip(" │├└─")
        word = bare.split(" ")[0]
        if not word or not isinstance(getattr(errors, word, None), type):
            continue
        depth = len(line) - len(bare)
        path = [(d, name) for d, name in path if d < depth]
        drawn[word] = path[-1][1] if path else "Exception"
        path.append((depth, word))
    real = {
        name: kind.__mro__[1].__name__
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.AfterturnError)
    }
    assert drawn == real
