"""The jars of Maven packages, pinned by their sums in ``connector-jars.lock`` beside adapter.yaml.

``connector jars --resolve`` fetches the jars into a cache and writes the file. Nothing else downloads. Each
other command checks the sums before it loads a jar.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from connector import user
from connector.errors import ProviderError, ProviderMisconfigured
from connector.regular_file import read_regular

LOCK: Final = "connector-jars.lock"
"""Name of the file beside adapter.yaml. ``sha256sum --check`` reads the file, too."""

COORDINATES: Final = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")
"""``GROUP:ARTIFACT:VERSION``."""

_HEAD: Final = "# Jars of provider.packages with their SHA-256 sums. Made by: connector jars --resolve\n"
_PACKAGE: Final = "# package: "
_REMEDY: Final = "run: connector jars --resolve"


def cache_directory() -> Path:
    """Returns the directory that all deployments of this user keep their jars in."""
    return user.cache_directory() / "event-connector" / "jars"


@dataclass(frozen=True, slots=True)
class LockedJar:
    """A jar of the lock.

    Args:
        name: path in the cache.
        sha256: in hexadecimal digits.
    """

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Lock:
    """The content of a lock.

    Args:
        packages: coordinates that the jars were resolved for.
        jars: in the order of the class path.
    """

    packages: tuple[str, ...]
    jars: tuple[LockedJar, ...]


@dataclass(frozen=True, slots=True)
class JarNote:
    """The state of a jar.

    Args:
        name: path in the cache.
        path: absolute.
        state: ``there``, ``missing``, or ``changed`` when the sum differs from that of the lock.
    """

    name: str
    path: Path
    state: Literal["there", "missing", "changed"]


class Jars:
    """The jars of the packages of a deployment.

    Args:
        packages: coordinates, ``GROUP:ARTIFACT:VERSION``.
    """

    def __init__(self, packages: Sequence[str], directory: Path) -> None:
        self.packages = tuple(packages)
        self.cache = cache_directory()
        self.file = directory / LOCK

    def lock(self) -> Lock | None:
        """Returns the lock. None = there is no lock, or a lock for other packages.

        Raises:
            ProviderError: the lock cannot be read.
        """
        try:
            lines = read_regular(self.file).decode("utf-8").splitlines()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ProviderMisconfigured(f"{self.file} cannot be read: {reason}") from error
        packages, jars = [], []
        for line in lines:
            if line.startswith(_PACKAGE):
                packages.append(line.removeprefix(_PACKAGE))
            elif line and not line.startswith("#"):
                total, _, name = line.partition("  ")
                if not re.fullmatch("[0-9a-f]{64}", total) or not name or ".." in name.split("/"):
                    raise ProviderMisconfigured(
                        f"{self.file} is damaged ({line[:100]!r}): remove it, then {_REMEDY}"
                    )
                jars.append(LockedJar(name, total))
        lock = Lock(tuple(packages), tuple(jars))
        return lock if sorted(lock.packages) == sorted(self.packages) else None

    def notes(self) -> list[JarNote]:
        """Returns the state of each jar of the lock. Empty without a lock for these packages.

        Raises:
            ProviderError: the lock cannot be read.
        """
        lock = self.lock()
        return [] if lock is None else [self._note(jar) for jar in lock.jars]

    def _note(self, jar: LockedJar) -> JarNote:
        path = self.cache / jar.name
        try:
            state: Literal["there", "changed"] = "there" if sum_of(path) == jar.sha256 else "changed"
        except OSError:
            return JarNote(jar.name, path, "missing")
        return JarNote(jar.name, path, state)

    def paths(self) -> list[Path]:
        """Returns the jars, after their sums were checked.

        Raises:
            ProviderError: a jar is missing or changed, or the lock is for other packages.
        """
        if not self.packages:
            return []
        if self.lock() is None:
            why = "is for other packages" if self.file.exists() else "does not exist"
            raise ProviderMisconfigured(f"provider.packages: {self.file} {why}: {_REMEDY}")
        notes = self.notes()
        for note in notes:
            if note.state == "missing":
                raise ProviderMisconfigured(f"provider.packages: the jar {note.path} is missing: {_REMEDY}")
            if note.state == "changed":
                raise ProviderMisconfigured(
                    f"provider.packages: the jar {note.path} is not the one of {self.file.name}, its sum "
                    f"differs: {_REMEDY}"
                )
        return [note.path for note in notes]

    def drop_changed(self) -> None:
        """Removes the jars of the cache whose sum differs from that of the lock."""
        for note in self.notes():
            if note.state == "changed":
                note.path.unlink()

    def write(self, paths: Sequence[Path]) -> None:
        """Writes the lock.

        Raises:
            ProviderError: a jar differs from the one that the lock had for the same packages, or the lock
                cannot be written.
        """
        jars = [LockedJar(path.relative_to(self.cache).as_posix(), sum_of(path)) for path in paths]
        before = self.lock()
        known = {} if before is None else {jar.name: jar.sha256 for jar in before.jars}
        for jar in jars:
            if known.get(jar.name, jar.sha256) != jar.sha256:
                raise ProviderError(
                    f"the repository now has another {jar.name} than {self.file} names. Nothing was changed. "
                    f"If that is right, remove {self.file.name} and resolve again"
                )
        text = _HEAD + "".join(f"{_PACKAGE}{one}\n" for one in self.packages)
        text += "".join(f"{jar.sha256}  {jar.name}\n" for jar in jars)
        try:
            self.file.write_text(text, "utf-8")
        except OSError as error:
            raise ProviderError(f"{self.file} cannot be written: {error.strerror}") from error


def sum_of(path: Path) -> str:
    """Returns the SHA-256 sum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
