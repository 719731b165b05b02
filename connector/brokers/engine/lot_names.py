"""The names of lots at a broker: each has a file, locked by its owner, and a mark at the broker.

All clients with the same state directory share these names, whatever their ApplicationName.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Final, NamedTuple

from connector import own_files
from connector.brokers.engine.commits import quote
from connector.errors import LotError, ProviderError, remedy
from connector.messaging.destination import Destination, known_destination
from connector.messaging.message import Message, PropertyValue
from connector.messaging.notes import owner_of_lots
from connector.state.locked_file import LockedFile, list_files, look

NAME: Final = "connector_lot"
SEQUENCE: Final = "connector_lot_sequence"
NUMBER: Final = "connector_lot_number"
QUEUE: Final = "connector_lot_queue"
"""Properties of marks and copies: name, sequence and number of the lot, and the queue of its messages."""
MESSAGES: Final = "connector_lot_messages"
"""Property of marks only."""
_FOLDER: Final = "lots"


class Mark(NamedTuple):
    """The state of a sequence, in a small message beside the copies.

    Args:
        messages: of that lot. 0 = it is settled.
    """

    number: int
    messages: int
    destination: Destination

    @classmethod
    def of(cls, message: Message) -> Mark:
        queue = known_destination(str(message.properties.get(QUEUE)))
        return cls(integer(message, NUMBER), integer(message, MESSAGES), queue)


@dataclass(frozen=True, slots=True)
class NameRecord:
    """The content of the file of a name.

    Args:
        queue: name of the queue with the mark and the copies.
        sequence_id: of the numbers. Empty = the name has no sequence yet.
        number: the last number that may have been used.
        client_id, who: the last owner of the name. The second is ``process 12 on host``.
    """

    name: str
    queue: str
    sequence_id: str = ""
    number: int = 0
    client_id: str = ""
    who: str = ""

    @classmethod
    def of(cls, content: bytes, path: str) -> NameRecord:
        """Reads a file. Raises ProviderError if the file was damaged."""
        try:
            # A kill may leave the end of a longer record behind the first line.
            return cls(**json.loads(content.partition(b"\n")[0]))
        except (TypeError, ValueError) as error:
            raise ProviderError(
                f"{path} is no record of lots ({error}): restore the file, or remove it for a new sequence"
            ) from error

    def properties(self, mark: Mark) -> dict[str, PropertyValue]:
        """Returns the properties that a mark and its copies have."""
        return {
            NAME: self.name,
            SEQUENCE: self.sequence_id,
            NUMBER: mark.number,
            QUEUE: str(mark.destination),
        }

    def message(self, mark: Mark) -> Message:
        """Returns the message of a mark."""
        message = Message(b"", "M")
        for name, value in {**self.properties(mark), MESSAGES: mark.messages}.items():
            message.set_property(name, value)
        return message


class OwnedName:
    """A name that this client owns until the name is released, or until the process ends."""

    def __init__(self, file: LockedFile, record: NameRecord) -> None:
        self.file = file
        self.record = record
        self.mark: Mark | None = None
        """The present mark. None = only the broker knows."""

    @property
    def queue(self) -> Destination:
        """The queue of the mark and the copies."""
        return Destination("queue", self.record.queue)

    def selector(self, number: int | None = None) -> str:
        """Returns the selector of the copies of a lot. None = of the mark."""
        what = f"{NUMBER} = {number} AND {MESSAGES} IS NULL" if number else f"{MESSAGES} IS NOT NULL"
        return f"{SEQUENCE} = {quote(self.record.sequence_id)} AND {what}"

    def write(self, record: NameRecord, *, sync: bool = False) -> None:
        """Replaces the record. Raises ProviderError if that fails."""
        try:
            self.file.write(json.dumps(asdict(record)).encode() + b"\n")
            if sync:
                os.fsync(self.file.descriptor)
        except OSError as error:
            raise ProviderError(f"cannot write {self.file.path}: {error.strerror}{remedy(error)}") from error
        self.record = record


class LotNames:
    """The names of lots, as one client owns them.

    Args:
        queue: name of the queue that gets the lots of a new name.
    """

    def __init__(self, directory: str, client_id: str, queue: str) -> None:
        self._directory = os.path.join(directory, _FOLDER)
        self._client_id = client_id
        self._queue = queue
        self._owned: dict[str, OwnedName] = {}

    def _path(self, name: str) -> str:
        digest = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=16)
        return os.path.join(self._directory, digest.hexdigest())

    def owned(self, name: str) -> OwnedName | None:
        """Returns a name. None = this client does not own it, or not any more."""
        owned = self._owned.get(name)
        return owned if owned is not None and owned.file.is_held() else None

    def own(self, name: str) -> OwnedName:
        """Makes this client the owner of a name.

        Raises:
            LotError: another client is the owner.
            ProviderError: the file of the name cannot be used.
        """
        owned = self.owned(name)
        if owned is None:
            owned = self._owned[name] = self._take(name, self._path(name))
        return owned

    def _take(self, name: str, path: str) -> OwnedName:
        try:
            own_files.make_directories(self._directory)
            file = LockedFile.hold(path)
        except OSError as error:
            raise ProviderError(f"cannot use {path}: {error.strerror}{remedy(error)}") from error
        if file is None:
            seen = look(path)
            owner = NameRecord(name, "", client_id="?", who="which has just begun")
            if seen is not None and seen.content:
                owner = NameRecord.of(seen.content, path)
            since = 0.0 if seen is None else seen.touched
            raise LotError(f"the lots of {name!r} are {owner_of_lots(owner.client_id, owner.who, since)}")
        try:
            content = file.read()
            before = NameRecord.of(content, path) if content else NameRecord(name, self._queue)
            owned = OwnedName(file, before)
            who = f"process {os.getpid()} on {socket.gethostname()}"
            owned.write(replace(before, client_id=self._client_id, who=who))
        except BaseException:
            file.abandon()
            raise
        return owned

    def is_known(self, name: str) -> bool:
        """Whether a client has owned the name."""
        return os.path.exists(self._path(name))

    def records(self) -> Iterator[tuple[NameRecord, bool]]:
        """Yields the record of each name with a sequence, and whether its owner lives.

        Raises:
            ProviderError: the files cannot be read.
        """
        try:
            names = list_files(self._directory)
        except FileNotFoundError:
            return
        except OSError as error:
            raise ProviderError(f"cannot read {self._directory}: {error.strerror}{remedy(error)}") from error
        for path in (os.path.join(self._directory, name) for name in names):
            seen = look(path)
            record = NameRecord.of(seen.content, path) if seen is not None and seen.content else None
            if seen is not None and record is not None and record.sequence_id:
                yield record, seen.is_held

    def close(self) -> None:
        """Gives up all names. Repeatable, from any thread."""
        for owned in tuple(self._owned.values()):
            owned.file.abandon()


def integer(message: Message, name: str) -> int:
    """Returns a property that is an integer, or else -1: any client may send to the queue."""
    value = message.properties.get(name)
    return value if isinstance(value, int) else -1
