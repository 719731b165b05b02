"""What workers on other machines get: one archive with the connector's code and the deployment's files.

It is named after its content. Spark hands it to every executor and unpacks it there once, in its
own work directory, which ends with the application. Packages of others are not shipped: they must
be installed where the workers run (:mod:`connector.spark.probe` says what is missing where).
"""

from __future__ import annotations

import hashlib
import importlib.util
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from connector.errors import PipelineError

CODE = "code"
DEPLOYMENT = "deployment"
_PACKAGES = ("connector", "datahandlers")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # equal content makes an equal archive


def code_directory() -> Path:
    """The directory that the running connector was imported from, the one above the package."""
    return Path(__file__).resolve().parents[2]


def default_ship(deployment: Path) -> list[Path]:
    """What is shipped unless configured: ``*.py`` and ``datahandlers/`` beside adapter.yaml."""
    found = sorted(path for path in deployment.glob("*.py") if path.is_file())
    plug_ins = deployment / "datahandlers"
    return [*found, plug_ins] if plug_ins.is_dir() else found


def build_archive(into: Path, deployment: Path, ship: Sequence[Path]) -> Path:
    """Writes the archive and returns its path, ``<into>/connector-<hash>.zip``.

    Args:
        into: directory to write it to.
        deployment: the directory of adapter.yaml; files keep their place below it.
        ship: files and directories. One outside of ``deployment`` comes to lie directly in it.

    Raises:
        PipelineError: a path is missing or unreadable, or two would get the same place.
    """
    members: dict[str, Path] = {}
    for package in _PACKAGES:
        for directory in _package_directories(package):
            _add(members, f"{CODE}/{package}", directory)
    deployment = deployment.resolve()
    for path in ship:
        source = (deployment / path).resolve()
        place = source.relative_to(deployment) if source.is_relative_to(deployment) else Path(source.name)
        _add(members, f"{DEPLOYMENT}/{place}", source)
    try:
        contents = {name: path.read_bytes() for name, path in sorted(members.items())}
    except OSError as error:
        raise PipelineError(f"cannot ship {error.filename} to the workers: {error.strerror}") from error
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(f"{len(name)} {len(content)} {name}".encode("utf-8", "surrogateescape"))
        digest.update(content)
    target = into / f"connector-{digest.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        # Spark unpacks files only: where nothing is shipped, this one makes the deployment's directory
        archive.writestr(zipfile.ZipInfo(f"{DEPLOYMENT}/.shipped", _EPOCH), b"")
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return target


def _package_directories(package: str) -> Iterator[Path]:
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(location)


def _add(members: dict[str, Path], name: str, path: Path) -> None:
    if path.is_dir():
        files = (file for file in path.rglob("*") if file.is_file() and _wanted(file, path))
        pairs: Iterable[tuple[str, Path]] = ((f"{name}/{file.relative_to(path)}", file) for file in files)
    elif path.is_file():
        pairs = [(name, path)]
    else:
        raise PipelineError(f"cannot ship {path} to the workers: no such file or directory (spark.ship)")
    for member, file in pairs:
        other = members.setdefault(member, file)
        if other != file:
            raise PipelineError(
                f"cannot ship {file} to the workers: {other} already has its place (spark.ship)"
            )


def _wanted(file: Path, root: Path) -> bool:
    parts = file.relative_to(root).parts
    return not any(part == "__pycache__" or part.startswith(".") for part in parts) and file.suffix != ".pyc"
