"""Requests of a whole deployment: from Python, from a business process, from any process with the recipe."""

from __future__ import annotations

import json
import os
import pickle
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import connector
from connector.config.loading import load
from connector.errors import ProviderError, UnknownBusinessObject
from connector.messaging.client import ReceivedMessage
from connector.messaging.destination import parse_destination
from connector.requests.contract import RequestsSpec
from connector.service.assembly import make_requests
from connector.status import ReturnCode
from connector.testing.deployment import Deployment
from tests.forked_command import PipedProcess
from tests.requests.world import Application, Replying, done, greet, is_greeted, shared_memory
from tests.tables import rows
from tests.waiting import wait_for

ADAPTER = """\
provider: {type: dropbox, root: ./data, create: true, durability: none}
connector:
  ApplicationName: asking
  ConfigurationMetaObject: MO_Config
  DataHandlerMimeType: application/json
  ErrorDestination: queue://error
  stop_timeout: 2s
metaobjects: ./metaobjects
spark: {conf: {spark.serializer: no.such.Serializer}}
"""
"""With this setting Spark could not start."""

OBJECTS = """\
business_object: Customer
app_specific_info: cw_mo_conn=Meta
verbs: {Retrieve: , Create: }
attributes:
  CustomerId: {type: String, key: true, required: true}
  Name: String
  Meta: CustomerMeta
---
business_object: CustomerMeta
attributes: {MessageID: String, DataHandlerConfigMO: String}
---
static_metaobject: MO_Config
Default: {OutputDestination: queue://requests}
rules:
  Customer_Retrieve: {ResponseTimeout: 120000}
---
datahandler_metaobject: MO_Short
handlers:
  application/json: {write_type: false}
"""

INPUT = ADAPTER.replace("connector:\n", "connector:\n  InputDestination: queue://in\n").replace(
    "metaobjects:",
    "subscriptions:\n  - {object: Customer, process: 'processes:ask'}\nmetaobjects:",
)

