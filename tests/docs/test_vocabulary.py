"""One concept has one name: replaced terms appear in no text that users read and in no name of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.reference import pages

import afterturn

SOURCE = Path(afterturn.__file__).parent
REPOSITORY = Path(__file__).parents[2]
DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
WEB = sorted(path for folder in ("templates", "static") for path in (SOURCE / "web" / folder).glob("*.*"))
TEXTS = [
    *(path for path in DOCUMENTS if path.name != "CHANGELOG.md"),  # the changelog names what was renamed
    *(path for path in WEB if path.suffix in {".html", ".js", ".css"}),
]

REPLACED = {
    r"funnels?": "channels, webhooks",
    r"doors": "webhook endpoints",
    r"hush(ed|es)?": "suppression",
    r"chores?": "job",
    r"upkeep": "subscriptions",
    r"arrivals": "channel events, new messages",
    r"rehous\w+": "regroup",
    r"bur(y|ies|ied|ying)": "dead-letter",
    r"put(s|ting)? off": "postpone, retry later",
    r"amend(s|ed|ing|ments?)?": "change, patch",
    r"strangers?('s)?": "untrusted sender, unknown consumer",
    r"wires": "settings, event sources",
    r"look(s|ed|ing)? through": "poll, read",
    r"manners": "tone",
    r"(leave|leaves|left|leaving|in) the house": "outbound, outside the store",
    r"by (itself|themselves)": "automatically",
    r"(where )?nothing is said": "default",
    r"whoever": "a subject: the caller, a person",
}
"""Words and phrases that were replaced, and what to write."""

NAMES = re.compile(
    r"amend(ed|ing|ment)?|bur(y|ied)|carrying|chores?|dispatching|doors?|funnels?|hush(ed)?|keeper|looking|manners|noting"
    r"|parked|placing|probing|rehouse|strangers?|tidying|upkeep|wires|wish|wording"
)
"""Parts of names in the code that were replaced."""


def replaced(text: str) -> list[str]:
    """Each replaced word in a text, with the line it is on and what to write."""
    return [
        f"line {text[: match.start()].count(chr(10)) + 1}: {match[0]!r}: write {better}"
        for pattern, better in REPLACED.items()
        for match in re.finditer(r"\b(?:" + pattern.replace(" ", r"\s+") + r")\b", text, re.IGNORECASE)
    ]


def words(name: str) -> set[str]:
    """The words of a name: ``WebhookRouter`` and ``webhook_router`` have two."""
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))


def names(tree: ast.AST) -> Iterator[str]:
    """Every class, function, parameter, attribute and constant that a module defines, and its log actions."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.Call(args=[ast.Constant(value=str(action)), *_]) if re.fullmatch(r"[a-z]+(_[a-z]+)+", action):
                yield action


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_documents_and_pages_use_the_glossarys_terms(path: Path) -> None:
    assert replaced(path.read_text("utf-8")) == []


@pytest.mark.parametrize("page", ["cli.md", "settings.md", "errors-and-exit-codes.md"])
def test_help_texts_use_the_glossarys_terms(page: str) -> None:
    assert replaced(pages()[page]) == []


def test_no_name_in_the_code_uses_a_replaced_term() -> None:
    wrong = {
        f"{path.relative_to(SOURCE)}: {name}"
        for path in SOURCE.rglob("*.py")
        for name in [*path.relative_to(SOURCE).with_suffix("").parts, *names(ast.parse(path.read_text("utf-8")))]
        if any(NAMES.fullmatch(word) for word in words(name))
    }
    assert sorted(wrong) == []


def test_a_replaced_word_is_found() -> None:
    assert replaced("Every job.\nA chore is put\noff.") == [
        "line 2: 'chore': write job",
        "line 2: 'put\\noff': write postpone, retry later",
    ]
    assert words("WebhookRouter") == words("webhook_router") == {"webhook", "router"}
    assert {"f", "door_of", "door_opened"} <= set(names(ast.parse("def f(door_of): log('door_opened')")))
