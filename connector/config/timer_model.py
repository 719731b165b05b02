"""The entries of ``timers``: messages that the adapter makes when their times come."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from connector.businessobjects.types import text_of
from connector.cron import Cron
from connector.declare.cron_type import CRON
from connector.declare.destinations import SINK
from connector.declare.section import Section
from connector.declare.tree import Leaf
from connector.declare.value_types import Text, ValueType, as_found, choice, duration, leaf, refuse
from connector.messaging.destination import Destination

SHORTEST: Final = 1.0
LONGEST: Final = 366 * 86400.0
"""Seconds of ``every``, at least and at most."""
LONGEST_NAME: Final = 100
_DURATION: Final = duration()
_EVERY_EXPECTED: Final = "1s to 366d, such as 30s, 15m or 1d"
_NAME_EXPECTED: Final = f"a text of at most {LONGEST_NAME} characters without control characters"
_BODY_EXPECTED: Final = "the text of the body, or object and data"


def _read_every(value: object) -> float:
    seconds: float = _DURATION.read(value)
    if seconds < SHORTEST:
        raise refuse(f"{as_found(value)}, which is too short", _EVERY_EXPECTED)
    if seconds > LONGEST:
        raise refuse(f"{as_found(value)}, which is too long", f"{_EVERY_EXPECTED}, or a cron")
    return seconds


def _read_name(value: object) -> str:
    name = leaf(value, _NAME_EXPECTED)
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise refuse(as_found(name), _NAME_EXPECTED)
    return str(name)


def _write_data(value: Any) -> Any:
    """Returns typed values as the file has them."""
    if isinstance(value, dict):
        return {name: _write_data(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_write_data(one) for one in value]
    return value if value is None or isinstance(value, bool | int | str) else text_of(value)


def _read_data(value: object) -> Any:
    """Returns the attributes of an object, which are read by their types later."""
    if isinstance(value, dict):
        return value
    found = as_found(value) if isinstance(value, Leaf) else "a list"
    raise refuse(found, "a mapping with the attributes of the object")


EVERY: Final = ValueType(_read_every, _DURATION.write, _DURATION.schema, _DURATION.label)
_NAME: Final = ValueType(_read_name, str, {"type": ["string", "number"]}, "text")
_BODY: Final = ValueType(
    lambda value: str(leaf(value, _BODY_EXPECTED)),
    lambda value: value,
    {"type": ["string", "number", "boolean"]},
    "text",
)
_DATA: Final = ValueType(_read_data, _write_data, {"type": "object"}, "mapping")


class TimerEntry(Section):
    """A message that the adapter sends when its time comes, once for all instances.

    A timer has `every` or `cron`, and `object` or `body`. Timers belong to the service: `connector run` with
    `--once` or `--drain` sends nothing of a timer.
    """

    name: Annotated[str, _NAME] = Field(
        description="Of the timer. The property `connector_timer` of its messages, and a part of their key."
    )
    every: Annotated[float, EVERY] | None = Field(
        default=None,
        description="Time between two messages, from one second up. The times count from 1970-01-01 00:00 "
        "UTC, so all instances agree: `15m` is each quarter of an hour, `1d` is midnight UTC.",
    )
    cron: Annotated[Cron, CRON] | None = Field(
        default=None,
        description="Times as in crontab(5), by local time: minute, hour, day of month, month and weekday.",
    )
    misfire: Annotated[Literal["once", "all", "none"], choice("once", "all", "none")] = Field(
        default="once",
        description="Times that have passed while no instance ran. `once`: one message, for the latest of "
        "them. `all`: a message for each, at most the latest 1,000. `none`: no message.",
    )
    to: Annotated[Destination, SINK] = Field(description="Queue or topic that the message is sent to.")
    object: Text | None = Field(
        default=None,
        description="Business object of the message. Its rule names the data handler and the headers, as for "
        "what a process sends.",
    )
    verb: Text | None = Field(
        default=None, description="Verb of the object. Left out: `DefaultVerb` of the connector."
    )
    data: Annotated[dict[str, Any], _DATA] | None = Field(
        default=None, description="Attributes of the object, each read by its type."
    )
    body: Annotated[str, _BODY] | None = Field(
        default=None, description="Body of the message as a text, in place of an object."
    )
    mime_type: Text | None = Field(
        default=None,
        description="Format of the message. With an object the data handler that writes it, in place of that "
        "of its rule. With a body the property `connector_content_type`, which chooses the data handler "
        "where an adapter reads the message.",
    )

    @property
    def times(self) -> str:
        """The text that says when the timer is due. Timers with equal texts are due at equal times."""
        if self.cron is not None:
            return f"cron {self.cron.text}"
        return f"every {EVERY.write(self.every)}"
