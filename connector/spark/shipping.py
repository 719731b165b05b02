"""The archive for workers on other machines: the connector's code and the deployment's files.

A hash of the content names the archive. Spark sends the archive to every executor and unpacks it once, in a
directory that ends with the application. Packages of others are not shipped. They must be installed on the
workers (:mod:`connector.events.run.module_versions` names the missing packages).
"""

from __future__ import annotations

import hashlib
import importlib.util
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from connector.errors import PipelineError
from connector.regular_file import read_regular

CODE = "code"
DEPLOYMENT = "deployment"
_PACKAGES = ("connector", "connector.datahandlers")  # a link in the source tree
_EPOCH = (1980, 1, 1, 0, 0, 0)  # equal content makes an equal archive


def code_directory() -> Path:
    """Returns the directory above the package of the running connector."""
    return Path(__file__).resolve().parents[2]


def default_ship(deployment: Path) -> list[Path]:
    """Returns the default of the shipped files: ``*.py`` and ``datahandlers/`` beside adapter.yaml."""
    found = sorted(path for path in deployment.glob("*.py") if path.is_file())
    plug_ins = deployment / "datahandlers"
    return [*found, plug_ins] if plug_ins.is_dir() else found


def build_archive(into: Path, deployment: Path, ship: Sequence[Path]) -> Path:
    """Writes the archive and returns the path, ``<into>/connector-<hash>.zip``.

    Args:
        deployment: the directory of adapter.yaml. Files below it keep their relative path.
        ship: files and directories. A path outside of ``deployment`` is put directly into it.

    Raises:
        PipelineError: a path is missing or unreadable, or two paths would get the same place.
    """
    members: dict[str, Path] = {}
    for package in _PACKAGES:
        for directory in _package_directories(package):
            _add(members, f"{CODE}/{package.replace('.', '/')}", directory)
    deployment = deployment.resolve()
    for path in ship:
        source = (deployment / path).resolve()
        place = source.relative_to(deployment) if source.is_relative_to(deployment) else Path(source.name)
        _add(members, f"{DEPLOYMENT}/{place}", source)
    try:
        contents = {name: read_regular(path) for name, path in sorted(members.items())}
    except OSError as error:
        raise PipelineError(f"cannot ship {error.filename} to the workers: {error.strerror}") from error
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(f"{len(name)} {len(content)} {name}".encode("utf-8", "surrogateescape"))
        digest.update(content)
    target = into / f"connector-{digest.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        # Spark unpacks files only, so this file makes the deployment's directory even if nothing is shipped.
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
        files = (file for file in path.rglob("*") if file.is_file() and _is_shipped(file, path))
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


def _is_shipped(file: Path, root: Path) -> bool:
    parts = file.relative_to(root).parts
    return not any(part == "__pycache__" or part.startswith(".") for part in parts) and file.suffix != ".pyc"
