"""Requests of a whole deployment: from Python, from a business process, from any process with the recipe."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import connector
from connector.config.loading import load
from connector.errors import ProviderError, UnknownBusinessObject
from connector.messaging.destination import parse_destination
from connector.messaging.history import History
from connector.operate.lives import LifeEvent, find_ids, read_all, read_life
from connector.service.assembly import make_requests
from connector.status import ReturnCode
from connector.testing.deployment import Deployment
from tests.forked_command import PipedProcess
from tests.requests.world import Application, all_greeted, is_greeted
from tests.waiting import wait_for

ASKS = "subscriptions: [{object: Customer, process: 'processes:ask'}]\n"
QUEUE = "InputDestination: queue://in"


def adapter_with(*keys: str, more: str = "") -> str:
    """A configuration with more keys of the connector, and more sections. Spark could not start with it."""
    lines = "".join(f"  {key}\n" for key in keys)
    return (
        "provider: {type: dropbox, root: ./data, create: true, durability: none}\n"
        "connector:\n  ApplicationName: asking\n  instance: one\n"
        "  ConfigurationMetaObject: MO_Config\n  DataHandlerMimeType: application/json\n"
        f"  ErrorDestination: queue://error\n{lines}{more}metaobjects: ./metaobjects\n"
        "spark: {conf: {spark.serializer: no.such.Serializer}}\n"
    )


OBJECTS = """\
business_object: Customer
app_specific_info: cw_mo_conn=Meta
verbs: {Retrieve: , Create: }
attributes: {CustomerId: {type: String, key: true, required: true}, Name: String, Meta: CustomerMeta}
---
business_object: CustomerMeta
attributes: {MessageID: String, DataHandlerConfigMO: String}
---
static_metaobject: MO_Config
Default: {OutputDestination: queue://requests}
rules: {Customer_Retrieve: {ResponseTimeout: 120000}}
---
datahandler_metaobject: MO_Short
handlers: {application/json: {write_type: false}}
"""
PROCESSES = """\
def ask(customer, event):
    result = event.request("Customer.Retrieve", {"CustomerId": customer["CustomerId"]})
    if not result.good:
        raise ValueError(result.message)
    if result.object["Name"] != f"name of {customer['CustomerId']}":
        raise ValueError(f"found {result.object['Name']}")
"""


@pytest.fixture
def asking(tmp_path: Path) -> Deployment:
    """A deployment that polls nothing."""
    return Deployment(tmp_path, adapter=adapter_with(), metaobjects=OBJECTS, processes=PROCESSES)


@pytest.fixture
def application(asking: Deployment) -> Iterator[Application]:
    made = Application(asking.provider)
    yield made
    made.end()


def adapter_of(deployment: Deployment) -> connector.Adapter:
    return connector.Adapter.from_file(deployment.directory / "adapter.yaml")


def data(number: object) -> dict[str, str]:
    return {"CustomerId": str(number)}


def drop(deployment: Deployment, number: object) -> str:
    """Sends an event."""
    return deployment.send("in", json.dumps({"BusinessObject": "Customer", "Verb": "Create", **data(number)}))


# --- Python ----------------------------------------------------------------------------------------------


def test_an_adapter_makes_requests_without_spark_from_many_threads_of_which_one_opens_the_client(
    asking: Deployment, application: Application
) -> None:
    with adapter_of(asking) as adapter:

        def ask(number: int) -> bool:
            return is_greeted(adapter.request("Customer.Retrieve", data(number)), number)

        with ThreadPoolExecutor(20) as pool:
            assert list(pool.map(ask, range(20))) == [True] * 20
        assert all_greeted([adapter.request_async("Customer.Retrieve", data(n)) for n in range(30)])
    assert len(application.requests) == 50


def test_a_dynamic_metaobject_names_options_of_a_data_handler_or_a_refused_request_is_an_answer(
    asking: Deployment, application: Application
) -> None:
    with adapter_of(asking) as adapter:
        for options, status in (("MO_Short", ReturnCode.VALCHANGE), ("?", ReturnCode.FAIL)):
            asked = {"CustomerId": "7", "Meta": {"DataHandlerConfigMO": options}}
            assert adapter.request("Customer.Retrieve", asked).status is status
        with pytest.raises(UnknownBusinessObject, match="did you mean 'Customer'"):
            adapter.request("Custmer.Retrieve", data(7))
    assert [json.loads(request.body) for request in application.requests] == [data(7)]


def test_what_nobody_answers_ends_with_stop_timeout_and_later_requests_are_not_sent(
    asking: Deployment,
) -> None:
    asking.write("adapter.yaml", adapter_with("stop_timeout: 300ms"))
    adapter = adapter_of(asking)
    future = adapter.request_async("Customer.Retrieve", data(7))
    wait_for(lambda: bool(asking.messages("requests")), what="the request to be sent")
    started = time.monotonic()
    adapter.stop()
    assert time.monotonic() - started > 0.2
    assert future.done()
    assert not future.result().good
    late = adapter.request("Customer.Retrieve", data(8))
    assert (late.status, late.not_sent) == (ReturnCode.FAIL, True)
    assert len(asking.messages("requests")) == 1
    assert os.listdir(asking.directory / "data/dropboxmq/clients") == []


def test_an_adapter_that_has_ended_before_its_first_request_sends_none(asking: Deployment) -> None:
    with adapter_of(asking) as adapter:
        pass
    result = adapter.request("Customer.Create", data(7))
    assert (result.status, result.not_sent) == (ReturnCode.FAIL, True)
    assert not (asking.directory / "data").exists()


# --- the inbound half starts when it is needed -------------------------------------------------------------


def test_the_inbound_half_starts_with_the_first_poll(asking: Deployment) -> None:
    asking.write("adapter.yaml", adapter_with(QUEUE, more=ASKS))
    adapter = asking.running()
    assert not (asking.directory / "data").exists()
    application = Application(asking.provider)
    drop(asking, 7)
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
    with adapter_of(asking) as adapter:
        adapter.start()
        assert adapter.poll().code is adapter.drain().code is adapter.serve().code is ReturnCode.SUCCEED
        assert adapter.summary.total.claimed == 0
    said = [record.getMessage() for record in caplog.records]
    assert said == ["InputDestination is not set, so the adapter only makes requests"]
    assert not (asking.directory / "data").exists()


@pytest.mark.process
def test_a_service_without_input_waits_until_it_is_told_to_end(asking: Deployment) -> None:
    process = PipedProcess("run", cwd=asking.directory)
    lines = [process.stderr.readline(), process.stderr.readline()]
    assert "starting" in lines[0]
    assert "only makes requests" in lines[1]
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=240)
    assert "stopping" in errors
    assert process.returncode == 0


# --- a business process, any process with the recipe -------------------------------------------------------


def test_what_an_adapter_asks_a_topic_is_local_to_it(asking: Deployment) -> None:
    """Its requests do not come back to it as events, where an input has no_local."""
    news = "InputDestination: [{destination: 'topic://requests', subscription: news, no_local: true}]"
    asking.write("adapter.yaml", adapter_with(news, more=ASKS))
    asking.write("metaobjects/objects.yaml", OBJECTS.replace("queue://requests", "topic://requests"))
    with asking.running() as adapter:
        assert adapter.request("Customer.Create", data(8)).good
        adapter.drain()
        assert adapter.summary.total.claimed == 0
        asking.send("topic://requests", "no object")
        assert adapter.poll().claimed == 1, "what others send there does come"


def test_every_key_of_requests_reaches_the_client(asking: Deployment) -> None:
    text = adapter_with(
        *("ArchiveDestination: queue://archive", "ReplyToDestination: queue://replies"),
        *("MessageResponseResultProperty: Outcome", "SessionPoolSizeForRequests: 3", "pool_timeout: 1500ms"),
        *("reply_matching: {request: JMSCorrelationID, reply: answers}", "late_replies: archive"),
        *("response_selector_quoting: raw", "max_body: 1KiB", "MessageFormatProperty: format"),
        "UseDefaults: true",
    )
    asking.write("adapter.yaml", text)
    settings = make_requests(load(asking.directory / "adapter.yaml")).settings
    section = settings.connector
    assert section.reply_to_destination == parse_destination("replies")
    assert section.message_response_result_property == "Outcome"
    assert (section.session_pool_size_for_requests, section.pool_timeout) == (3, 1.5)
    assert (section.reply_matching.request, section.reply_matching.reply) == ("JMSCorrelationID", "answers")
    assert settings.late_replies == parse_destination("archive")
    assert (section.response_selector_quoting, section.max_body) == ("raw", 1024)
    assert section.message_format_property == "format"
    assert section.use_defaults is settings.persistent is True
    assert settings.default_handler == "application/json"
    error = parse_destination("error")
    for keys, late in ([], error), (["late_replies: error"], error), (["late_replies: discard"], None):
        asking.write("adapter.yaml", adapter_with(*keys))
        assert make_requests(load(asking.directory / "adapter.yaml")).settings.late_replies == late


# --- history: the suite of state stores shows that each provider keeps the rows ----------------------------


def history_of(deployment: Deployment) -> History:
    return deployment.provider.existing_state("asking").history()


def told(events: list[LifeEvent]) -> list[str]:
    return [one.row.what for one in events]


def test_a_request_and_its_reply_are_told(asking: Deployment, application: Application) -> None:
    asking.write("adapter.yaml", adapter_with(QUEUE))
    with asking.running() as adapter:
        assert adapter.request("Customer.Retrieve", data(7)).good
        assert adapter.request("Customer.Create", data(8)).good
    (identity,), (other,) = (find_ids(history_of(asking), key=key) for key in ("7", "8"))
    life = read_life(history_of(asking), identity)
    assert told(list(life.events)) == ["requested", "replied"]
    row = life.events[0].row
    found = (row.object, row.verb, row.destination, row.instance)
    assert found == ("Customer", "Retrieve", "queue://requests", "one")
    assert application.requests[0].message_id == identity
    assert told(list(read_life(history_of(asking), other).events)) == ["requested"]


def test_a_request_without_a_reply_has_timed_out(asking: Deployment) -> None:
    asking.write("adapter.yaml", adapter_with(QUEUE))
    with asking.running() as adapter:
        result = adapter.request("Customer.Retrieve", data(7), timeout=1)
    events = read_all(history_of(asking), 0.0)
    assert told(events) == ["requested", "timed_out"]
    assert events[1].row.reason == result.message


@pytest.mark.process
def test_a_request_of_a_process_of_its_own_is_told_beside_the_event(
    asking: Deployment, application: Application
) -> None:
    asking.write("adapter.yaml", adapter_with(QUEUE, more=ASKS))
    identity = drop(asking, 7)
    with asking.running(isolated=True) as adapter:
        adapter.drain()
    events = read_all(history_of(asking), 0.0)
    assert sorted(told(events)) == ["published", "replied", "requested"]
    assert {one.id for one in events} == {identity, str(application.requests[0].message_id)}
    assert find_ids(history_of(asking), key="7") == list(dict.fromkeys(one.id for one in events))


def test_requests_are_not_told_without_a_history(asking: Deployment, application: Application) -> None:
    asking.write("adapter.yaml", adapter_with(QUEUE, more="history: {keep: 0}\n"))
    with asking.running() as adapter:
        assert adapter.request("Customer.Retrieve", data(7)).good
    assert read_all(history_of(asking), 0.0) == []
