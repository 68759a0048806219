"""The zip of a function, with its dependencies for Lambda's machines.

The same content gives the same bytes, so nothing unchanged is published again.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution, distributions, requires, version
from pathlib import Path, PurePosixPath

from afterturn.errors import ConfigError, InvalidInput, MissingExtra

DIRECT_BYTES = 50_000_000
"""The most that Lambda takes in one call. S3 takes more."""

UNZIPPED_BYTES = 250 * 1024 * 1024
"""The most that Lambda unpacks."""

SERVICES = frozenset({"dynamodb", "sqs", "sts"})
"""Of the driver's four hundred service models, those that a function of ours opens clients with."""

HANDLER_MODULE = "index.py"
"""The module that Lambda imports: CloudFormation gives this name to a function's first, inline code."""

_NEW_YEAR = (1980, 1, 1, 0, 0, 0)
_MODE = (stat.S_IFREG | 0o644) << 16
_LEFT_OUT = (".pyc", ".pyi", ".pyo")
_INSTALLERS = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})
"""How a package came here: it differs from machine to machine, and nothing reads it."""


EXTRAS = {"bridge": frozenset({"aws", "temporal"}), "webhooks": frozenset({"aws"})}
OF_CHANNELS = frozenset({"channels"})
"""The webhooks need it too if a channel is set: to parse mail and to verify its sender."""
COMMAND_ONLY = frozenset({"rich", "typer"})
"""Only the command needs them."""
UNBUILT = frozenset({"quotequail"})
"""Pure Python that indexes have only as source, and pip builds nothing for another machine: copied from here."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
RUNTIMES = ("python3.11", "python3.12", "python3.13", "python3.14")
_MACHINES = {"x86_64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True, slots=True)
class Package:
    """``files``: the names in it. ``unzipped``: bytes."""

    data: bytes = field(repr=False)
    files: frozenset[str] = field(repr=False)
    unzipped: int

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def sha256(self) -> str:
        """As Lambda tells it."""
        return base64.b64encode(hashlib.sha256(self.data).digest()).decode()

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def has_module(self, name: str) -> bool:
        """Whether a module or package of this name could be imported from it."""
        return _has_module(self.files, name)


def build(part: str, site: Path, included: Sequence[Path] = (), services: Iterable[str] = ()) -> Package:
    """Build the zip of a function: afterturn as it is installed here, with other packages and files.

    Args:
        part: ``bridge`` or ``webhooks``.
        site: A folder of installed packages, see :func:`install`.
        included: Further files and folders, for the root of the zip.
        services: AWS services that the app uses itself.

    Raises:
        InvalidInput: A file is missing, or its name is taken.
    """
    kept = SERVICES | set(services)
    contents: dict[str, Path | bytes] = {}
    for name, path in _files(site):
        if _is_needed(PurePosixPath(name), kept):
            contents[name] = path
    ours = Path(__file__).parents[1]
    contents |= {f"afterturn/{name}": path for name, path in _files(ours)}
    contents |= _metadata()
    contents[HANDLER_MODULE] = f"from afterturn.bootstrap.lambda_{part} import handler\n".encode()
    for root in included:
        for name, path in _included(root):
            if name in contents:
                raise InvalidInput(f"--include {root}: {name} is in the zip already")
            contents[name] = path
    return _pack(contents)


def check_included(included: Iterable[Path]) -> frozenset[str]:
    """The names that what is included has in the zip. Raises InvalidInput for what is missing, or there twice."""
    names: set[str] = set()
    for root in included:
        for name, _ in _included(root):
            if name in names:
                raise InvalidInput(f"--include {root}: {name} is in the zip already")
            names.add(name)
    return frozenset(names)


def read(path: Path) -> Package:
    """A zip that somebody else made. Raises InvalidInput for one that is none, or has no function of afterturn."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"--zip {path}: {error.strerror}") from error
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    except zipfile.BadZipFile as error:
        raise InvalidInput(f"--zip {path}: it is no zip file") from error
    package = Package(data, frozenset(entry.filename for entry in entries), sum(entry.file_size for entry in entries))
    for name in ("afterturn", "index"):
        if not package.has_module(name):
            raise InvalidInput(f"--zip {path}: it has no {name} at its root; `afterturn aws deploy --out` makes one")
    return package


def check_target(out: Path) -> None:
    """Raise InvalidInput if a zip cannot be written there."""
    if not out.parent.is_dir():
        raise InvalidInput(f"--out {out}: there is no folder {out.parent}")
    if out.is_dir():
        raise InvalidInput(f"--out {out}: is a folder; name a file in it")


def check_machine(runtime: str, architecture: str) -> None:
    """Raise InvalidInput for a runtime or architecture that is not supported."""
    if runtime not in RUNTIMES:
        raise InvalidInput(f"--runtime {runtime}: there are {', '.join(RUNTIMES)}")
    if architecture not in _MACHINES:
        raise InvalidInput(f"--architecture {architecture}: there are {', '.join(_MACHINES)}")


def check_size(package: Package, *, through_s3: bool) -> None:
    """Raise InvalidInput for more than Lambda takes."""
    if package.unzipped > UNZIPPED_BYTES:
        raise InvalidInput(
            f"the zip unpacks to {package.unzipped / 1e6:.0f} MB, and Lambda takes {UNZIPPED_BYTES / 1e6:.0f} MB: "
            "include less, or ask for fewer requirements"
        )
    if package.size > DIRECT_BYTES and not through_s3:
        raise InvalidInput(
            f"the zip has {package.size / 1e6:.0f} MB, and Lambda takes {DIRECT_BYTES / 1e6:.0f} MB directly: "
            "--bucket NAME sends it through S3"
        )


