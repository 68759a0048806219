"""What a function needs of others, installed for Lambda's machines, in the versions that are installed here."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, distribution, distributions, requires
from pathlib import Path

from afterturn.errors import ConfigError, MissingExtra
from afterturn.operations.deploy.functions import Part

EXTRAS = {Part.BRIDGE: frozenset({"aws", "temporal"}), Part.WEBHOOKS: frozenset({"aws"})}
OF_CHANNELS = frozenset({"channels"})
"""What a webhook function has besides, where a channel is set: it reads mail, and checks who sent it."""
COMMAND_ONLY = frozenset({"rich", "typer"})
"""What only the command needs."""
UNBUILT = frozenset({"quotequail"})
"""Plain Python of which indexes have the source alone, and pip builds none for another machine: copied from here."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_MACHINES = {"x86_64": "x86_64", "arm64": "aarch64"}


def install(
    part: Part,
    folder: Path,
    *,
    runtime: str,
    architecture: str,
    requirements: Sequence[Path] = (),
    channels: bool = False,
) -> None:
    """Everything into a folder, by pip. Raises ConfigError with pip's last words where it cannot."""
    whole = needs(part, _requirements(), channels=channels)
    copied = sorted(UNBUILT & {_name_of(one) for one in whole})
    needed = [one for one in whole if _name_of(one) not in copied]
    for name in copied:
        needed += _copy(name, folder)
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


def _copy(name: str, folder: Path) -> list[str]:
    """Lay a package that is installed here into a folder; returns what it requires. Raises MissingExtra."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        raise MissingExtra(
            f"{name} is not installed here, and the webhook function needs it: pip install 'afterturn[aws,channels]'"
        ) from None
    for file in found.files or ():
        if file.suffix == ".py" or file.name == "METADATA":
            to = folder / file
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), to)
    return [one.partition(";")[0].strip() for one in found.requires or () if "extra ==" not in one]


def _name_of(requirement: str) -> str:
    found = _NAME.match(requirement)
    return found[0].lower() if found else ""


def needs(part: Part, requirements: Iterable[str], *, channels: bool = False) -> list[str]:
    """Of afterturn's own requirements, as its metadata tells them, those of a function."""
    found, extras = [], EXTRAS[part] | (OF_CHANNELS if channels and part is Part.WEBHOOKS else frozenset())
    for one in requirements:
        text, _, marker = one.partition(";")
        extra = _EXTRA.search(marker)
        name = _name_of(text)
        if name and name not in COMMAND_ONLY and (extra is None or extra[1] in extras):
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
