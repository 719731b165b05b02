"""The properties of one request (WBI Adapter for JMS, tables 1, 2, 4 and 5).

Each property is looked for in four places: the dynamic meta-object, the entry of the static one for the
object and verb, its ``Default``, and the connector's properties. The first value that is not blank counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from connector.businessobjects.dynamic import PROPERTIES, properties_of, sendable_text
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.metadata import (
    is_blank,
    read_boolean,
    read_delivery_delay,
    read_delivery_mode,
    read_destination,
    read_priority,
    read_reply_queue,
    read_time_to_live,
    read_timeout,
)
from connector.businessobjects.rules import HANDLER_KEYS
from connector.businessobjects.types import SimpleValue
from connector.errors import MalformedData, RequestRefused
from connector.formats.handlers import OPTIONS_KEY, choose_handler
from connector.messaging.destination import Destination, names_of
from connector.messaging.message import PropertyValue
from connector.requests.settings import RequestSettings

T = TypeVar("T")

_DESTINATION: Final = "OutputDestination"


@dataclass(frozen=True, slots=True)
class RequestProperties:
    """The properties of one request.

    Args:
        output_format: value of JMSType or ``MessageFormatProperty``. None = not set.
        correlation_id: JMSCorrelationID. None = not set.
        reply_to: the queue for replies. The connector's counts for synchronous requests only. None = not set.
        priority: JMSPriority. None = the provider's default.
        delivery_mode: ``PERSISTENT`` or ``NON_PERSISTENT``. None = the provider's default.
        response_timeout: milliseconds to wait for the reply at least. None or below 0 = asynchronous.
        time_to_live: milliseconds from sending to the expiration. 0 = the message never expires. None = a
            synchronous request expires after its response_timeout.
        delivery_delay: milliseconds from sending to the first delivery. 0 = none.
        timeout_fatal: whether a missing reply is APPRESPONSETIMEOUT. Otherwise a missing reply is FAIL.
        handler: MIME type (or class) and data-handler meta-object, the arguments of ``Handlers.get``.
        user_properties: name, JMS type and value of each property.
    """

    output_destination: Destination
    output_format: str | None = None
    correlation_id: str | None = None
    reply_to: Destination | None = None
    priority: int | None = None
    delivery_mode: int | None = None
    response_timeout: int | None = None
    time_to_live: int | None = None
    delivery_delay: int = 0
    timeout_fatal: bool = True
    handler: tuple[str, str] = ("", "")
    user_properties: tuple[tuple[str, str, PropertyValue], ...] = ()

    @property
    def synchronous(self) -> bool:
        """Whether a reply is awaited."""
        return self.response_timeout is not None and self.response_timeout >= 0


def resolve(
    bo: BusinessObject, settings: RequestSettings, *, timeout: int | None = None
) -> RequestProperties:
    """Returns the properties of a request.

    Args:
        bo: the business object with its verb. Not changed.
        settings: the requests of the adapter.
        timeout: ResponseTimeout in ms, before all meta-objects. Below 0 = asynchronous.

    Raises:
        RequestRefused: a value is not valid for the property, or no OutputDestination is set. The text names
            the place.
    """
    levels = tuple(_levels(bo, settings))
    with names_of(own_names=settings.own_names):
        destination = _first(levels, _DESTINATION, read_destination)
        reply_to = _first(levels, "ReplyToDestination", read_reply_queue)
    if destination is None:
        raise RequestRefused(_no_destination(bo, settings))
    if timeout is None:
        timeout = _first(levels, "ResponseTimeout", read_timeout)
    else:
        timeout = _read("timeout", timeout, read_timeout)
    if reply_to is None and timeout is not None and timeout >= 0:
        reply_to = settings.connector.reply_to_destination
    fatal = _first(levels, "TimeoutFatal", read_boolean)
    return RequestProperties(
        output_destination=destination,
        output_format=_first(levels, "OutputFormat", sendable_text),
        correlation_id=_first(levels, "CorrelationID", sendable_text),
        reply_to=reply_to,
        priority=_first(levels, "Priority", read_priority),
        delivery_mode=_first(levels, "DeliveryMode", read_delivery_mode),
        response_timeout=timeout,
        time_to_live=_first(levels, "TimeToLive", read_time_to_live),
        delivery_delay=_first(levels, "DeliveryDelay", read_delivery_delay) or 0,
        timeout_fatal=True if fatal is None else fatal,
        handler=_handler(bo, levels, settings),
        user_properties=_user_properties(bo),
    )


@dataclass(frozen=True, slots=True)
class _Level:
    """One place that may set properties.

    Args:
        place: name in errors: ``Customer.Meta`` or ``MO_Config.Default``.
    """

    place: str
    values: Mapping[str, SimpleValue]


def _levels(bo: BusinessObject, settings: RequestSettings) -> Iterator[_Level]:
    """Yields the places in the order in which they count."""
    child = _dynamic(bo)
    if child is not None:
        attributes = child.definition.attributes
        values = {
            name: child.value(name)
            for name in child
            if not (attributes[name].is_child or attributes[name].is_list)
        }
        yield _Level(f"{bo.type}.{bo.definition.dynamic_metaobject}", values)
    if settings.rules is None:
        return
    defaults = settings.defaults
    entry = settings.rules.entry(bo.type, bo.verb or "")
    if entry is not None:
        # The entry also holds the values of Default. They are left out, so that errors name Default.
        own = {name: text for name, text in entry.properties.items() if defaults.get(name) != text}
        yield _Level(f"{settings.rules.name}.rules.{entry.id}", own)
    yield _Level(f"{settings.rules.name}.Default", defaults)


def _dynamic(bo: BusinessObject) -> BusinessObject | None:
    holder = bo.definition.dynamic_metaobject
    child = bo[holder] if holder in bo.definition.attributes else None
    return child if isinstance(child, BusinessObject) else None


def _first(levels: tuple[_Level, ...], name: str, read: Callable[[SimpleValue], T]) -> T | None:
    """Returns the value of a property from the first level that sets the property."""
    for level in levels:
        value = level.values.get(name)
        if value is not None and not is_blank(value):
            return _read(f"{level.place}.{name}", value, read)
    return None


def _read(place: str, value: SimpleValue, read: Callable[[SimpleValue], T]) -> T:
    try:
        return read(value)
    except ValueError as error:
        raise RequestRefused(f"{place}: {error}") from None


def _handler(bo: BusinessObject, levels: tuple[_Level, ...], settings: RequestSettings) -> tuple[str, str]:
    """Returns the arguments of ``Handlers.get``.

    See :func:`~connector.formats.handlers.choose_handler`.
    """
    said = levels[:1] if _dynamic(bo) is not None else ()
    dynamic = {key: _first(said, key, sendable_text) or "" for key in (*HANDLER_KEYS, OPTIONS_KEY)}
    static = settings.rules.properties(bo.type, bo.verb or "") if settings.rules is not None else {}
    return choose_handler((dynamic, static), settings.default_handler)


def _user_properties(bo: BusinessObject) -> tuple[tuple[str, str, PropertyValue], ...]:
    child = _dynamic(bo)
    if child is None or PROPERTIES not in child.definition.attributes:
        return ()
    properties = child[PROPERTIES]
    if not isinstance(properties, BusinessObject):
        return ()
    try:
        return properties_of(properties, f"{bo.type}.{bo.definition.dynamic_metaobject}.{PROPERTIES}")
    except MalformedData as error:
        raise RequestRefused(str(error)) from None


def _no_destination(bo: BusinessObject, settings: RequestSettings) -> str:
    """Returns the text that lists all places without an OutputDestination."""
    places = []
    holder = bo.definition.dynamic_metaobject
    if holder is None:
        places.append(f"{bo.type} has no dynamic meta-object")
    else:
        child = _dynamic(bo)
        place = f"{bo.type}.{holder}"
        if child is None:
            places.append(f"the dynamic meta-object {place} is not set")
        elif _DESTINATION not in child.definition.attributes:
            places.append(f"the dynamic meta-object {place} ({child.type}) has no such attribute")
        else:
            places.append(f"{place}.{_DESTINATION} is not set")
    if settings.rules is None:
        places.append("there is no static meta-object (ConfigurationMetaObject)")
    else:
        entry = settings.rules.entry(bo.type, bo.verb or "")
        if entry is None:
            places.append(f"{settings.rules.name} has no entry {bo.type}_{bo.verb}")
        else:
            places.append(f"the entry {entry.id} of {settings.rules.name} has none")
        places.append(f"Default of {settings.rules.name} has none")
    return f"{bo.type}.{bo.verb}: no {_DESTINATION}: {'; '.join(places)}. Say it in one of them"