def check_app(files: Collection[str], app: str | None) -> None:
    """Raise InvalidInput where the module of the app is not among the files of the zip, or where it names none."""
    if app is None:
        return
    module, colon, attribute = app.partition(":")
    if not (module and colon and attribute):
        raise InvalidInput(f"app {app}: has to be module:attribute, such as reactions:app")
    if not _has_module(files, module):
        raise InvalidInput(
            f"app {app}: its module is not in the zip; --include PATH takes a file or a folder in, and "
            "--requirements FILE what is to be installed"
        )


def _has_module(files: Collection[str], name: str) -> bool:
    top = name.partition(".")[0]
    return f"{top}.py" in files or any(file.startswith(f"{top}/") for file in files)


def _is_needed(name: PurePosixPath, services: frozenset[str]) -> bool:
    top = name.parts[0]
    if top == "bin" or top.endswith("-stubs"):
        return False
    if top.endswith(".dist-info") and name.name in _INSTALLERS:
        return False
    if name.parts[:2] == ("botocore", "data") and len(name.parts) > 3:
        return name.parts[2] in services
    return name.parts[:3] != ("temporalio", "bridge", "sdk-core")  # the sources of its compiled half


def _included(root: Path) -> Iterator[tuple[str, Path]]:
    """A file under its name, a folder under its own. Hidden files stay out: they hold secrets, or histories."""
    if root.is_dir():
        top = root.resolve().name
        for name, path in _files(root):
            if not any(part.startswith(".") for part in PurePosixPath(name).parts):
                yield f"{top}/{name}", path
    elif root.is_file():
        yield root.name, root
    else:
        raise InvalidInput(f"--include {root}: there is no such file or folder")


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if path.is_file() and path.suffix not in _LEFT_OUT and "__pycache__" not in name.parts:
            yield name.as_posix(), path


def _metadata() -> Mapping[str, bytes]:
    """So that the function can tell which release it is."""
    try:
        release = version("afterturn")
    except PackageNotFoundError:
        return {}
    text = f"Metadata-Version: 2.1\nName: afterturn\nVersion: {release}\n"
    return {f"afterturn-{release}.dist-info/METADATA": text.encode()}


def _pack(contents: Mapping[str, Path | bytes]) -> Package:
    buffer = io.BytesIO()
    unzipped = 0
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(contents):
            source = contents[name]
            data = source if isinstance(source, bytes) else source.read_bytes()
            entry = zipfile.ZipInfo(name, _NEW_YEAR)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, wherever it is made: the mode counts there
            entry.external_attr = _MODE
            archive.writestr(entry, data)
            unzipped += len(data)
    return Package(buffer.getvalue(), frozenset(contents), unzipped)


def install(
    part: str,
    folder: Path,
    *,
    runtime: str,
    architecture: str,
    requirements: Sequence[Path] = (),
    channels: bool = False,
) -> None:
    """Install the dependencies of a function into a folder. Raises ConfigError with pip's last lines."""
    whole = needs(part, _requirements(), channels=channels)
    copied = sorted(UNBUILT & {_name_of(requirement) for requirement in whole})
    needed = [requirement for requirement in whole if _name_of(requirement) not in copied]
    for name in copied:
        needed += _copy(name, folder)
    with tempfile.TemporaryDirectory() as apart:
        constraints = Path(apart, "constraints.txt")
        constraints.write_text("\n".join(pins((dist.name, dist.version) for dist in distributions())) + "\n")
        words = command(folder, needed, requirements, constraints, runtime=runtime, architecture=architecture)
        done = subprocess.run(
            [sys.executable, "-m", "pip", *words],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    if done.returncode:
        output = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise ConfigError(
            f"pip could not install what the function needs, for {runtime} on {architecture}; nothing was changed. "
            f"Make the zip elsewhere and give it with --zip FILE, or mend this:\n{output}"
        )


def _copy(name: str, folder: Path) -> list[str]:
    """Lay a package that is installed here into a folder; returns what it requires. Raises MissingExtra."""
    try:
        installed = distribution(name)
    except PackageNotFoundError:
        raise MissingExtra(
            f"{name} is not installed here, and the webhook function needs it: pip install 'afterturn[aws,channels]'"
        ) from None
    for file in installed.files or ():
        if file.suffix == ".py" or file.name == "METADATA":
            to = folder / file
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), to)
    return [each.partition(";")[0].strip() for each in installed.requires or () if "extra ==" not in each]


def _name_of(requirement: str) -> str:
    match = _NAME.match(requirement)
    return match[0].lower() if match else ""


def needs(part: str, requirements: Iterable[str], *, channels: bool = False) -> list[str]:
    """Of afterturn's own requirements, as its metadata tells them, those of a function."""
    chosen, extras = [], EXTRAS[part] | (OF_CHANNELS if channels and part == "webhooks" else frozenset())
    for requirement in requirements:
        text, _, marker = requirement.partition(";")
        extra = _EXTRA.search(marker)
        name = _name_of(text)
        if name and name not in COMMAND_ONLY and (extra is None or extra[1] in extras):
            chosen.append(text.strip())
    return sorted(chosen)


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
