"""What a function needs of others, installed for Lambda's machines, in the versions that are installed here."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, distributions, requires
from pathlib import Path

from afterturn.errors import ConfigError
from afterturn.operations.deploy.functions import Part

EXTRAS = {Part.BRIDGE: frozenset({"aws", "temporal"}), Part.FUNNEL: frozenset({"aws"})}
COMMAND_ONLY = frozenset({"rich", "typer"})
"""What only the command needs."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_MACHINES = {"x86_64": "x86_64", "arm64": "aarch64"}


def install(part: Part, folder: Path, *, runtime: str, architecture: str, requirements: Sequence[Path] = ()) -> None:
    """Everything into a folder, by pip. Raises ConfigError with pip's last words where it cannot."""
    needed = needs(part, _requirements())
    with tempfile.TemporaryDirectory() as apart:
        constraints = Path(apart, "constraints.txt")
        constraints.write_text("\n".join(pins((one.name, one.version) for one in distributions())) + "\n")
        words = command(folder, needed, requirements, constraints, runtime=runtime, architecture=architecture)
        done = subprocess.run(
            [sys.executable, "-m", "pip", *words],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    if done.returncode:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise ConfigError(
            f"pip could not install what the function needs, for {runtime} on {architecture}; nothing was changed. "
            f"Make the zip elsewhere and give it with --zip FILE, or mend this:\n{said}"
        )


def needs(part: Part, requirements: Iterable[str]) -> list[str]:
    """Of afterturn's own requirements, as its metadata tells them, those of a function."""
    found = []
    for one in requirements:
        text, _, marker = one.partition(";")
        extra = _EXTRA.search(marker)
        name = _NAME.match(text)
        if name and name[0].lower() not in COMMAND_ONLY and (extra is None or extra[1] in EXTRAS[part]):
            found.append(text.strip())
    return sorted(found)


def pins(installed: Iterable[tuple[str | None, str]]) -> list[str]:
    """The versions that are installed here, as constraints; but for builds that no index has."""
    return sorted(
        {
            f"{name}=={version}"
            for name, version in installed
            if name and name.lower() != "afterturn" and "+" not in version
        }
    )


def command(
    folder: Path,
    needed: Sequence[str],
    requirements: Sequence[Path],
    constraints: Path,
    *,
    runtime: str,
    architecture: str,
) -> list[str]:
    """The words for pip: built packages only, of machines as old as Lambda's or older."""
    machine = _MACHINES[architecture]
    platforms = [f"manylinux2014_{machine}", f"manylinux_2_17_{machine}"]
    if runtime != "python3.11":  # which is the last one on Amazon Linux 2
        platforms.append(f"manylinux_2_28_{machine}")
    words = ["install", "--quiet", "--no-input", "--disable-pip-version-check", "--no-compile", "--target", str(folder)]
    words += ["--only-binary=:all:", "--implementation", "cp", "--python-version", runtime.removeprefix("python")]
    words += [word for platform in platforms for word in ("--platform", platform)]
    words += ["--constraint", str(constraints)]
    words += [word for path in requirements for word in ("--requirement", str(path))]
    return [*words, *needed]


def _requirements() -> list[str]:
    try:
        return requires("afterturn") or []
    except PackageNotFoundError:
        raise ConfigError(
            "afterturn is not installed here, so what it needs is not known: pip install 'afterturn[aws]', or give a "
            "zip with --zip FILE"
        ) from None
