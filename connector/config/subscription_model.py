"""One entry of ``subscriptions``: who wants which business object. Each sink brings an entry of its own.

The class that an entry point of the group ``connector.sinks`` names inherits from :class:`ExternalEntry` or
:class:`PreparedEntry`. The name of the entry point is a needed field of it, the key of the sink. Its fields
are the keys that an entry of this sink has, with the descriptions that the reference shows. Their kinds are
those of :mod:`connector.config.kinds`, or a nested :class:`~connector.config.section.Section`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from connector.broker.sinks import SinkSpec
from connector.broker.subscriptions import Subscription
from connector.businessobjects.catalogue import Catalogue
from connector.config.kinds import (
    Boolean,
    Kind,
    Text,
    as_found,
    duration,
    integer,
    leaf,
    one_or_list,
    refuse,
)
from connector.config.metaobject_lint import check_mime_type
from connector.config.places import Places
from connector.config.reading import Location, find
from connector.config.section import Section
from connector.config.tree import Leaf, Table
from connector.messaging.destination import Destination

_AN_OBJECT = re.compile(r"[A-Za-z0-9_*?]+\Z")


def _read_object(value: object) -> str:
    expected = "the name of a business object, or a pattern with * and ?"
    name = leaf(value, expected)
    if not _AN_OBJECT.match(name):
        raise refuse(as_found(name), expected)
    return str(name)


ObjectPattern = Annotated[str, Kind(_read_object, str, {"type": "string"}, "name or pattern")]


@dataclass(frozen=True, slots=True)
class EntryCheck:
    """What the check of one entry looks at, and where it notes mistakes.

    Args:
        places: ``adapter.yaml`` as it stands; gets what is wrong.
        location: of the entry.
        key: the key of its sink.
        directory: of ``adapter.yaml``.
        catalogue: the data handlers; None where those of the deployment cannot be told.
        runs_here: whether the workers have the Python and the packages of this process.
    """

    places: Places
    location: Location
    key: str
    directory: Path
    catalogue: Catalogue | None
    runs_here: bool

    def add(
        self, key: str, found: str, expected: str, nearest: str | None = None, *, warning: bool = False
    ) -> None:
        """Notes a mistake of the value that ``key`` has, with file, line and column.

        Args:
            key: of the entry; ``outer.inner`` for a key of a section in it.
            found: what stands there, or what is wrong with it.
            expected: what should stand there.
            nearest: the right name that a misspelt one is closest to, if any.
            warning: whether the configuration works all the same.
        """
        self.places.add((*self.location, *key.split(".")), found, expected, nearest, warning=warning)

    def is_written(self, key: str) -> bool:
        """Whether the entry has a value for a key; a default does not count."""
        entry, _, _ = find(self.places.tree, self.location)
        value = entry.entries.get(key) if isinstance(entry, Table) else None
        return value is not None and not (isinstance(value, Leaf) and value.is_absent)

    def check_mime_type(self, key: str, mime_type: str | None) -> None:
        """Notes where no data handler serves the MIME type that stands under ``key``; None is right."""
        if mime_type is not None:
            _, mark, path = find(self.places.tree, (*self.location, key))
            check_mime_type(mime_type, mark, path, self.catalogue, self.places.problems)


class CommonEntry(Section):
    """Who wants which business object. Every subscription that matches gets the event."""

    object: ObjectPattern = Field(description="A business object, or a pattern: `Order*`, `*`.")
    verbs: Annotated[tuple[Text, ...] | None, BeforeValidator(one_or_list)] = Field(
        default=None, description="Verbs; left out: every verb."
    )
    name: Text = Field(default="", description="Default: the object, and what it is delivered to.")


class SinkEntry(CommonEntry, ABC):
    """An entry with a sink. A sink's own class inherits from one of the two below."""

    @abstractmethod
    def sink(self) -> SinkSpec:
        """What travels to the workers, and opens the sink there. Picklable."""

    @abstractmethod
    def target(self) -> str:
        """What the object is delivered to, as the default name of the subscription says it behind the object.

        The name is kept with messages (``connector_delivered``), so it must not depend on the machine or the
        directory.
        """

    def check(self, check: EntryCheck) -> None:
        """Notes what is wrong with the entry, and no kind of value has found.

        Runs no code of the deployment, connects to nothing and makes nothing. A value that was wrong by
        itself is noted already, and has its default here.
        """

    def subscription(self) -> Subscription:
        """The subscription as the workers have it."""
        return Subscription(self.name, self.object, self.verbs, self.sink())

    @property
    def replies(self) -> bool:
        """Whether what the sink returns answers whoever sent the message."""
        return False

    @property
    def sends_to(self) -> Destination | None:
        """The destination of this provider that messages are sent to; None = none is."""
        return None


class ExternalEntry(SinkEntry):
    """An external sink is called. These keys are those of every external sink, beside its own."""

    timeout: Annotated[float | None, duration(none="none")] = Field(
        default=None,
        description="Longest time that one delivery may take. Then its worker is ended, and the event runs "
        "again alone, up to `max_attempts`.",
    )
    retries: Annotated[int, integer(0, "attempts")] = Field(
        default=0, description="For `TemporaryFailure` only: attempts in place, with back-off."
    )
    reply: Boolean = Field(
        default=False,
        description="`true`: the events are requests, and what the sink returns is the reply, sent to "
        "their JMSReplyTo in the commit that settles them.",
    )
    mime_type: Text | None = Field(
        default=None,
        description="With `reply: true`: format of the reply. Default: the format of the request.",
    )
    format: Text | None = Field(
        default=None,
        description="With `reply: true`: what the reply says its format is. Default: `OutputFormat` of the "
        "rule.",
    )

    def check(self, check: EntryCheck) -> None:
        """Checks the reply. A class that overrides this calls it."""
        for key in () if self.reply else ("mime_type", "format"):
            if check.is_written(key):
                check.add(key, f"{key} of a {check.key}", "it with reply: true")
        check.check_mime_type("mime_type", self.mime_type)

    def subscription(self) -> Subscription:
        """The subscription as the workers have it."""
        return Subscription(
            self.name,
            self.object,
            self.verbs,
            self.sink(),
            timeout=self.timeout,
            retries=self.retries,
            reply=self.reply,
            mime_type=self.mime_type,
            format=self.format,
        )

    @property
    def replies(self) -> bool:
        """Whether what the sink returns answers whoever sent the message."""
        return self.reply


class PreparedEntry(SinkEntry):
    """A prepared sink makes a message, which the commit sends that settles the event. These keys are those of
    every prepared sink, beside its own.
    """

    mime_type: Text | None = Field(
        default=None,
        description="Format of the message. Default: that of the default data handler.",
    )
    format: Text | None = Field(
        default=None,
        description="What the message says its format is. Default: `OutputFormat` of the rule.",
    )

    def check(self, check: EntryCheck) -> None:
        """Checks the format. A class that overrides this calls it."""
        check.check_mime_type("mime_type", self.mime_type)

    @property
    @abstractmethod
    def sends_to(self) -> Destination:
        """The destination that the messages are sent to, as the sink's ``destination``."""
