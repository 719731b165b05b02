"""Subscriptions of topics: a directory each, beside the topic (DropboxMQ README, "The DropboxMQ Dropbox").

The directory is ``.subscriptions/<name>.<client id>`` for a durable subscription. ``.non-durable`` and
``.no-local`` follow if they apply. ``subscription.json`` has the details, ``consumers/`` a locked file for
each consumer. A directory without details, made by another program, is a durable subscription with the name
of the directory.

A subscription appears complete by one rename, and disappears by one rename to a hidden name. So a sender sees
all of it or nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from dataclasses import replace
from typing import Any, Final

from connector import own_files
from connector.errors import ProviderError, SelectorError
from connector.messaging.destination import Destination
from connector.messaging.selector import compile_selector
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox import files
from connector.stores.dropbox.codec import NAME_MAX, decode_field, encode_field
from connector.stores.dropbox.layout import CONSUMERS, FOLDERS, QueueFolders, RootLayout
from connector.stores.engine.channel import Channel
from connector.stores.engine.client import SUBSCRIPTION
from connector.stores.engine.registry import Record

_log: Final = logging.getLogger("connector.dropbox")

DETAILS: Final = "subscription.json"
NEW: Final = ".new-"
DELETED: Final = ".deleted-"
_NON_DURABLE: Final = ".non-durable"
_NO_LOCAL: Final = ".no-local"


def directory_name(details: TopicSubscription, unique: str = "") -> str:
    """Returns the name of the directory of a subscription. ``unique`` names a subscription without a name."""
    name = f"{encode_field(details.name or unique)}.{encode_field(details.client_id)}"
    ends = ("" if details.durable else _NON_DURABLE) + (_NO_LOCAL if details.no_local else "")
    if len(name) + len(ends) > NAME_MAX:
        text = f"{details.name}\0{details.client_id}"
        name = f"~{hashlib.blake2b(text.encode('utf-8', 'surrogateescape'), digest_size=16).hexdigest()}"
    return name + ends


def read_subscription(topic: Destination, folders: QueueFolders) -> Record | None:
    """Returns the record of the subscription in a directory. None if the subscription has ended."""
    folder = os.path.basename(folders.base)
    values: dict[str, Any] = {}
    try:
        with open(os.path.join(folders.base, DETAILS), "rb") as file:
            loaded = json.loads(file.read())
            values = loaded if isinstance(loaded, dict) else {}
    except FileNotFoundError:
        if not os.path.isdir(folders.base):
            return None
    except (OSError, ValueError) as error:
        _log.warning(
            "the details of a subscription cannot be read, so the name of its directory is used",
            extra={"directory": folders.base, "reason": str(error)},
        )
    name, client_id, durable, no_local = _read_name(folder)
    data: dict[str, Any] = {
        "topic": str(topic),
        "name": str(values.get("name", name)),
        "client_id": str(values.get("client_id", client_id)),
        "durable": bool(values.get("durable", durable)),
        "shared": bool(values.get("shared", False)),
        "selector": str(values.get("selector", "")),
        "no_local": bool(values.get("no_local", no_local)),
        "origin": str(values.get("origin", "")),
    }
    return Record(SUBSCRIPTION, Channel(topic), folder, data, durable=data["durable"])


def _read_name(folder: str) -> tuple[str, str, bool, bool]:
    """Returns name, client id, whether durable, and whether no-local, from the name of a directory."""
    no_local = folder.endswith(_NO_LOCAL)
    stem = folder.removesuffix(_NO_LOCAL)
    durable = not stem.endswith(_NON_DURABLE)
    first, _, second = stem.removesuffix(_NON_DURABLE).partition(".")
    return decode_field(first), decode_field(second), durable, no_local


def find_subscription(layout: RootLayout, client_id: str, name: str, *, durable: bool) -> Record | None:
    """Returns the record of a named subscription of any topic, without reading the others."""
    for topic in layout.topics():
        details = TopicSubscription(topic, name, client_id, durable)
        for no_local in (False, True):
            folders = layout.subscription(topic, directory_name(replace(details, no_local=no_local)))
            if (record := _read_if_named(topic, folders, client_id, name)) is not None:
                return record
    begins = encode_field(name), name
    for topic in layout.topics():  # another program may have written the name in another way
        for folder in sorted(files.names_in(layout.subscriptions(topic))):
            if not folder.startswith(begins) and "%" not in folder:
                continue
            if _read_name(folder)[:3] == (name, client_id, durable):
                folders = layout.subscription(topic, folder)
                if (record := _read_if_named(topic, folders, client_id, name)) is not None:
                    return record
    return None


def _read_if_named(topic: Destination, folders: QueueFolders, client_id: str, name: str) -> Record | None:
    record = read_subscription(topic, folders)
    if record is None or (record.data["client_id"], record.data["name"]) != (client_id, name):
        return None
    return without_bad_selector(record, folders.base)


def write_subscription(layout: RootLayout, record: Record, unique: str, *, durable: bool) -> None:
    """Makes a subscription, or changes its details.

    Args:
        unique: no other file name begins with this text.

    Raises:
        ProviderError: the subscription cannot be made or written.
    """
    assert isinstance(record.of, Channel)
    folders = layout.subscription(record.of.destination, record.key)
    if os.path.isdir(folders.base):
        _rewrite(folders.base, record, unique, sync=durable)
    else:
        _create(folders.base, record, unique, sync=durable and record.durable)


def _create(base: str, record: Record, unique: str, *, sync: bool) -> None:
    parent, name = os.path.split(base)
    hidden = os.path.join(parent, f"{NEW}{unique}")
    try:
        files.make_directory(parent)
        os.mkdir(hidden, own_files.DIRECTORY)
        for folder in (*FOLDERS, CONSUMERS):
            os.mkdir(os.path.join(hidden, folder), own_files.DIRECTORY)
        files.write_new(os.path.join(hidden, DETAILS), _details(record), sync=sync)
        os.rename(hidden, base)
        if sync:
            files.sync_directory(base)
            files.sync_directory(parent)
    except OSError as error:
        shutil.rmtree(hidden, ignore_errors=True)
        raise ProviderError(
            f"the subscription {name} of {record.data['topic']} cannot be made: {error.strerror}: "
            f"{error.filename}; give this user the right to write there, or make room on the disk"
        ) from error


def _rewrite(base: str, record: Record, unique: str, *, sync: bool) -> None:
    hidden = os.path.join(base, f"{NEW}{unique}")
    try:
        files.write_new(hidden, _details(record), sync=sync)
        os.replace(hidden, os.path.join(base, DETAILS))
        if sync:
            files.sync_directory(base)
        os.utime(os.path.dirname(base))  # so that other clients read the details again
    except OSError as error:
        files.remove(hidden)
        raise ProviderError(
            f"{base} cannot be written: {error.strerror}; give this user the right to write there, or make "
            "room on the disk"
        ) from error


def _details(record: Record) -> bytes:
    return json.dumps(dict(record.data), indent=1).encode()


def without_bad_selector(record: Record, folder: str) -> Record:
    """Returns a record with a valid selector.

    A selector that a user has spoiled is dropped with a warning.
    """
    if record.data["selector"]:
        try:
            compile_selector(record.data["selector"])
        except SelectorError as error:
            _log.warning(
                "the selector of a subscription is invalid, so it gets all messages",
                extra={"directory": folder, "reason": str(error)},
            )
            return Record(
                record.kind, record.of, record.key, {**record.data, "selector": ""}, durable=record.durable
            )
    return record
