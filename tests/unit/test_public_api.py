"""What users import stays where it is, documented and typed."""

from __future__ import annotations

import inspect
from importlib import resources

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
    "Message",
    "ReactionContext",
    "Role",
    "Settings",
    "Stamp",
    "Turn",
    "TurnSettled",
    "TurnWindow",
    "WorkOrder",
]


def test_the_exported_names_are_exactly_these() -> None:
    assert afterturn.__all__ == EXPORTED


@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_name_is_there_and_documented(name: str) -> None:
    exported = getattr(afterturn, name)
    assert inspect.isclass(exported)
    doc = inspect.getdoc(exported)
    assert doc
    assert exported.__name__ == name


@pytest.mark.parametrize("name", ["App", "Backbone"])
def test_every_public_method_is_documented_and_typed(name: str) -> None:
    for method, function in inspect.getmembers(getattr(afterturn, name), inspect.isfunction):
        if not method.startswith("_"):
            assert inspect.getdoc(function), method
            assert "return" in inspect.get_annotations(function), method


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
