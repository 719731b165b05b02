"""The house stands as it was drawn: no import runs upward, none runs in a circle."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

FLOORS = {
    0: (
        "connector.errors",
        "connector.status",
        "connector.faults",
        "connector.java",
        "connector.local_time",
        "connector.jars",
        "connector.lazy_property",
        "connector.limits",
        "connector.log",
        "connector.modules",
        "connector.open_files",
        "connector.plugins",
        "connector.regular_file",
        "connector.stages",
        "connector.trace",
        "connector.tracebacks",
        "connector.user",
        "connector.messaging",
        "connector.businessobjects",
        "connector.databases",
        "connector.state.store",
        "connector.config.masking",
        "connector.config.value_types",
        "connector.config.problems",
        "connector.config.section",
        "connector.config.tree",
    ),
    1: ("connector.core", "connector.state"),
    2: ("connector.providers", "connector.requests.result", "connector.broker", "connector.datahandlers"),
    3: (
        "connector.config",
        "connector.events",
        "connector.requests",
        "connector.broker.process.settings",
        "connector.broker.destination.settings",
        "connector.broker.table.settings",
    ),
    4: ("connector.spark",),
    5: (
        "connector",
        "connector.adapter",
        "connector.inbound_connection",
        "connector.parts",
        "connector.restarts",
        "connector.service",
        "connector.stopping",
        "connector.cli",
        "connector.http",
    ),
    6: ("connector.testing",),
}
"""Each floor may use itself and those below. ``testing`` is shipped beside: nobody uses it."""

JVM_USERS = ("connector.spark",)


def _modules() -> dict[str, Path]:
    found = {}
    for folder, above in (("connector", ()), ("datahandlers", ("connector",))):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = (*above, *path.relative_to(ROOT).with_suffix("").parts)
            if parts[1:2] == ("template",):
                continue  # what `connector init` writes is no part of the house
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()


def _tree(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def _imports(name: str) -> set[str]:
    """Everything that a module imports, wherever in it; names of modules where they are ours."""
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(_tree(name)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *([base] if base else [])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                found.add(whole if whole in MODULES else base)
    return found


GRAPH = {name: _imports(name) for name in MODULES}


def _is_under(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def _floor(name: str) -> int | None:
    """The floor of the longest prefix that the table knows; a bare ``connector`` stands for itself only."""
    best: tuple[int, int] | None = None
    for floor, prefixes in FLOORS.items():
        for prefix in prefixes:
            if name == prefix or (prefix != "connector" and name.startswith(f"{prefix}.")):
                best = max(best or (0, 0), (len(prefix), floor))
    return best[1] if best else None


def test_every_module_has_a_floor() -> None:
    assert [name for name in MODULES if _floor(name) is None] == []


def test_the_table_names_only_what_there_is() -> None:
    named = [prefix for prefixes in FLOORS.values() for prefix in prefixes]
    assert [prefix for prefix in named if prefix not in MODULES] == []


def test_no_import_runs_upward() -> None:
    upward = [
        f"{name} (floor {_floor(name)}) imports {imported} (floor {_floor(imported)})"
        for name, imports in GRAPH.items()
        for imported in sorted(imports & MODULES.keys())
        if (_floor(imported) or 0) > (_floor(name) or 0)
    ]
    assert upward == []


def test_no_imports_run_in_a_circle() -> None:
    ours = {name: imports & MODULES.keys() - {name} for name, imports in GRAPH.items()}
    try:
        TopologicalSorter(ours).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_provider_knows_another() -> None:
    def provider(name: str) -> str | None:
        parts = name.split(".")
        return parts[2] if parts[:2] == ["connector", "providers"] and len(parts) > 2 else None

    across = [
        f"{name} imports {imported}"
        for name, imports in GRAPH.items()
        for imported in imports
        if provider(name) and provider(imported) not in (None, provider(name))
    ]
    assert across == []


def test_nobody_names_a_concrete_provider() -> None:
    elsewhere = [
        f"{name} imports {imported}"
        for name, imports in GRAPH.items()
        for imported in imports
        if _is_under(imported, ("connector.providers",)) and not _is_under(name, ("connector.providers",))
    ]
    assert elsewhere == []


def test_nobody_names_a_concrete_sink() -> None:
    sinks = ("connector.broker.process", "connector.broker.destination")
    elsewhere = [
        f"{name} imports {imported}"
        for sink in sinks
        for name, imports in GRAPH.items()
        for imported in imports
        if _is_under(imported, (sink,)) and not _is_under(name, (sink,))
    ]
    assert elsewhere == []


def test_shipped_data_handlers_use_the_public_contract_only() -> None:
    handlers = ("connector.datahandlers",)
    allowed = (
        "connector.businessobjects",
        "connector.errors",
        "connector.messaging",
        "connector.stages",
        *handlers,
    )
    beyond = [
        f"{name} imports {imported}"
        for name, imports in GRAPH.items()
        for imported in imports
        if _is_under(name, handlers)
        and _is_under(imported, ("connector",))
        and not _is_under(imported, allowed)
    ]
    assert beyond == []


def test_only_the_spark_package_knows_spark() -> None:
    elsewhere = [
        f"{name} imports {imported}"
        for name, imports in GRAPH.items()
        for imported in imports
        if _is_under(imported, ("pyspark", "py4j")) and not _is_under(name, JVM_USERS)
    ]
    assert elsewhere == []


@pytest.mark.parametrize("name", sorted(MODULES))
def test_every_module_says_what_it_is_about(name: str) -> None:
    assert (ast.get_docstring(_tree(name)) or "").strip()