PROCESSES = """\
def ask(customer, event):
    result = event.request("Customer.Retrieve", {"CustomerId": customer["CustomerId"]})
    if not result.good:
        raise ValueError(result.message)
    if result.object["Name"] != f"name of {customer['CustomerId']}":
        raise ValueError(f"found {result.object['Name']}")
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=shared_memory(), prefix="asking-") as path:
        yield Path(path)


@pytest.fixture
def asking(directory: Path) -> Deployment:
    """A deployment that polls nothing."""
    return Deployment(directory, adapter=ADAPTER, metaobjects=OBJECTS, processes=PROCESSES)


@pytest.fixture
def application(asking: Deployment) -> Iterator[Application]:
    made = Application(asking.provider)
    yield made
    made.end()


# --- Python ----------------------------------------------------------------------------------------------


def test_an_adapter_makes_requests_without_spark_from_many_threads_of_which_one_opens_the_client(
    asking: Deployment, application: Application
) -> None:
    with connector.Adapter.from_file(asking.directory / "adapter.yaml") as adapter:

        def ask(number: int) -> bool:
            return is_greeted(adapter.request("Customer.Retrieve", {"CustomerId": str(number)}), number)

        with ThreadPoolExecutor(20) as pool:
            assert list(pool.map(ask, range(20))) == [True] * 20
        futures = [adapter.request_async("Customer.Retrieve", {"CustomerId": str(n)}) for n in range(30)]
        assert all(is_greeted(result, n) for n, result in enumerate(done(futures)))
    assert len(application.requests) == 50


def test_a_dynamic_metaobject_names_options_of_a_data_handler_or_a_refused_request_is_an_answer(
    asking: Deployment, application: Application
) -> None:
    with connector.Adapter.from_file(asking.directory / "adapter.yaml") as adapter:
        for options, status in (("MO_Short", ReturnCode.VALCHANGE), ("?", ReturnCode.FAIL)):
            data = {"CustomerId": "7", "Meta": {"DataHandlerConfigMO": options}}
            assert adapter.request("Customer.Retrieve", data).status is status
        with pytest.raises(UnknownBusinessObject, match="did you mean 'Customer'"):
            adapter.request("Custmer.Retrieve", {"CustomerId": "7"})
    assert [json.loads(request.body) for request in application.requests] == [{"CustomerId": "7"}]


def test_what_is_in_flight_when_an_adapter_stops_completes(asking: Deployment) -> None:
    gate = threading.Event()

    def answer(request: ReceivedMessage, replying: Replying) -> None:
        assert gate.wait(120)
        greet(request, replying)

    asking.write("adapter.yaml", ADAPTER.replace("stop_timeout: 2s", "stop_timeout: 120s"))
    application = Application(asking.provider, answer)
    try:
        adapter = connector.Adapter.from_file(asking.directory / "adapter.yaml")
        future = adapter.request_async("Customer.Retrieve", {"CustomerId": "7"})
        wait_for(lambda: bool(application.requests), what="the request to be taken")
        stopping = threading.Thread(target=adapter.stop)
        stopping.start()
        wait_for(lambda: adapter.request("Customer.Create", {"CustomerId": "8"}).not_sent)
        gate.set()
        stopping.join()
        assert future.done()
        assert is_greeted(future.result(), 7)
    finally:
        application.end()


def test_what_nobody_answers_ends_with_stop_timeout_and_later_requests_are_not_sent(
    asking: Deployment,
) -> None:
    asking.write("adapter.yaml", ADAPTER.replace("stop_timeout: 2s", "stop_timeout: 300ms"))
    adapter = connector.Adapter.from_file(asking.directory / "adapter.yaml")
    future = adapter.request_async("Customer.Retrieve", {"CustomerId": "7"})
    wait_for(lambda: bool(asking.messages("requests")), what="the request to be sent")
    started = time.monotonic()
    adapter.stop()
    assert time.monotonic() - started > 0.2
    assert future.done()
    assert not future.result().good
    late = adapter.request("Customer.Retrieve", {"CustomerId": "8"})
    assert (late.status, late.not_sent) == (ReturnCode.FAIL, True)
    assert len(asking.messages("requests")) == 1
    assert os.listdir(asking.directory / "data/dropboxmq/clients") == []


def test_an_adapter_that_has_ended_before_its_first_request_sends_none(asking: Deployment) -> None:
    with connector.Adapter.from_file(asking.directory / "adapter.yaml") as adapter:
        pass
    result = adapter.request("Customer.Create", {"CustomerId": "7"})
    assert (result.status, result.not_sent) == (ReturnCode.FAIL, True)
    assert not (asking.directory / "data").exists()


# --- the inbound half starts when it is needed -------------------------------------------------------------


def test_the_inbound_half_starts_with_the_first_poll(asking: Deployment) -> None:
    asking.write("adapter.yaml", INPUT)
    adapter = asking.running()
    assert not (asking.directory / "data").exists()
    application = Application(asking.provider)
    asking.drop("in", '{"BusinessObject": "Customer", "Verb": "Create", "CustomerId": "7"}')
    try:
        assert adapter.drain().code is ReturnCode.SUCCEED
        assert adapter.summary.total.published == 1
    finally:
        adapter.stop()
        application.end()
    with pytest.raises(ProviderError, match="start it first"):
        adapter.poll()


def test_an_adapter_without_input_polls_nothing_and_says_so(
    asking: Deployment, caplog: pytest.LogCaptureFixture
) -> None:
    with connector.Adapter.from_file(asking.directory / "adapter.yaml") as adapter:
        adapter.start()
        assert adapter.poll().code is adapter.drain().code is adapter.serve().code is ReturnCode.SUCCEED
        assert adapter.summary.total.claimed == 0
    assert [record.getMessage() for record in caplog.records] == [
        "InputDestination is not set, so the adapter only makes requests"
    ]
    assert not (asking.directory / "data").exists()


@pytest.mark.process
def test_a_bounded_run_without_input_ends_well_with_an_empty_summary(asking: Deployment) -> None:
    process = PipedProcess("run", "--drain", "--json", cwd=asking.directory)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert json.loads(output)["claimed"] == 0
    assert json.loads(output)["destinations"] == {}
    assert "only makes requests" in errors


@pytest.mark.process
def test_a_service_without_input_waits_until_it_is_told_to_end(asking: Deployment) -> None:
    process = PipedProcess("run", cwd=asking.directory)
    lines = [process.stderr.readline(), process.stderr.readline()]
    assert "starting" in lines[0]
    assert "only makes requests" in lines[1]
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert "stopping" in errors
    assert process.returncode == 0


# --- a business process, any process with the recipe -------------------------------------------------------


@pytest.mark.parametrize(
    "isolated",
    [False, pytest.param(True, marks=pytest.mark.process)],
    ids=["here", "in a process of its own"],
)
def test_a_business_process_makes_requests_while_it_handles_an_event(
    asking: Deployment, application: Application, isolated: bool
) -> None:
    asking.write("adapter.yaml", INPUT)
    for number in range(5):
        asking.drop("in", f'{{"BusinessObject": "Customer", "Verb": "Create", "CustomerId": "{number}"}}')
    with asking.running(isolated=isolated) as adapter:
        adapter.drain()
        assert adapter.summary.total.published == 5, [str(m.properties) for m in asking.messages("error")]
    assert asking.messages("error") == []
    assert sorted(json.loads(request.body)["CustomerId"] for request in application.requests) == list("01234")


def test_a_business_process_makes_requests_in_memory_too(directory: Path) -> None:
    memory = INPUT.replace("{type: dropbox, root: ./data, create: true, durability: none}", "{type: memory}")
    deployment = Deployment(directory, adapter=memory, metaobjects=OBJECTS, processes=PROCESSES)
    application = Application(deployment.provider)
    try:
        deployment.send("in", '{"BusinessObject": "Customer", "Verb": "Create", "CustomerId": "7"}')
        with deployment.running() as adapter:
            adapter.drain()
            assert adapter.summary.total.published == 1
            assert is_greeted(adapter.request("Customer.Retrieve", {"CustomerId": "8"}), 8)
    finally:
        application.end()


_ASK = """
import pickle, sys
from pathlib import Path
client = pickle.loads(Path(sys.argv[1]).read_bytes()).open(sys.argv[2])
try:
    print(client.request("Customer.Retrieve", {"CustomerId": "7"}).status.name)
