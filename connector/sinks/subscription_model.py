"""An entry of ``subscriptions``: which subscriber wants which business object.

Each sink brings a class of entries. An entry point of the group ``connector.sinks`` names this class, which
inherits from :class:`ExternalEntry` or :class:`PreparedEntry`. The name of the entry point is the key of the
sink, and a required field of the class. The fields are the keys of an entry with this sink, with the
descriptions in the reference. The types of the fields come from :mod:`connector.declare.value_types`, or a
field is a nested :class:`~connector.declare.section.Section`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import BeforeValidator, Field

from connector.businessobjects.definition import Definitions
from connector.declare.expression_type import JMESPATH
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.reading import Location, node_at
from connector.declare.section import Section
from connector.declare.tree import Items, is_absent
from connector.declare.value_types import (
    Boolean,
    Text,
    ValueType,
    as_found,
    duration,
    integer,
    leaf,
    one_or_list,
    refuse,
)
from connector.formats.catalogue import Catalogue
from connector.formats.checks import check_mime_type
from connector.messaging.destination import Destination
from connector.messaging.numbers import read_number
from connector.sinks.contract import SinkSpec
from connector.sinks.retry_later import ANY, TEMPORARY, RetryLater
from connector.sinks.subscriptions import Subscription

_AN_OBJECT = re.compile(r"[A-Za-z0-9_*?]+\Z")


def _read_object(value: object) -> str:
    expected = "the name of a business object, or a pattern with * and ?"
    name = leaf(value, expected)
    if not _AN_OBJECT.match(name):
        raise refuse(as_found(name), expected)
    return str(name)


ObjectPattern = Annotated[str, ValueType(_read_object, str, {"type": "string"}, "name or pattern")]


@dataclass(frozen=True, slots=True)
class EntryCheck:
    """The context for the check of an entry, and the list that gets the mistakes.

    Args:
        reporter: the tree of ``adapter.yaml``, and the list of mistakes.
        directory: of ``adapter.yaml``.
        catalogue: the data handlers. None = those of the deployment are not known.
        runs_here: whether the workers have the Python and the packages of this process.
        definitions: the business objects. None = not all could be read.
    """

    reporter: ProblemReporter
    location: Location
    key: str
    directory: Path
    catalogue: Catalogue | None
    runs_here: bool
    definitions: Definitions | None = None

    def add(
        self, key: str, found: str, expected: str, nearest: str | None = None, *, warning: bool = False
    ) -> None:
        """Reports a mistake in the value of ``key``, with file, line and column.

        Args:
            key: a key of the entry, or ``outer.inner`` for a key of a section in the entry.
            expected: the valid values.
            nearest: the right name that is closest to a misspelt name, if any.
            warning: whether the configuration works all the same.
        """
        self.reporter.add((*self.location, *key.split(".")), found, expected, nearest, warning=warning)

    def is_written(self, key: str) -> bool:
        """Tells whether the entry has a value for a key. A default does not count."""
        return not is_absent(node_at(self.reporter.tree, (*self.location, key)))

    def is_empty(self, key: str) -> bool:
        """Tells whether the value of a key is a list without an entry."""
        node = node_at(self.reporter.tree, (*self.location, key))
        return isinstance(node, Items) and not node.items

    def check_mime_type(self, key: str, mime_type: str | None) -> None:
        """Reports a MIME type under ``key`` that no data handler serves. None is valid."""
        if mime_type is not None:
            location = (*self.location, *key.split("."))
            check_mime_type(mime_type, location, self.catalogue, self.reporter)


class CommonEntry(Section):
    """A subscription to business objects. Every matching subscription gets the event."""

    object: ObjectPattern = Field(description="A business object, or a pattern: `Order*`, `*`.")
    verbs: Annotated[tuple[Text, ...] | None, BeforeValidator(one_or_list)] = Field(
        default=None, description="Verbs. Left out: every verb."
    )
    name: Text = Field(default="", description="Default: the object, and the target of the delivery.")
    when: Annotated[str, JMESPATH] | None = Field(
        default=None,
        description="A JMESPath expression on the object. The subscription gets the object only if the value "
        "is neither null, false nor empty.",
    )


class SinkEntry(CommonEntry, ABC):
    """An entry with a sink. Its class inherits from :class:`ExternalEntry` or :class:`PreparedEntry`."""

    refused: ClassVar[frozenset[str]] = frozenset()
    """Keys of its kind of sink that this one cannot have. Its ``check`` reports them."""

    @abstractmethod
    def sink(self) -> SinkSpec:
        """Returns a picklable recipe that travels to the workers and opens the sink there."""

    @abstractmethod
    def target(self) -> str:
        """Returns the target of the delivery, the second part of the default name of the subscription.

        The name is kept with messages (``connector_delivered``), so the target must not depend on the machine
        or the directory.
        """

    def check(self, check: EntryCheck) -> None:
        """Reports mistakes that the kinds of single values cannot find.

        Runs no code of the deployment, connects to nothing and makes nothing. A wrong value is reported
        already, and has the default here.
        """

    def subscription(self) -> Subscription:
        """Returns the subscription for the workers."""
        return Subscription(self.name, self.object, self.verbs, self.sink())

    @property
    def replies(self) -> bool:
        """Whether the return value of the sink answers the message."""
        return False

    @property
    def database(self) -> str | None:
        """The key in ``databases:`` that a transactional sink writes to. None = the sink is another one."""
        return None

    @property
    def delivered_object(self) -> str:
        """The type of the objects that the sink gets."""
        return self.object

    @property
    def delivered_verbs(self) -> tuple[str, ...] | None:
        """The verbs of these objects. None = every verb."""
        return self.verbs

    @property
    def sends_to(self) -> Destination | None:
        """The destination of this provider that messages are sent to.

        None = the sink sends to none, or each message goes to a destination of its own.
        """
        return None

    def may_send_to(self, destination: Destination) -> bool:
        """Whether a message of this sink can go to a destination. Its class says so if messages differ."""
        return destination == self.sends_to

    @property
    def delays(self) -> bool:
        """Whether nobody gets the messages for a while, so that the provider has to delay them."""
        return False

    @property
    def is_loaded(self) -> bool:
        """Whether objects wait in a queue of the adapter's own until its own process loads many at a time."""
        return False


