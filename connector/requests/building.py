"""Builds the message of a request (WBI Adapter for JMS, table 1)."""

from __future__ import annotations

import logging
from typing import Final

from connector.businessobjects.instance import BusinessObject, check
from connector.businessobjects.rules import set_format
from connector.errors import ConfigurationError, MalformedData, RequestRefused
from connector.formats.datahandler import DataHandler, HandlerFailed, check_body, message_body
from connector.formats.handlers import Handlers
from connector.limits.stages import is_interrupt
from connector.messaging.message import DEFAULT_PRIORITY, NON_PERSISTENT, PERSISTENT, Message
from connector.operate.trace_context import TRACEPARENT, current_traceparent
from connector.requests.properties import RequestProperties
from connector.requests.settings import RequestSettings
from connector.tracebacks import log_failure

_log: Final = logging.getLogger("connector.requests")


def build(
    bo: BusinessObject, properties: RequestProperties, settings: RequestSettings, handlers: Handlers
) -> Message:
    """Returns the message of a request. The client sets its expiration and JMSReplyTo.

    Args:
        bo: the business object with its verb. Not changed.
        properties: the result of :func:`~connector.requests.properties.resolve`.
        settings: the requests of the adapter.

    Raises:
        RequestRefused: there is no such data handler, the handler cannot write the object, or a message
            cannot carry the format.
    """
    message_class, body = _body(bo, properties, settings, handlers)
    mode = properties.delivery_mode
    message = Message(
        body=body,
        message_class=message_class,
        correlation_id=properties.correlation_id,
        delivery_mode=mode if mode is not None else PERSISTENT if settings.persistent else NON_PERSISTENT,
        priority=properties.priority if properties.priority is not None else DEFAULT_PRIORITY,
    )
    for name, kind, value in properties.user_properties:
        message.set_property(name, value, kind)
    if (traceparent := current_traceparent()) and TRACEPARENT not in message.properties:
        message.set_property(TRACEPARENT, traceparent)
    if properties.output_format is not None:
        try:  # OutputFormat overrides a user property of that name
            set_format(message, properties.output_format, settings.connector.message_format_property)
        except ValueError as error:
            raise RequestRefused(str(error)) from None
    return message


def find_handler(properties: RequestProperties, handlers: Handlers) -> DataHandler:
    """Returns the data handler of a request and its reply.

    Raises:
        RequestRefused: there is no such data handler, or the handler cannot be made.
    """
    try:
        return handlers.get(*properties.handler)
    except ConfigurationError as error:
        raise RequestRefused(error.problems[0].mistake) from None


def handler_failure(
    handler: DataHandler,
    error: BaseException,
    bo: BusinessObject,
    properties: RequestProperties,
    handlers: Handlers,
) -> MalformedData:
    """Returns the error of a request whose data handler failed. Logs every exception but MalformedData."""
    if isinstance(error, MalformedData):
        return error
    log_failure(
        _log,
        "a data handler has failed",
        error,
        handler,
        handlers.deployment,
        destination=str(properties.output_destination),
        object=bo.type,
        verb=bo.verb,
        data_handler=type(handler).__name__,
    )
    return HandlerFailed(handler, error)


def _body(
    bo: BusinessObject, properties: RequestProperties, settings: RequestSettings, handlers: Handlers
) -> tuple[str, bytes]:
    handler = find_handler(properties, handlers)
    try:
        check(bo)
        return message_body(check_body(handler.to_body(_without_metaobjects(bo, settings)), handler))
    except BaseException as error:  # any exception of a user's handler fails this request only
        if is_interrupt(error):
            raise
        raise RequestRefused(str(handler_failure(handler, error, bo, properties, handlers))) from error


def _without_metaobjects(bo: BusinessObject, settings: RequestSettings) -> BusinessObject:
    """Returns the object without meta-objects, so that no handler can write meta-data into the body."""
    held = bo.definition.metaobject_attributes
    if not any(name in bo for name in held):
        return bo
    values = {name: bo.value(name) for name in bo if name not in held}
    made = BusinessObject(settings.definitions, bo.type, bo.verb)
    made.set_values(values, keeps_null=True)
    return made
