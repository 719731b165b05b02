"""What business processes and data handlers log, warn and print, in the log of real runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from connector.testing.deployment import Deployment
from tests.cli.in_process import Commands
from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment, deployments
from tests.runs import Run

pytestmark = pytest.mark.process

_PROCESSES = """
import contextvars, logging, logging.config, subprocess, sys, threading, warnings
from decimal import Decimal

log = logging.getLogger("shop")

def store(customer, event):
    globals()[customer["Name"]](customer)

def speak(customer):
    log.debug("looks")
    log.info("booked %s", customer["CustomerId"], extra={"total": Decimal("1.50"), "destination": "mine"})
    logging.getLogger("other").debug("not shown")
    logging.warning("of the root logger")
    logging.getLogger("sqlalchemy.engine").info("not shown")
    said = {"event": "of structlog", "level": "info", "user": 7, "verb": "x"}
    log.info(said, extra={"_logger": log, "_name": "info"})
    log.info("wrong %d", "x", extra={"odd": {(1, 2): log}})
    try:
        customer["CustomerId"] / 0
    except TypeError:
        log.exception("no luck")
    warnings.warn("an old thing")
    print("printed")
    print("of stderr", file=sys.stderr)
    sys.stdout.buffer.write(b"raw\\n")
    thread = threading.Thread(target=contextvars.copy_context().run, args=(log.info, "in a thread"))
    thread.start()
    thread.join()
    print("no end", end="")

def load(dataframe, lot):
    log.info("loads %d", lot.count)
    print("printed in a load")

def die(customer):
    log.info("the last words")
    print("the last print")
    os._exit(3)

def basic(customer):
    logging.basicConfig(level=logging.DEBUG, format="mine %(levelname)s %(message)s")
    log.debug("basic")

def dict_config(customer):
    logging.config.dictConfig({
        "version": 1,
        "formatters": {"own": {"format": "own %(message)s"}},
        "handlers": {"file": {"class": "logging.FileHandler", "filename": "own.log", "formatter": "own"}},
        "root": {"level": "INFO", "handlers": ["file"]},
    })
    logging.getLogger("later").info("to a file")
    print("still printed")
    raise ValueError("still logged")
"""
_FIELDS = ("message_id", "destination", "object", "verb", "subscription")


@pytest.fixture(scope="module")
def deploy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deploy]:
    with deployments(tmp_path_factory.mktemp("lines")) as make:
        yield make


def drain(
    deploy: Deploy,
    names: Sequence[str],
    logging: str = "{format: json}",
    *,
    java: bool = False,
    **settings: Any,
) -> tuple[Run, list[str], CrashDeployment]:
    """Drains messages each of which names a function of the process."""
    deployment = deploy(java=java, **settings)
    with (deployment.directory / "processes.py").open("a") as file:
        file.write(_PROCESSES)
    with (deployment.directory / "adapter.yaml").open("a") as file:
        file.write(f"logging: {logging}\n")
    ids = deployment.fill("in", names)
    run = deployment.start("--drain", "--json")
    assert run.wait() == 0, run.errors
    return run, ids, deployment


def lines_of(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.errors.splitlines()]


def one(lines: Sequence[dict[str, Any]], event: str) -> dict[str, Any]:
    (found,) = [line for line in lines if line["event"] == event]
    return found


def printed(lines: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Stream and text of each line that was printed."""
    return [(line["stream"], line["text"]) for line in lines if line["event"] == "output"]


def test_what_a_load_logs_and_prints_has_its_subscription_and_lot(deploy: Deploy) -> None:
    load = {"object": "Customer", "name": "lake", "load": "processes:load", "every": "1h"}
    run, _, _ = drain(deploy, ["speak"], java=True, only=[load])
    lines = lines_of(run)
    of_load = [one(lines, "loads 1"), one(lines, "output")]
    assert [(line["subscription"], line["lot"]) for line in of_load] == [("lake", 1), ("lake", 1)]
    assert printed(lines) == [("stdout", "printed in a load")]


@pytest.mark.parametrize("java", [False, True], ids=["without Spark", "Spark"])
def test_what_a_process_logs_is_a_line_with_the_fields_of_its_event(deploy: Deploy, java: bool) -> None:
    run, ids, _ = drain(deploy, ["speak"], "{format: json, loggers: {shop: debug}}", java=java)
    lines = lines_of(run)
    of_process = [line for line in lines if not line["logger"].startswith("connector") or "stream" in line]
    for line in of_process:
        assert [line.get(name) for name in _FIELDS] == [
            ids[0],
            "queue://in",
            "Customer",
            "Create",
            "store",
        ], line
    told = [(line["logger"], line["level"], line["event"]) for line in of_process if "stream" not in line]
    assert told[:6] == [
        ("shop", "debug", "looks"),
        ("shop", "info", "booked 1"),
        ("root", "warning", "of the root logger"),
        ("shop", "info", "of structlog"),
        ("shop", "info", "wrong %d ('x',)"),
        ("shop", "error", "no luck"),
    ]
    assert told[6][:2] == ("py.warnings", "warning")
    assert told[6][2].endswith("UserWarning: an old thing")
    assert told[7:] == [("shop", "info", "in a thread")]
    booked, structured = one(lines, "booked 1"), one(lines, "of structlog")
    assert (booked["total"], booked["extra_destination"]) == ("1.50", "mine")
    assert (structured["user"], structured["extra_verb"]) == (7, "x")
    assert structured.keys().isdisjoint({"_logger", "_name", "extra_level"}), "what structlog repeats"
    assert one(lines, "no luck")["exception"].count("Traceback") == 1
    expected = [("stdout", "printed"), ("stderr", "of stderr"), ("stdout", "raw"), ("stdout", "no end")]
    assert printed(lines) == expected


