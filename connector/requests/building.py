"""Building the message of a request (seed 004, table 1)."""

from __future__ import annotations

from typing import Final

from connector.businessobjects.datahandler import DataHandler, message_body
from connector.businessobjects.handlers import Handlers
from connector.businessobjects.instance import BusinessObject
from connector.errors import ConfigurationError, MalformedData, RequestRefused
from connector.messaging.message import DEFAULT_PRIORITY, NON_PERSISTENT, PERSISTENT, Message
from connector.messaging.selectors.identifiers import check_property_name
from connector.requests.plan import CORRELATION_ID, RequestPlan
from connector.requests.properties import RequestProperties

_TYPE: Final = "JMSType"


def build(
    bo: BusinessObject, properties: RequestProperties, plan: RequestPlan, handlers: Handlers
) -> Message:
    """The message of a request, ready to be prepared; its expiration and JMSReplyTo are the client's to set.

    Args:
        bo: the business object with its verb; not changed.
        properties: what :func:`~connector.requests.properties.resolve` found.
        plan: the requests of the adapter.
        handlers: the data handlers.

    Raises:
        RequestRefused: there is no such data handler, it cannot write the object, or the format cannot be
            said in a message.
    """
    message_class, body = _body(bo, plan, find_handler(properties, handlers))
    mode = properties.delivery_mode
    message = Message(
        body=body,
        message_class=message_class,
        correlation_id=properties.correlation_id,
        delivery_mode=mode if mode is not None else PERSISTENT if plan.persistent else NON_PERSISTENT,
        priority=properties.priority if properties.priority is not None else DEFAULT_PRIORITY,
    )
    for name, kind, value in properties.user_properties:
        message.set_property(name, value, kind)
    if properties.output_format is not None:
        _set_format(message, properties.output_format, plan.format_property)
    return message


def find_handler(properties: RequestProperties, handlers: Handlers) -> DataHandler:
    """The data handler of a request and its reply.

    Raises:
        RequestRefused: there is none, or it cannot be made.
    """
    try:
        return handlers.get(*properties.handler)
    except ConfigurationError as error:
        problem = error.problems[0]
        raise RequestRefused(f"{problem.found}, expected {problem.expected}") from None


def handler_error(handler: DataHandler, error: BaseException) -> str:
    """What a data handler has raised, in words; the exception of foreign code may not even have a text."""
    if isinstance(error, MalformedData):
        return str(error)
    kind = type(error).__name__
    try:
        text = str(error).strip()
    except Exception:
        text = ""
    return f"the data handler {type(handler).__name__} raised {kind}{': ' if text else ''}{text}"


def _body(bo: BusinessObject, plan: RequestPlan, handler: DataHandler) -> tuple[str, bytes]:
    try:
        body: object = handler.to_body(_without_metaobjects(bo, plan))
        if not isinstance(body, str | bytes):
            what = type(body).__name__
            raise MalformedData(f"the data handler {type(handler).__name__} returned {what}, no body")
        return message_body(body)
    except (Exception, SystemExit) as error:  # whatever a foreign handler raises is this request's failure
        raise RequestRefused(handler_error(handler, error)) from error


def _without_metaobjects(bo: BusinessObject, plan: RequestPlan) -> BusinessObject:
    """What of an object is its body's: no handler, however careless, can write meta-data into it."""
    held = bo.definition.metaobject_attributes
    if not any(name in bo for name in held):
        return bo
    values = {name: bo[name] for name in bo if name not in held}
    return BusinessObject(plan.definitions, bo.type, bo.verb, values)


def _set_format(message: Message, output_format: str, name: str) -> None:
    """Says the format where ``MessageFormatProperty`` wants it, before a property of that name."""
    if name == _TYPE:
        message.type = output_format
    elif name == CORRELATION_ID:
        message.correlation_id = output_format
    else:
        try:
            check_property_name(name)
        except ValueError as error:
            raise RequestRefused(f"OutputFormat cannot be said: MessageFormatProperty: {error}") from None
        message.set_property(name, output_format)
