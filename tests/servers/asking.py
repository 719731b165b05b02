"""Deployments at a broker: ``Customer.Retrieve`` asks for a name, ``Customer.Create`` wants no answer."""

from __future__ import annotations

import contextlib
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
attributes: {CustomerId: {type: String, key: true, required: true}, Name: String}
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
    return _rewrite(deployment, deployment.input, retrieve, create)


def asking(
    broker: Broker, deploy: Deploy, questions: str, *, port: int | None = None, **connector: Any
) -> BrokerDeployment:
    """A deployment that makes requests, also one for each customer of its input.

    Args:
        broker, deploy: the fixtures.
        questions: the queue of the requests.
        port: instead of the broker's, for a proxy.
        connector: keys of the section.
    """
    deployment = deploy(broker, port=port, connector=connector)
    return _rewrite(deployment, questions, {"object": "Customer", "process": "processes:ask"})


def _rewrite(
    deployment: BrokerDeployment, questions: str, *subscriptions: dict[str, Any]
) -> BrokerDeployment:
    deployment.write("metaobjects/objects.yaml", _OBJECTS.replace("QUESTIONS", questions))
    deployment.write("processes.py", _PROCESSES)
    deployment.subscribe(*subscriptions)
    deployment.change("connector", ConfigurationMetaObject="MO_Config")
    return deployment


def is_named(result: RequestResult, number: object) -> bool:
    """Whether a result is the answer to the request with this number, and to no other."""
    found = result.status.name, result.object["CustomerId"], result.object["Name"]
    return found == ("VALCHANGE", str(number), f"name of {number}")


def question(number: object) -> str:
    """The body of a request."""
    return json.dumps({"BusinessObject": "Customer", "Verb": "Retrieve", "CustomerId": str(number)})


def ask_by_message(deployment: BrokerDeployment, number: object, reply_to: str) -> str:
    """Sends a request as a foreign program does. Returns its id."""
    message = Message(question(number).encode(), "T", reply_to=reply_to)
    with deployment.connected() as connection:
        (identity,) = connection.send(parse_destination(f"queue://{deployment.input}"), [message])
    return identity


def calls(deployment: BrokerDeployment) -> Counter[str]:
    """How often the processes of a deployment were called for each customer."""
    return Counter(customer for customer, _ in deployment.calls())


# -- programs that know JMS alone, with the Java of this process ---------------------------------------------


def ask_by_jms(broker: Broker, queue: str, count: int) -> list[str]:
    """Asks for customers with rising numbers. The answers come to a temporary queue.

    Returns:
        the number, the result and the body of each answer, in one line.
    """
    numbers, found = {}, []
    with contextlib.closing(broker.provider().connect()) as connection:
        session: Any = connection.broker.plain_session()  # type: ignore[attr-defined]
        replies = session.createTemporaryQueue()
        consumer = session.createConsumer(replies)
        producer = session.createProducer(session.createQueue(queue))
        for number in range(count):
            request = session.createTextMessage(question(number))
            request.setJMSReplyTo(replies)
            producer.send(request)
            numbers[str(request.getJMSMessageID())] = number
        for _ in range(count):
            reply = consumer.receive(60_000)
            number = numbers.pop(str(reply.getJMSCorrelationID()))
            found.append(f"{number} {reply.getStringProperty('ResponseResult')} {reply.getText()}")
    return found


def answer_by_jms(broker: Broker, queue: str, count: int) -> None:
    """Takes requests, and then answers the last one first."""
    with contextlib.closing(broker.provider().connect()) as connection:
        session: Any = connection.broker.plain_session()  # type: ignore[attr-defined]
        consumer, producer = session.createConsumer(session.createQueue(queue)), session.createProducer(None)
        for request in reversed([consumer.receive(60_000) for _ in range(count)]):
            number = json.loads(str(request.getText()))["CustomerId"]
            body = {"CustomerId": number, "Name": f"name of {number}"}
            reply = session.createTextMessage(json.dumps(body))
            reply.setJMSCorrelationID(request.getJMSMessageID())
            reply.setStringProperty("ResponseResult", "VALCHANGE")
            producer.send(request.getJMSReplyTo(), reply)