def _read_factor(value: object) -> float:
    expected = "a number from 1 up"
    written = leaf(value, expected)
    try:
        factor = read_number(written)
    except ValueError:
        raise refuse(as_found(written), expected) from None
    if factor < 1:
        raise refuse(as_found(written), expected)
    return factor


_FACTOR = ValueType(_read_factor, lambda factor: f"{factor:g}", {"type": "number", "minimum": 1}, "number")
_EXCEPTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")


def _read_exception(value: object) -> str:
    expected = f"{TEMPORARY}, {ANY}, or the name of an exception, such as ConnectionError or package.Error"
    name = leaf(value, expected)
    if not _EXCEPTION.match(name):
        raise refuse(as_found(name), expected)
    return str(name)


_ExceptionName = Annotated[str, ValueType(_read_exception, str, {"type": "string"}, "exception")]


class RetryLaterEntry(Section):
    """When an event comes again whose delivery has failed for a while.

    With `order: destination` all events of its input wait behind it, with `order: group` those of its group,
    with `order: none` none.
    """

    attempts: Annotated[int, integer(1, "attempts")] = Field(
        default=10, description="Tries after the first delivery. Then the event has failed."
    )
    first: Annotated[float, duration()] = Field(default=1.0, description="The wait before the first of them.")
    factor: Annotated[float, _FACTOR] = Field(
        default=2.0, description="Each further wait is so many times as long."
    )
    most: Annotated[float, duration()] = Field(default=300.0, description="The longest wait.")
    on: Annotated[tuple[_ExceptionName, ...], BeforeValidator(one_or_list)] = Field(
        default=(TEMPORARY,),
        description="`temporary`: `TemporaryFailure`, time-outs and lost connections. `any`: every "
        "exception. Or names of exceptions, `ConnectionError` or `package.Error`. A name also stands for the "
        "exceptions that inherit from the named one. `connector.Failed` fails an event in any case.",
    )

    def rules(self) -> RetryLater:
        """Returns the tries for the workers."""
        return RetryLater(self.attempts, self.first, self.factor, self.most, self.on)


