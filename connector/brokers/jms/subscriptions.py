"""The durable subscriptions that this deployment has made at a broker, and their names there.

A broker makes a subscription anew if a consumer asks for another topic or selector under its name, and drops
what waits in it (JMS 2.0, 8.3.3). A program may want that. An adapter only does what ``connector
unsubscribe`` says. JMS cannot list subscriptions, so their details are recorded.

A shared and an unshared durable subscription of one client id cannot have the same name (JMS 2.0, 8.3.4).
Some brokers take both for one subscription, and do not refuse the second.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Final
from urllib.parse import quote

from connector import own_files
from connector.errors import ProviderError, SubscriptionError
from connector.messaging.provider_kind import Finding
from connector.messaging.subscription import TopicSubscription

_FOLDER: Final = "subscriptions"
_MOST_LETTERS: Final = 128
"""The longest name that each client of JMS takes (JMS 2.0, 6.12)."""


@dataclass(frozen=True, slots=True)
class _Record:
    """A subscription at the broker.

    Args:
        client_id, subscription, shared: its identity there.
        topic: empty if version 0.3.0 has made the record. Then the selector is not known either.
        selector, no_local: as of :class:`~connector.messaging.subscription.TopicSubscription`.
        application, input: the adapter, and the name that its configuration has. Empty = of a program.
    """

    client_id: str
    subscription: str
    shared: bool
    topic: str = ""
    selector: str = ""
    no_local: bool = False
    application: str = ""
    input: str = ""

    def differs(self, wanted: _Record) -> list[tuple[str, str]]:
        """Returns what another subscription has instead of this one: what it was, and what it is now."""
        names: tuple[str, ...] = ("topic", "selector", "no_local") if self.topic else ()
        names += ("shared", "client_id")
        found = [(name, getattr(self, name), getattr(wanted, name)) for name in names]
        return [(f"{name} {was!r}", f"{now!r}") for name, was, now in found if was != now]

    @property
    def command(self) -> str:
        """The command that removes the subscription."""
        whose = f" --client-id {shlex.quote(self.client_id)}" if self.client_id else ""
        return f"connector unsubscribe --subscription {shlex.quote(self.subscription)}{whose}"


def name_at_broker(application: str, wanted: TopicSubscription) -> str:
    """Returns the name of the subscription of an input, which no other input of any application has."""
    first, last = (quote(one, safe="").replace(".", "%2E") for one in (application, wanted.name))
    name = f"{first}.{quote(wanted.topic.name, safe='')}.{last}"
    digest = hashlib.sha256(name.encode()).hexdigest()[:24]
    return name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 25]}.{digest}"


class SubscriptionRecords:
    """The durable subscriptions, in a file each.

    Args:
        directory: of the state of all applications. Made when first needed.
    """

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, _FOLDER)

    def of_input(self, application: str, client_id: str, wanted: TopicSubscription) -> TopicSubscription:
        """Returns the subscription of an input with its name at the broker. Makes nothing.

        A subscription that an earlier version, or ``connector subscribe``, has made under the name of the
        configuration keeps its name.

        Raises:
            SubscriptionError: the subscription of the input has other details.
            ProviderError: a record cannot be read.
        """
        name = name_at_broker(application, wanted)
        known = self._find(application, client_id, wanted, name)
        if known is None:
            return replace(wanted, name=name)
        now = _Record(client_id, name, wanted.shared, str(wanted.topic), wanted.selector, wanted.no_local)
        if changes := known.differs(now):
            was = " and ".join(f"{before}, not {after}" for before, after in changes)
            raise SubscriptionError(
                f"the subscription of the input {wanted.name!r} has {was}. The broker would make a changed "
                f"one anew, without the messages that wait. It does not tell how many wait in "
                f"{known.subscription!r}. To keep them, undo the change, and let the adapter run until none "
                f"is left. Then, or to drop them: {known.command}"
            )
        return replace(wanted, name=known.subscription)

    def name_of(self, application: str, its_input: str) -> str:
        """Returns the name at the broker that the subscription of an input has. Without a record as given.

        Raises:
            ProviderError: a record cannot be read.
        """
        with self._errors():
            found = (one for one in self._all() if (one.application, one.input) == (application, its_input))
            return next((one.subscription for one in found), its_input)

    def _find(self, application: str, client_id: str, wanted: TopicSubscription, name: str) -> _Record | None:
        """Returns the record of the subscription of an input. None = it has none."""
        topic = str(wanted.topic)
        with self._errors():
            for one in self._all():
                if (one.application, one.input) == (application, wanted.name):
                    return one
            for one in self._all():
                if one.application or one.subscription not in (name, wanted.name):
                    continue
                if (one.topic, one.client_id, one.shared) == (topic, client_id, wanted.shared):
                    return one
                if not one.topic and one.client_id in ("", application):
                    return one
        return None

    def _all(self) -> Iterator[_Record]:
        with contextlib.suppress(FileNotFoundError):
            for name in sorted(os.listdir(self._directory)):
                if "." not in name and (found := self._read(os.path.join(self._directory, name))) is not None:
                    yield found

    def survey(self, application: str, subscriptions: Iterable[TopicSubscription]) -> Iterator[Finding]:
        """Yields whether each input can go on with its subscription."""
        wanted = list(subscriptions)
        client_id = max((one.client_id for one in wanted), default="")
        for one in wanted:
            name = f"subscription {one.name} of {one.topic}"
            try:
                made = self.of_input(application, client_id, one)
                yield Finding(name, True, f"{made.name} at the broker", needed=True)
            except (SubscriptionError, ProviderError) as error:
                yield Finding(name, False, str(error), needed=True)

    @contextlib.contextmanager
    def record(
        self, client_id: str, made: TopicSubscription, application: str = "", its_input: str = ""
    ) -> Iterator[None]:
        """Records a subscription that the block makes. Without success the record is as before.

        Args:
            made: with its name at the broker.
            application, its_input: the adapter and the name that its configuration has. Empty = a program.

        Raises:
            SubscriptionError: the name belongs to a subscription of the other kind, or of an input of an
                adapter with other details.
            ProviderError: the record cannot be used.
        """
        topic = str(made.topic)
        record = _Record(
            client_id, made.name, made.shared, topic, made.selector, made.no_local, application, its_input
        )
        path = self._path(client_id, made.name)
        with self._errors():
            before = self._write(path, record)
        try:
            yield
        except BaseException:
            if before is None:
                self.remove(client_id, made.name)
            else:
                os.replace(self._prepare(path, before), path)
            raise

    def _write(self, path: str, record: _Record) -> _Record | None:
        """Writes a record, but leaves that of an adapter to the adapter. Returns the record before."""
        own_files.make_directories(self._directory)
        working = self._prepare(path, record)
        try:
            os.link(working, path)
            return None
        except FileExistsError:
            known = self._read(path) or record
            _check(known, record)
            if known.application in ("", record.application):
                os.replace(working, path)
            return known
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(working)

    @staticmethod
    def _prepare(path: str, record: _Record) -> str:
        """Writes a record beside its place, and returns where."""
        working = f"{path}.{os.getpid()}"
        with open(working, "w", encoding="utf-8", opener=own_files.opener) as file:
            json.dump(asdict(record), file)
        return working

    def hint(self, name: str) -> str:
        """Returns what else a name may mean: the subscription of an input, as a sentence. Empty = nothing."""
        with self._errors():
            found = [one for one in self._all() if one.input == name != one.subscription]
        return "".join(f"; that of the input of {one.application!r}: {one.command}" for one in found)

    def remove(self, client_id: str, name: str) -> None:
        """Removes the record of a subscription. Does nothing if there is none."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(self._path(client_id, name))

    @staticmethod
    def _read(path: str) -> _Record | None:
        with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
            return _Record(**json.load(file))
        return None

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, TypeError) as error:
            raise ProviderError(f"cannot use a record in {self._directory}: {error}") from error

    def _path(self, client_id: str, name: str) -> str:
        key = json.dumps([client_id, name]).encode()
        return os.path.join(self._directory, hashlib.sha256(key).hexdigest()[:40])


def _check(known: _Record, record: _Record) -> None:
    """Raises SubscriptionError if a subscription would destroy the known one of its name."""
    if known.shared != record.shared:
        raise SubscriptionError(
            f"the subscription {known.subscription!r} is {_kind(known.shared)}, and {_kind(record.shared)} "
            f"was asked for: use another name, or remove it first: {known.command}"
        )
    if known.application not in ("", record.application) and known.differs(record):
        was = ", ".join(before for before, _ in known.differs(record))
        raise SubscriptionError(
            f"the subscription {known.subscription!r} is that of the input {known.input!r} of the adapter "
            f"{known.application!r}, with {was}: ask for the same, or use another name"
        )


def _kind(shared: bool) -> str:
    return "a shared one" if shared else "an unshared one"
