"""Changes: turns the outcomes of claims and of prepared messages into one commit record.

A single move with nothing else to record needs no commit record, because a rename is atomic. A message sent
to a topic is one move for each subscription (:mod:`connector.stores.dropbox.fan_out`).
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Iterator, Sequence

from connector.errors import ClaimLost, ProviderError, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import FILE_NAME
from connector.stores.dropbox import codec, files
from connector.stores.dropbox.claims import TAG, DropboxClaim, split_tag
from connector.stores.dropbox.client_context import ClientContext
from connector.stores.dropbox.committer import claim_lost_error, unwritable
from connector.stores.dropbox.delayed import due_and_name, place_of, room_for
from connector.stores.dropbox.fan_out import FanOut, FanOutFiles
from connector.stores.dropbox.headers import without
from connector.stores.dropbox.prepared_files import is_whole
from connector.stores.dropbox.transaction_log import Copies, FileMove
from connector.stores.engine.changes import Change, Discarded, GivenBack, GroupMoved, Moved, Removed, Sent
from connector.stores.engine.channel import Channel, is_lot

_log = logging.getLogger("connector.dropbox")


class Changes:
    """Makes the changes of one client."""

    def __init__(self, context: ClientContext, fan_out: FanOutFiles) -> None:
        self._context = context
        self._layout = context.layout
        self._headers = context.headers
        self._names = context.names
        self._fan_out = fan_out
        self._numbers = itertools.count(1)
        self._prefix = len(context.layout.root) + 1
        self._compared: set[tuple[str, str]] = set()
        """Folders, source and target, that one commit moves files between."""
        self.returns: Callable[[str], object] = _ignore
        """Called with the future path of a message that is about to be given back."""

    def apply(self, changes: Sequence[Change], *, fenced: bool) -> None:
        """Makes all changes, or none, by one commit record."""
        if len(changes) == 1 and (alone := self._alone(changes[0], fenced=fenced)) is not None:
            self._context.committer.commit(
                alone, fence=_claim_paths(changes), synced=self._is_lasting(changes[0])
            )
            return
        moves: list[FileMove] = []
        groups: list[Copies] = []
        fan_out = FanOut()
        synced = False
        self._compared.clear()
        try:
            for change in changes:
                if isinstance(change, GroupMoved):
                    synced = True
                    copies = self._copies(change, moves, fan_out, fenced=fenced)
                    if copies.sources:
                        groups.append(copies)
                elif fenced or not self._is_gone(change):
                    synced = synced or isinstance(change, Moved | Sent)
                    self._add(change, moves, fan_out)
            if fan_out.copied:
                self._fan_out.sync(fan_out)
        except OSError as error:
            self._fan_out.undo(fan_out)
            raise unwritable(error) from error
        except ProviderError:
            self._fan_out.undo(fan_out)
            raise
        if not moves and not groups:
            return
        fence = _claim_paths(changes) if fenced else ()
        try:
            self._context.committer.commit(moves, groups, fence=fence, synced=synced)
        except SettlementError:
            self._fan_out.undo(fan_out)
            raise
        except ClaimLost:
            self._fan_out.undo(fan_out)
            self._context.committer.assert_ours()
            if fenced or any(isinstance(change, Sent) for change in changes):
                raise

    def _is_lasting(self, change: Change) -> bool:
        """Whether a single change has to survive a power cut: a message that is sent, or settled for good.

        A session may have to acknowledge a message again. What an adapter or a lot settles never comes again.
        """
        if isinstance(change, Removed):
            claim = _ours(change.claim)
            return self._context.is_adapter or (claim.owner is not None and is_lot(claim.owner.client_id))
        return isinstance(change, Sent)

    def _alone(self, change: Change, *, fenced: bool) -> list[FileMove] | None:
        """Returns the moves of a single message that is acknowledged, given back or sent to a queue.

        This is the most frequent case. None = another change.
        """
        moves: list[FileMove] = []
        try:
            if isinstance(change, Removed) and fenced:
                self._remove(change, moves)
            elif isinstance(change, GivenBack) and fenced:
                self._give_back(change, moves)
            elif isinstance(change, Sent) and change.channels and change.channels[0].destination.is_queue:
                moves.append(FileMove("sent", *change.handle))  # fails if the message is gone
            else:
                return None
        except OSError as error:
            raise unwritable(error) from error
        return moves

    def _add(
        self, change: Moved | Removed | GivenBack | Sent | Discarded, moves: list[FileMove], fan_out: FanOut
    ) -> None:
        if isinstance(change, GivenBack):
            self._give_back(change, moves)
        elif isinstance(change, Moved):
            self._move(change, moves, fan_out)
        elif isinstance(change, Removed):
            self._remove(change, moves)
        elif isinstance(change, Sent):
            self._send(change, moves, fan_out)
        else:
            moves += self._discard(change)

    # -- claims ------------------------------------------------------------------------------------

    def _give_back(self, change: GivenBack, moves: list[FileMove]) -> None:
        claim = _ours(change.claim)
        stays = change.stays and claim.owner is not None
        due = 0 if stays else change.due
        name = self._names.returned(claim, change.edit, stays=stays, room=room_for(due))
        target = f"{_folder(claim)}/{name}" if stays else place_of(claim.folders, name, due)
        if not stays:
            self.returns(self._layout.absolute(target))
        self._end(claim, target, name, moves)

    def _move(self, change: Moved, moves: list[FileMove], fan_out: FanOut) -> None:
        claim = _ours(change.claim)
        if not claim.home.destination.is_queue and not claim.home.subscription:
            self._distribute(claim, change.channels, moves, fan_out)
            return
        if (
            claim.folders.requeues
            and change.channels == (Channel(claim.home.destination),)
            and not change.edit.dropped
        ):
            name = self._names.name_when_new(claim)
            self._end(claim, f"{claim.folders.relative_processed}/{name}", name, moves, change.published)
            return
        name = self._names.copy(claim, change.edit)
        if change.channels and change.channels[0].destination.is_queue:
            folders = self._layout.outbox(change.channels[0].destination)
            self._check_same_file_system(folders.target, claim, change.channels[0].destination)
            self._end(claim, f"{folders.relative_target}/{name}", name, moves, change.published)
            return
        source = self._layout.absolute(claim.path)
        base = os.path.basename(source)
        moves += self._fan_out.add(fan_out, change.channels, source, base, name, moved=False)
        self._headers.remove(without(name, claim.name))  # each subscription has its own sidecar
        # but every copy names a lost sidecar
        self._end(claim, None, self._headers.full(claim.name), moves, change.published)

    def _distribute(
        self, claim: DropboxClaim, channels: Sequence[Channel], moves: list[FileMove], fan_out: FanOut
    ) -> None:
        """Moves a file that another program has put into a topic to the subscriptions."""
        source = self._layout.absolute(claim.path)
        if not files.is_readable(source):
            self._put_aside(claim, moves)
            return
        if self._context.durable:
            files.sync_files([source])
        client_id, number = self._context.client_id, next(self._numbers)
        base = f"{client_id}-f{number}{TAG}{client_id}-0-{number}"
        moves += self._fan_out.add(fan_out, channels, source, base, claim.name, moved=False)
        if self._context.keep:
            target = f"{claim.folders.relative_processed}/{self._names.processed(claim)}"
            moves.append(FileMove("received", claim.path, target))
        else:
            moves += self._fan_out.removal(source, claim.name)

    def _put_aside(self, claim: DropboxClaim, moves: list[FileMove]) -> None:
        """Moves a file of a topic that no subscription could read to the folder ``error`` of the topic."""
        folder = self._layout.relative(claim.folders.error)
        moves.append(FileMove("received", claim.path, f"{folder}/{claim.name}"))
        _log.warning(
            "a message of a topic cannot be distributed and was put aside",
            extra={
                "file": ascii(f"{claim.folders.error}/{claim.name}"),
                "destination": claim.folders.text,
                "reason": "it is no regular file, or its sender has to let this user read it",
            },
        )

    def _remove(self, change: Removed, moves: list[FileMove]) -> None:
        claim = _ours(change.claim)
        if not self._context.keep:
            self._end(claim, None, "", moves, change.published)
            return
        name = claim.name
        if claim.in_progress or FILE_NAME in name or codec.HEADER_KEY in name:
            name = self._names.processed(claim)
        self._end(claim, f"{claim.folders.relative_processed}/{name}", name, moves, change.published)

    def _end(
        self,
        claim: DropboxClaim,
        target: str | None,
        name: str,
        moves: list[FileMove],
        published: str | None = None,
    ) -> None:
        """Adds the moves of a claim that goes to ``target`` under a new name. None = the file is deleted."""
        is_owned = claim.in_progress and claim.owner is not None
        rollback = (
            f"{claim.folders.relative_target}/{claim.name}" if target is not None and not is_owned else None
        )
        moves.append(FileMove("received", claim.path, target, rollback, published))
        if codec.HEADER_KEY in claim.name:
            moves += self._sidecars_removed(claim.name, claim.file, keep=name)

    def _is_gone(self, change: Moved | Removed | GivenBack | Sent | Discarded) -> bool:
        """Whether a claim with a sidecar is lost. The message has another name now, and needs the sidecar."""
        if isinstance(change, Sent | Discarded) or codec.HEADER_KEY not in _ours(change.claim).name:
            return False
        return not self.is_there(_ours(change.claim).path)

    def _copies(self, group: GroupMoved, moves: list[FileMove], fan_out: FanOut, *, fenced: bool) -> Copies:
        """Returns the copies of a group.

        A claim that needs more than one rename, or cannot be rolled back, gets separate moves.
        """
        copies = Copies()
        folders = self._layout.outbox(group.channel.destination)
        folder = f"{folders.relative_target}/"
        channels, edit, keys = (group.channel,), group.edit, group.published
        for number, claim in enumerate(group.claims):
            assert isinstance(claim, DropboxClaim)
            key = keys[number] if keys else None
            if claim.in_progress or codec.HEADER_KEY in claim.name:
                moved = Moved(claim, channels, edit, key)
                if fenced or not self._is_gone(moved):
                    self._move(moved, moves, fan_out)
                continue
            self._check_same_file_system(folders.target, claim, group.channel.destination)
            copies.sources.append(claim.path)
            copies.targets.append(f"{folder}{self._names.copy(claim, edit)}")
            copies.rollbacks.append(f"{claim.folders.relative_target}/{claim.name}")
            if key is not None:
                copies.published.append(key)
        return copies

    # -- prepared messages -------------------------------------------------------------------------

    def _send(self, change: Sent, moves: list[FileMove], fan_out: FanOut) -> None:
        working, target = change.handle
        if not self.is_prepared(working):
            self._context.committer.assert_ours()
            raise claim_lost_error(working)
        if change.channels and change.channels[0].destination.is_queue:
            moves.append(FileMove("sent", working, target))
            return
        source = self._layout.absolute(working)
        base, (due, name) = os.path.basename(source), due_and_name(target)
        # Until the commit point the file has the name that a journal knows. A recovery sends it then.
        moves += self._fan_out.add(fan_out, change.channels, source, base, name, moved=False, due=due)
        moves += self._fan_out.removal(source, name)

    def is_there(self, path: str) -> bool:
        """Whether a file of the root exists."""
        return os.access(self._layout.absolute(path), os.F_OK, follow_symlinks=False)

    def is_prepared(self, path: str) -> bool:
        """Whether a prepared message exists. That of a dead client may have lost its body with the power.

        Raises:
            OSError: the file cannot be read.
        """
        tag = split_tag(os.path.basename(path))[1]
        if tag is None or tag.owner.client_id == self._context.client_id:
            return self.is_there(path)
        return is_whole(self._layout.absolute(path))

    def _discard(self, change: Discarded) -> list[FileMove]:
        """Returns the moves that remove a prepared message and the sidecar of its name."""
        working, target = change.handle
        if not self.is_there(working):
            return []
        file = self._layout.absolute(working)
        return [FileMove("received", working, None), *self._sidecars_removed(due_and_name(target)[1], file)]

    def _sidecars_removed(self, name: str, file: str, *, keep: str = "") -> list[FileMove]:
        """Returns the moves that remove the sidecars of a file."""
        keys = self._headers.keys_of_file(name, file, keep)
        return [FileMove("received", self._headers.path(key)[self._prefix :], None) for key in keys]

    def _check_same_file_system(self, folder: str, claim: DropboxClaim, destination: Destination) -> None:
        """Raises SettlementError if a rename cannot move a claim to a folder."""
        source = _folder(claim)
        if (source, folder) in self._compared:
            return
        self._compared.add((source, folder))
        if len({_device(folder), _device(self._layout.absolute(source))} - {None}) > 1:
            raise SettlementError(
                f"{destination} cannot be written: {folder} lies on another file system than {source}, and "
                "a message is moved in one step; put both on one. Its messages stay claimed until then, "
                "none is lost"
            )


def _ours(claim: object) -> DropboxClaim:
    assert isinstance(claim, DropboxClaim)
    return claim


def _claim_paths(changes: Sequence[Change]) -> Iterator[str]:
    for change in changes:
        if isinstance(change, GroupMoved):
            yield from (_ours(claim).path for claim in change.claims)
        elif not isinstance(change, Sent | Discarded):
            yield _ours(change.claim).path


def _folder(claim: DropboxClaim) -> str:
    """Returns the folder of a claimed file, relative to the root."""
    return claim.path.rpartition("/")[0]


def _ignore(path: str) -> None:
    """Does nothing."""


def _device(path: str) -> int | None:
    try:
        return os.stat(path).st_dev
    except OSError:
        return None
