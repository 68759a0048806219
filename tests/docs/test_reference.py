"""The reference pages agree with the code: they are generated from it or compared with it."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from tests.docs.reference import PAGES, pages

from afterturn.importers import Format
from afterturn.sqlite import schema

REPOSITORY = PAGES.parents[1]
DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])


@pytest.mark.parametrize("name", pages())
def test_a_generated_page_is_up_to_date(name: str) -> None:
    """If this fails: ``make docs``."""
    assert (PAGES / name).read_text("utf-8") == pages()[name]


def test_the_store_schema_page_names_every_table_and_column() -> None:
    page = (PAGES / "store-schema.md").read_text("utf-8")
    documented: dict[str, set[str]] = {}
    for section in page.split("\n## `")[1:]:
        for table in re.findall(r"`([a-z_]+)`", "`" + section.splitlines()[0]):
            documented[table] = set(re.findall(r"^\| `([a-z_]+)`", section, re.MULTILINE))
    connection = sqlite3.connect(":memory:")
    schema.prepare(connection, ":memory:")
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    real = {
        table: {row[1] for row in connection.execute(f"PRAGMA table_info({table})")} for (table,) in tables.fetchall()
    }
    connection.close()
    assert documented == real


def test_the_formats_page_names_every_format() -> None:
    page = (PAGES / "import-formats.md").read_text("utf-8")
    assert set(re.findall(r"^## .*`([a-z]+)`", page, re.MULTILINE)) == {format.value for format in Format}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_link_has_a_target(document: Path) -> None:
    text = document.read_text("utf-8")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in target:
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_every_page_is_reachable_from_the_readme() -> None:
    seen: set[Path] = set()
    ahead = [REPOSITORY / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in seen or page.suffix != ".md" or not page.is_file():
            continue
        seen.add(page)
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
            if "://" not in target:
                ahead.append((page.parent / target).resolve())
    assert set(DOCUMENTS) <= seen


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_every_path_that_a_contributor_is_sent_to_exists(document: str) -> None:
    """Paths in backticks; those of the architecture page are relative to the package."""
    text = re.sub(r"^```.*?^```$", "", (REPOSITORY / document).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    paths = re.findall(r"`([\w.-]+(?:/[\w.-]*)+|\w+\.(?:py|toml|md))`", text)
    assert paths
    for path in paths:
        assert any((base / path).exists() for base in (REPOSITORY, REPOSITORY / "src/afterturn")), path
