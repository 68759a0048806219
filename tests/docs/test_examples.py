"""The examples in the documentation work and print what the documentation shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.examples import Example, examples, run

REPOSITORY = Path(__file__).parents[2]
DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
RUN = ("python", "console", "toml", "json", "jsonl")
WITH_EXAMPLES = [document for document in DOCUMENTS if any(example.language in RUN for example in examples(document))]
NOT_RUN = re.compile(r"(make|pip|git|systemctl|journalctl|export|afterturn( --app \S+)? (up|serve)|afterturn aws)\b")


@pytest.mark.parametrize("document", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_the_examples_of_a_document_work(document: Path, tmp_path: Path) -> None:
    for example in examples(document):
        try:
            run(example, tmp_path)
        except AssertionError as error:
            raise AssertionError(f"{document.name}:{example.line}: {error}") from None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_only_commands_that_cannot_run_in_a_test_are_not_run(document: Path) -> None:
    for example in examples(document):
        if example.language == "sh":
            for line in example.body.splitlines():
                assert NOT_RUN.match(line), f"{document.name}:{example.line}: {line!r} belongs in a console block"


def test_an_example_with_different_output_fails(tmp_path: Path) -> None:
    run(Example("console", "$ echo one; echo two; echo three\none\nt…e\n", 1), tmp_path)
    for wrong in ("$ echo one\ntwo\n", "$ echo one; echo two\ntwo\none\n", "$ false\n"):
        with pytest.raises(AssertionError):
            run(Example("console", wrong, 1), tmp_path)
    with pytest.raises(AssertionError):
        run(Example("python", "raise SystemExit(1)\n", 1), tmp_path)