finally:
    client.stop()
"""


def elsewhere(spec: RequestsSpec, directory: Path) -> tuple[str, str]:
    """What another process prints that makes a request with a recipe."""
    (directory / "recipe").write_bytes(pickle.dumps(spec))
    return PipedProcess(directory / "recipe", directory, script=_ASK).communicate(timeout=120)


@pytest.mark.process
def test_the_recipe_travels_to_another_process(asking: Deployment, application: Application) -> None:
    assert elsewhere(make_requests(asking.configuration), asking.directory)[0] == "VALCHANGE\n"
    assert len(application.requests) == 1


@pytest.mark.process
def test_the_recipe_of_a_memory_is_good_in_its_own_process_only(directory: Path) -> None:
    dropbox = "{type: dropbox, root: ./data, create: true, durability: none}"
    memory = ADAPTER.replace(dropbox, "{type: memory}")
    deployment = Deployment(directory, adapter=memory, metaobjects=OBJECTS)
    spec = make_requests(deployment.configuration, deployment.provider)
    copy: RequestsSpec = pickle.loads(pickle.dumps(spec))  # made by the test
    client = copy.open(str(directory))
    assert client.request("Customer.Create", {"CustomerId": "7"}).good
    client.stop()
    assert len(deployment.messages("requests")) == 1
    printed, errors = elsewhere(spec, directory)
    assert printed == ""
    assert "memory cannot be shared between processes" in errors


def test_what_an_adapter_asks_a_topic_is_local_to_it(asking: Deployment) -> None:
    """Its requests do not come back to it as events, where an input has no_local."""
    news = "[{destination: 'topic://requests', subscription: news, no_local: true}]"
    text = INPUT.replace("queue://in", news)
    asking.write("adapter.yaml", text)
    objects = OBJECTS.replace("queue://requests", "topic://requests")
    asking.write("metaobjects/objects.yaml", objects)
    with asking.running() as adapter:
        assert adapter.request("Customer.Create", {"CustomerId": "8"}).good
        adapter.drain()
        assert adapter.summary.total.claimed == 0
        asking.send("topic://requests", "no object")
        assert adapter.poll().claimed == 1, "what others send there does come"


def test_every_key_of_requests_reaches_the_client(asking: Deployment) -> None:
    keys = """\
  ArchiveDestination: queue://archive
  ReplyToDestination: queue://replies
  MessageResponseResultProperty: Outcome
  SessionPoolSizeForRequests: 3
  pool_timeout: 1500ms
  reply_matching: {request: JMSCorrelationID, reply: answers}
  late_replies: archive
  response_selector_quoting: raw
  max_body: 1KiB
  MessageFormatProperty: format
  UseDefaults: true
"""
    asking.write("adapter.yaml", ADAPTER.replace("metaobjects:", f"{keys}metaobjects:"))
    settings = make_requests(load(asking.directory / "adapter.yaml")).settings
    assert settings.reply_to == parse_destination("replies")
    assert settings.result_property == "Outcome"
    assert (settings.pool_size, settings.pool_timeout) == (3, 1.5)
    assert (settings.matching.request, settings.matching.reply) == ("JMSCorrelationID", "answers")
    assert settings.late_replies == parse_destination("archive")
    assert (settings.quoting, settings.max_body, settings.format_property) == ("raw", 1024, "format")
    assert settings.use_defaults is settings.persistent is True
    assert settings.default_handler == "application/json"


@rows(
    "keys, expected",
    [
        ("", "error"),
        ("  late_replies: error\n", "error"),
        ("  ArchiveDestination: queue://archive\n  late_replies: archive\n", "archive"),
        ("  late_replies: discard\n", None),
    ],
)
def test_late_replies_go_where_they_are_to(asking: Deployment, keys: str, expected: str | None) -> None:
    asking.write("adapter.yaml", ADAPTER.replace("metaobjects:", f"{keys}metaobjects:"))
    late = make_requests(load(asking.directory / "adapter.yaml")).settings.late_replies
    assert late == (None if expected is None else parse_destination(expected))
