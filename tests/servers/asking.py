"""Deployments at a broker: ``Customer.Retrieve`` asks for a name, ``Customer.Create`` wants no answer."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from connector.messaging.destination import parse_destination
from connector.messaging.message import Message

if TYPE_CHECKING:
    from connector.requests.result import RequestResult
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

_OBJECTS: Final = """
business_object: Customer
verbs: {Create: , Retrieve: , Update: }
attributes:
  CustomerId: {type: String, key: true, required: true}
  Name: String
---
static_metaobject: MO_Config
Default: {OutputDestination: "queue://QUESTIONS"}
rules:
  Customer_Retrieve: {ResponseTimeout: 60000}
"""

_PROCESSES: Final = """
import os

HERE = os.path.dirname(os.path.abspath(__file__))

def note(customer, event):
    log = os.open(os.path.join(HERE, "calls"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, f"{customer['CustomerId']} {event.delivery_count} {os.getpid()}\\n".encode())
    os.close(log)

def find(customer, event):
    note(customer, event)
    customer["Name"] = f"name of {customer['CustomerId']}"
    return customer

def ask(customer, event):
    note(customer, event)
    number = customer["CustomerId"]
    result = event.request("Customer.Retrieve", {"CustomerId": number})
    if not result.good:
        raise ValueError(result.message)
    if (result.object["CustomerId"], result.object["Name"]) != (number, f"name of {number}"):
        raise ValueError(f"found {result.object['CustomerId']} {result.object['Name']}")
    if not event.request("Customer.Create", {"CustomerId": f"{number}-told"}).good:
        raise ValueError("nothing was told")
"""


def serving(broker: Broker, deploy: Deploy, *, port: int | None = None, **connector: Any) -> BrokerDeployment:
    """A deployment that answers ``Customer.Retrieve`` with a name, and only notes ``Customer.Create``.

    Args:
        broker, deploy: the fixtures.
        port: instead of the broker's, for a proxy.
        connector: keys of the section.
    """
    deployment = deploy(broker, port=port, connector=connector)
    retrieve = {"object": "Customer", "verbs": ["Retrieve"], "process": "processes:find", "reply": True}
    create = {"object": "Customer", "verbs": ["Create"], "process": "processes:note"}
    _rewrite(deployment, deployment.input, [retrieve, create])
    return deployment


def asking(
    broker: Broker,
    deploy: Deploy,
    questions: str,
    *,
    http: bool = False,
    port: int | None = None,
    **connector: Any,
) -> BrokerDeployment:
    """A deployment that makes requests, also one for each customer of its input.

    Args:
        broker, deploy: the fixtures.
        questions: the queue of the requests.
        http: whether a service has a server.
        port: instead of the broker's, for a proxy.
        connector: keys of the section.
    """
    deployment = deploy(broker, port=port, connector=connector)
    _rewrite(deployment, questions, [{"object": "Customer", "process": "processes:ask"}], http=http)
    return deployment


def _rewrite(
    deployment: BrokerDeployment, questions: str, subscriptions: list[dict[str, Any]], *, http: bool = False
) -> None:
    deployment.write("metaobjects/objects.yaml", _OBJECTS.replace("QUESTIONS", questions))
    deployment.write("processes.py", _PROCESSES)
    deployment.subscribe(*subscriptions)
    deployment.change("connector", ConfigurationMetaObject="MO_Config")
    if http:
        deployment.change("http", listen="127.0.0.1:0", tokens=["secret-token-of-the-tests"])


def is_named(result: RequestResult, number: object) -> bool:
    """Whether a result is the answer to the request with this number, and to no other."""
    found = result.status.name, result.object["CustomerId"], result.object["Name"]
    return found == ("VALCHANGE", str(number), f"name of {number}")


def question(number: object, verb: str = "Retrieve") -> dict[str, str]:
    """The body of a request."""
    return {"BusinessObject": "Customer", "Verb": verb, "CustomerId": str(number)}


def ask_by_message(deployment: BrokerDeployment, number: object, reply_to: str) -> str:
    """Sends a request as a foreign program does. Returns its id."""
    message = Message(json.dumps(question(number)).encode(), "T", reply_to=reply_to)
    with deployment.connected() as connection:
        (identity,) = connection.send(parse_destination(f"queue://{deployment.input}"), [message])
    return identity


def calls(deployment: BrokerDeployment) -> Counter[str]:
    """How often the processes of a deployment were called for each customer."""
    return Counter(customer for customer, _ in deployment.calls())
