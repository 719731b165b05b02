"""Sinks of installed distributions: how a subscription names one, and what is said of one that is broken."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from connector.config.reference import reference
from connector.config.resolved import as_document
from connector.config.schema import json_schema
from connector.config.sinks import SINKS
from connector.errors import ConfigurationError, Problem
from tests.distribution import install

if TYPE_CHECKING:
    from tests.config.conftest import Sample

Install = Callable[..., None]

A = "adapter.yaml"
P = "    process: processes:store_customer"
MODULE = '''
from dataclasses import dataclass
from pydantic import Field
from connector.sinks.contract import ExternalSink
from connector.declare.value_types import Text
from connector.declare.section import Section
from connector.sinks.subscription_model import ExternalEntry


class Store(Section):
    """Where it goes."""

    table: Text = Field(description="The table.")
    schema_name: Text = Field(default="main", description="The schema.")


@dataclass(frozen=True)
class Spec:
    table: str

    def open(self, context):
        return Sink()


class Sink(ExternalSink):
    def deliver(self, bo, event):
        pass


class StoreEntry(ExternalEntry):
    """A table of a store."""

    store: Store = Field(description="The store.")
    level: Text = Field(default="low", description="The level.")

    def sink(self):
        return Spec(self.store.table)

    def target(self):
        return self.store.table

    def check(self, check):
        super().check(check)
        if check.is_written("store") and self.store.table == "none":
            check.add("store.table", "there is no table 'none'", "a table", "nine")
        if check.is_written("level") and self.level == "odd":
            check.add("level", "an odd level", "an even one", warning=True)
'''


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs distributions with sinks; a module may be installed once."""
    import sys

    modules = set(sys.modules)

    def add(
        sinks: dict[str, str] | None = None, source: str = MODULE, module: str = "their_store", name: str = ""
    ) -> None:
        known = {"store": f"{module}:StoreEntry"} if sinks is None else sinks
        site = tmp_path_factory.mktemp("site")
        install(site, monkeypatch, name or module.replace("_", "-"), known, {module: source})

    yield add
    for module in set(sys.modules) - modules:
        if module.startswith("their_"):
            del sys.modules[module]


def the_only(problems: list[Problem]) -> Problem:
    assert len(problems) == 1, [str(problem) for problem in problems]
    return problems[0]


def test_the_shipped_sinks_are_announced_like_any_other() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    sinks = {"process", "destination", "table", "webhook", "load", "dataframe"}
    assert set(project["project"]["entry-points"]["connector.sinks"]) == sinks
    assert set(SINKS.names) == sinks


def test_a_subscription_names_an_installed_sink_by_its_key(deployment: Sample, installed: Install) -> None:
    installed()
    deployment.replace(A, P, "    store: {table: customers}\n    level: high\n    retries: 2")
    assert deployment.check() == []
    entry = deployment.load().subscriptions[0]
    assert (type(entry).__name__, entry.name) == ("StoreEntry", "Customer customers")
    subscription = entry.subscription()
    assert (subscription.name, subscription.retries) == ("Customer customers", 2)
    assert type(subscription.sink).__module__ == "their_store"
    written = as_document(deployment.load())["subscriptions"][0]
    assert (written["store"], written["level"]) == ({"table": "customers", "schema_name": "main"}, "high")


def test_schema_and_reference_have_its_keys(installed: Install) -> None:
    installed()
    schema = json_schema()
    (entries,) = (form["items"] for form in schema["properties"]["subscriptions"]["anyOf"] if "items" in form)
    assert {"$ref": "#/$defs/StoreEntry"} in entries["anyOf"]
    assert schema["$defs"]["StoreEntry"]["required"] == ["object", "store"]
    assert schema["$defs"]["Store"]["properties"]["table"]["description"] == "The table."
    assert "#### `store`\n\nA table of a store.\n" in reference()