def test_the_level_says_what_is_shown(deploy: Deploy) -> None:
    run, _, _ = drain(deploy, ["speak"], "{format: json, level: error, loggers: {shop: info}}")
    events = [line["event"] for line in lines_of(run)]
    assert events == ["booked 1", "of structlog", "wrong %d ('x',)", "no luck", "in a thread"]


def test_people_see_the_same_lines(deploy: Deploy) -> None:
    run, ids, _ = drain(deploy, ["speak"], "{format: console}")
    where = f"message_id={ids[0]} destination=queue://in object=Customer verb=Create subscription=store\n"
    assert f" [info] in a thread [shop] {where}" in run.errors
    assert f" [info] output [connector.output] source=worker text=printed stream=stdout {where}" in run.errors
    assert "\n  TypeError: " in run.errors


def test_the_last_words_of_a_process_that_dies_are_there(deploy: Deploy) -> None:
    run, ids, _ = drain(deploy, ["die"], connector={"max_attempts": 1})
    lines = lines_of(run)
    assert one(lines, "the last words")["message_id"] == ids[0]
    assert printed(lines) == [("stdout", "the last print")]


def test_a_process_that_configures_logging_keeps_what_it_asked_for(deploy: Deploy) -> None:
    run, ids, _ = drain(deploy, ["basic"])
    lines = lines_of(run)
    assert printed(lines) == [("stderr", "mine DEBUG basic")]
    assert one(lines, "output")["message_id"] == ids[0]


def test_dict_config_of_a_process_silences_no_line_of_the_adapter(deploy: Deploy) -> None:
    run, _, deployment = drain(deploy, ["dict_config"])
    lines = lines_of(run)
    assert (deployment.directory / "own.log").read_text().startswith("own to a file\n")
    assert printed(lines) == [("stdout", "still printed")]
    assert one(lines, "a business process has failed")["reason"].startswith("ValueError: still logged")


_HANDLER = """
import logging
from datahandlers.json_handler import JsonHandler

class Loud(JsonHandler):
    mime_types = ("text/loud",)

    def to_business_object(self, body, hint=None):
        logging.getLogger("loud").info("reads", extra={"bytes": len(body)})
        print("a print of a handler")
        return super().to_business_object(body, hint)

    def to_body(self, bo):
        logging.getLogger("loud").info("writes")
        return super().to_body(bo)
"""
_ADAPTER = """
provider: {type: memory, accept_persistent: true}
connector:
  ApplicationName: lines
  InputDestination: queue://in
  ErrorDestination: queue://error
  UnsubscribedDestination: queue://unsubscribed
  ConfigurationMetaObject: MO_Config
  DataHandlerMimeType: text/loud
subscriptions: [{object: Order, name: shop, process: "processes:store"}]
metaobjects: ./metaobjects
datahandlers: ./handlers
logging: {level: info, loggers: {shop: debug}}
"""
_METAOBJECTS = """
business_object: Order
verbs: [Create]
attributes: {Id: {type: String, key: true}}
---
static_metaobject: MO_Config
rules:
  Order_Create: {OutputDestination: queue://out}
"""
_CASE = """
message: {destination: in, body: '{"BusinessObject": "Order", "Id": "1"}'}
expect: {object: Order}
"""
_STORE = """
import logging
def store(order, event):
    logging.getLogger("shop").debug("stores %s", order["Id"])
"""


def test_caplog_shows_the_lines_with_the_event_in_a_test_and_in_a_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    levels = logging.getLogger().level, logging.getLogger("shop").level
    deployment = Deployment(
        tmp_path,
        adapter=_ADAPTER,
        metaobjects=_METAOBJECTS,
        processes=_STORE,
    )
    deployment.write("handlers/loud.py", _HANDLER)
    with deployment.running() as adapter:
        sent = deployment.send("queue://in", '{"BusinessObject": "Order", "Id": "1"}')
        adapter.drain()
        adapter.request("Order.Create", {"Id": "2"}, timeout=-1)
    lines = [record for record in caplog.records if record.name in ("shop", "loud")]
    assert [(line.getMessage(), line.levelname) for line in lines] == [
        ("reads", "INFO"),
        ("stores 1", "DEBUG"),
        ("writes", "INFO"),
    ]
    assert [[getattr(line, name, None) for name in _FIELDS] for line in lines] == [
        [sent, "queue://in", None, None, None],
        [sent, "queue://in", "Order", "Create", "shop"],
        [None, "queue://out", "Order", "Create", None],
    ]
    assert (logging.getLogger().level, logging.getLogger("shop").level) == levels


def test_the_command_test_shows_the_lines_of_data_handlers(tmp_path: Path) -> None:
    Deployment(tmp_path, adapter=_ADAPTER, metaobjects=_METAOBJECTS, processes=_STORE)
    commands = Commands(tmp_path, "test")
    commands.write("handlers/loud.py", _HANDLER)
    commands.write("a.test.yaml", _CASE)
    done = commands()
    assert done.stdout == "1 passed, 0 failed\n"
    assert " [info] reads [loud] bytes=" in done.stderr
    assert done.stderr.count(" destination=queue://in") == 2
    assert " text='a print of a handler' stream=stdout " in done.stderr
