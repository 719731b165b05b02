"""The house stands as it was drawn: no import runs upward, none runs in a circle."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from connector.declare.connector_section import Connector
from connector.declare.input_entry import InputEntry
from connector.events.claim.polled_input import InputSettings
from connector.events.run.task_settings import TaskSettings
from connector.events.settings import EventSettings
from connector.requests.settings import ConversionSettings, RequestSettings
from tests.tables import Table, rows

ROOT = Path(__file__).resolve().parents[2]

FLOORS = (
    ("connector", "limits", "text"),
    ("messaging",),
    ("businessobjects", "core", "databases", "declare", "state"),
    ("channels", "formats"),
    ("operate", "requests"),
    ("brokers", "datahandlers", "sinks", "spark", "stores"),
    ("config", "events"),
    ("workbench",),
    ("service",),
    ("authoring", "brokers/verbs", "cli", "http", "lake", "maps"),
    ("testing",),
)
"""The folders of ``connector``, from the ground up. ``connector`` itself stands for files without a folder.
A room whose verbs lie above all else of the room has a folder for them, with a floor of its own.

Each folder may import from itself, from its floor and from the floors below.
"""

WINGS = ("brokers", "sinks", "spark", "stores")
"""Folders of plug-ins with their engines. A wing imports no other wing."""

OFF_THE_WAY = ("authoring", "brokers", "channels", "http.console", "lake", "maps")
"""Rooms without which all the rest works. ``test_rooms.py`` takes each of them away."""

FOUND_BY_ENTRY_POINT = (
    *OFF_THE_WAY,
    *("brokers.jms", "brokers.verbs", "sinks.destination", "sinks.process", "sinks.webhook"),
    *("stores.dropbox", "stores.memory", "stores.sql"),
)
"""Folders that nobody imports."""

JVM_USERS = ("connector.spark", "connector.lake")


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


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def _imports(name: str) -> set[str]:
    """Everything that a module imports, wherever in it; names of modules where they are ours."""
    found: set[str] = set()
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports by a relative name"
            base = str(node.module)
            wholes = (f"{base}.{alias.name}" for alias in node.names)
            found.update(whole if whole in MODULES else base for whole in wholes)
    return found


GRAPH = {name: _imports(name) for name in MODULES}


def _is_under(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def folder_of(name: str) -> str:
    """Returns the folder of a module, below ``connector``."""
    parts = name.split(".") if MODULES[name].name == "__init__.py" else name.split(".")[:-1]
    deep = "/".join(parts[1:3])
    return deep if _floor(deep) >= 0 else "".join(parts[1:2]) or "connector"


def _floor(folder: str) -> int:
    return next((number for number, folders in enumerate(FLOORS) if folder in folders), -1)


def _imports_that(are_wrong: Callable[[str, str], bool], *, ours: bool = True) -> list[str]:
    """Returns the imports of a module by another that are wrong. Only those of our modules, or all."""
    pairs = [(name, one) for name, imports in GRAPH.items() for one in imports if one in MODULES or not ours]
    return [f"{name} imports {imported}" for name, imported in pairs if are_wrong(name, imported)]


def _assert_no_circle(graph: Mapping[str, set[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_every_folder_has_a_floor() -> None:
    assert sorted({folder_of(name) for name in MODULES}) == sorted(sum(FLOORS, ()))


def test_the_page_shows_the_same_floors() -> None:
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", page, re.MULTILINE)
    shown = {int(number): tuple(sorted(re.findall(r"`([a-z/]+)`", folders))) for number, folders in rows}
    assert shown == dict(enumerate(FLOORS))


def test_no_import_runs_upward() -> None:
    assert _imports_that(lambda name, one: _floor(folder_of(one)) > _floor(folder_of(name))) == []


def test_no_wing_imports_another() -> None:
    def is_across(name: str, imported: str) -> bool:
        folders = {folder_of(name), folder_of(imported)}
        return len(folders) == 2 and folders <= set(WINGS)

    assert _imports_that(is_across) == []


def test_the_two_ways_and_the_deployment_name_no_store_no_broker_and_no_spark() -> None:
    ways, plug_ins = ("authoring", "events", "config", "workbench", "http"), ("stores", "brokers", "spark")
    assert _imports_that(lambda name, one: folder_of(name) in ways and folder_of(one) in plug_ins) == []


@rows("folder", [f"connector.{folder}" for folder in FOUND_BY_ENTRY_POINT])
def test_nobody_names_what_an_entry_point_finds(folder: str) -> None:
    assert _imports_that(lambda name, one: _is_under(one, (folder,)) and not _is_under(name, (folder,))) == []


def test_no_imports_and_no_folders_run_in_a_circle() -> None:
    folders: dict[str, set[str]] = {}
    for name, imports in GRAPH.items():
        above = {folder_of(one) for one in imports & MODULES.keys()} - {folder_of(name)}
        folders.setdefault(folder_of(name), set()).update(above)
    _assert_no_circle(folders)
    _assert_no_circle({name: imports & MODULES.keys() - {name} for name, imports in GRAPH.items()})


def test_shipped_data_handlers_use_the_public_contract_only() -> None:
    handlers = ("connector.datahandlers",)
    allowed = (
        *("connector.businessobjects", "connector.formats", "connector.text", "connector.limits.stages"),
        *("connector.messaging", "connector.errors", *handlers),
    )

    def is_beyond(name: str, imported: str) -> bool:
        is_ours = _is_under(imported, ("connector",))
        return _is_under(name, handlers) and is_ours and not _is_under(imported, allowed)

    assert _imports_that(is_beyond, ours=False) == []


def test_no_constructor_by_hand_has_more_than_8_arguments() -> None:
    """What has more needs an object that holds some of them. A dataclass writes its constructor itself."""
    found = [
        f"{name} {one.name}"
        for name in MODULES
        for one in ast.walk(tree_of(name))
        if isinstance(one, ast.ClassDef)
        for made in one.body
        if isinstance(made, ast.FunctionDef) and made.name == "__init__"
        if len(made.args.posonlyargs) + len(made.args.args) + len(made.args.kwonlyargs) > 1 + 8
    ]
    assert found == []


def test_settings_hold_a_section_and_repeat_no_key_of_it() -> None:
    made_of_keys = {"inputs", "instance"}  # destinations with their client ids, and the name that was free
    for settings in (ConversionSettings, RequestSettings, TaskSettings, EventSettings):
        names = {field.name for field in dataclasses.fields(settings)}
        assert names & Connector.model_fields.keys() - made_of_keys == set()


def test_only_the_spark_package_knows_spark() -> None:
    spark = ("pyspark", "py4j")
    elsewhere = _imports_that(
        lambda name, one: _is_under(one, spark) and not _is_under(name, JVM_USERS), ours=False
    )
    assert elsewhere == []


@rows("name", sorted(MODULES))
def test_every_module_says_what_it_is_about(name: str) -> None:
    assert (ast.get_docstring(tree_of(name)) or "").strip()


def test_an_option_of_an_input_is_in_its_model_its_reader_and_one_user() -> None:
    """As the section "An option of an input" of the architecture page says."""
    model, reader = "connector.declare.input_entry", "connector.events.claim.polled_input"
    assert {model, reader} <= MODULES.keys()
    options = InputEntry.model_construct().options(Connector.model_construct())
    assert options.keys() == {one.name for one in dataclasses.fields(InputSettings)} - {
        "input",
        "subscription",
    }
    with Table() as table:
        for option in options:
            users = {
                module
                for module in MODULES.keys() - {reader}
                for node in ast.walk(tree_of(module))
                if isinstance(node, ast.Attribute) and ast.unparse(node).endswith(f".settings.{option}")
            }
            with table.row(option):
                assert len(users) <= 1
            with table.row(f"{option} is used"):
                assert users or f"settings.{option}" in MODULES[reader].read_text(encoding="utf-8")
