"""Finds modules beside ``adapter.yaml`` that hide a module of Python or of an installed package.

Of PYTHONPATH, which may replace an installed package on purpose, only what hides a module of Python counts.

A worker of Spark has the deployment's directory, or the shipped files, on its path. There a ``queue.py``
comes before the ``queue`` of Python, and Spark itself imports the wrong one.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from connector.declare.problems import Position, Problems

_CONNECTOR: Final = Path(__file__).resolve().parents[1]
"""The package itself. In a clone of the project, the package lies beside the project's own deployment."""


def check_hidden_modules(directory: Path, display: str, ship: Sequence[Path], problems: Problems) -> None:
    """Reports the modules of a deployment that hide others.

    Args:
        ship: files and directories that are sent to the workers.
    """
    beside = os.path.dirname(display)
    for entry in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        for path in _modules(Path(entry).absolute(), ()):
            if path.stem in sys.stdlib_module_names and path.parent != directory:
                found = f"hides the module {path.stem} of Python, because PYTHONPATH has {entry}"
                place = Position(str(path), 1, 1)
                problems.add(place, "", found, "another name, or another PYTHONPATH", warning=True)
    for path in _modules(directory, ship):
        hidden = _hidden_by(path.stem)
        if hidden is not None and not path.samefile(_CONNECTOR):
            shown = os.path.relpath(path, directory)
            file = path if shown.startswith(os.pardir) else Path(beside, shown)
            place = Position(str(file), 1, 1)
            problems.add(place, "", f"hides {hidden} from Spark and from the workers", "another name")


def _modules(directory: Path, ship: Sequence[Path]) -> Iterator[Path]:
    try:
        found = sorted(directory.iterdir())
    except OSError:
        found = []
    shipped = [path for path in ship if path.parent != directory]
    for path in (*found, *shipped):
        if not path.stem.isidentifier():
            continue
        if (path.suffix == ".py" and path.is_file()) or (path / "__init__.py").is_file():
            yield path


def _hidden_by(name: str) -> str | None:
    """Returns the module that a file of that name hides, in words. None = the file hides no module."""
    if name in sys.stdlib_module_names:
        return f"the module {name} of Python"
    if name == "connector" or _is_installed(name):
        return f"the installed module {name}"
    return None


def _is_installed(name: str) -> bool:
    places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    if site.ENABLE_USER_SITE:
        places.add(site.getusersitepackages())
    spec = PathFinder.find_spec(name, sorted(places))
    return spec is not None and spec.origin is not None
