"""The documents of ``metaobjects/*.yaml``.

The names of WBI Adapter for JMS and the short names are the same keys: :data:`ALIASES`. Rule properties have
the names of WBI Adapter for JMS.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Final

from pydantic import Field

from connector.businessobjects.metadata import (
    MAX_TIMEOUT,
    read_delivery_delay,
    read_delivery_mode,
    read_time_to_live,
    read_timeout,
)
from connector.declare.destinations import ANY_DESTINATION, REPLIES, SELECTOR, SINK
from connector.declare.expression_type import JMESPATH
from connector.declare.section import Section
from connector.declare.value_types import (
    AS_WRITTEN,
    OPTION,
    Boolean,
    Text,
    ValueType,
    as_found,
    choice,
    integer,
    leaf,
    refuse,
    text_type,
)
from connector.messaging.destination import Destination

ALIASES: Final = {
    "Type": "type",
    "IsKey": "key",
    "IsForeignKey": "foreign_key",
    "IsRequired": "required",
    "MaxLength": "max_length",
    "DefaultValue": "default",
    "Cardinality": "cardinality",
    "AppSpecificInfo": "app_specific_info",
    "Version": "version",
    "IsRequiredServerBound": "required_server_bound",
    "ContainedObjectVersion": "contained_object_version",
    "Relationship": "relationship",
}
"""From the name in WBI Adapter for JMS to the short name."""

_NAME: Final = re.compile(r"[A-Za-z0-9_]{1,80}\Z")


def is_name(name: str) -> bool:
    """Tells whether business objects, attributes and verbs can have this name."""
    return _NAME.match(name) is not None


NAME_RULE: Final = "at most 80 letters (A-Z, a-z), digits and _"


def _read_name(value: object) -> str:
    name = leaf(value, NAME_RULE)
    if not is_name(name):
        raise refuse(as_found(name), NAME_RULE)
    return str(name)


def _read_info(value: object) -> str:
    return str(leaf(value, "a text, usually name=value;name=value"))


def _read_as(read: Callable[[str], int], expected: str, label: str, schema: dict[str, Any]) -> ValueType:
    """Returns a value type that checks like a run, with a reader of the module ``metadata``."""

    def check(value: object) -> int:
        text = leaf(value, expected)
        try:
            return read(str(text))
        except ValueError:
            raise refuse(as_found(text), expected) from None

    return ValueType(check, int, schema, label)


DELIVERY_MODE: Final = _read_as(
    read_delivery_mode,
    "Persistent (2) or NonPersistent (1)",
    "Persistent | NonPersistent",
    {"type": ["string", "integer"]},
)
RESPONSE_TIMEOUT: Final = _read_as(
    read_timeout,
    f"a whole number of milliseconds, at most {MAX_TIMEOUT}; -1: it does not wait",
    "milliseconds",
    {"anyOf": [{"type": "integer", "maximum": MAX_TIMEOUT}, {"type": "string", "pattern": r"^[+-]?[0-9]+$"}]},
)
DELIVERY_DELAY: Final = _read_as(
    read_delivery_delay,
    "a whole number of milliseconds from 0; 0: no delay",
    "milliseconds",
    {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^[+]?[0-9]+$"}]},
)
TIME_TO_LIVE: Final = _read_as(
    read_time_to_live,
    "a whole number of milliseconds from 0; 0: the message never expires",
    "milliseconds",
    {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^[+]?[0-9]+$"}]},
)


MetaObjectName = Annotated[str, ValueType(_read_name, str, {"type": "string"}, "name")]
Info = Annotated[str, ValueType(_read_info, str, {"type": "string"}, "text")]
AnyDestination = Annotated[str, ANY_DESTINATION]


class AttributeEntry(Section):
    """One attribute. ``Name: String`` is short for ``Name: {type: String}``."""

    type: Annotated[str, text_type("type")] = Field(
        description="`String`, `LongText`, `Ciphertext` (a text that no log and no error shows), `Boolean`, "
        "`Integer`, `Float`, `Double`, `Decimal` (exact, for money), `Date`, or a business object."
    )
    key: Boolean = Field(
        default=False, description="Part of the key of the object. Every object but a meta-object has one."
    )
    foreign_key: Boolean = Field(default=False, description="The key of another object.")
    required: Boolean = Field(default=False, description="Bodies and requests need the attribute.")
    blank: Boolean = Field(
        default=False,
        description="A required attribute or a key may be blank. Without it, a blank one is an error.",
    )
    values: list[Annotated[str, AS_WRITTEN]] = Field(
        default=[], description="The only values that the attribute can have. Empty: any."
    )
    minimum: Annotated[str | None, AS_WRITTEN] = Field(
        default=None, description="Of a number or a Date: the least value. Compared exactly."
    )
    maximum: Annotated[str | None, AS_WRITTEN] = Field(
        default=None, description="Of a number or a Date: the greatest value."
    )
    pattern: Annotated[str | None, AS_WRITTEN] = Field(
        default=None,
        description="Of a text: a regular expression for the whole text, without look-around and "
        "back-references.",
    )
    min_length: Annotated[int, integer(0, "characters")] = Field(
        default=0, description="Of a text: the least number of characters."
    )
    max_length: Annotated[int, integer(0, "characters")] = Field(
        default=0,
        description="Of a String, LongText or Ciphertext. In fixed-width text: the width of any field. "
        "0: unlimited.",
    )
    digits: Annotated[int, integer(0, "digits")] = Field(
        default=0, description="Of a Decimal: the most significant digits. 0: unlimited."
    )
    scale: Annotated[int, integer(0, "places")] | None = Field(
        default=None, description="Of a Decimal: the most places after the point. Left out: unlimited."
    )
    default: Annotated[str | None, AS_WRITTEN] = Field(
        default=None,
        description="Satisfies `required` if `UseDefaults` is true. Never used if the attribute is not "
        "required. `CxBlank`: blank. `CxIgnore`: no default.",
    )
    cardinality: Annotated[str, choice("1", "n", "N")] = Field(
        default="1",
        description="`n`: a list of children, or of values of a simple type. A key cannot be a list.",
    )
    app_specific_info: Info = Field(default="", description="Free text, usually `name=value;name=value`.")
    required_server_bound: Boolean = Field(
        default=False, description="For definitions of WBI Adapter for JMS, without effect."
    )
    contained_object_version: Text | None = Field(
        default=None, description="Of a child: the version of the child's definition."
    )
    relationship: Annotated[str, choice("Containment")] | None = Field(
        default=None, description="Of a child, without effect."
    )


class VerbEntry(Section):
    """One verb. ``Create:`` without a value is enough."""

    app_specific_info: Info = Field(default="", description="For example `response_selector=...`.")


class BusinessObjectDocument(Section):
    """The definition of a business object."""

    business_object: MetaObjectName = Field(description="The name.")
    version: Text = Field(default="1.0.0", description="The version, for people.")
    app_specific_info: Info = Field(
        default="",
        description="`cw_mo_<label>=<attribute>` names the attribute that holds the dynamic meta-object.",
    )
    verbs: dict[str, VerbEntry] = Field(
        default={}, description="Possible verbs of the object, or a list of their names."
    )
    attributes: dict[str, AttributeEntry] = Field(default={}, description="In the order of a body.")


class DefaultEntry(Section):
    """Properties of every rule that lacks them."""

    mime_type: Text | None = Field(
        default=None, alias="DataHandlerMimeType", description="The data handler, by format."
    )
    config_mo: Text | None = Field(
        default=None,
        alias="DataHandlerConfigMO",
        description="The options of that data handler. A class has none.",
    )
    class_name: Text | None = Field(
        default=None, alias="DataHandlerClassName", description="The data handler, `module:Class`."
    )
    output_format: Text | None = Field(
        default=None, alias="OutputFormat", description="Format of messages sent."
    )
    output_destination: Annotated[Destination, SINK] | None = Field(
        default=None, alias="OutputDestination", description="Destination of requests."
    )
    response_timeout: Annotated[int, RESPONSE_TIMEOUT] | None = Field(
        default=None, alias="ResponseTimeout", description="Longest wait for the reply. -1: no wait."
    )
    time_to_live: Annotated[int, TIME_TO_LIVE] | None = Field(
        default=None,
        alias="TimeToLive",
        description="Time from sending to JMSExpiration, of requests and of messages that `destination` "
        "subscriptions send. 0: they never expire. Default: a synchronous request expires after its "
        "`ResponseTimeout`.",
    )
    delivery_delay: Annotated[int, DELIVERY_DELAY] | None = Field(
        default=None,
        alias="DeliveryDelay",
        description="Time from sending to the first delivery, of the same messages. 0: none. A broker has to "
        "keep it: `connector check --connect` says whether it does.",
    )
    timeout_fatal: Boolean | None = Field(
        default=None,
        alias="TimeoutFatal",
        description="`false`: a request without a reply is FAIL, not APPRESPONSETIMEOUT.",
    )
    correlation_id: Text | None = Field(
        default=None, alias="CorrelationID", description="JMSCorrelationID of requests."
    )
    reply_to: Annotated[Destination, REPLIES] | None = Field(
        default=None, alias="ReplyToDestination", description="JMSReplyTo of requests."
    )
    priority: Annotated[int, integer(0, maximum=9)] | None = Field(
        default=None,
        alias="Priority",
        description="JMSPriority of requests, and of messages that `destination` subscriptions send.",
    )
    delivery_mode: Annotated[int, DELIVERY_MODE] | None = Field(
        default=None, alias="DeliveryMode", description="JMSDeliveryMode of the same messages."
    )

    collaboration_name: Text | None = Field(
        default=None,
        alias="CollaborationName",
        description="Of WebSphere MQ adapters, without effect: events are never answered by a collaboration.",
    )
    data_encoding: Text | None = Field(
        default=None,
        alias="DataEncoding",
        description="Of WebSphere MQ adapters, without effect: data handlers have the option `charset`.",
    )


class RuleEntry(DefaultEntry):
    """A rule for one business object and verb, or one text: ``name=value;name=value``."""

    input_format: Text | None = Field(
        default=None, alias="InputFormat", description="Match key: the format of the message."
    )
    input_destination: AnyDestination | None = Field(
        default=None, alias="InputDestination", description="Match key: the input destination of the message."
    )
    selector: Annotated[str, SELECTOR] | None = Field(
        default=None, description="Match key: a message selector, on headers and properties."
    )
    jmespath: Annotated[str, JMESPATH] | None = Field(
        default=None,
        description="Match key: a JMESPath expression on a JSON body. The expression fits when its value is "
        "neither null, false nor empty.",
    )
    rule_priority: Annotated[int, integer(0)] | None = Field(
        default=None,
        description="Of several rules that match, only those with the highest number count. Default 0.",
    )


class StaticDocument(Section):
    """A static meta-object: rules for the business object of a message."""

    static_metaobject: MetaObjectName = Field(description="The name.")
    default: DefaultEntry | None = Field(
        default=None, alias="Default", description="Fills in properties that a rule lacks. Never matches."
    )
    rules: dict[str, RuleEntry] = Field(
        default={}, description="`<business object>_<verb>`: a rule, or a list of rules."
    )


class HandlerDocument(Section):
    """A data-handler meta-object: the options of data handlers."""

    datahandler_metaobject: MetaObjectName = Field(description="The name.")
    handlers: dict[str, dict[str, Annotated[Any, OPTION]]] = Field(
        default={}, description="MIME type: options of its handler."
    )


MATCH_KEYS: Final = ("InputFormat", "InputDestination", "selector", "jmespath", "rule_priority")
"""The keys of a rule that choose the rule. All others say what the rule does."""

REFUSED: Final = {
    f"Default.{key}": (
        "a match key under Default",
        "it in the rules themselves: Default only fills in what rules leave out, and never matches",
    )
    for key in MATCH_KEYS
}
"""The argument ``refused`` of :meth:`connector.declare.reading.SectionReader.read`."""