@pytest.mark.parametrize(
    ("key", "nearest", "expected"),
    [
        ("stor: {table: t}", "store", "a key of this section"),
        ("proces: processes:f", "process", "a key of this section"),
    ],
)
def test_an_unknown_key_that_resembles_a_sink_is_asked_about_and_is_the_only_problem(
    deployment: Sample, installed: Install, key: str, nearest: str, expected: str
) -> None:
    installed()
    deployment.replace(A, P, f"    {key}")
    problem = the_only(deployment.check())
    assert (problem.path, problem.line, problem.column) == (
        f"subscriptions[0].{key.partition(':')[0]}",
        22,
        5,
    )
    assert (problem.found, problem.expected, problem.nearest) == ("unknown key", expected, nearest)


def test_a_misspelt_sink_hides_no_other_mistake(deployment: Sample) -> None:
    deployment.replace(A, P, "    destinaton: queue://a/b\n    verbs: Creat\n    timeout: 5")
    deployment.replace(A, "    verbs: [Create, Update]\n", "")
    assert [(problem.path, problem.line) for problem in deployment.check()] == [
        ("subscriptions[0].destinaton", 21),
        ("subscriptions[0].destinaton", 21),
        ("subscriptions[0].verbs", 22),
    ]


def test_a_misspelt_key_that_no_sink_resembles_leaves_the_sink_missing(deployment: Sample) -> None:
    deployment.replace(A, P, "    timeuot: 5s")
    unknown, missing = sorted(deployment.check(), key=lambda problem: problem.found, reverse=True)
    assert (unknown.path, unknown.nearest) == ("subscriptions[0].timeuot", "timeout")
    assert (missing.path, missing.found) == (
        "subscriptions[0]",
        "neither dataframe nor destination nor load nor process nor table nor webhook",
    )


def test_a_subscription_without_a_sink_is_told_which_there_are(
    deployment: Sample, installed: Install
) -> None:
    installed()
    deployment.replace(A, f"{P}\n", "")
    problem = the_only(deployment.check())
    assert (problem.path, problem.found) == (
        "subscriptions[0]",
        "neither dataframe nor destination nor load nor process nor store nor table nor webhook",
    )


def test_a_subscription_with_three_sinks_is_one_problem(deployment: Sample, installed: Install) -> None:
    installed()
    deployment.replace(A, P, f"{P}\n    destination: queue://x\n    store: {{table: t}}\n    level: high")
    problem = the_only(deployment.check())
    assert (problem.path, problem.line) == ("subscriptions[0].store", 24)
    assert problem.found == "a process, a destination and a store"


def test_a_key_of_another_sink_is_said_to_be_one(deployment: Sample, installed: Install) -> None:
    installed()
    deployment.replace(A, P, f"{P}\n    level: high")
    problem = the_only(deployment.check())
    assert (problem.path, problem.line, problem.column) == ("subscriptions[0].level", 23, 12)
    assert (problem.found, problem.expected) == ("level of a process", "it with a store only")


@pytest.mark.parametrize(
    ("entry", "path", "line", "column", "words"),
    [
        ("store: {table: [1]}", "store.table", 22, 20, "a list, expected a text"),
        ("store: {tabel: t}", "store.tabel", 22, 13, "unknown key, expected a key of this section"),
        ("store: {table: t}\n    levle: x", "levle", 23, 5, "did you mean 'level'"),
        ("store: customers", "store", 22, 12, "a single value, expected a mapping"),
        (
            "store: {table: none}",
            "store.table",
            22,
            20,
            "there is no table 'none', expected a table, did you",
        ),
        ("store: {table: t}\n    mime_type: text/xml", "mime_type", 23, 16, "with reply: true"),
        (
            "store: {table: t}\n    reply: true\n    mime_type: text/xlm",
            "mime_type",
            24,
            16,
            "'text/xml'",
        ),
    ],
)
def test_a_mistake_in_its_keys_is_found_where_it_stands(
    deployment: Sample,
    installed: Install,
    entry: str,
    path: str,
    line: int,
    column: int,
    words: str,
) -> None:
    installed()
    deployment.replace(A, P, f"    {entry}")
    problem = next(one for one in deployment.check() if "is missing" not in one.found)
    assert (problem.path, problem.line, problem.column) == (f"subscriptions[0].{path}", line, column)
    assert words in str(problem)


