"""Calls a business process in a test, and shows what it has sent.

::

    def test_an_invoice_is_sent():
        result = call(book, "Order.Create", {"OrderId": "O-1"}, adapter="adapter.yaml")
        assert result.sent[0].destination == "queue://invoices"
        assert result.sent[0].object["Number"] == "INV-O-1"
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from connector.businessobjects.instance import BusinessObject, finish
from connector.config.loading import load
from connector.events.run.convert import Converter
from connector.events.run.publish import message_writer
from connector.messaging.access import AccessSpec
from connector.messaging.message import Message, PropertyValue
from connector.requests.contract import Requests
from connector.service.assembly import make_provider, make_task_settings
from connector.sinks.calling import is_coroutine_function
from connector.sinks.contract import Event


@dataclass(frozen=True, slots=True)
class SentByProcess:
    """A message that a process has sent.

    Args:
        destination: as text, ``queue://invoices``.
        object: the business object. None = the process has sent a body.
        body: in the format of the message.
        properties: of the message, ``connector_key`` among them.
        message: the whole message.
    """

    destination: str
    object: BusinessObject | None
    body: bytes
    properties: Mapping[str, PropertyValue]
    message: Message


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """What a call has returned and sent."""

    returned: object
    sent: Sequence[SentByProcess]


# long: more than half is its arguments and their meaning
def call(
    process: Callable[[BusinessObject, Event], object],
    name: str,
    data: Mapping[str, Any],
    *,
    adapter: str | Path = "adapter.yaml",
    message: Message | None = None,
    subscription: str = "",
    input_destination: str = "queue://test",
    delivery_count: int = 1,
    transaction: Any = None,
    requests: Requests | None = None,
) -> ProcessResult:
    """Calls a process with an object. What it sends goes nowhere.

    Args:
        process: plain or ``async def``.
        name: object and verb, ``Order.Create``.
        data: the attributes.
        adapter: the configuration, for definitions, rules and data handlers.
        message: that the object came in. None = an empty one with the id ``ID:test``.
        subscription: the name of the subscription. Empty = that of the function.
        transaction: ``event.transaction``, for a process with a transaction.
        requests: answer the requests of the process. None = it makes none.

    Raises:
        Exception: of the process. Then nothing was sent.
    """
    configuration = load(adapter, in_process=True)
    settings = make_task_settings(configuration, make_provider(configuration), cast(AccessSpec, None))
    converter = Converter(settings, str(configuration.directory))
    definition, verb = settings.definitions.find(name)
    bo = BusinessObject(settings.definitions, definition.name, verb, data)
    finish(bo)
    given = Message(message_id="ID:test") if message is None else message
    event = Event(
        given.message_id or "",
        input_destination,
        delivery_count,
        given,
        subscription or getattr(process, "__name__", "process"),
        transaction=transaction,
        writer=message_writer(settings, converter),
    )
    if requests is not None:
        event.requests = requests
    if is_coroutine_function(process):
        returned = asyncio.run(cast(Any, process)(bo, event))
    else:
        returned = process(bo, event)
    event.has_ended = True
    sent = event.outbox.end() if event.outbox is not None else []
    return ProcessResult(
        returned,
        [
            SentByProcess(str(one.destination), one.object, one.body, one.properties, one.message)
            for one in sent
        ],
    )
