"""The reference pages name what there is, all of it, and nothing else."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from prometheus_client import parser

import connector
import connector.messaging
from connector.businessobjects.metadata import READERS
from connector.cli.verbs import find_verbs
from connector.formats.catalogue import discover
from connector.formats.plan import MAX_DEPTH
from connector.http import connections, throttled_log
from connector.http.actions import ACTIONS
from connector.http.answers import STATUS
from connector.http.calls import ServerLimits
from connector.http.console import pages
from connector.http.event_calls import EventQueue
from connector.http.event_openapi import add_events
from connector.http.idempotency import KeptAnswers
from connector.http.openapi import describe_requests
from connector.messaging import selector as selectors
from connector.messaging.destination import parse_destination
from connector.messaging.history import EVENT_ID
from connector.messaging.settlement import HISTORY
from connector.operate.activity import Activity
from connector.operate.gauges import Gauges
from connector.operate.metrics import InstanceMetrics
from connector.requests.replies import RESULTS
from connector.requests.result import GOOD
from connector.service.queue_bodies import QueueBodies
from connector.status import ReturnCode
from connector.stores.dropbox import codec
from connector.stores.dropbox.claims import split_tag
from connector.stores.dropbox.layout import FOLDERS, RootLayout
from connector.stores.dropbox.transaction_log import format_record, parse_record
from tests.docs.reader import options_of
from tests.http.world import DEFINITIONS
from tests.tables import rows

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs/reference"
COMMON = {"--config", "-c", "--json", "--help", "-h"}


def page(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text("utf-8")


HTTP = page("http")


def found(pattern: str, text: str, flags: re.RegexFlag = re.MULTILINE) -> str:
    """The first group of a pattern that must be in a text."""
    match = re.search(pattern, text, flags)
    assert match is not None, pattern
    return match.group(1)


def section(text: str, heading: str) -> str:
    """The part of a page under one heading."""
    _, found, rest = text.partition(f"\n{heading}\n")
    assert found, heading
    level = heading.split()[0]
    return re.split(rf"^{level} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


@rows("verb", find_verbs())
def test_the_page_of_commands_names_every_option_of_a_verb_and_no_other(verb: str) -> None:
    part = section(page("commands"), f"## `connector {verb}`")
    described = set(re.findall(r"^\| `(--[a-z-]+)", part, re.MULTILINE))
    options = {name for name in options_of(verb) if name.startswith("--")}
    assert described == options - COMMON


def listed(text: str, pattern: str) -> list[Any]:
    """What stands in the first columns of the rows of a table."""
    return re.findall(rf"^\| {pattern}", text, re.MULTILINE)


def statuses_of_events() -> set[str]:
    """The statuses of a message over HTTP, as they are described for programs."""
    bodies = QueueBodies({}, takes_any=True, max_body=1, is_packed=False)
    queue = EventQueue("/events/orders", parse_destination("orders"), None, bodies, 1, "http.max_body")
    document = describe_requests(DEFINITIONS, True)
    add_events(document, [queue], with_tokens=True)
    return set(document["paths"][queue.path]["post"]["responses"])


def lists() -> Iterator[tuple[str, object, object]]:
    """What pages list and what there is, under a name."""
    yield (
        "verbs",
        set(re.findall(r"^## `connector (\S+)`$", page("commands"), re.MULTILINE)),
        set(find_verbs()),
    )
    letters = re.findall(r"`(\w)` (\w+)", found(r"^Type letters: (.*)$", page("file-names")))
    yield "letters of property types", {kind: letter for letter, kind in letters}, codec.TYPE_LETTERS
    copies = section(page("file-names"), "## Properties of copies")
    yield "properties of copies", tuple(listed(copies, r"`(\w+)` \|")), HISTORY
    headings = ("Properties", "Replies", "Return codes")
    parts = {name: section(page("requests"), f"## {name}") for name in headings}
    yield "properties of requests", sorted(listed(parts["Properties"], r"`(\w+)` \|")), sorted(READERS)
    replies = [(name, code.name) for name, code in RESULTS.items()]
    yield "replies", listed(parts["Replies"], r"`(\w+)` \| `(\w+)` \|"), replies
    numbers = {code.name: str(code.value) for code in RESULTS.values()}
    yield "return codes", dict(listed(parts["Return codes"], r"`(\w+)` \| (-?\d+) \|")), numbers
    well = {code for code in RESULTS.values() if code.value >= 0} - {ReturnCode.VALDUPES}
    yield "codes that are not negative, which went well but VALDUPES", well, GOOD
    statuses = {code.name: str(status.value) for code, status in STATUS.items()}
    yield "codes of the server", dict(listed(HTTP, r"`([A-Z_]+)` \| (\d+) \|")), statuses
    operation = describe_requests(DEFINITIONS, True)["paths"]["/requests/Order/Create"]["post"]
    events = section(HTTP, "## Events")
    described = {*listed(HTTP.replace(events, ""), r"(\d{3}) \|"), *statuses.values()}
    yield "statuses that are described", described, set(operation["responses"])
    own = {*listed(events, r"(\d{3}) \|"), *re.findall(r"with (20\d)", events)}
    yield "statuses of events", own | (described & statuses_of_events()), statuses_of_events()
    calls = {f"{one.method} {one.path.replace(':path', '')}" for one in ACTIONS}
    yield "calls of operators", set(listed(HTTP, r"`([A-Z]+ /control/[^?`]+)[^|]*\|")), calls


@rows("name, described, there", lists())
def test_a_page_lists_what_there_is_and_nothing_else(name: str, described: object, there: object) -> None:
    assert described == there


def test_every_file_name_in_the_examples_is_structured_and_survives_a_round_trip() -> None:
    examples = re.findall(r"^```text name\n(.*?)^```$", page("file-names"), re.MULTILINE | re.DOTALL)
    names = [line for example in examples for line in example.splitlines()]
    assert len(names) >= 3
    for name in names:
        assert codec.split(name) is not None, name
        assert codec.encode(codec.decode(name)[0]) == name


def test_the_page_of_names_calls_bare_what_is_and_has_a_claim_and_the_property_of_what_is_sent() -> None:
    text = page("file-names")
    names = re.findall(r"`([^`]+)`", found(r"Any other name is \*bare\*: (.*?)\. ", text, re.DOTALL))
    assert names
    assert [name for name in names if codec.split(name) is not None] == []
    name, tag = split_tag(found(r"^(\S+~@\S+)$", section(text, "## Claims")))
    assert codec.split(name) is not None
    assert tag is not None
    assert (tag.owner.cycle, tag.owner.sequence) == (100, 51)
    assert f"| `{EVENT_ID}` |" in section(text, "## Headers of what a subscription sends")


def test_the_example_of_a_commit_record_is_one() -> None:
    example = found(r"^```text record\n(.*?)^```$", page("files"), re.MULTILINE | re.DOTALL)
    moves = parse_record(example.encode())
    assert [move.kind for move in moves] == ["sent", "received"]
    assert moves[1].published == "queue://orders|ID:o1"
    assert format_record(moves).decode() == example


def test_the_tree_of_files_names_every_folder_that_a_root_has(tmp_path: Path) -> None:
    layout = RootLayout(tmp_path)
    layout.prepare()
    made = {path.name for path in (tmp_path / "dropboxmq").rglob("*") if path.is_dir()} | set(FOLDERS)
    tree = found(r"^```text\n(<root>/.*?)^```$", page("files"), re.MULTILINE | re.DOTALL)
    assert {folder for folder in made if f"{folder}/" not in tree} == set()


def test_the_page_of_formats_has_every_option_of_every_shipped_handler_with_its_default(
    tmp_path: Path,
) -> None:
    text = page("data-formats")
    for handler in discover(tmp_path).handlers:
        headings = re.findall("^## .*$", text, re.MULTILINE)
        heading = next(one for one in headings if f"`{handler.mime_types[0]}`" in one)
        described = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", section(text, heading), re.MULTILINE))
        described = {name: default.strip("`") for name, default in described.items()}
        assert described == {option.name: _shown(option.default) for option in handler.options or ()}, heading


def _shown(default: object) -> str:
    if default in (" ", "\n", "\r\n"):
        return {" ": "a space", "\n": "LF", "\r\n": "CR LF"}[str(default)]
    if default in ((), {}):
        return "empty"
    return str(default).lower() if isinstance(default, bool) else str(default) or "empty"


def test_the_limits_are_those_of_the_server() -> None:
    kept = inspect.signature(KeptAnswers).parameters["most_bytes"].default
    for limit in (
        *(f"and {ServerLimits().body_seconds:g} s |", f"and {ServerLimits().head_seconds:g} s |"),
        f"| idle connection | {connections.KEEP_ALIVE_SECONDS} s |",
        f"| {connections._LEAST >> 10} KiB in {ServerLimits().write_seconds:g} s,",
        f"of one client {connections._OTHERS} fewer",
        f"which have {connections._HEALTH_PLACES} places",
        f"| {selectors._MOST_CHARACTERS:,} characters, and {selectors._MOST_SECONDS:g} s for",
        f"| {pages._SIGN_BYTES >> 10} KiB |",
        f"| {pages._MOST_EXPLANATIONS} at a time, and {pages._MOST_WAITING} that wait |",
        f"| head | {connections.HEAD_BYTES >> 10} KiB, and",
        f"every {throttled_log.SECONDS:g} s at most",
        *(f"{kept >> 20} MiB", f"nesting beyond {MAX_DEPTH})"),
    ):
        assert limit in HTTP


# -- the log -----------------------------------------------------------------------------------------

LEVELS = ("info", "warning", "error", "exception", "log")
LOGS = ("_log", "log", "self._log", "self._lines", "self._working.lines")


@functools.cache
def _nodes_of_the_product() -> list[tuple[str, ast.Call | ast.Constant]]:
    """The calls and the constants of the product, each with its place."""
    return [
        (f"{path.name}:{node.lineno}", node)
        for path in sorted((ROOT / "connector").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call | ast.Constant)
    ]


def _texts() -> Iterator[tuple[str, ast.expr]]:
    """Where a line is logged, and the expression that is its text."""
    for where, call in _nodes_of_the_product():
        if not isinstance(call, ast.Call):
            continue
        if isinstance(call.func, ast.Attribute) and call.func.attr in LEVELS:
            if ast.unparse(call.func.value) in LOGS:
                text, *others = call.args[1:] if call.func.attr == "log" else call.args
                assert others == [], f"{where}: values are fields, in extra="
                yield where, text
        else:
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if name == "log_failure" or name.endswith("trace"):
                yield where, call.args[1]


def _constants() -> set[str]:
    constants = (node for _, node in _nodes_of_the_product() if isinstance(node, ast.Constant))
    return {node.value for node in constants if isinstance(node.value, str)}


def _documented() -> set[str]:
    lines = page("log").partition("## Events")[2].splitlines()
    rows = [line.split("|") for line in lines if line.startswith("| ")]
    cells = [row[2] if row[1].strip().isdecimal() else row[1] for row in rows]
    return {text for cell in cells for text in re.findall(r"`([^`]+)`", cell)}


def test_every_text_is_constant_and_on_the_page_and_no_other() -> None:
    texts, documented = list(_texts()), _documented()
    assert len(texts) > 60
    for where, text in texts:
        if isinstance(text, ast.Constant):
            assert text.value in documented, where
        else:
            assert isinstance(text, ast.Name | ast.Attribute), f"{where}: a text is constant"
    assert documented - _constants() == set()


# -- metrics, alerts and the dashboard ---------------------------------------------------------------

_NAME = re.compile(r"\bconnector_\w+")
_SELECTOR = re.compile(r"(connector_\w+)(?:\{([^}]*)\})?")


def _families() -> dict[str, tuple[str, set[str]]]:
    """Each metric by its name on the page: type and labels."""
    activity = Activity()
    activity.count_outcome("queue://a", "failed", 1, "refused", "no shelf")
    activity.count_batch(0.1, 1)
    activity.conversions.add("Order", 0.1)
    activity.deliveries.add("store", 0.1)
    activity.add_request("Customer", "SUCCEED", 0.1)
    gauges = Gauges(
        version="1",
        application="shop",
        unwell=[("disk", "/var/lib/shop")],
        in_doubt={"queue://progress": 1},
        inputs={"queue://a": (1, 1.0)},
        error_waiting=1,
        paused=["queue://a"],
        resting=["store"],
        databases={"shop": True},
        disk_free=1,
        disk_wanted=1,
        last_good_poll=1.0,
    )
    text, _ = InstanceMetrics(activity, lambda: gauges).text("")
    found = {}
    for family in parser.text_string_to_metric_families(text.decode()):
        assert family.samples, family.name
        assert family.documentation, family.name
        labels = set().union(*(sample.labels for sample in family.samples)) - {"le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = family.type, labels
    return found


def test_the_page_has_each_metric_with_its_type_and_labels() -> None:
    shown = {}
    kind = ""
    for line in (REFERENCE / "metrics.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in ("counter", "histogram", "gauge"):
            kind = cells[0]
        elif cells[0].startswith("`connector_"):
            shown[cells[0].strip("`")] = kind, set(re.findall(r"`(\w+)`", cells[1]))
    assert shown == _families()


def _expressions() -> list[str]:
    rules = yaml.safe_load((REFERENCE / "monitoring/alerts.yaml").read_text("utf-8"))
    dashboard: dict[str, Any] = json.loads((REFERENCE / "monitoring/dashboard.json").read_text("utf-8"))
    alerts = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    panels = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(alerts) > 8
    assert len(panels) > 20
    return alerts + panels


def test_alerts_and_dashboard_ask_only_for_metrics_and_labels_that_there_are() -> None:
    families = _families()
    for expression in _expressions():
        assert expression.count("(") == expression.count(")"), expression
        for name, selector in _SELECTOR.findall(expression):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in families or families.get(base, ("",))[0] == "histogram", expression
            labels = families.get(name, families.get(base, ("", set())))[1]
            for label in re.findall(r"(\w+)\s*=", selector):
                assert label in labels | {"job", "instance"}, expression
        for names in re.findall(r"by \(([^)]*)\)", expression):
            metric = _NAME.search(expression[expression.index(f"by ({names})") :])
            assert metric is not None
            base = re.sub(r"_(bucket|sum|count)$", "", metric[0])
            labels = families.get(metric[0], families.get(base, ("", set())))[1]
            assert set(names.split(", ")) <= labels | {"job", "instance", "le"}, expression


# -- names of Python ---------------------------------------------------------------------------------

PYTHON = page("python")
GUIDES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/how-to/*.md")),
    *sorted(ROOT.glob("docs/questions/*.md")),
    *sorted(ROOT.glob("docs/tutorial/*.md")),
]
PLUG_INS = {"connector.datahandlers", "connector.sinks", "connector.providers"}
"""Groups of entry points."""
QUALIFIED = sorted(set(re.findall(r"`(connector\.[a-z_.]+(?:\.[A-Z]\w+)?)`", PYTHON)) - PLUG_INS)


def names_under(heading: str) -> set[str]:
    """The names in the first column of the table under a heading."""
    section = PYTHON.partition(f"\n## `{heading}`\n")[2].partition("\n## ")[0]
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
    blocks = re.findall(r"^```python[^\n]*\n(.*?)^```$", guide.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    for node in (node for block in blocks for node in ast.walk(ast.parse(block))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "connector":
            for one in node.names:
                name = f"{node.module}.{one.name}"
                exported = name.removeprefix("connector.") in connector.__all__
                assert exported or name.startswith(public), name