def test_a_warning_of_its_check_is_one(deployment: Sample, installed: Install) -> None:
    installed()
    deployment.replace(A, P, "    store: {table: t}\n    level: odd")
    problem = the_only(deployment.check())
    assert (problem.warning, problem.path, problem.line) == (True, "subscriptions[0].level", 23)
    assert deployment.load().subscriptions


def test_a_wrong_sink_does_not_hide_a_wrong_object(deployment: Sample) -> None:
    deployment.replace(
        A, f"- object: Customer\n    verbs: [Create, Update]\n{P}", f"- object: Custmer\n{P[:13]} ''"
    )
    assert [problem.path for problem in deployment.check()] == [
        "subscriptions[0].object",
        "subscriptions[0].process",
    ]


@pytest.mark.parametrize(
    ("reference", "source", "words"),
    [
        ("their_store:StoreEntry", "import nowhere_at_all", "ModuleNotFoundError: No module named"),
        ("their_store:StoreEntry", "raise SystemExit(3)", "SystemExit: 3"),
        ("their_store:Missing", MODULE, "AttributeError"),
        ("their_store:Spec", MODULE, "their_store:Spec is no entry of a subscription: a class that inherits"),
        ("their_store:Spec.open", MODULE, "their_store:Spec.open is no entry of a subscription"),
        (
            "their_store:StoreEntry",
            MODULE.replace("def target", "def targets"),
            "their_store:StoreEntry lacks target",
        ),
        (
            "their_store:StoreEntry",
            MODULE.replace("store: Store", "shop: Store"),
            "their_store:StoreEntry has no needed field 'store'",
        ),
    ],
)
def test_an_installed_sink_that_cannot_be_used_says_which_and_why(
    deployment: Sample, installed: Install, reference: str, source: str, words: str
) -> None:
    installed({"store": reference}, source)
    assert deployment.check() == []  # who does not use it is not troubled
    deployment.replace(A, P, "    store: {table: t}")
    problem = the_only(deployment.check())
    assert (problem.path, problem.line, problem.column) == ("subscriptions[0].store", 22, 5)
    assert f"the sink 'store' of the package their-store 1.0 cannot be used: {words}" in str(problem)
    with pytest.raises(ConfigurationError, match="the sink 'store' of the package their-store"):
        json_schema()


def test_two_distributions_with_one_sink_are_refused_by_name(deployment: Sample, installed: Install) -> None:
    installed()
    installed(module="their_shop")
    deployment.replace(A, P, "    store: {table: t}")
    found = the_only(deployment.check()).found
    assert found == (
        "several packages have the sink 'store': their-shop 1.0, their-store 1.0; remove all but one"
    )


def test_a_called_sink_is_no_sink_of_managed_events(deployment: Sample, installed: Install) -> None:
    installed()
    deployment.replace(A, P, "    store: {table: t}")
    deployment.replace(A, "PollQuantity: 25", "ContainerManagedEvents: JMS")
    problem = the_only(deployment.check())
    assert (problem.path, problem.found) == ("subscriptions[0].store", "a store under ContainerManagedEvents")


def test_a_variable_that_is_not_set_is_the_only_problem(deployment: Sample) -> None:
    deployment.replace(A, P, "    process: ${NOWHERE}")
    assert "NOWHERE" in str(the_only(deployment.check()))


def test_a_variable_that_says_nothing_is_no_sink(deployment: Sample) -> None:
    deployment.replace(A, P, "    process: ${NOWHERE:}")
    assert (
        the_only(deployment.check()).found
        == "neither dataframe nor destination nor load nor process nor table nor webhook"
    )


def test_a_key_with_nothing_behind_it_is_no_second_sink(deployment: Sample) -> None:
    deployment.replace(A, P, f"{P}\n    destination:")
    assert deployment.check() == []
