"""Destinations of JNDI, and those that JNDI need not have. No Java runs here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from connector.brokers.jms.naming import Destinations
from connector.errors import UnknownDestination
from connector.messaging.destination import Destination, parse_destination


class Queue:
    """A queue of Java."""


class Names:
    """JNDI with the queue orders, and something else under the name other."""

    destinations = True

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find(self, jpype: Any, destination: Destination) -> tuple[Any, str]:
        self.asked.append(destination.name)
        other = SimpleNamespace(getClass=lambda: SimpleNamespace(getName=lambda: "java.lang.String"))
        found = {"orders": Queue(), "other": other}.get(destination.name)
        return found, "" if found else "there is no such name"


def looked_up() -> tuple[Names, Destinations]:
    names: Any = Names()
    return names, Destinations(None, SimpleNamespace(Queue=Queue, Topic=SimpleNamespace), names)


def queue(name: str) -> Destination:
    return parse_destination(f"queue://{name}")


def test_a_destination_is_looked_up_once() -> None:
    names, destinations = looked_up()
    assert isinstance(destinations.find(queue("orders")), Queue)
    assert destinations.find(queue("orders")) is destinations.find(queue("orders"))
    assert names.asked == ["orders"]


def test_a_destination_of_the_configuration_has_to_be_there() -> None:
    names, destinations = looked_up()
    for _ in range(2):  # it may come later
        with pytest.raises(
            UnknownDestination, match="queue://nope is not found in JNDI: there is no such name"
        ):
            destinations.find(queue("nope"))
    assert names.asked == ["nope", "nope"]
    with pytest.raises(UnknownDestination, match=r"queue://other .*: there is a java\.lang\.String"):
        destinations.find(queue("other"))


def test_a_destination_of_a_message_and_a_queue_of_the_adapter_need_not_be_there() -> None:
    names, destinations = looked_up()
    java = object()
    for _ in range(2):
        destinations.tell("queue://answers", java)
        assert destinations.find(queue("answers")) is java
        assert destinations.find(queue("connector.demo.commits")) is None
    assert names.asked == ["answers", "connector.demo.commits"]


def test_a_message_cannot_stand_in_for_a_name_of_jndi() -> None:
    _, destinations = looked_up()
    destinations.tell("queue://orders", object())
    assert isinstance(destinations.find(queue("orders")), Queue)
