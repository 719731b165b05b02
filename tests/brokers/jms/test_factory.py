"""Recipes of connection factories, with classes of Java itself. No broker runs here."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from connector.brokers.jms.factory import Factory
from connector.brokers.jms.naming import Naming

_RUN = """
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
        made = Factory(**recipe, naming=naming and Naming(*naming)).make(jpype)
    except ProviderMisconfigured as error:
        print(json.dumps(str(error)))
    else:
        values = []
        for path in shown:
            value = made
            for step in path.split("."):
                value = getattr(value, step)()
            values.append(str(value))
        print(json.dumps(values))
"""


def make(*recipes: tuple[dict[str, Any], list[str]]) -> list[Any]:
    """Returns what the methods of each factory return, or why the factory cannot be made."""
    command = [sys.executable, "-c", _RUN, json.dumps(recipes)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode == 0, answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines()]


FORMAT = {"class_name": "java.text.DecimalFormat"}


def test_properties_are_set_by_setters_of_their_types() -> None:
    shown = ["getMaximumFractionDigits", "isDecimalSeparatorAlwaysShown", "getPositivePrefix"]
    texts = {"MaximumFractionDigits": "7", "decimalSeparatorAlwaysShown": "True", "PositivePrefix": "7"}
    calendar = {"class_name": "java.util.GregorianCalendar", "properties": {"timeZone.rawOffset": "5000"}}
    date = {"class_name": "java.util.Date", "properties": {"Time": "5000000000"}}
    assert make(
        ({**FORMAT, "properties": texts}, shown),
        (calendar, ["getTimeZone.getRawOffset"]),
        (date, ["getTime"]),
        ({"class_name": "java.io.File", "url": "given"}, ["getName"]),
    ) == [["7", "True", "7"], ["5000"], ["5000000000"], ["given"]]


def test_a_wrong_property_is_named() -> None:
    unknown, number, truth, inner, unset = make(
        ({**FORMAT, "properties": {"MaximumFractionDigit": "7"}}, []),
        ({**FORMAT, "properties": {"MaximumFractionDigits": "hush"}}, []),
        ({**FORMAT, "properties": {"GroupingUsed": "7"}}, []),
        ({**FORMAT, "properties": {"decimals.x": "7"}}, []),
        ({"class_name": "java.net.URLStreamHandlerFactory"}, []),
    )
    assert "properties.MaximumFractionDigit: java.text.DecimalFormat has no property" in unknown
    assert "did you mean 'MaximumFractionDigits'?" in unknown
    assert "GroupingSize, GroupingUsed, " in unknown
    assert number == "properties.MaximumFractionDigits: the value is not a whole number"
    assert truth == "properties.GroupingUsed: the value is not true or false"
    assert "has no property 'decimals'" in inner
    assert "has no constructor without arguments" in unset


def test_a_factory_needs_a_place_for_the_url() -> None:
    nowhere, refused, missing = make(
        ({"class_name": "java.lang.Object", "url": "amqp://h:1"}, []),
        ({"class_name": "java.util.Date", "url": "amqp://me:hush@h:1"}, []),
        ({"class_name": "org.apache.activemq.ActiveMQConnectionFactory", "url": "x"}, []),
    )
    assert "neither a constructor nor a setter" in nowhere
    assert "java.util.Date does not take the url" in refused
    assert "hush" not in refused
    assert "org.apache.activemq:activemq-client" in missing


def test_a_look_up_that_fails_names_the_factory() -> None:
    secret = {"java.naming.security.credentials": "hush"}
    nothing, missing = make(
        ({"naming": [secret, "jms/cf"]}, []),
        ({"naming": [{**secret, "java.naming.factory.initial": "com.sun.jndi.fscontext.hush"}, "cf"]}, []),
    )
    assert nothing.startswith("ConnectionFactoryName: 'jms/cf' is not found in JNDI: Need to specify class")
    assert "add com.sun.messaging.mq:fscontext to packages" in missing
    assert "hush" not in nothing + missing + repr(Naming(secret, "cf"))


def test_a_factory_hides_passwords() -> None:
    factory = Factory(
        "x.Y", "amqp://me:hush1@h?jms.password=hush2", "me", "hush3", properties={"KeyStorePassword": "hush4"}
    )
    text = factory.safe("refused hush4 and hush3 at amqp://me:hush1@h?jms.password=hush2")
    assert "hush" not in text
    assert "hush" not in repr(factory)
