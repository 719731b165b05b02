"""Subscriptions of topics: a directory each, beside the topic (seed 000 "The DropboxMQ Dropbox"; seed 003).

``.subscriptions/<name>.<client id>`` for a durable one, with ``.non-durable`` and ``.no-local`` behind it
where it is that; ``subscription.json`` in it has the details, ``consumers/`` a mark for each consumer. A
directory that another program has made, without details, is a durable subscription called as it says.

It appears by one rename, complete, and goes by one rename to a hidden name, so that a sender sees all of it
or nothing.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from connector.core.subscriptions import Attach, Existing, check, decide
from connector.errors import ProviderError, SelectorError, SubscriptionError
from connector.messaging.destination import Destination
from connector.messaging.provider import SubscriptionInfo, TopicSubscription
from connector.messaging.selector import Selector, compile_selector
from connector.providers.dropbox import files
from connector.providers.dropbox.claims import split_tag
from connector.providers.dropbox.clients import ClientInfo
from connector.providers.dropbox.codec import NAME_MAX, decode_field, encode_field
from connector.providers.dropbox.headers import HeaderStore
from connector.providers.dropbox.layout import FOLDERS, Layout, QueueFolders
from connector.providers.dropbox.marks import CONSUMERS, IsAlive, Mark, exclusive, living

_log = logging.getLogger("connector.dropbox")

DETAILS: Final = "subscription.json"
_NON_DURABLE: Final = ".non-durable"
_NO_LOCAL: Final = ".no-local"
_DELETED: Final = ".deleted-"
_NEW: Final = ".new-"
_FRESH_NS: Final = 10_000_000
"""A directory changed so recently may change again without a new time stamp (coarse kernel clocks)."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One that exists.

    Args:
        folders: of its messages.
        details: as asked for.
        origin: of the connection that made it; its own messages are not for it where it has no-local.
        selector: of its details, compiled; None = all messages.
    """

    folders: QueueFolders
    details: TopicSubscription
    origin: str
    selector: Selector | None

    @property
    def consumers(self) -> str:
        """The directory of the marks of its consumers."""
        return os.path.join(self.folders.base, CONSUMERS)


def directory_name(details: TopicSubscription, unique: str = "") -> str:
    """The name of the directory of a subscription; ``unique`` names one that has no name."""
    name = f"{encode_field(details.name or unique)}.{encode_field(details.client_id)}"
    ends = ("" if details.durable else _NON_DURABLE) + (_NO_LOCAL if details.no_local else "")
    if len(name) + len(ends) > NAME_MAX:
        text = f"{details.name}\0{details.client_id}"
        name = f"~{hashlib.blake2b(text.encode('utf-8', 'surrogateescape'), digest_size=16).hexdigest()}"
    return name + ends


class SubscriptionStore:
    """The subscriptions under one root, as one client sees them.

    Args:
        layout, headers: of the root.
        client_id, info: of this client.
        is_alive: tells whether another client lives.
        durable: whether a durable subscription is synced before it counts.
    """

    def __init__(
        self,
        layout: Layout,
        headers: HeaderStore,
        client_id: str,
        info: ClientInfo,
        is_alive: IsAlive,
        *,
        durable: bool,
    ) -> None:
        self._layout = layout
        self._headers = headers
        self._client_id = client_id
        self._info = info
        self._is_alive = is_alive
        self._durable = durable
        self._numbers = itertools.count(1)
        self._known: dict[Destination, tuple[int, list[Subscription]]] = {}

    def of(self, topic: Destination) -> list[Subscription]:
        """The subscriptions that a topic has now, by the names of their directories."""
        directory = self._layout.subscriptions(topic)
        try:
            changed = os.stat(directory).st_mtime_ns
        except FileNotFoundError:
            return []
        known = self._known.get(topic)
        if known is not None and known[0] == changed:
            return known[1]
        is_fresh = time.time_ns() - changed < _FRESH_NS
        found = [
            subscription
            for folders in self._layout.subscriptions_of(topic)
            if (subscription := _read(folders)) is not None
        ]
        if not is_fresh:
            self._known[topic] = changed, found
        return found

    def all(self) -> Iterator[Subscription]:
        """Every subscription under the root, by topic."""
        for topic in self._layout.topics():
            yield from self.of(topic)

    def describe(self, subscription: Subscription) -> SubscriptionInfo:
        """It as it stands."""
        consumers = living(subscription.consumers, self._is_alive, tidy=False)
        return _info(subscription.details, subscription.folders.base, len(consumers))

    # -- consumers ---------------------------------------------------------------------------------

    def attach(self, wanted: TopicSubscription) -> tuple[Subscription, Mark]:
        """A consumer comes: the subscription is made, used or replaced, and the consumer has its mark.

        Raises:
            DestinationError, SelectorError, SubscriptionError: as the rules of seed 003 say.
            ProviderError: it cannot be made.
        """
        check(wanted)
        with exclusive(self._layout.lock):
            found = self._find(wanted)
            existing = self._existing(found) if found is not None else None
            decision = decide(
                wanted, existing if wanted.durable else None, None if wanted.durable else existing
            )
            if decision is Attach.REPLACE and found is not None:
                _warn_of_loss(self._remove(found), "made anew with other details")
                found = None
            if found is None:
                subscription = self._create(wanted)
            elif existing is not None and not existing.consumers + existing.own:
                subscription = self._make_ours(found)
                if not wanted.durable:  # it has ended, only it could not be removed yet
                    self._empty(subscription.folders)
            else:
                subscription = found
            try:
                mark = Mark(subscription.consumers, self._client_id, next(self._numbers), self._info)
            except ProviderError:
                if not subscription.details.durable:
                    self._remove_unattended(subscription)
                raise
        return subscription, mark

    def detach(self, subscription: Subscription, mark: Mark) -> None:
        """A consumer goes; what is not durable ends with its last.

        It stays while a message of it is claimed, until :meth:`sweep`.
        """
        with exclusive(self._layout.lock):
            mark.close()
            if not subscription.details.durable:
                self._remove_unattended(subscription)

    def unsubscribe(self, name: str, client_id: str) -> SubscriptionInfo:
        """Removes a durable subscription with its messages; returns it as it was.

        Raises:
            SubscriptionError: there is none, it has a consumer, or a message of it is claimed.
            ProviderError: it cannot be removed.
        """
        with exclusive(self._layout.lock):
            found = self._find(TopicSubscription(_ANY, name, client_id, durable=True)) if name else None
            if found is None:
                whose = f" of client {client_id!r}" if client_id else " without a client id"
                raise SubscriptionError(f"there is no durable subscription {name!r}{whose}")
            consumers = living(found.consumers, self._is_alive, tidy=True)
            if consumers:
                raise SubscriptionError(
                    f"subscription {name!r} of {found.details.topic} has a consumer (process "
                    f"{consumers[0].pid} on {consumers[0].host}); close that first"
                )
            removed = self._remove(found)
        _warn_of_loss(removed, "removed")
        return removed

    def sweep(self) -> None:
        """Removes what has ended and is still there: non-durable subscriptions whose consumers have died."""
        with exclusive(self._layout.lock):
            for subscription in self.all():
                if not subscription.details.durable:
                    self._remove_unattended(subscription)
            for topic in self._layout.topics():
                self._sweep_hidden(self._layout.subscriptions(topic))

    def _existing(self, found: Subscription) -> Existing:
        consumers = living(found.consumers, self._is_alive, tidy=True)
        own = self._info.application
        of_us = sum(1 for consumer in consumers if own and consumer.application == own)
        return Existing(found.details, len(consumers) - of_us, of_us)

    def _find(self, wanted: TopicSubscription) -> Subscription | None:
        """The subscription of that client id and name, whatever its topic and other details."""
        if not wanted.name:
            return None
        names = {
            directory_name(TopicSubscription(_ANY, wanted.name, wanted.client_id, wanted.durable, no_local=n))
            for n in (False, True)
        }
        for topic in self._layout.topics():
            for name in names:
                folders = self._layout.subscription(topic, name)
                if os.path.isdir(folders.base) and (found := _read(folders)) is not None:
                    return found
        return None

    # -- making and removing, under the lock -------------------------------------------------------

    def _create(self, wanted: TopicSubscription) -> Subscription:
        unique = f"{self._client_id}-{next(self._numbers)}"
        folders = self._layout.subscription(wanted.topic, directory_name(wanted, unique))
        parent, name = os.path.split(folders.base)
        hidden = os.path.join(parent, f"{_NEW}{unique}")
        self._layout.ensure(wanted.topic)
        try:
            os.makedirs(hidden)
            for folder in FOLDERS:
                os.mkdir(os.path.join(hidden, folder))
            os.mkdir(os.path.join(hidden, CONSUMERS))
            sync = self._durable and wanted.durable
            files.write_new(os.path.join(hidden, DETAILS), _written(wanted, self._info.origin), sync=sync)
            os.rename(hidden, folders.base)
            if sync:
                files.sync_directory(folders.base)
                files.sync_directory(parent)
        except OSError as error:
            shutil.rmtree(hidden, ignore_errors=True)
            raise ProviderError(
                f"the subscription {name} of {wanted.topic} cannot be made: {error.strerror}: "
                f"{error.filename}; give this user the right to write there, or make room on the disk"
            ) from error
        made = _read(folders)
        assert made is not None  # nobody removes it while we hold the lock
        return made

    def _make_ours(self, found: Subscription) -> Subscription:
        """A subscription without a consumer gets the origin of this client, where that decides anything."""
        if not found.details.no_local or found.origin == self._info.origin:
            return found
        base = found.folders.base
        hidden = os.path.join(base, f"{_NEW}{self._client_id}-{next(self._numbers)}")
        try:
            files.write_new(hidden, _written(found.details, self._info.origin), sync=self._durable)
            os.replace(hidden, os.path.join(base, DETAILS))
            os.utime(os.path.dirname(base))  # so that whoever remembers it reads it again
        except OSError as error:
            files.remove(hidden)
            raise ProviderError(
                f"{base} cannot be written: {error.strerror}; give this user the right to write "
                "there, or make room on the disk"
            ) from error
        return replace(found, origin=self._info.origin)

    def _remove_unattended(self, subscription: Subscription) -> None:
        """Removes a subscription that nobody consumes and of which no message is claimed."""
        if not living(subscription.consumers, self._is_alive, tidy=True):
            try:
                self._remove(subscription)
            except SubscriptionError:
                pass  # a message of it is still claimed: it goes when that is settled

    def _remove(self, subscription: Subscription) -> SubscriptionInfo:
        """Removes a subscription with its messages; returns it as it was.

        Raises:
            SubscriptionError: a message of it is claimed.
            ProviderError: it cannot be removed.
        """
        base = subscription.folders.base
        claimed = [name for name in files.names_in(subscription.folders.processing) if split_tag(name)[1]]
        if claimed:
            raise SubscriptionError(
                f"subscription {subscription.details.name!r} of {subscription.details.topic} has "
                f"{len(claimed)} messages that are not acknowledged yet; settle them first"
            )
        hidden = os.path.join(os.path.dirname(base), f"{_DELETED}{self._client_id}-{next(self._numbers)}")
        try:
            os.rename(base, hidden)
        except FileNotFoundError:
            return SubscriptionInfo(subscription.details, 0, 0, 0)
        except OSError as error:
            raise ProviderError(f"cannot remove {base}: {error.strerror}") from error
        removed = _info(subscription.details, hidden, 0)  # now nothing comes in any more
        self._clear(hidden)
        return removed

    def _empty(self, folders: QueueFolders) -> None:
        """Removes what waits."""
        for name in files.names_in(folders.target):
            files.remove(f"{folders.target}/{name}")
            self._headers.remove(name)

    def _clear(self, hidden: str) -> None:
        for folder in FOLDERS:
            for name in files.names_in(os.path.join(hidden, folder)):
                self._headers.remove(split_tag(name)[0])
        shutil.rmtree(hidden, ignore_errors=True)

    def _sweep_hidden(self, directory: str) -> None:
        """Removes what clients left that died while they made or removed a subscription."""
        for name in files.names_in(directory):
            for prefix in (_NEW, _DELETED):
                if name.startswith(prefix):
                    owner = name[len(prefix) :].partition("-")[0]
                    if owner == self._client_id or not self._is_alive(owner):
                        self._clear(os.path.join(directory, name))


_ANY: Final = Destination("topic", "any")


def _info(details: TopicSubscription, base: str, consumers: int) -> SubscriptionInfo:
    """A subscription whose folders are below ``base``."""
    numbers = (files.count(f"{base}/{folder}") for folder in ("target", "processing", "expired", "error"))
    return SubscriptionInfo(details, consumers, *numbers)


def _written(details: TopicSubscription, origin: str) -> bytes:
    """What the directory of a subscription says about it."""
    values = {
        "name": details.name,
        "client_id": details.client_id,
        "topic": str(details.topic),
        "durable": details.durable,
        "shared": details.shared,
        "selector": details.selector,
        "no_local": details.no_local,
        "origin": origin,
    }
    return json.dumps(values, indent=1).encode()


def _warn_of_loss(ended: SubscriptionInfo, how: str) -> None:
    if kept := ended.kept():
        name, topic = ended.subscription.name, ended.subscription.topic
        _log.warning(
            "the messages of a subscription are lost",
            extra={"subscription": name, "destination": str(topic), "reason": how, "lost": kept},
        )


def _read(folders: QueueFolders) -> Subscription | None:
    """What a directory says about its subscription; None where it has ended."""
    name = os.path.basename(folders.base)
    values: dict[str, object] = {}
    try:
        with open(os.path.join(folders.base, DETAILS), "rb") as file:
            loaded = json.loads(file.read())
            values = loaded if isinstance(loaded, dict) else {}
    except FileNotFoundError:
        if not os.path.isdir(folders.base):
            return None
    except (OSError, ValueError) as error:
        _log.warning(
            "the details of a subscription cannot be read, so its directory's name counts",
            extra={"directory": folders.base, "reason": str(error)},
        )
    ends = name
    no_local = ends.endswith(_NO_LOCAL)
    ends = ends.removesuffix(_NO_LOCAL)
    durable = not ends.endswith(_NON_DURABLE)
    first, _, second = ends.removesuffix(_NON_DURABLE).partition(".")
    details = TopicSubscription(
        folders.destination,
        str(values.get("name", decode_field(first))),
        str(values.get("client_id", decode_field(second))),
        durable=bool(values.get("durable", durable)),
        shared=bool(values.get("shared", False)),
        selector=str(values.get("selector", "")),
        no_local=bool(values.get("no_local", no_local)),
    )
    selector = None
    if details.selector:
        try:
            selector = compile_selector(details.selector)
        except SelectorError as error:
            _log.warning(
                "the selector of a subscription is invalid, so it gets all messages",
                extra={"directory": folders.base, "reason": str(error)},
            )
    return Subscription(folders, details, str(values.get("origin", "")), selector)
