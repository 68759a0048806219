"""What import-linter cannot check: who uses which protocol of a port, and what an import loads at run time."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import afterturn

ROOT = Path(afterturn.__file__).parent
HEAVY = (
    "temporalio",
    "pydantic_ai",
    "openai",
    "anthropic",
    "boto3",
    "botocore",
    "aiobotocore",
    "httpx",
    "fastapi",
    "starlette",
    "uvicorn",
)
"""Libraries that the embedded profile does not need or should not wait for."""

PROTOCOL_USERS = {
    "Writer": {"settle.py"},
    "Stamper": set[str](),
    "StateStore": {"channels", "jobs", "web"},
    "Editor": set[str](),
    "JobQueue": {"channels", "jobs"},
    "Store": {"backbone.py", "bootstrap", "ledger", "reactions"},
    "Publisher": {"bootstrap", "settle.py", "ledger"},
    "Stream": {"backbone.py", "bridge"},
    "Signaler": {"bridge"},
    "Engine": {"backbone.py"},
}
"""The packages that may use each protocol. All others only read, or do not use it at all."""


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has after a statement."""
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "afterturn",
        "afterturn.bootstrap",
        "afterturn.bootstrap.bridge",
        "afterturn.bootstrap.lambda_webhooks",
        "afterturn.settle",
        "afterturn.bridge.bridge",
        "afterturn.inbox",
        "afterturn.ledger.ledger",
        "afterturn.consumers.shipped",
        "afterturn.importers",
        "afterturn.web.access",
        "afterturn.cli.app",
    ],
)
def test_an_import_loads_nothing_that_an_extra_brings(module: str) -> None:
    loaded = loaded_by(f"import {module}")
    assert module in loaded
    assert not {name for name in loaded if name.partition(".")[0] in HEAVY}


def test_importing_afterturn_opens_nothing_and_knows_no_adapter() -> None:
    loaded = loaded_by("import afterturn; afterturn.App, afterturn.Settings, afterturn.Turn")
    assert "afterturn.app" in loaded
    assert not loaded & {
        "sqlite3",
        "afterturn.bootstrap",
        "afterturn.sqlite",
        "afterturn.store.sqlite",
        "afterturn.cli",
    }


def test_the_shipped_consumers_judge_by_rules_without_loading_a_model() -> None:
    register = "from afterturn.consumers.shipped import *; from afterturn.reactions.registry import Registry"
    loaded = loaded_by(f"{register}; register_shipped(Registry(), ShippedOptions())")
    assert "afterturn.consumers.topics" in loaded
    assert "afterturn.consumers.llm" not in loaded


def test_the_function_of_the_bridge_loads_a_temporal_client_and_no_worker() -> None:
    loaded = loaded_by("import afterturn.bootstrap.lambda_bridge")
    assert "temporalio.client" in loaded
    assert not loaded & {
        "temporalio.worker",
        "afterturn.bootstrap.aws",
        "afterturn.bootstrap.embedded",
        "sqlite3",
        "httpx",
    }
    assert "afterturn.store.dynamodb" not in loaded


@pytest.mark.parametrize("protocol", PROTOCOL_USERS)
def test_a_package_uses_no_more_of_a_port_than_it_needs(protocol: str) -> None:
    users = {
        path.relative_to(ROOT).parts[0]
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("afterturn.")
        for name in node.names
        if name.name == protocol
    }
    assert users - {"store", "stream"} == PROTOCOL_USERS[protocol]


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))


def test_no_public_class_name_is_defined_twice() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


PROJECT = Path(__file__).parents[2]


def modules() -> dict[str, Path]:
    """Every Python file of source, benchmarks and tests, by its dotted name."""
    roots = {PROJECT / "src": ("afterturn",), PROJECT: ("bench", "tests")}
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for root, packages in roots.items()
        for package in packages
        for path in (root / package).rglob("*.py")
    }


def imports_when_loaded(body: Iterable[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The import statements that run with the module: not those of functions and of ``if TYPE_CHECKING``."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imports_when_loaded(node.orelse)
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            yield from imports_when_loaded(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt))


def imported_names(node: ast.Import | ast.ImportFrom, module: str, *, is_package: bool) -> Iterator[str]:
    """Dotted names that an import may mean, the longer ones first: a submodule or a name in a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    parents = module.split(".") if is_package else module.split(".")[:-1]
    base = parents[: len(parents) - node.level + 1] if node.level else []
    origin = ".".join([*base, *([node.module] if node.module else [])])
    yield from (f"{origin}.{alias.name}" for alias in node.names)


def test_no_module_of_source_benchmarks_or_tests_is_part_of_an_import_cycle() -> None:
    paths = modules()
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        is_package = path.name == "__init__.py"
        graph[module] = set()
        for node in imports_when_loaded(ast.parse(path.read_text("utf-8")).body):
            for name in imported_names(node, module, is_package=is_package):
                target = name if name in paths else name.rpartition(".")[0]
                if target in paths:
                    graph[module].add(target)
    assert "afterturn.reactions.debounce" in graph["afterturn.reactions.registry"]
    tuple(TopologicalSorter(graph).static_order())  # raises CycleError, which names the cycle
