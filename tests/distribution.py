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
    plug_ins: Mapping[str, str],
    modules: Mapping[str, str],
    *,
    group: str = "connector.sinks",
    version: str = "1.0",
) -> None:
    """Puts a distribution into a directory of its own that is on ``sys.path``.

    Args:
        site: where; its parent is there.
        name: of the distribution.
        plug_ins: the entry points of the group.
        modules: their sources, by name.
        group: of the entry points.
        version: of the distribution.
    """
    information = site / f"{name.replace('-', '_')}-{version}.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = "".join(f"{key} = {value}\n" for key, value in plug_ins.items())
    (information / "entry_points.txt").write_text(f"[{group}]\n{lines}")
    for module, source in modules.items():
        (site / f"{module}.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(str(site))