_REST_AFTER: Final = 20
"""Failures in a row."""


class CalledEntry(SinkEntry):
    """A sink that the worker calls. Its class inherits from :class:`ExternalEntry`, for example."""

    timeout: Annotated[float | None, duration(none="none")] = Field(
        default=None,
        description="Longest time that one delivery may take. Then the worker is ended, and the event runs "
        "again alone, up to `max_attempts`.",
    )
    retries: Annotated[int, integer(0, "attempts")] = Field(
        default=0, description="For `TemporaryFailure` only: attempts in place, with back-off."
    )
    retry_later: RetryLaterEntry | None = Field(
        default=None,
        description="An event whose delivery failed for a while comes again, after `retries` in place. With "
        "`order: destination` it holds its input until then.",
    )
    rest_after: Annotated[int | None, integer(1, "failures")] = Field(
        default=None,
        description="Default: 20. After so many failures in a row that `retry_later` names, the "
        "subscription rests: its events come again later without a call, and every `first` one of them is "
        "tried. Any other end of a call ends the rest.",
    )

    def check(self, check: EntryCheck) -> None:
        """Checks ``rest_after``. A class that overrides this method calls this method."""
        if self.retry_later is None and check.is_written("rest_after"):
            check.add(
                "rest_after", "rest_after without retry_later", "it with retry_later, which names failures"
            )

    def subscription(self) -> Subscription:
        return Subscription(
            self.name,
            self.object,
            self.verbs,
            self.sink(),
            timeout=self.timeout,
            retries=self.retries,
            retry_later=self.retry_later.rules() if self.retry_later is not None else None,
            rest_after=self.rest_after or _REST_AFTER,
        )


class TransactionalEntry(CalledEntry):
    """A transactional sink writes to a database, exactly once.

    Every transactional sink has these keys beside its own.
    """

    @property
    @abstractmethod
    def database(self) -> str:
        """The key in ``databases:``."""


class ExternalEntry(CalledEntry):
    """An external sink is called by the worker. Every external sink has these keys beside its own."""

    reply: Boolean = Field(
        default=False,
        description="`true`: the events are requests, and the sink returns the reply. The commit that "
        "settles an event sends the reply to its JMSReplyTo.",
    )
    mime_type: Text | None = Field(
        default=None,
        description="With `reply: true`: format of the reply. Default: the format of the request.",
    )
    format: Text | None = Field(
        default=None,
        description="With `reply: true`: value of the `MessageFormatProperty` in the reply. Default: "
        "`OutputFormat` of the rule.",
    )

    def check(self, check: EntryCheck) -> None:
        """Checks the reply. A class that overrides this method calls this method."""
        super().check(check)
        for key in () if self.reply else ("mime_type", "format"):
            if check.is_written(key):
                check.add(key, f"{key} of a {check.key}", "it with reply: true")
        check.check_mime_type("mime_type", self.mime_type)

    def subscription(self) -> Subscription:
        return replace(super().subscription(), reply=self.reply, mime_type=self.mime_type, format=self.format)

    @property
    def replies(self) -> bool:
        return self.reply


class PreparedEntry(SinkEntry):
    """A prepared sink makes a message, sent by the commit that settles the event.

    Every prepared sink has these keys beside its own.
    """

    mime_type: Text | None = Field(
        default=None,
        description="Format of the message. Default: the format of the default data handler.",
    )
    format: Text | None = Field(
        default=None,
        description="Value of the `MessageFormatProperty` in the message. Default: `OutputFormat` of the "
        "rule.",
    )

    def check(self, check: EntryCheck) -> None:
        """Checks the format. A class that overrides this method calls this method."""
        check.check_mime_type("mime_type", self.mime_type)

    @property
    @abstractmethod
    def sends_to(self) -> Destination | None:
        """The sink's ``destination``. None = a queue of the adapter's own, or one for each message."""
