"""Recipes of connection factories, with classes of Java itself, and destinations of JNDI."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import pytest

from connector.brokers.jms.factory import Factory
from connector.brokers.jms.naming import Destinations, Naming
from connector.errors import UnknownDestination
from connector.messaging.destination import Destination
from tests.tables import Table

_RUN: Final = """
import json, sys
from connector.brokers.jms import jvm
from connector.brokers.jms.factory import Factory
from connector.brokers.jms.naming import Naming
from connector.errors import ProviderMisconfigured
from connector.java import find_java

jpype = jvm.start(find_java().home, [], ["-Xmx64m"])
for recipe, shown in json.loads(sys.argv[1]):
    try:
        naming = recipe.pop("naming", None)
        value = Factory(**recipe, naming=naming and Naming(*naming)).make(jpype)
    except ProviderMisconfigured as error:
        print(json.dumps(str(error)))
    else:
        for step in shown.split("."):
            value = getattr(value, step)()
        print(json.dumps(str(value)))
"""
"""Prints what a method of each factory returns, or why the factory cannot be made."""
_SECRET: Final = {"java.naming.security.credentials": "hush"}
_NO_FILES: Final = {**_SECRET, "java.naming.factory.initial": "com.sun.jndi.fscontext.hush"}
_DATE: Final = "java.util.Date"


def of(name: str, properties: Mapping[str, str] = MappingProxyType({}), **more: str) -> dict[str, Any]:
    """A recipe with a class of Java."""
    return {"class_name": name, "properties": dict(properties), **more}


def of_format(name: str, value: str) -> dict[str, Any]:
    return of("java.text.DecimalFormat", {name: value})


_RECIPES: Final = [
    (of_format("MaximumFractionDigits", "7"), "getMaximumFractionDigits", "7"),
    (of_format("decimalSeparatorAlwaysShown", "True"), "isDecimalSeparatorAlwaysShown", "True"),
    (of_format("PositivePrefix", "7"), "getPositivePrefix", "7"),
    (of("java.util.GregorianCalendar", {"timeZone.rawOffset": "5000"}), "getTimeZone.getRawOffset", "5000"),
    (of(_DATE, {"Time": "5000000000"}), "getTime", "5000000000"),
    (of("java.io.File", url="given"), "getName", "given"),
    (
        of_format("MaximumFractionDigit", "7"),
        "",
        "properties.MaximumFractionDigit: java.text.DecimalFormat has no property .*"
        "did you mean 'MaximumFractionDigits'.*GroupingSize, GroupingUsed, ",
    ),
    (of_format("MaximumFractionDigits", "hush"), "", "FractionDigits: the value is not a whole number"),
    (of_format("GroupingUsed", "7"), "", "properties.GroupingUsed: the value is not true or false"),
    (of_format("decimals.x", "7"), "", "has no property 'decimals'"),
    (of("java.net.URLStreamHandlerFactory"), "", "has no constructor without arguments"),
    (of("java.lang.Object", url="amqp://h:1"), "", "neither a constructor nor a setter"),
    (of(_DATE, url="amqp://me:hush@h:1"), "", "java.util.Date does not take the url"),
    (of("org.apache.activemq.ActiveMQConnectionFactory", url="x"), "", "org.apache.activemq:activemq-client"),
    ({"naming": [_SECRET, "jms/cf"]}, "", "^ConnectionFactoryName: 'jms/cf' is not found in JNDI: Need to"),
    ({"naming": [_NO_FILES, "cf"]}, "", "add com.sun.messaging.mq:fscontext to packages"),
]
"""Recipes, methods of the factory, and what the last method returns or why the factory cannot be made."""


def test_a_factory_is_as_its_recipe_says_or_it_is_told_why_not() -> None:
    command = [sys.executable, "-c", _RUN, json.dumps([(recipe, shown) for recipe, shown, _ in _RECIPES])]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert answer.returncode == 0, answer.stderr
    with Table() as table:
        for (recipe, shown, expected), line in zip(_RECIPES, answer.stdout.splitlines(), strict=True):
            with table.row(recipe):
                found = json.loads(line)
                assert found == expected if shown else re.search(expected, found), found
                assert "hush" not in found


def test_a_factory_hides_passwords() -> None:
    factory = Factory(
        "x.Y", "amqp://me:hush1@h?jms.password=hush2", "me", "hush3", properties={"KeyStorePassword": "hush4"}
    )
    text = factory.safe("refused hush4 and hush3 at amqp://me:hush1@h?jms.password=hush2")
    assert "hush" not in text + repr(factory) + repr(Naming(_SECRET, "cf"))


# -- destinations of JNDI, and those that JNDI need not have -------------------------------------------------


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


def test_a_destination_is_looked_up_once_and_one_of_a_message_or_of_the_adapter_need_not_be_there() -> None:
    names: Any = Names()
    destinations = Destinations(None, SimpleNamespace(Queue=Queue, Topic=SimpleNamespace), names)

    def find(name: str) -> Any:
        return destinations.find(Destination("queue", name))

    destinations.tell("queue://orders", object())  # a message cannot stand in for a name of JNDI
    assert isinstance(find("orders"), Queue)
    assert find("orders") is find("orders")
    java = object()
    for _ in range(2):
        destinations.tell("queue://answers", java)
        assert find("answers") is java
        assert find("connector.demo.commits") is None
        with pytest.raises(UnknownDestination, match="nope is not found in JNDI: there is no such name"):
            find("nope")  # one of the configuration, which may come later
    with pytest.raises(UnknownDestination, match=r"queue://other .*: there is a java\.lang\.String"):
        find("other")
    assert names.asked == ["orders", "answers", "connector.demo.commits", "nope", "nope", "other"]
