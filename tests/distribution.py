"""An installed distribution, as a package manager leaves it: its modules, and what it announces."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

UNCOMPILED: Final = """
import importlib.util, pathlib, sys
package = pathlib.Path(importlib.util.find_spec("connector").origin).parent
sources = [path for path in package.rglob("*.py")]
missing = [path for path in sources if not pathlib.Path(importlib.util.cache_from_source(path)).exists()]
sys.exit(f"without byte code: {missing}" if missing or not sources else 0)
"""
"""A program that fails where a module of the installed connector has no byte code. It imports none."""


def install(
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    sinks: Mapping[str, str],
    modules: Mapping[str, str],
) -> None:
    """Puts a distribution into a directory of its own that is on ``sys.path``.

    Args:
        site: where; its parent is there.
        name: of the distribution.
        sinks: the entry points of the group ``connector.sinks``.
        modules: their sources, by name.
    """
    information = site / f"{name.replace('-', '_')}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "".join(f"{key} = {value}\n" for key, value in sinks.items())
    (information / "entry_points.txt").write_text(f"[connector.sinks]\n{lines}")
    for module, source in modules.items():
        (site / f"{module}.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(str(site))
