"""What a business process may answer and ask."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import connector
from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.instance import BusinessObject
from connector.declare.connector_section import Connector, ReplyMatching
from connector.errors import CapabilityError
from connector.messaging.message import Message, PropertyValue
from connector.requests.result import RequestResult
from connector.sinks.contract import Event
from connector.sinks.lazy_requests import LazyRequests
from connector.sinks.replying import ERROR_STATUSES, LATE, OBJECT_STATUSES, Replies, ReplyHeaders
from connector.status import ReturnCode
from tests.tables import rows

ORDER = Definition(
    "Order",
    attributes={"Id": Attribute("Id", "String")},
    verbs={"Create": Verb("Create"), "Update": Verb("Update")},
)
DEFINITIONS = Definitions({"Order": ORDER})


TYPED: st.SearchStrategy[tuple[PropertyValue, str]] = st.one_of(
    st.tuples(st.booleans(), st.just("boolean")),
    st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), st.just("long")),
    st.tuples(st.floats(allow_nan=False), st.just("double")),
    st.tuples(st.text(), st.just("string")),
)


def replies(*matching: str) -> Replies:
    names = ReplyMatching.model_construct(request=matching[0], reply=matching[1])
    keys: dict[str, Any] = {"message_response_result_property": "result", "reply_matching": names}
    return Replies(DEFINITIONS, Connector.model_construct(**keys))


@rows("status", OBJECT_STATUSES)
@rows("value", [None, {"Id": "1"}, BusinessObject(DEFINITIONS, "Order", "Create")])
def test_a_good_status_goes_with_an_object(
    status: str, value: BusinessObject | dict[str, str] | None
) -> None:
    assert connector.Reply(status, value).value is value
    with pytest.raises(TypeError, match=f"the status {status} carries an object or a mapping, not a str"):
        connector.Reply(status, "text")


@rows("status", ERROR_STATUSES)
def test_a_bad_status_goes_with_a_text_or_nothing(status: str) -> None:
    assert connector.Reply(status, "why").value == "why"
    assert connector.Reply(status).value is None
    with pytest.raises(TypeError, match=f"the status {status} carries a text, not a dict"):
        connector.Reply(status, {"Id": "1"})


@rows("status", ["SUCCEED", "success", "", "CONNECTOR_NOT_ACTIVE"])
def test_another_status_is_refused_with_those_that_there_are(status: str) -> None:
    with pytest.raises(ValueError, match="is no status of a reply; there are SUCCESS, VALCHANGE, MULTIPLE"):
        connector.Reply(status)


def test_a_reply_does_not_show_what_it_carries() -> None:
    assert repr(connector.Reply("VALCHANGE", {"Id": "secret"})) == "Reply(status='VALCHANGE')"


def test_a_reply_has_a_verb_properties_and_a_correlation_id_of_its_own() -> None:
    several = replies("JMSMessageID", "JMSCorrelationID")
    headers = several.reply_headers(Message(message_id="ID:1", reply_to="queue://replies"))
    assert isinstance(headers, ReplyHeaders)
    order = BusinessObject(DEFINITIONS, "Order", "Create", {"Id": "1"})
    said: dict[str, PropertyValue] = {"Region": "EU", "Count": 7, "result": "mine"}
    for value in (order, {"Id": "1"}):
        reply = connector.Reply(value=value, verb="Update", properties=said, correlation_id="c-9")
        made = several.answer(headers, order, reply, lambda bo: str(bo.verb), lambda *_: None)
        assert (made.body, made.correlation_id) == (b"Update", "c-9")
        assert made.properties == {"Region": "EU", "Count": 7, "result": "VALCHANGE"}
        assert made.property_types["Count"] == "int"
    assert order.verb == "Create", "the object of the other subscriptions stays as it was"
    plain = several.answer(headers, order, connector.Reply(value=order), lambda _: "", lambda *_: None)
    assert (plain.correlation_id, plain.properties) == ("ID:1", {"result": "VALCHANGE"})


@rows(
    "wrong, kind",
    [
        ({"properties": {"": 1}}, ValueError),
        ({"properties": {"Value": [1]}}, ValueError),
        ({"correlation_id": "a\0b"}, ValueError),
        ({"verb": "Update"}, TypeError),
    ],
)
def test_headers_that_no_message_has_are_refused_at_once(
    wrong: dict[str, Any], kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        connector.Reply("SUCCESS", **wrong)


@given(typed=TYPED)
def test_a_property_that_names_a_request_comes_back_as_it_was(typed: tuple[PropertyValue, str]) -> None:
    value, kind = typed
    request = Message(message_id="ID:1", reply_to="queue://replies")
    request.set_property("ticket", value, kind)
    reply_headers = replies("ticket", "answers").reply_headers(request)
    assert isinstance(reply_headers, ReplyHeaders)
    assert reply_headers.message.properties == {"answers": value}
    assert reply_headers.message.property_types == {"answers": kind}
    assert reply_headers.message.correlation_id is None


@given(
    priority=st.integers(0, 9),
    mode=st.sampled_from([1, 2]),
    expiration=st.integers(0, 1 << 42),
    identity=st.text(min_size=1),
)
def test_a_reply_is_like_its_request_which_stays(
    priority: int, mode: int, expiration: int, identity: str
) -> None:
    request = Message(
        message_id=identity,
        reply_to="queue://replies",
        priority=priority,
        delivery_mode=mode,
        expiration=expiration,
    )
    before = copy.deepcopy(request)
    reply_headers = replies("JMSMessageID", "JMSCorrelationID").reply_headers(request)
    assert isinstance(reply_headers, ReplyHeaders)
    made = replies("JMSMessageID", "JMSCorrelationID").failure(reply_headers, "no stock")
    assert (made.priority, made.delivery_mode, made.correlation_id) == (priority, mode, identity)
    assert made.expiration == (expiration + LATE if expiration else 0)
    assert made.properties == {"result": "FAIL"}
    assert reply_headers.message.properties == {}
    assert request == before


@rows("message_id", [None, ""])
def test_a_request_without_an_id_is_known_by_its_correlation_id(message_id: str | None) -> None:
    for correlation_id in ("c-1", None):
        request = Message(message_id=message_id, correlation_id=correlation_id, reply_to="queue://replies")
        reply_headers = replies("JMSMessageID", "JMSCorrelationID").reply_headers(request)
        assert isinstance(reply_headers, ReplyHeaders)
        assert reply_headers.message.correlation_id == correlation_id


@given(text=st.text(st.characters(), max_size=20_000))
def test_the_text_of_a_failure_is_unicode_within_bounds_whatever_it_was(text: str) -> None:
    reply_headers = replies("JMSMessageID", "JMSCorrelationID").reply_headers(
        Message(reply_to="queue://replies")
    )
    assert isinstance(reply_headers, ReplyHeaders)
    body = replies("JMSMessageID", "JMSCorrelationID").failure(reply_headers, text).body
    assert len(body) <= 8192
    cut = body.decode().removesuffix("...")
    assert text.encode("utf-8", "backslashreplace").decode().startswith(cut)


# -- requests of a process that may make some, and what an event offers --------------------------------


class Echo:
    """Requests of an application that returns what it gets; its own recipe."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.stopped: list[float] = []

    def open(self, deployment: str) -> Echo:
        os.sched_yield()
        self.opened.append(deployment)
        return self

    def request(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> RequestResult:
        assert not isinstance(data, BusinessObject)
        kind, _, verb = name.partition(".")
        answer = BusinessObject(DEFINITIONS, kind, verb, {"Id": f"{data['Id']} {timeout}"})
        return RequestResult(ReturnCode.VALCHANGE, answer)

    def request_async(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> Future[RequestResult]:
        future: Future[RequestResult] = Future()
        future.set_result(self.request(name, data, timeout=timeout))
        return future

    def refuse(self) -> None:
        self.stopped.append(-1.0)

    def stop(self, timeout: float = 0.0) -> None:
        self.stopped.append(timeout)


def event(**more: Any) -> Event:
    return Event("ID:1", "queue://orders", 1, Message(message_id="ID:1"), **more)


def test_an_event_asks_whoever_it_was_given() -> None:
    one = event(requests=Echo())
    assert one.request("Order.Create", {"Id": "7"}).object["Id"] == "7 None"
    assert one.request_async("Order.Create", {"Id": "7"}, timeout=5).result().object["Id"] == "7 5"
    assert one == event(requests=Echo())
    assert "Echo" not in repr(one)


def test_an_event_that_nobody_gave_anything_says_what_to_do() -> None:
    for call in (event().request, event().request_async):
        with pytest.raises(CapabilityError, match=r"connector\.testing\.deployment.* requests="):
            call("Order.Create", {})


def test_a_client_is_opened_once_by_whoever_asks_first() -> None:
    echo = Echo()
    requests = LazyRequests(lambda: echo, "/deployment")
    assert echo.opened == []
    threads = [
        threading.Thread(target=requests.request, args=("Order.Create", {"Id": "1"})) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert echo.opened == ["/deployment"]
    requests.stop(2.5)
    assert echo.stopped == [2.5]


def test_a_client_that_is_opened_after_the_stop_is_stopped_before_anybody_asks() -> None:
    echo = Echo()
    requests = LazyRequests(lambda: echo, "")
    requests.stop(2.5)
    assert (echo.opened, echo.stopped) == ([], [])
    requests.request("Order.Create", {"Id": "1"})
    assert (echo.opened, echo.stopped) == ([""], [-1.0])
