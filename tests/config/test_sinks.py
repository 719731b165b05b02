"""Sinks of installed distributions: how a subscription names one, and what is said of one that is broken."""

# ruff: noqa: E501 -- one case a line

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
from connector.errors import ConfigurationError
from tests.config.mistakes import A, Mistake, P, case
from tests.distribution import install
from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample

Install = Callable[..., None]

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


@pytest.fixture
def store(installed: Install) -> None:
    """A distribution with the sink ``store`` is installed."""
    installed()


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


S = "subscriptions[0]"
MISTAKES = [
    case("misspelt sink", A, P, "    §stor: {table: t}", f"{S}.stor", "unknown key, expected a key of this section", nearest="store"),
    case("misspelt process", A, P, "    §proces: processes:f", f"{S}.proces", "unknown key, expected a key of this section", nearest="process"),
    case("no sink", A, f"{P}\n", "", S, "neither dataframe nor destination nor load nor process nor store nor table nor webhook"),
    case("three sinks", A, P, f"{P}\n    destination: queue://x\n    store: §{{table: t}}\n    level: high", f"{S}.store", "a process, a destination and a store"),
    case("variable that is not set", A, P, "    process: §${NOWHERE}", f"{S}.process", "NOWHERE"),
    case("variable that says nothing", A, P, "    process: ${NOWHERE:}", S, "neither dataframe nor destination"),
    case("managed events", A, P, "    store: §{table: t}", f"{S}.store", "a store under ContainerManagedEvents", more=((A, "PollQuantity: 25", "ContainerManagedEvents: JMS"),)),
    # keys of the sink
    case("key of another sink", A, P, f"{P}\n    level: §high", f"{S}.level", "level of a process, expected it with a store only"),
    case("list", A, P, "    store: {table: §[1]}", f"{S}.store.table", "a list, expected a text"),
    case("misspelt key", A, P, "    store: {table: t}\n    §levle: x", f"{S}.levle", "unknown key", nearest="level"),
    case("single value", A, P, "    store: §customers", f"{S}.store", "a single value, expected a mapping"),
    case("check of the sink", A, P, "    store: {table: §none}", f"{S}.store.table", "there is no table 'none', expected a table", nearest="nine"),
    case("warning of the sink", A, P, "    store: {table: t}\n    level: §odd", f"{S}.level", "an odd level, expected an even one", warning=True),
    case("MIME type without a reply", A, P, "    store: {table: t}\n    mime_type: §text/xml", f"{S}.mime_type", "with reply: true"),
    case("MIME type of a reply", A, P, "    store: {table: t}\n    reply: true\n    mime_type: §text/xlm", f"{S}.mime_type", nearest="text/xml"),
]  # fmt: skip


@rows("mistake", MISTAKES)
def test_a_mistake_in_a_subscription_is_found_where_it_stands(
    deployment: Sample, store: None, mistake: Mistake
) -> None:
    mistake.assert_alone(deployment)


def test_an_unknown_key_stands_beside_the_one_that_is_missing(deployment: Sample, store: None) -> None:
    deployment.replace(A, P, "    store: {tabel: t}")
    (unknown,) = [one for one in deployment.check() if "is missing" not in one.found]
    assert (unknown.path, unknown.line, unknown.column) == (f"{S}.store.tabel", 22, 13)
    assert "unknown key, expected a key of this section" in str(unknown)


def test_a_misspelt_sink_hides_no_other_mistake(deployment: Sample) -> None:
    deployment.replace(A, P, "    destinaton: queue://a/b\n    verbs: Creat\n    timeout: 5")
    deployment.replace(A, "    verbs: [Create, Update]\n", "")
    found = [(problem.path, problem.line) for problem in deployment.check()]
    assert found == [(f"{S}.destinaton", 21), (f"{S}.destinaton", 21), (f"{S}.verbs", 22)]


def test_a_misspelt_key_that_no_sink_resembles_leaves_the_sink_missing(deployment: Sample) -> None:
    deployment.replace(A, P, "    timeuot: 5s")
    found = {problem.path: (problem.found, problem.nearest) for problem in deployment.check()}
    missing = "neither dataframe nor destination nor load nor process nor table nor webhook"
    assert found == {f"{S}.timeuot": ("unknown key", "timeout"), S: (missing, None)}


def test_a_wrong_sink_does_not_hide_a_wrong_object(deployment: Sample) -> None:
    deployment.replace(
        A, f"- object: Customer\n    verbs: [Create, Update]\n{P}", f"- object: Custmer\n{P[:13]} ''"
    )
    assert [problem.path for problem in deployment.check()] == [f"{S}.object", f"{S}.process"]


@pytest.mark.parametrize(
    ("reference", "source", "words"),
    [
        ("their_store:StoreEntry", "import nowhere_at_all", "ModuleNotFoundError: No module named"),
        ("their_store:StoreEntry", "raise SystemExit(3)", "SystemExit: 3"),
        ("their_store:Missing", MODULE, "AttributeError"),
        ("their_store:Spec", MODULE, "their_store:Spec is no entry of a subscription: a class that inherits"),
        ("their_store:Spec.open", MODULE, "their_store:Spec.open is no entry of a subscription"),
        ("their_store:StoreEntry", MODULE.replace("def target", "def targets"), "their_store:StoreEntry lacks target"),
        ("their_store:StoreEntry", MODULE.replace("store: Store", "shop: Store"), "their_store:StoreEntry has no needed field 'store'"),
    ],
)  # fmt: skip
def test_an_installed_sink_that_cannot_be_used_says_which_and_why(
    deployment: Sample, installed: Install, reference: str, source: str, words: str
) -> None:
    installed({"store": reference}, source)
    assert deployment.check() == []  # who does not use it is not troubled
    deployment.replace(A, P, "    store: {table: t}")
    problem = deployment.problem()
    assert (problem.path, problem.line, problem.column) == ("subscriptions[0].store", 22, 5)
    assert f"the sink 'store' of the package their-store 1.0 cannot be used: {words}" in str(problem)
    with pytest.raises(ConfigurationError, match="the sink 'store' of the package their-store"):
        json_schema()


def test_two_distributions_with_one_sink_are_refused_by_name(deployment: Sample, installed: Install) -> None:
    installed()
    installed(module="their_shop")
    deployment.replace(A, P, "    store: {table: t}")
    words = "several packages have the sink 'store': their-shop 1.0, their-store 1.0; remove all but one"
    assert deployment.problem().found == words


def test_a_key_with_nothing_behind_it_is_no_second_sink(deployment: Sample) -> None:
    deployment.replace(A, P, f"{P}\n    destination:")
    assert deployment.check() == []
