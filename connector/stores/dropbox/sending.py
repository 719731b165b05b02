"""Sends messages: written, synced, and visible in one step. Also once by key."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Sequence

from connector import faults
from connector.errors import ClaimLost, ProviderError, SettlementError, UnknownDestination, remedy
from connector.messaging.message import Message
from connector.messaging.once import OnceKey, SentOnce
from connector.state.sent_keys import KeyNote, SentKeyFiles
from connector.stores.dropbox import codec, files
from connector.stores.dropbox.claims import TAG
from connector.stores.dropbox.client_context import ClientContext
from connector.stores.dropbox.delayed import place_of, room_for
from connector.stores.dropbox.fan_out import FanOut, FanOutFiles
from connector.stores.dropbox.headers import keys_of
from connector.stores.dropbox.layout import QueueFolders
from connector.stores.dropbox.transaction_log import FileMove, parse_record
from connector.stores.engine.channel import Channel


class MessageSender:
    """Sends the messages of one client.

    The move of a key's note to its place is a line of the record that sends the message. So both happen.
    """

    def __init__(self, context: ClientContext, fan_out: FanOutFiles) -> None:
        self._context = context
        self._layout = context.layout
        self._headers = context.headers
        self._fan_out = fan_out
        self._tag = f"{TAG}{context.client_id}-0-0"
        self._numbers = itertools.count(1)

    def put_once(self, message: Message, channels: Sequence[Channel], once: OnceKey) -> SentOnce:
        """As :meth:`connector.stores.engine.store.Store.put_once`."""
        keys = self._keys(once.application)
        with keys.using():
            self._settle_notes(keys, once.key)
            found = keys.find(once.key)
            if found is not None:
                return found
            identity = message.message_id or ""
            note = keys.note(f"{self._context.client_id}-{next(self._numbers)}", once, identity)
            faults.point("once.noted")
            relative = self._layout.relative
            move = FileMove("sent", relative(note.path), relative(note.kept))
            if channels:
                self.put([(message, channels)], [move])
            else:
                self._context.committer.commit([move])
            keys.prune()
        faults.point("once.committed")
        return SentOnce(identity, is_new=True, fingerprint=once.fingerprint)

    def find_sent(self, application: str, key: str) -> SentOnce | None:
        """As :meth:`connector.stores.engine.store.Store.find_sent`."""
        keys = self._keys(application)
        if not keys.exists():
            return None
        with keys.using():
            self._settle_notes(keys, key)
            return keys.find(key)

    def _keys(self, application: str) -> SentKeyFiles:
        return SentKeyFiles(self._layout.application(application), durable=self._context.durable)

    def _settle_notes(self, keys: SentKeyFiles, key: str) -> None:
        """Finishes the records of the notes that others have left. A note without a record is removed.

        Raises:
            ProviderError: the record of the key cannot be finished. Those of other keys are left.
        """
        for note in keys.left():
            try:
                self._settle_note(note)
            except ProviderError:
                if note.values["key"] == key:
                    raise

    def _settle_note(self, note: KeyNote) -> None:
        is_committed = self._finish_record_of(note)
        if not os.path.lexists(note.path):
            return
        if is_committed:
            raise ProviderError(
                f"cannot move {note.path}, which remembers a message that was sent; let this user rename "
                "the file (its owner, its attributes, a mount)"
            )
        files.remove(note.path)

    def _finish_record_of(self, note: KeyNote) -> bool:
        """Finishes the record that moves a note. Returns whether there is such a record."""
        relative = self._layout.relative(note.path)
        name = os.path.basename(relative).encode()
        for record in files.names_in(self._layout.committing):
            path = os.path.join(self._layout.committing, record)
            with contextlib.suppress(FileNotFoundError):  # finished meanwhile
                with open(path, "rb") as file:
                    data = file.read()
                if name in data and any(move.source == relative for move in parse_record(data)):
                    self._context.committer.finish_record(path)
                    return True
        return False

    def put(
        self, messages: Sequence[tuple[Message, Sequence[Channel]]], more: Sequence[FileMove] = ()
    ) -> None:
        """As :meth:`connector.stores.engine.store.Store.put`.

        Args:
            more: moves that the same record makes.
        """
        wanted = [one for one in messages if one[1]]
        if not wanted:
            return
        destination = wanted[0][1][0].destination
        folders = self._layout.outbox(destination)
        names: list[str] = []
        dues: list[int] = []
        written: list[str] = []
        try:
            try:
                for message, _ in wanted:
                    dues.append(message.delivery_time)
                    name = codec.encode(message)
                    identity = (message.message_id or "").removeprefix("ID:")
                    working = f"{folders.working}/{identity}{self._tag}"
                    written.append(working)
                    self._layout.write(folders, working, message.body)
                    names.append(self._headers.fit(name, working, room_for(dues[-1])))
                if self._context.durable:
                    files.sync_files(written)
                if destination.is_queue:
                    self._show(folders, written, names, dues, more)
                else:
                    self._distribute([channels for _, channels in wanted], written, names, dues, more)
            except ProviderError as error:
                if isinstance(error, SettlementError | ClaimLost | UnknownDestination):
                    self._unmake(written, names)
                raise
            except Exception:  # after an interrupt the takeover finishes or removes the batch
                self._unmake(written, names)
                raise
        except (OSError, SettlementError) as failure:
            error_ = failure if isinstance(failure, OSError) else failure.__cause__
            what = str(failure)
            if isinstance(error_, OSError):
                where = f": {error_.filename!r}" if error_.filename else ""
                what = f"{error_.strerror}{where}{remedy(error_)}"
            raise ProviderError(f"cannot send to {destination}: {what}; nothing was sent") from failure

    def _show(
        self,
        folders: QueueFolders,
        written: Sequence[str],
        names: Sequence[str],
        dues: Sequence[int],
        more: Sequence[FileMove],
    ) -> None:
        """Makes messages visible in a queue: one by a rename, several by one commit record."""
        if len(written) > 1 or more:
            relative = self._layout.relative
            moves = [
                FileMove("sent", relative(source), place_of(folders, name, due))
                for source, name, due in zip(written, names, dues, strict=True)
            ]
            self._context.committer.commit([*moves, *more])
            return
        target = self._layout.absolute(place_of(folders, names[0], dues[0]))
        try:
            os.rename(written[0], target)
        except FileNotFoundError:
            self._layout.make(folders)
            os.rename(written[0], target)
        if self._context.durable:
            self._context.committer.sync(os.path.dirname(target))

    def _distribute(
        self,
        channels: Sequence[Sequence[Channel]],
        written: Sequence[str],
        names: Sequence[str],
        dues: Sequence[int],
        more: Sequence[FileMove],
    ) -> None:
        fan_out = FanOut()
        try:
            moves: list[FileMove] = []
            for places, source, name, due in zip(channels, written, names, dues, strict=True):
                base = os.path.basename(source)
                moves += self._fan_out.add(fan_out, places, source, base, name, moved=True, due=due)
            self._fan_out.sync(fan_out)
        except BaseException:
            self._fan_out.undo(fan_out)
            raise
        try:
            self._context.committer.commit([*moves, *more])
        except (SettlementError, ClaimLost):
            self._fan_out.undo(fan_out)
            raise

    def _unmake(self, written: Sequence[str], names: Sequence[str]) -> None:
        """Removes messages that were not sent, and their sidecars."""
        for path in written:
            files.remove(path)
        for name in names:
            self._headers.remove(keys_of(name))
