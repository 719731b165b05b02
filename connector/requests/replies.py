"""The meaning of the reply to a request (WBI Adapter for JMS, table 6)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from connector.businessobjects.dynamic import refill_dynamic
from connector.businessobjects.instance import BusinessObject, finish
from connector.businessobjects.rules import message_format
from connector.businessobjects.types import describe
from connector.errors import MalformedData, RequestRefused
from connector.formats.datahandler import DataHandler, Hint
from connector.formats.handlers import Handlers
from connector.limits.stages import Stage, is_interrupt
from connector.messaging.message import Message
from connector.requests.building import find_handler, handler_failure
from connector.requests.properties import RequestProperties
from connector.requests.result import RequestResult
from connector.requests.settings import RequestSettings
from connector.status import ReturnCode
from connector.text.names import did_you_mean, shown

RESULTS: Final = MappingProxyType(
    {
        "SUCCESS": ReturnCode.SUCCEED,
        "VALCHANGE": ReturnCode.VALCHANGE,
        "MULTIPLE_HITS": ReturnCode.MULTIPLE_HITS,
        "FAIL": ReturnCode.FAIL,
        "FAIL_RETRIEVE_BY_CONTENT": ReturnCode.FAIL_RETRIEVE_BY_CONTENT,
        "BO_DOES_NOT_EXIST": ReturnCode.BO_DOES_NOT_EXIST,
        "UNABLE_TO_LOGIN": ReturnCode.UNABLE_TO_LOGIN,
        "VALDUPES": ReturnCode.VALDUPES,
        "APPRESPONSETIMEOUT": ReturnCode.APPRESPONSETIMEOUT,
    }
)
"""The values of the result property, and their return codes."""

MAX_TEXT: Final = 8 << 10
"""Bytes in UTF-8 of an application's error text that are kept."""

_REFILLING: Final = frozenset({ReturnCode.VALCHANGE, ReturnCode.MULTIPLE_HITS})
_CUT: Final = " ..."


def interpret(
    reply: Message,
    bo: BusinessObject,
    properties: RequestProperties,
    settings: RequestSettings,
    handlers: Handlers,
) -> RequestResult:
    """Returns the result that a reply means. No reply makes this function raise.

    ==========================  =====================================================================
    result property             result
    ==========================  =====================================================================
    SUCCESS                     SUCCEED, the object of the request
    VALCHANGE, MULTIPLE_HITS    the same, an object made from the body, the header attributes of its
                                dynamic meta-object from the headers. An empty body leaves the other
                                attributes as they were in the request.
    any other name of RESULTS   the same, the object of the request, the body as an error text
    nothing, anything else      FAIL, the object of the request
    ==========================  =====================================================================

    A body of white space only is empty. A reply is FAIL if its body cannot be read, or if its headers do not
    fit the dynamic meta-object.

    Args:
        bo: the business object of the request. Not changed. The result contains this object unless the reply
            refills the object.
    """
    value = reply.properties.get(settings.connector.message_response_result_property)
    status = RESULTS.get(value) if isinstance(value, str) else None
    if status is None:
        return RequestResult(ReturnCode.FAIL, bo, _unknown_result(reply, properties, settings))
    if status is ReturnCode.SUCCEED:
        return RequestResult(status, bo)
    if status not in _REFILLING:
        generic = f"the application behind {properties.output_destination} answered {value}, and said no more"
        return RequestResult(status, bo, _error_text(reply) or generic)
    try:
        return RequestResult(status, _refill(reply, bo, properties, settings, handlers))
    except (MalformedData, RequestRefused) as error:
        return RequestResult(ReturnCode.FAIL, bo, f"{_name(reply, properties)} cannot be read: {error}")


def refills(reply: Message, settings: RequestSettings) -> bool:
    """Whether the body of a reply becomes a business object."""
    value = reply.properties.get(settings.connector.message_response_result_property)
    status = RESULTS.get(value) if isinstance(value, str) else None
    return status in _REFILLING and not _is_empty(reply)


def _refill(
    reply: Message,
    bo: BusinessObject,
    properties: RequestProperties,
    settings: RequestSettings,
    handlers: Handlers,
) -> BusinessObject:
    """Returns a new object from the reply's body and headers.

    Raises:
        MalformedData, RequestRefused: the reply cannot be read.
    """
    if reply.message_class == "O":
        raise MalformedData("an object message is never deserialised; answer with text or bytes")
    if _is_empty(reply):
        values = {name: bo.value(name) for name in bo}
        made = BusinessObject(settings.definitions, bo.type, bo.verb)
        made.set_values(values, keeps_null=True)
    else:
        handler = find_handler(properties, handlers)
        made = _read(handler, reply.body, bo, properties, handlers)
        finish(made, default_verb=bo.verb, use_defaults=settings.connector.use_defaults)
    holder = bo.definition.dynamic_metaobject
    if holder is not None:
        refill_dynamic(
            made,
            reply,
            message_format=message_format(reply, settings.connector.message_format_property),
            input_destination=reply.destination,
            kept=bo[holder],
        )
    made.object_event_id = bo.object_event_id
    return made


def _read(
    handler: DataHandler, body: bytes, bo: BusinessObject, properties: RequestProperties, handlers: Handlers
) -> BusinessObject:
    try:
        with Stage("data_handler", type(handler).__name__):
            made = handler.to_business_object(body, Hint(bo.type, bo.verb))
    except BaseException as error:  # any exception of a user's handler
        if is_interrupt(error):
            raise
        raise handler_failure(handler, error, bo, properties, handlers) from error
    if not isinstance(made, BusinessObject) or made.type != bo.type:
        what = f"a {made.type}" if isinstance(made, BusinessObject) else f"{type(made).__name__}"
        raise MalformedData(f"the data handler {type(handler).__name__} returned {what}, no {bo.type}")
    return made


def _is_empty(reply: Message) -> bool:
    return reply.message_class == "M" or not reply.body.strip()


def _error_text(reply: Message) -> str:
    """Returns the error text of an application, or empty."""
    if reply.message_class in ("M", "O"):
        return ""
    body = reply.body.strip()
    text = body[:MAX_TEXT].decode("utf-8", "replace").encode()  # replacement characters may be longer
    if len(body) <= MAX_TEXT and len(text) <= MAX_TEXT:
        return text.decode()
    return text[: MAX_TEXT - len(_CUT)].decode("utf-8", "ignore") + _CUT


def _name(reply: Message, properties: RequestProperties) -> str:
    identity = f" ({reply.message_id})" if reply.message_id else ""
    return f"the reply{identity} of the application behind {properties.output_destination}"


def _unknown_result(reply: Message, properties: RequestProperties, settings: RequestSettings) -> str:
    name = settings.connector.message_response_result_property
    value = reply.properties.get(name)
    expected = f"expected one of {', '.join(RESULTS)}"
    if value is None:
        return (
            f"{_name(reply, properties)} has no property {name} (MessageResponseResultProperty), {expected}"
        )
    if not isinstance(value, str):
        return f"{_name(reply, properties)}: {name} is {describe(value)}, {expected}"
    return f"{_name(reply, properties)}: {name} is {shown(value)}, {expected}{did_you_mean(value, RESULTS)}"
