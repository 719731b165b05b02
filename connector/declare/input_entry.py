"""The entries of ``InputDestination``.

An entry may have keys that the section ``connector`` has, too, for this input alone.
:attr:`.connector_section.Connector.by_input` is the one reading of them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from connector.declare.destinations import COPIES, INPUT, TEXT_OF_SELECTOR
from connector.declare.duplicate_key import DUPLICATE_KEY
from connector.declare.scalar import scalar
from connector.declare.section import Section
from connector.declare.tree import Leaf
from connector.declare.value_types import (
    RATE,
    Boolean,
    Size,
    Text,
    choice,
    duration,
    integer,
    refuse,
    split_list,
)
from connector.messaging.destination import Destination
from connector.messaging.input import Input
from connector.messaging.selector import selector_text
from connector.text.names import shown

CopiesName = Annotated[Destination, COPIES]
Parallel = Annotated[int, integer(1, "events", maximum=1000)]
DuplicateKey = Annotated[str, DUPLICATE_KEY]
UnpackName = Annotated[Literal["none", "gzip"], choice("none", "gzip")]
OrderName = Annotated[Literal["destination", "group", "none"], choice("destination", "group", "none")]


def given_destinations(**destinations: Destination | None) -> dict[str, Destination]:
    """Returns the destinations that are given, by their keys."""
    return {key: destination for key, destination in destinations.items() if destination is not None}


def _right_form(destination: str, selector: Any) -> str:
    """Returns the right form of an input that is written as a mapping of its selector."""
    if isinstance(selector, dict):
        selector = selector.get("selector")
    text = str(selector) if isinstance(selector, Leaf) and not selector.from_environment else "..."
    return f"{{destination: {destination}, selector: {scalar(text)}}}"


def split_inputs(value: Any) -> Any:
    """Splits a text of inputs. Refuses a mapping, and shows the list that is meant."""
    if isinstance(value, dict) and value:
        key, selector = next(iter(value.items()))
        if "destination" in value:
            key, selector = value["destination"], value.get("selector")
        raise refuse("a mapping", f"a list of inputs: - {_right_form(key, selector)}")
    return split_list(value)


class InputEntry(Section):
    """One destination that is polled. Written as a name, or as a mapping."""

    destination: Annotated[Destination, INPUT] = Field(
        description="A queue, a topic, or the undelivered messages of a queue: `orders~EXPIRED`, "
        "`orders~REJECT-ERROR`."
    )
    selector: Annotated[str, TEXT_OF_SELECTOR] | None = Field(
        default=None,
        description="Polls only matching messages. Other messages of a queue stay there. Other messages of "
        "a topic never get into the subscription.",
    )
    subscription: Text | None = Field(
        default=None,
        description="Topics only, and needed there: name of the durable subscription. Its client id is the "
        "`ApplicationName`. The instances of that name share the subscription. At a broker the subscription "
        "is shared, has no client id, and is named `APPLICATION.TOPIC.NAME`.",
    )
    shared: Boolean = Field(
        default=False,
        description="Topics only: the durable subscription is shared, as made by `connector subscribe "
        "--shared`. Still only instances of this `ApplicationName` can use the subscription, because they "
        "hold that client id.",
    )
    no_local: Boolean = Field(
        default=False,
        description="Topics only: leaves out messages that this adapter sends. At a broker for one instance.",
    )
    rate: Annotated[float | None, RATE] = Field(
        default=None,
        description="Most messages that each instance claims, on the average: `50/s`, `50/m` or `50/h`. At "
        "once it claims the messages of a second at most. Left out: no limit.",
    )
    min_age: Annotated[float | None, duration()] = Field(
        default=None,
        description="For a queue of a dropbox whose partners write straight into `target/`. A file is taken "
        "when two looks, so far apart, have found the same size, mtime and ctime. Left out: every file is "
        "complete.",
    )
    poll_quantity: Annotated[int | None, integer(1, "messages")] = Field(
        default=None,
        alias="PollQuantity",
        description="Largest number of messages that a poll takes of this input. Left out: that of the "
        "connector.",
    )
    duplicate_key: DuplicateKey | None = Field(
        default=None,
        description="What makes two messages of this input one event, as the key of the connector says. Left "
        "out: that of the connector.",
    )
    parallel: Parallel | None = Field(
        default=None,
        description="Events of this input that an instance delivers at the same time. Left out: its events "
        "share the number of the connector, and with `order: destination` they go one after the other.",
    )
    order: OrderName | None = Field(
        default=None,
        description="Events of this input that are published one after the other. Left out: as `order` of "
        "the connector says. Inputs of one destination have one order.",
    )
    max_body: Size | None = Field(
        default=None,
        description="A larger body of this input is not read, and the event fails. Left out: as for the "
        "connector.",
    )
    unpack: UnpackName | None = Field(
        default=None,
        description="`gzip`: all bodies of this input are gzip, and are unpacked. Copies stay packed. Left "
        "out: that of the connector.",
    )
    max_attempts: Annotated[int | None, integer(1, "deliveries")] = Field(
        default=None,
        description="Number of begun deliveries after which an event of this input fails. Left out: that of "
        "the connector.",
    )
    convert_timeout: Annotated[float | None, duration()] = Field(
        default=None,
        description="Longest time between claim and first delivery of an event of this input. Left out: that "
        "of the connector.",
    )
    archive_destination: CopiesName | None = Field(
        default=None,
        alias="ArchiveDestination",
        description="Queue for copies of published messages of this input. Left out: that of the connector.",
    )
    error_destination: CopiesName | None = Field(
        default=None,
        alias="ErrorDestination",
        description="Queue for copies of failed messages of this input. Left out: that of the connector.",
    )
    unsubscribed_destination: CopiesName | None = Field(
        default=None,
        alias="UnsubscribedDestination",
        description="Queue for copies of messages of this input without a subscription. Left out: that of "
        "the connector.",
    )
    data_handler_mime_type: Text | None = Field(
        default=None,
        alias="DataHandlerMimeType",
        description="The default data handler of this input. Left out: that of the connector.",
    )
    default_verb: Text | None = Field(
        default=None,
        alias="DefaultVerb",
        description="Verb of events of this input whose rule and body name none. Left out: that of the "
        "connector.",
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if isinstance(value, dict) and "destination" not in value:
            known = {field.alias or name for name, field in cls.model_fields.items()}
            for key, selector in value.items():
                if key not in known:
                    raise refuse(f"{shown(key)} as a key", _right_form(key, selector))
        return {"destination": value} if isinstance(value, Leaf) else value

    def __str__(self) -> str:
        return str(self.input)

    @property
    def input(self) -> Input:
        """What names the input."""
        if self.subscription is not None:
            return Input(self.destination, subscription=self.subscription)
        return Input(self.destination, selector_text(self.selector))

    @property
    def own_destinations(self) -> dict[str, Destination]:
        """The destinations of copies of this input alone, by their keys."""
        return given_destinations(
            ArchiveDestination=self.archive_destination,
            ErrorDestination=self.error_destination,
            UnsubscribedDestination=self.unsubscribed_destination,
        )

    def options(self, resolved: Any) -> dict[str, Any]:
        """Returns the options of the input by their names in ``InputSettings`` of the events.

        Args:
            resolved: the section ``connector`` as it holds for this input.
        """
        parallel = resolved.parallel if resolved.order == "destination" else self.parallel
        return {
            "quantity": resolved.poll_quantity,
            "order": resolved.order,
            "rate": self.rate,
            "parallel": parallel,
            "min_age": self.min_age or 0.0,
            "duplicate_key": resolved.duplicate_key or "",
        }

    def short_form(self) -> str | dict[str, Any]:
        """Returns the input in the shortest form for the file."""
        options = self.model_dump(exclude={"destination"}, exclude_defaults=True, by_alias=True)
        return {"destination": str(self.destination), **options} if options else str(self.destination)
