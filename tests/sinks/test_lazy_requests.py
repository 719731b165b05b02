"""Requests of a process that may make some, and what an event offers."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.instance import BusinessObject
from connector.errors import CapabilityError
from connector.messaging.message import Message
from connector.requests.result import RequestResult
from connector.sinks.contract import Event
from connector.sinks.lazy_requests import LazyRequests
from connector.status import ReturnCode

ORDER = Definition("Order", attributes={"Id": Attribute("Id", "String")}, verbs={"Create": Verb("Create")})
DEFINITIONS = Definitions({"Order": ORDER})


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


def test_an_event_that_nobody_gave_anything_says_what_to_do() -> None:
    for call in (event().request, event().request_async):
        with pytest.raises(CapabilityError, match=r"connector\.testing\.deployment.* requests="):
            call("Order.Create", {})


def test_events_are_equal_and_shown_without_their_requests() -> None:
    assert event(requests=Echo()) == event()
    assert "Echo" not in repr(event(requests=Echo()))


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


def test_a_stop_is_passed_on_to_the_client_that_was_opened() -> None:
    echo = Echo()
    requests = LazyRequests(lambda: echo, "")
    requests.request("Order.Create", {"Id": "1"})
    requests.stop(2.5)
    assert echo.stopped == [2.5]


def test_a_client_that_is_opened_after_the_stop_is_stopped_before_anybody_asks() -> None:
    echo = Echo()
    requests = LazyRequests(lambda: echo, "")
    requests.stop(2.5)
    requests.request("Order.Create", {"Id": "1"})
    assert (echo.opened, echo.stopped) == ([""], [-1.0])


def test_what_was_never_used_is_stopped_without_being_opened() -> None:
    echo = Echo()
    LazyRequests(lambda: echo, "").stop()
    assert (echo.opened, echo.stopped) == ([], [])
