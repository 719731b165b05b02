# ruff: noqa: E501  # a row of the table reads best as one line
"""``connector check`` finds what a start refuses without a connection.

The first test walks over the sources for everything that refuses. A new refusal has to be in the table: with
a case below, or with the reason why ``check`` cannot know.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import connector
from connector.config.loading import Configuration, check, load
from connector.errors import ConfigurationError, ConnectorError, PipelineError, ProviderError
from connector.java import find_java
from connector.service.assembly import make_handlers, make_provider, make_requests
from tests.config.mistakes import A, Edit, Mistake, O, R
from tests.tables import rows, texts

if TYPE_CHECKING:
    from tests.config.conftest import Sample

SOURCES = Path(connector.__file__).parent
REFUSALS = ("ConfigurationError", "PipelineError", "CapabilityError")
FILES = """
    *.py   service/*.py   spark/*.py   businessobjects/*.py   formats/*.py   text/*.py   declare/*.py
    config/*.py   authoring/*.py   workbench/*.py   brokers/engine/*.py   brokers/jms/registration.py   brokers/jms/jvm.py
    stores/engine/*.py   stores/*/registration.py   sinks/**/*.py   databases/*.py   events/*.py
"""

FOUND = """
    formats/catalogue.py Catalogue.spec   formats/catalogue.py _bad_class   formats/catalogue.py discover
    formats/datahandler.py resolve_options   formats/handlers.py Handlers._make
    formats/handlers.py Handlers.load_all   formats/handlers.py _load_failure   formats/handlers.py _refusal
    businessobjects/name_handlers.py _load   config/loading.py load   config/loading.py load_parts   java.py find_java
    java.py _java_of_home   brokers/engine/connection.py RemoteConnection._poller
    brokers/engine/connection.py RemoteConnection._begin_progress
    stores/engine/connection.py _check_in_progress   stores/engine/connection.py LocalConnection._takeable   stores/engine/connection.py LocalConnection.poller
    spark/launcher.py Launcher._properties   spark/launcher.py _java_options
    spark/shipping.py _add
"""
"""What refuses, and a case below shows that check finds it."""
NOT_FOUND = {
    "of a command that is no start": """
        authoring/metaobject_files.py surroundings   spark/archive.py make_archive
        stores/engine/connection.py LocalConnection.picker
        brokers/engine/connection.py RemoteConnection.picker
    """,
    "runs code of users, which check only looks up by name": """
        formats/handlers.py Handlers.get   events/run/worker.py check_worker
        service/inbound_connection.py InboundConnection._check_workers   service/timer_messages.py make_timers
    """,
    "a signal has ended the start": """
        service/inbound_connection.py InboundConnection._start_pipeline
        spark/pipeline.py SparkPipeline.start   spark/pipeline.py SparkPipeline.probe
    """,
    "after the start": """
        sinks/contract.py Event.send   sinks/lazy_requests.py LazyRequests._open   sinks/sending.py OutboxWriter.write
        brokers/engine/connection.py RemoteConnection.sent_ids   brokers/engine/lots.py RemoteLots._own
        brokers/engine/lots.py RemoteLots.settle
        brokers/engine/session_connection.py SessionConnection.poller
        stores/engine/connection.py LocalConnection.lots   stores/engine/lots.py Lots._begin
        events/run/job.py EventJobs._answers   events/run/job.py EventJobs._result   events/run/worker.py Runner.run
        events/run/worker.py _task_settings   spark/batch_jobs.py BatchJobs._job
        spark/pipeline.py SparkPipeline._limit_time   spark/pipeline.py SparkPipeline._context
        spark/pipeline.py SparkPipeline._explain   spark/pipeline.py SparkPipeline._running
        spark/pipeline.py SparkPipeline.session   spark/staying_tasks.py StayingTasks._call
        spark/staying_tasks.py StayingTasks._keep   spark/staying_tasks.py StayingTasks._reason
        spark/staying_tasks.py StayingTasks._run_shared
        spark/staying_tasks.py StayingTasks._wait_for
        spark/task_links.py SharedLink._read   spark/task_links.py TaskLink.call
    """,
    "needs a connection": """
        brokers/engine/commits.py _announcements   brokers/engine/commits.py announce
        brokers/engine/delays.py _measure   brokers/engine/delays.py check_delays   spark/batch_jobs.py BatchJobs._await_executors
        spark/session.py driver_address
    """,
    "depends on what other instances have left": """
        brokers/engine/in_progress.py InProgress.check   brokers/engine/state.py RemoteState.check_mode
    """,
    "a test of the provider jms has it": """
        brokers/jms/jvm.py check_installed   brokers/jms/jvm.py start
    """,
    "of a program that uses the API": """
        brokers/jms/registration.py _open   brokers/jms/registration.py _open_amqp
        spark/session.py context_of
    """,
    "depends on the process or on Spark while it starts": """
        spark/fast_start.py FastStart._gateway   spark/java_process.py JavaProcess.__init__
        spark/launcher.py Launcher.make
    """,
    "PySpark is a dependency of the connector": """
        spark/settings.py spark_jars
    """,
    "a file that cannot be read by this user": """
        spark/shipping.py build_archive
    """,
}
"""What check does not find, by the reason."""


def refusals() -> set[str]:
    """Returns the functions that raise a refusal, ``FILE FUNCTION``."""
    found = set()

    def walk(node: ast.AST, file: str, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{name}.{child.name}".strip(".")
            if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in REFUSALS:
                found.add(f"{file} {name}")
            walk(child, file, inner)

    for pattern in texts(FILES):
        for path in sorted(SOURCES.glob(pattern)):
            walk(ast.parse(path.read_text("utf-8")), str(path.relative_to(SOURCES)), "")
    return found


def refused(
    name: str, path: str, words: str, edits: list[Edit], environment: Mapping[str, str] | None = None
) -> Mistake:
    """Returns a mistake that a start refuses, too. The environment is that of the process."""
    return Mistake(name, edits, path, (words,), environment=environment or {})


OPTIONS = '  text/xml: {BOPrefix: "", IgnoreUndefinedAttributes: false}'
MIME = "DataHandlerMimeType: application/json\n  DefaultVerb"
HANDLERS = "MO_DataHandler_Default.handlers"
DROPBOX = "type: dropbox\n  root: ./data"
NO_DATABASE: Edit = ("text.db", "", "this is no database\n" * 9)
UNUSABLE = ("text.db", "x" * 300, "a\\0b")
JMS = (
    "type: jms\n  factory: org.apache.qpid.jms.JmsConnectionFactory\n  url: amqp://127.0.0.1:1\n"
    '  classpath: ["client.jar"]'
)


def option(name: str, mime_type: str, options: str, key: str, words: str, *files: tuple[str, str]) -> Mistake:
    edits = [(R, OPTIONS, f"  {mime_type}: {options}"), *((file, "", text) for file, text in files)]
    return refused(name, f"{HANDLERS}.{mime_type}{key and '.'}{key}", words, edits)


CASES = [
    refused("unknown key", "connector.PollQuanity", "unknown key", [(A, "PollQuantity", "PollQuanity")]),
    # data handlers
    option("schema that is missing", "application/json", "{schema: nope.json}", "schema", "nope.json"),
    option("schema that is no JSON", "application/json", "{schema: s.json}", "schema", "s.json", ("s.json", "{")),
    option("schema that is no schema", "application/json", "{schema: s.json}", "schema", "s.json", ("s.json", '{"type": 1}')),
    option("schema of JSON Lines", "application/jsonl", "{schema: nope.json}", "schema", "nope.json"),
    option("template that is missing", "text/template", "{template: nope.j2}", "template", "nope.j2"),
    option("wrong template", "text/template", "{template: t.j2}", "template", "t.j2:1", ("t.j2", "{{ x")),
    option("template without a text", "text/template", "{charset: UTF-8}", "", "one of the options template and text"),
    option("DTD that is missing", "text/xml", "{Validation: true, DTDPath: nope.dtd}", "DTDPath", "nope.dtd"),
    option("XML Schema that is missing", "text/xml", "{Validation: true, schema: nope.xsd}", "schema", "nope.xsd"),
    option("wrong XML Schema", "text/xml", "{Validation: true, schema: s.xsd}", "schema", "s.xsd", ("s.xsd", "<a>")),
    option("no XML Schema", "text/xml", "{Validation: true, schema: s.xsd}", "schema", "s.xsd", ("s.xsd", "<a/>")),
    option("no schema at all", "text/xml", "{Validation: true}", "Validation", "needs schema or DTDPath"),
    option("two delimiters", "text/delimited", '{Delimiter: ""}', "Delimiter", "at least one character"),
    option("widths", "text/fixedwidth", "{BONameSize: -1}", "BONameSize", "0 or more"),
    option("list of a text", "text/delimited", '{Delimiter: ["|"]}', "Delimiter", "a text"),
    option("half a record type", "text/fixedwidth", "{record_type: {at: 1}}", "record_type", "both at and length"),
    option("field of no number", "text/delimited", "{record_type: {field: x}}", "record_type", "to numbers from 1"),
    option("list in a list", "text/csv", "{true: [[a]]}", "true", "a list or a mapping of single values"),
    option("one word for both", "text/csv", "{true: [a], false: [a]}", "true", "the same word"),
    option("date without a year", "text/namevalue", "{date_format: '%d.%m.'}", "date_format", "one of %Y and %y"),
    option("fault of nothing", "application/soap+xml", "{FaultObject: Nothing}", "FaultObject", "no business object"),
    option("pair of itself", "text/requestresponse", "{RequestDataHandlerMimeType: text/requestresponse}", "RequestDataHandlerMimeType", "part of itself"),
    option("part of a pair", "text/requestresponse", "{RequestDataHandlerMimeType: text/nothing}", "RequestDataHandlerMimeType", "text/nothing"),
    option("option", "text/xml", "{BOPrefx: A}", "BOPrefx", "no such option"),
    option("number of an option", "text/fixedwidth", "{BONameSize: 1_0}", "BONameSize", "an integer"),
    option("unknown type", "text/nothing", "{a: b}", "", "no data handler"),
    option("name handler of nothing", "text/csv", "{NameHandlerClass: 'nothing:here'}", "NameHandlerClass", "no module 'nothing'"),
    option("function of nothing", "text/csv", "{NameHandlerClass: 'processes:nothing'}", "NameHandlerClass", "no function 'nothing'"),
    option("wrong expression", "text/csv", "{NameHandlerClass: 'jmespath:a['}", "NameHandlerClass", "JMESPath"),
    refused("class without a module", "connector.DataHandlerClassName", "no module 'nothing'", [(A, MIME, "DataHandlerClassName: nothing:Csv\n  DefaultVerb")]),
    refused("no reference to a class", "connector.DataHandlerClassName", "'Csv'", [(A, MIME, "DataHandlerClassName: Csv\n  DefaultVerb")]),
    refused("class without methods", "connector.DataHandlerClassName", "no method", [(A, MIME, "DataHandlerClassName: own:Csv\n  DefaultVerb"), ("own.py", "", "class Csv: pass\n")]),
    refused("no plug-ins", "datahandlers", "there is no", [(A, "metaobjects: ./metaobjects", "metaobjects: ./metaobjects\ndatahandlers: ./nothing")]),
    refused(
        "two plug-ins of one type",
        "datahandlers",
        "text/own",
        [
            (A, "metaobjects: ./metaobjects", "metaobjects: ./metaobjects\ndatahandlers: ./own"),
            *((f"own/{name}.py", "", f'class {name}:\n    mime_types = ("text/own",)\n    options = ()\n    def to_business_object(self, body, hint): ...\n    def to_body(self, bo): ...\n') for name in ("One", "Two")),
        ],
    ),
    # processes, sinks and databases
    refused("process of nothing", "subscriptions[0].process", "no function", [(A, "processes:store_customer", "processes:nothing")]),
    refused("process with an error", "subscriptions[0].process", "has an error in line 1", [(A, "processes:store_customer", "own:f"), ("own.py", "", "def f(:\n")]),
    refused("hidden module", "", "hides the module queue", [("queue.py", "", "")]),
    refused("driver that is missing", "databases.shop.url", "driver cannot be imported", [(A, '"sqlite:///./shop.db"', '"mysql+pymysql://h/d"')]),
    refused("state in the place of a file", "state.directory", "is not a directory", [(A, DROPBOX, "type: sql\n  url: sqlite:///./m.db"), (A, "spark:\n", "state: {directory: adapter.yaml/state}\nspark:\n")]),
    refused("root in the place of a file", "provider.root", "is not a directory", [(A, "root: ./data", "root: ./adapter.yaml/data\n  create: true")]),
    refused("messages in the place of a file", "provider.url", "is not a directory", [(A, DROPBOX, "type: sql\n  url: sqlite:///./adapter.yaml/m.db")]),
    *(refused(f"root {name[:4]}", "provider.root", "", [(A, "root: ./data", f'root: "./{name}"\n  create: true')]) for name in ("x" * 300, "a\\0b", "d/" + "x" * 300 + "/d")),
    *(refused(f"messages in {name[:4]}", "provider.url", "", [(A, DROPBOX, f'type: sql\n  url: "sqlite:///./{name}"'), NO_DATABASE]) for name in UNUSABLE),
    refused("object within itself", "subscriptions[0].object", "contains itself: Customer > Address > Customer", [(A, "process: processes:store_customer", "dataframe: {format: json, path: l}"), (O, "City: {type: String, key: true}", "City: {type: String, key: true}\n  Owner: Customer")]),
    refused("unknown column of a date", "subscriptions[0].object", "found spark=time", [(A, "process: processes:store_customer", "dataframe: {format: json, path: l}"), (O, "  Name: String", "  Name: {type: Date, app_specific_info: spark=time}")]),
    # inputs
    refused("view at a broker", "connector.InputDestination[0]", "has no views of queues", [(A, DROPBOX, JMS), ("client.jar", "", ""), (A, "- queue://orders", "- orders~EXPIRED")]),
    refused("topic in progress", "connector.InputDestination[0]", "a topic", [(A, "- queue://orders", "- {destination: topic://t, subscription: s}"), (A, "PollQuantity", "InProgressDestination: p\n  PollQuantity")]),
    refused("view in progress", "connector.InputDestination[0]", "a view of a queue", [(A, "- queue://orders", "- orders~EXPIRED"), (A, "PollQuantity", "InProgressDestination: p\n  PollQuantity")]),
    refused("input that is claimed", "connector.InputDestination[0]", "no input", [(A, "- queue://orders", "- orders~PROCESSING")]),
    refused("topic without a name", "connector.InputDestination[0]", "without a subscription", [(A, "- queue://orders", "- topic://t")]),
    # the client library of a broker
    refused("lock that is missing", "provider.packages", "connector-jars.lock does not exist", [(A, DROPBOX, JMS.replace("classpath: [\"client.jar\"]", "packages: [\"a:b:1\"]"))]),
    refused("lock that is damaged", "provider.packages", "connector-jars.lock", [(A, DROPBOX, JMS.replace("classpath: [\"client.jar\"]", "packages: [\"a:b:1\"]")), ("connector-jars.lock", "", "nothing\n")]),
    refused("jar that is missing", "provider.classpath[0]", "no file client.jar", [(A, DROPBOX, JMS)]),
    # Spark
    refused("no Java", "connector.InputDestination", "JAVA_HOME is '/nonexistent'", [], {"JAVA_HOME": "/nonexistent"}),
    refused("owned setting", "spark.conf.spark.app.name", "owns this setting", [(A, "master: local[*]", "conf: {spark.app.name: x}")]),
    refused("quotes of Java", "spark.conf.spark.driver.extraJavaOptions", "quotation", [(A, "master: local[*]", "conf: {spark.driver.extraJavaOptions: '-Da=\"b'}")]),
    refused("shipped file that is missing", "spark.ship[0]", "there is no", [(A, "master: local[*]", "ship: [nothing.py]")]),
    refused("two files in one place", "spark.ship[1]", "has the place of", [(A, "master: local[*]", "ship: [../one/own.py, ../two/own.py]"), ("../one/own.py", "", ""), ("../two/own.py", "", "")]),
]  # fmt: skip


def test_every_refusal_of_a_start_is_known() -> None:
    found, known = refusals(), set(texts(FOUND))
    others = {name for names in NOT_FOUND.values() for name in texts(names)}
    assert found - known - others == set(), "write a case that check finds, or say why check cannot"
    assert known - found == set()


def begin(configuration: Configuration) -> None:
    """Makes what a start makes before it connects."""
    provider = make_provider(configuration)
    if provider.capabilities.transactions:
        provider.check()
    handlers, _ = make_handlers(configuration)
    handlers.load_all()
    make_requests(configuration)
    find_java()


@rows("case", CASES)
def test_check_finds_it_first_with_its_place(
    deployment: Sample, monkeypatch: pytest.MonkeyPatch, case: Mistake
) -> None:
    for name, value in case.environment.items():
        monkeypatch.setenv(name, value)
    deployment.edit(case.edits)
    before = sorted(deployment.directory.rglob("*"))
    modules = set(sys.modules)
    found = [problem for problem in check("adapter.yaml", {}) if not problem.warning]
    assert [problem.path for problem in found] == [case.path], found
    assert case.words[0] in str(found[0])
    assert found[0].line
    assert found[0].column
    assert sorted(deployment.directory.rglob("*")) == before
    assert not {name for name in set(sys.modules) - modules if name.startswith("_connector_user")}
    # A start refuses it as well: with the same words, or later and without a place.
    with pytest.raises(ConnectorError) as refused:
        begin(load("adapter.yaml", {}, thorough=True))
    if isinstance(refused.value, ConfigurationError):
        assert str(found[0]) in str(refused.value)
    else:
        assert isinstance(refused.value, PipelineError | ProviderError)


POSTGRESQL = "postgresql+psycopg://u:secret@127.0.0.1:1/d"


@rows(
    "old, new, path",
    [
        (DROPBOX, f"type: sql\n  url: {POSTGRESQL}", "provider.url"),
        ("sqlite:///./shop.db", POSTGRESQL, "databases.shop.url"),
    ],
)
def test_the_driver_of_postgresql_is_looked_for(
    deployment: Sample, monkeypatch: pytest.MonkeyPatch, old: str, new: str, path: str
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)  # as if the extra were not installed
    deployment.replace(A, old, new)
    problem = deployment.problem()
    assert (problem.path, bool(problem.line)) == (path, True)
    assert "driver cannot be imported" in problem.found
    assert "pip install 'event-connector[postgresql]'" in problem.expected
    assert "secret" not in str(problem)


def test_what_an_own_handler_names_is_looked_for_and_its_code_never_runs(deployment: Sample) -> None:
    deployment.write(
        "datahandlers/own.py",
        "from pathlib import Path\nfrom connector.formats.datahandler import Option\n"
        "class Own:\n    mime_types = ('text/own',)\n"
        "    options = (Option('table', Path, '', 'A file.'),)\n"
        "    def to_business_object(self, body, hint): ...\n    def to_body(self, bo): ...\n"
        "raise SystemExit('this code runs')\n",
    )
    deployment.replace(R, OPTIONS, "  text/own: {table: nope.csv}")
    deployment.add("datahandlers: ./datahandlers")
    problem = deployment.problem()
    assert problem.warning
    assert (problem.path, problem.found) == (f"{HANDLERS}.text/own.table", "there is no nope.csv")


MADE: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "directory": Path.mkdir,
    "circle of links": lambda place: place.symlink_to(place.name),
    "device": lambda place: place.symlink_to("/dev/zero"),
}
MISPLACED: dict[str, tuple[str, list[Edit]]] = {
    # place: the path that check names, and the edits
    "s.json": (f"{HANDLERS}.application/json.schema", [(R, OPTIONS, "  application/json: {schema: s.json}")]),
    "referred": (
        f"{HANDLERS}.application/json.schema",
        [(R, OPTIONS, "  application/json: {schema: s.json}"), ("s.json", "", '{"$ref": "referred"}')],
    ),
    "s.xsd": (f"{HANDLERS}.text/xml.schema", [(R, OPTIONS, "  text/xml: {Validation: true, schema: s.xsd}")]),
    "t.j2": (f"{HANDLERS}.text/template.template", [(R, OPTIONS, "  text/template: {template: t.j2}")]),
    "own.jar": (
        "provider.classpath[0]",
        [(A, DROPBOX, JMS.replace("client.jar", "own.jar"))],
    ),
    "connector-jars.lock": (
        "provider.packages",
        [(A, DROPBOX, JMS.replace('classpath: ["client.jar"]', 'packages: ["a:b:1"]'))],
    ),
    "m.db": ("provider.url", [(A, DROPBOX, "type: sql\n  url: sqlite:///./m.db")]),
    "shop.db": ("databases.shop.url", []),
    "shipped.py": ("spark.ship[0]", [(A, "master: local[*]", "ship: [shipped.py]")]),
    "own.py": ("subscriptions[0].process", [(A, "processes:store_customer", "own:f")]),
}  # fmt: skip


@rows("thing", MADE)
@rows("name", MISPLACED)
def test_a_thing_that_is_no_file_is_told_and_never_waited_for(
    deployment: Sample, name: str, thing: str
) -> None:
    if (name, thing) == ("shipped.py", "directory"):
        return  # a directory may be shipped
    path, edits = MISPLACED[name]
    deployment.edit(edits)
    MADE[thing](deployment.directory / name)
    found = [problem for problem in check("adapter.yaml", {}) if not problem.warning]
    assert [problem.path for problem in found] == [path], found
    assert found[0].line


@rows("name", UNUSABLE)
def test_a_database_that_sqlite_cannot_open_is_told(deployment: Sample, name: str) -> None:
    deployment.edit([(A, "./shop.db", f"./{name}"), NO_DATABASE])
    (problem,) = [problem for problem in deployment.check() if not problem.warning]
    assert problem.path == "databases.shop.url"
