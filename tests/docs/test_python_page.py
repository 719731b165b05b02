"""The page of Python names has the whole public surface. The guides use no other names."""

from __future__ import annotations

import ast
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import connector
import connector.messaging
from tests.tables import rows

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/python.md").read_text("utf-8")
GUIDES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/how-to/*.md")),
    *sorted(ROOT.glob("docs/tutorial/*.md")),
]
PLUG_INS = {"connector.datahandlers", "connector.sinks", "connector.providers"}
"""Groups of entry points."""
QUALIFIED = sorted(set(re.findall(r"`(connector\.[a-z_.]+(?:\.[A-Z]\w+)?)`", PAGE)) - PLUG_INS)


def names_under(heading: str) -> set[str]:
    """The names in the first column of the table under a heading."""
    section = PAGE.partition(f"\n## `{heading}`\n")[2].partition("\n## ")[0]
    columns = re.findall(r"^\| (`[^|]*`) \|", section, re.MULTILINE)
    return {name for column in columns for name in re.findall(r"`(\w+)`", column)}


@rows("module", [connector, connector.messaging])
def test_the_page_has_the_names_that_a_package_exports(module: ModuleType) -> None:
    assert names_under(module.__name__) == set(module.__all__)


@rows("name", QUALIFIED)
def test_a_name_on_the_page_is_there(name: str) -> None:
    pkgutil.resolve_name(name)


@rows("guide", GUIDES)
def test_a_guide_imports_public_names_alone(guide: Path) -> None:
    public = tuple(QUALIFIED)
    for block in re.findall(
        r"^```python[^\n]*\n(.*?)^```$", guide.read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "connector":
                for one in node.names:
                    name = f"{node.module}.{one.name}"
                    assert name.removeprefix("connector.") in connector.__all__ or name.startswith(public), (
                        name
                    )
