"""The zip of a function. The same content gives the same bytes, so nothing that is unchanged is published again."""

from __future__ import annotations

import base64
import hashlib
import io
import stat
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath

from afterturn.errors import InvalidInput

DIRECT_BYTES = 50_000_000
"""The most that Lambda takes in one call. S3 takes more."""

UNZIPPED_BYTES = 250 * 1024 * 1024
"""The most that Lambda unpacks."""

SERVICES = frozenset({"dynamodb", "sqs", "sts"})
"""Of the driver's four hundred service models, those that a function of ours opens clients with."""

_NEW_YEAR = (1980, 1, 1, 0, 0, 0)
_MODE = (stat.S_IFREG | 0o644) << 16
_LEFT_OUT = (".pyc", ".pyi", ".pyo")
_INSTALLERS = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})
"""How a package came here: it differs from machine to machine, and nothing reads it."""


@dataclass(frozen=True, slots=True)
class Archive:
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


def build(site: Path, included: Sequence[Path] = (), services: Iterable[str] = ()) -> Archive:
    """afterturn as it is installed here, with the packages in ``site`` and what is ``included``: files and folders.

    ``services``: of AWS, that the app opens clients of itself. Raises InvalidInput for what is missing, or there twice.
    """
    kept = SERVICES | set(services)
    contents: dict[str, Path | bytes] = {}
    for name, path in _files(site):
        if _is_needed(PurePosixPath(name), kept):
            contents[name] = path
    ours = Path(__file__).parents[2]
    contents |= {f"afterturn/{name}": path for name, path in _files(ours)}
    contents |= _metadata()
    for given in included:
        for name, path in _included(given):
            if name in contents:
                raise InvalidInput(f"--include {given}: {name} is in the zip already")
            contents[name] = path
    return _pack(contents)


def check_included(included: Iterable[Path]) -> frozenset[str]:
    """The names that what is included has in the zip. Raises InvalidInput for what is missing, or there twice."""
    names: set[str] = set()
    for given in included:
        for name, _ in _included(given):
            if name in names:
                raise InvalidInput(f"--include {given}: {name} is in the zip already")
            names.add(name)
    return frozenset(names)


def read(path: Path) -> Archive:
    """A zip that somebody else made. Raises InvalidInput for one that is none, or has no function of afterturn."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"--zip {path}: {error.strerror}") from error
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [one for one in archive.infolist() if not one.is_dir()]
    except zipfile.BadZipFile as error:
        raise InvalidInput(f"--zip {path}: it is no zip file") from error
    found = Archive(data, frozenset(one.filename for one in entries), sum(one.file_size for one in entries))
    if not found.has_module("afterturn"):
        raise InvalidInput(f"--zip {path}: it does not hold afterturn at its root")
    return found


def check_size(archive: Archive, *, through_s3: bool) -> None:
    """Raise InvalidInput for more than Lambda takes."""
    if archive.unzipped > UNZIPPED_BYTES:
        raise InvalidInput(
            f"the zip unpacks to {archive.unzipped / 1e6:.0f} MB, and Lambda takes {UNZIPPED_BYTES / 1e6:.0f} MB: "
            "include less, or ask for fewer requirements"
        )
    if archive.size > DIRECT_BYTES and not through_s3:
        raise InvalidInput(
            f"the zip has {archive.size / 1e6:.0f} MB, and Lambda takes {DIRECT_BYTES / 1e6:.0f} MB directly: "
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


def _included(given: Path) -> Iterator[tuple[str, Path]]:
    """A file under its name, a folder under its own. Hidden files stay out: they hold secrets, or histories."""
    if given.is_dir():
        top = given.resolve().name
        for name, path in _files(given):
            if not any(part.startswith(".") for part in PurePosixPath(name).parts):
                yield f"{top}/{name}", path
    elif given.is_file():
        yield given.name, given
    else:
        raise InvalidInput(f"--include {given}: there is no such file or folder")


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


def _pack(contents: Mapping[str, Path | bytes]) -> Archive:
    buffer = io.BytesIO()
    unzipped = 0
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(contents):
            given = contents[name]
            data = given if isinstance(given, bytes) else given.read_bytes()
            entry = zipfile.ZipInfo(name, _NEW_YEAR)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, wherever it is made: the mode counts there
            entry.external_attr = _MODE
            archive.writestr(entry, data)
            unzipped += len(data)
    return Archive(buffer.getvalue(), frozenset(contents), unzipped)
