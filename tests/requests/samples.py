"""A Customer with every kind of meta-data, plans that say what a test wants, and replies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.rules import OutputEntry, StaticMetaObject, complete_properties
from connector.declare.connector_section import Connector, ReplyMatching
from connector.formats.catalogue import discover
from connector.formats.handlers import Handlers
from connector.messaging.message import Message, PropertyValue
from connector.requests.settings import CORRELATION_ID, RequestSettings

REPOSITORY: Final = Path(__file__).resolve().parents[2]
CATALOGUE: Final = discover(REPOSITORY)
HANDLERS: Final = tuple(CATALOGUE.spec(mime_type, None) for mime_type in CATALOGUE.mime_types)

META: Final = {
    **dict.fromkeys(("OutputDestination", "OutputFormat", "ReplyToDestination", "CorrelationID"), "String"),
    **dict.fromkeys(("DeliveryMode", "DeliveryDelay", "MessageID", "TimeStamp", "Expiration"), "String"),
    **dict.fromkeys(("DataHandlerMimeType", "DataHandlerConfigMO", "DataHandlerClassName"), "String"),
    **dict.fromkeys(("Destination", "Type", "InputFormat", "InputDestination", "Note"), "String"),
    **dict.fromkeys(("Priority", "ResponseTimeout", "TimeToLive"), "Integer"),
    **dict.fromkeys(("TimeoutFatal", "Redelivered"), "Boolean"),
}
"""The attributes of the dynamic meta-object: all that means something to requests, and one that does not."""

PROPERTIES: Final = (
    Attribute("Region", "String", app_specific_info="name=region;type=String"),
    Attribute("Urgent", "Boolean", app_specific_info="name=urgent;type=Boolean"),
    Attribute("Count", "Integer", app_specific_info="name=count;type=Int"),
)


def defined(name: str, info: str = "", **kinds: str) -> Definition:
    """A business object with attributes of these types. ``[]`` behind a type makes a list of it."""
    attributes = {
        one: Attribute(one, kind.removesuffix("[]"), cardinality="n" if kind.endswith("[]") else "1")
        for one, kind in kinds.items()
    }
    return Definition(name, app_specific_info=info, attributes=attributes, verbs={"Get": Verb("Get")})


def definitions(
    *verbs: Verb, properties: tuple[Attribute, ...] = PROPERTIES, types: Mapping[str, str] | None = None
) -> Definitions:
    """The business objects.

    Args:
        verbs: more of them, beside Create and Retrieve.
        properties: the attributes of JMSProperties.
        types: attribute of the dynamic meta-object -> its type, where it is another one.
    """

    def define(name: str, *attributes: Attribute, info: str = "") -> Definition:
        known = {verb.name: verb for verb in (Verb("Create"), Verb("Retrieve"), *verbs)}
        return Definition(name, "1.0.0", info, {part.name: part for part in attributes}, known)

    meta = (Attribute(name, kind) for name, kind in {**META, **(types or {})}.items())
    made = (
        define(
            "Customer",
            Attribute("CustomerId", "String", is_key=True, is_required=True),
            Attribute("Name", "String"),
            Attribute("Age", "Integer"),
            Attribute("Address", "Address", cardinality="n"),
            Attribute("Meta", "CustomerMeta"),
            info="cw_mo_conn=Meta",
        ),
        define("Address", Attribute("City", "String"), Attribute("AddressID", "String")),
        define("CustomerMeta", *meta, Attribute("JMSProperties", "CustomerProperties")),
        define("CustomerProperties", *properties),
        define("Plain", Attribute("Text", "String")),
    )
    return Definitions({definition.name: definition for definition in made})


SAMPLES: Final = definitions()


def customer(
    of: Definitions = SAMPLES, values: Mapping[str, Any] | None = None, **meta: Any
) -> BusinessObject:
    """A Customer to be created, with this dynamic meta-object; without one where nothing is said."""
    data = {"CustomerId": "7", **(values or {})}
    return BusinessObject(of, "Customer", "Create", {**data, "Meta": meta} if meta else data)


def settings(
    of: Definitions = SAMPLES,
    *,
    entry: Mapping[str, str] | None = None,
    default: Mapping[str, str] | None = None,
    **changes: Any,
) -> RequestSettings:
    """A plan whose static meta-object has these properties.

    Args:
        of: the business objects.
        entry: of ``Customer_Create``; None = there is no such entry.
        default: of ``Default``; unless said otherwise, requests go to queue://out.
        changes: of the settings.
    """
    defaults = {"OutputDestination": "queue://out"} if default is None else dict(default)
    rules = []
    if entry is not None:
        rules.append(
            OutputEntry(
                "Customer_Create", "Customer", "Create", properties=complete_properties(entry, defaults)
            )
        )
    settings: dict[str, Any] = {
        "definitions": of,
        "rules": StaticMetaObject("MO_Config", (), defaults, rules),
        "handlers": HANDLERS,
        "default_handler": "application/json",
    }
    return changed(RequestSettings(**settings, connector=SECTION), **changes)


SECTION: Final = Connector.model_construct(application_name="requests")


def matching(request: str, reply: str = CORRELATION_ID) -> ReplyMatching:
    return ReplyMatching.model_construct(request=request, reply=reply)


def changed(settings: RequestSettings, **changes: Any) -> RequestSettings:
    """Other settings, and other keys of the section ``connector``."""
    keys = {name: changes.pop(name) for name in [*changes] if name in Connector.model_fields}
    return replace(settings, connector=settings.connector.model_copy(update=keys), **changes)


def handlers(of: RequestSettings) -> Handlers:
    """The data handlers of a plan."""
    return Handlers(of.handlers, of.definitions, REPOSITORY)


def reply(
    result: PropertyValue | None, body: bytes = b"", message_class: str = "T", **headers: Any
) -> Message:
    """A reply with this result property; None = without."""
    message = Message(body, message_class, message_id="ID:reply", **headers)
    if result is not None:
        message.set_property("ResponseResult", result)
    return message
