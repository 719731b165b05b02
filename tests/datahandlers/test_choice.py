"""Which data handler counts, in every combination of connector, rule and Default, for events and requests."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, Final

import pytest
import yaml

from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData
from connector.events.run.convert import Converter
from connector.formats.handlers import Handlers
from connector.messaging.message import Message
from connector.requests.building import find_handler
from connector.requests.properties import resolve
from connector.service.assembly import make_requests, make_task_settings
from connector.testing.deployment import Deployment
from tests.events.conftest import Bench, bench
from tests.tables import rows

__all__ = ["bench"]

SOURCE: Final = '''\
from connector.formats.datahandler import Option
from connector.businessobjects.instance import BusinessObject


class {first}:
    """Says who it is and what option it has."""

    mime_types = {types}
    options = {options}

    def __init__(self, options, definitions):
        self.definitions = definitions
        self.who = " ".join([*(self.mime_types or ["{first}"]), *options.values()])

    def to_business_object(self, body, hint):
        return BusinessObject(self.definitions, "Order", "Create", {{"Id": self.who}})

    def to_body(self, bo):
        return self.who


'''
MARK: Final = '(Option("mark", str, default="none", doc="What it says."),)'
HANDLERS: Final = "".join(
    SOURCE.format(first=name, types=(), options="()") for name in ("ByConnector", "ByRule", "ByDefault")
)
PLUGINS: Final = "".join(
    SOURCE.format(first=name, types=(f"a/{name.lower()}",), options=MARK) for name in ("One", "Two", "Three")
)
CONNECTOR: Final = {
    "class": {"DataHandlerClassName": "named:ByConnector"},
    "mime": {"DataHandlerMimeType": "a/one"},
}
RULE: Final = {
    "none": {},
    "class": {"DataHandlerClassName": "named:ByRule"},
    "mime": {"DataHandlerMimeType": "a/two"},
    "config": {"DataHandlerConfigMO": "MO_Rule"},
}
DEFAULT: Final = {
    "none": {},
    "class": {"DataHandlerClassName": "named:ByDefault"},
    "mime": {"DataHandlerMimeType": "a/three"},
    "config": {"DataHandlerConfigMO": "MO_Default"},
}
EXPECTED: Final = {
    # connector, rule: who reads and writes, and with whose options, by each of DEFAULT
    ("class", "none"): ("ByConnector", "ByDefault", "a/three connector", "ByConnector"),
    ("class", "class"): ("ByRule", "ByRule", "ByRule", "ByRule"),
    ("class", "mime"): ("a/two connector", "a/two connector", "a/two connector", "a/two default"),
    ("class", "config"): ("ByConnector", "ByDefault", "a/three rule", "ByConnector"),
    ("mime", "none"): ("a/one connector", "ByDefault", "a/three connector", "a/one default"),
    ("mime", "class"): ("ByRule", "ByRule", "ByRule", "ByRule"),
    ("mime", "mime"): ("a/two connector", "a/two connector", "a/two connector", "a/two default"),
    ("mime", "config"): ("a/one rule", "ByDefault", "a/three rule", "a/one rule"),
}


def options(name: str) -> str:
    marks = {mime: {"mark": name} for mime in ("a/one", "a/two", "a/three")}
    return yaml.safe_dump({"datahandler_metaobject": f"MO_{name.capitalize()}", "handlers": marks})


def deploy(
    bench: Bench, connector: Mapping[str, str], rule: Mapping[str, str], default: Mapping[str, str]
) -> Deployment:
    """A deployment whose handlers say who they are."""
    static = {
        "static_metaobject": "MO_Config",
        "Default": {"OutputDestination": "queue://out", **default},
        "rules": {"Order_Create": {"InputDestination": "queue://in", **rule}},
    }
    order = {"business_object": "Order", "verbs": {"Create": {}}, "attributes": {"Id": "String"}}
    documents = [yaml.safe_dump(order, sort_keys=False), yaml.safe_dump(static, sort_keys=False)]
    documents += [options(name) for name in ("connector", "rule", "default")]
    settings: dict[str, Any] = {"DataHandlerMimeType": None, "InputDestination": "queue://in", **connector}
    more, objects = {"datahandlers": "./handlers"}, "---\n".join(documents)
    made = bench.deploy(more=more, objects=objects, DataHandlerConfigMO="MO_Connector", **settings)
    made.write("named.py", HANDLERS)
    made.write("handlers/plugins.py", PLUGINS)
    return made


@contextmanager
def event_plan(deployment: Deployment) -> Iterator[Any]:
    """What the tasks of a deployment need to know."""
    with closing(deployment.provider.connect("test", "one")) as connection:
        yield make_task_settings(deployment.configuration, deployment.provider, connection.access())


@rows("combination", list(itertools.product(CONNECTOR, RULE, DEFAULT)))
def test_events_and_requests_have_the_same_data_handler(
    bench: Bench, combination: tuple[str, str, str]
) -> None:
    connector, rule, default = combination
    deployment = deploy(bench, CONNECTOR[connector], RULE[rule], DEFAULT[default])
    with event_plan(deployment) as task_settings:
        converter = Converter(task_settings, str(deployment.directory))
        (event,) = converter.convert(Message(b"body"), "queue://in")
    requests = make_requests(deployment.configuration).settings
    bo = BusinessObject(requests.definitions, "Order", "Create", {"Id": "1"})
    handlers = Handlers(requests.handlers, requests.definitions, deployment.directory)
    request = find_handler(resolve(bo, requests), handlers).to_body(bo)
    expected = EXPECTED[connector, rule][list(DEFAULT).index(default)]
    assert (event["Id"], request) == (expected, expected)


def test_an_entry_that_repeats_the_format_of_default_stands_against_its_class(bench: Bench) -> None:
    default = {**DEFAULT["class"], **DEFAULT["mime"]}
    deployment = deploy(bench, CONNECTOR["mime"], DEFAULT["mime"], default)
    requests = make_requests(deployment.configuration).settings
    bo = BusinessObject(requests.definitions, "Order", "Create", {"Id": "1"})
    assert resolve(bo, requests).handler == ("a/three", "")


def test_a_data_handler_that_cannot_be_made_fails_the_one_event(bench: Bench) -> None:
    deployment = deploy(bench, CONNECTOR["mime"], RULE["mime"], DEFAULT["none"])
    with event_plan(deployment) as task_settings:
        others = tuple(one for one in task_settings.handlers if one.mime_type != "a/two")
        lacking = replace(task_settings, handlers=others)
        converter = Converter(lacking, str(deployment.directory))
        with pytest.raises(MalformedData, match=r"no data handler for 'a/two', expected one of .*a/one"):
            converter.convert(Message(b"body"), "queue://in")
        (event,) = converter.convert(Message(b"body"), "queue://elsewhere")
        assert event["Id"] == "a/one connector"
