"""Checks and writes files of ``metaobjects/``, beside the definitions that a deployment has already."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from connector import own_files
from connector.businessobjects.definition import Definition
from connector.config.metaobject_lint import check_metaobjects
from connector.config.metaobjects import Collected, collect
from connector.declare.environment import References, fill_in
from connector.declare.problems import Position, Problems
from connector.declare.tree import Items, Leaf, Table, read_file
from connector.declare.value_types import resolve
from connector.errors import ConfigurationError, Problem
from connector.formats.catalogue import Catalogue, discover

SUFFIX = ".yaml"

TypedPath = tuple[Path, str]
"""A file or directory, and the same as the user would type it."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of a deployment that decide about names.

    Attributes:
        directory: of ``adapter.yaml``, or the working directory without one.
        shown: the directory as the user would type it. Empty = the working directory.
    """

    directory: Path
    metaobjects: tuple[TypedPath, ...] = ()
    datahandlers: Path | None = None
    shown: str = ""

    @property
    def home(self) -> TypedPath:
        """The first directory of ``metaobjects:``, else ``metaobjects`` beside ``adapter.yaml``."""
        named = (one for one in self.metaobjects if one[0].is_dir() or not one[0].suffix)
        return next(named, self.beside("metaobjects"))

    def beside(self, name: str) -> TypedPath:
        """Returns a file or directory in the directory of ``adapter.yaml``."""
        return self.directory / name, os.path.join(self.shown, name)

    def catalogue(self) -> Catalogue:
        """Returns the data handlers. Without those of the deployment if these cannot be found."""
        try:
            return discover(self.directory, self.datahandlers)
        except (ConfigurationError, OSError):
            return discover(self.directory)


def surroundings(config: str, environment: Mapping[str, str] | None = None) -> Surroundings:
    """Returns the parts of the deployment that ``adapter.yaml`` names. The file need not exist.

    Args:
        config: ``adapter.yaml`` as the user has typed it.
        environment: for ``${NAME}``. None = the environment of the process.

    Raises:
        ConfigurationError: the file exists and cannot be read.
    """
    path = Path(config)
    if not path.exists():
        return Surroundings(Path.cwd())
    problems = Problems()
    documents = read_file(path, config, problems)
    root = documents[0] if documents else None
    if problems.errors or not isinstance(root, Table):
        raise ConfigurationError(problems.sorted() or [Problem(config, 0, 0, "", "is empty", "sections")])
    needed = Table(root.position)
    for key in ("metaobjects", "datahandlers"):
        if key in root.entries:
            needed.put(root.keys[key], root.entries[key])
    directory = Path(os.path.abspath(path)).parent
    filled = fill_in(needed, References(environment or os.environ, directory), problems)
    if problems.errors:
        raise ConfigurationError(problems.sorted())
    assert isinstance(filled, Table)
    beside = os.path.dirname(config)
    named = filled.entries.get("metaobjects")
    items = named.items if isinstance(named, Items) else [named]
    plugins = filled.entries.get("datahandlers")
    return Surroundings(
        directory,
        tuple(
            (resolve(item, directory), os.path.normpath(os.path.join(beside, os.path.expanduser(item))))
            for item in items
            if isinstance(item, Leaf) and item.strip()
        ),
        resolve(plugins, directory) if isinstance(plugins, Leaf) and plugins.strip() else None,
        beside,
    )


class Neighbours:
    """The definitions beside the files that are written.

    Args:
        replaced: the names of the files in ``target`` that are written, and so do not count.
    """

    def __init__(self, surroundings: Surroundings, target: TypedPath, replaced: Sequence[str] = ()) -> None:
        self._surroundings = surroundings
        self._target = target
        self.catalogue = surroundings.catalogue()
        """The data handlers of the deployment."""
        self._files = list(self._other_files({(target[0] / name).resolve() for name in replaced}))
        self._collected = self._collect(self._files, Problems())

    def names(self) -> dict[str, str]:
        """Returns the names of all documents, each with its file as the user would type it."""
        documents = self._collected.documents
        return {name: document.tree.position.file for name, document in documents.items()}

    @property
    def definitions(self) -> Mapping[str, Definition]:
        """The business objects, as far as they can be read. After a :meth:`check` with those of its texts."""
        return self._collected.definitions

    def check(self, texts: Mapping[str, str]) -> list[Problem]:
        """Returns what ``connector check`` would say about files with these texts."""
        problems = Problems()
        with tempfile.TemporaryDirectory(prefix="connector-") as staging:
            files = list(self._files)
            for name, text in texts.items():
                path = Path(staging, name)
                path.write_text(text, "utf-8")
                files.append((path, self.display(name)))
            collected = self._collected = self._collect(files, problems)
        check_metaobjects(collected, self.catalogue, self._surroundings.directory)
        ours = {self.display(name) for name in texts}
        return [problem for problem in problems.sorted() if problem.file in ours]

    def display(self, name: str) -> str:
        """Returns a file of the target directory as the user would type it."""
        return os.path.join(self._target[1], name)

    def _other_files(self, replaced: set[Path]) -> list[TypedPath]:
        found: dict[Path, TypedPath] = {}
        for path, display in (*self._surroundings.metaobjects, self._target):
            for file, shown in _yaml_files(path, display):
                if file.resolve() not in replaced:
                    found.setdefault(file.resolve(), (file, shown))
        return list(found.values())

    def _collect(self, files: Sequence[TypedPath], problems: Problems) -> Collected:
        return collect([(path, display, Position(display), "") for path, display in files], problems)


def _yaml_files(path: Path, display: str) -> list[TypedPath]:
    """Returns the files that ``metaobjects: PATH`` reads."""
    if not path.is_dir():
        return [(path, display)] if path.exists() else []
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return []  # writing there names the reason
    return [
        (path / name, os.path.join(display, name))
        for name in names
        if name.endswith(SUFFIX) and not name.endswith(f".test{SUFFIX}") and name[0] != "."
    ]


def existing(directory: Path, names: Sequence[str]) -> list[str]:
    """Returns the names that are taken in a directory."""
    return [name for name in names if os.path.lexists(directory / name)]


def write_files(directory: Path, texts: Mapping[str, str], *, force: bool = False) -> None:
    """Writes files into a directory, all or none. Makes the directory.

    Args:
        force: replace files of these names.

    Raises:
        OSError: a file exists (without ``force``) or cannot be written. Nothing was changed.
    """
    own_files.make_directories(directory)
    kept = Path(tempfile.mkdtemp(prefix=".connector-", dir=directory))
    done: list[tuple[Path, Path | None]] = []
    try:
        for name, text in texts.items():
            path, old = directory / name, None
            if force and os.path.lexists(path):
                if path.is_dir():
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
                old = kept / name
                os.rename(path, old)
                done.append((path, old))
            with open(path, "x", encoding="utf-8", newline="\n", opener=own_files.opener) as file:
                if old is None:
                    done.append((path, None))
                file.write(text)
    except BaseException:
        for path, old in reversed(done):
            with suppress(OSError):
                if old is None:
                    path.unlink()
                else:
                    os.replace(old, path)
        raise
    finally:
        shutil.rmtree(kept, ignore_errors=True)
