"""Commits: many files move, or none does.

Many moves are one record of the transaction log. The rename of the record into ``committing/`` is the commit
point. A single move with nothing else to record needs no record, because a rename is atomic.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Sequence

from connector import faults
from connector.errors import ClaimLost, ProviderError, SettlementError, remedy
from connector.lazy_property import lazy_property
from connector.state import file_systems
from connector.stores.dropbox import files, headers
from connector.stores.dropbox.clients import OwnClient, base36
from connector.stores.dropbox.layout import SUBSCRIPTIONS, RootLayout
from connector.stores.dropbox.transaction_log import (
    LEFT,
    Copies,
    FileMove,
    Left,
    format_record,
    parse_record,
    roll_forward,
)

_log = logging.getLogger("connector.dropbox")


class Committer:
    """Writes and finishes the commit records of one client.

    Args:
        window: directory for finished records with published ids. None = not needed.
        client: must be alive at the commit point. None = the client only looks.
    """

    def __init__(
        self,
        layout: RootLayout,
        store: headers.HeaderStore,
        client_id: str,
        *,
        durable: bool,
        window: str | None,
        client: OwnClient | None,
    ) -> None:
        self._layout = layout
        self._root = layout.root + "/"
        self._store = store
        self._client_id = client_id
        self._durable = durable
        self._window = window
        self._client = client
        self._records = 0
        self._named: set[str] = set()
        """Files of settled messages that cannot be moved, and that the log has named."""

    def commit(
        self,
        moves: Sequence[FileMove],
        copies: Sequence[Copies] = (),
        *,
        fence: Iterable[str] = (),
        synced: bool = True,
    ) -> None:
        """Commits moves: written, synced, renamed into ``committing/``, made, finished.

        Args:
            moves, copies: at least one move.
            fence: files, relative to the root, that must still exist. The file of a single move must exist
                anyway.
            synced: whether a single move has to survive a power cut (if this provider is durable).

        Raises:
            ClaimLost: a file of ``fence`` is gone, or another client has taken over from this client.
            SettlementError: nothing has happened, because the error came before the commit point.
            ProviderError: the error came after the commit point. The client that recovers finishes the
                commit.
        """
        if len(moves) == 1 and not copies and (moves[0].published is None or self._window is None):
            self._move(moves[0], synced=synced and self._durable)
            return
        self._records += 1
        name = f"{self._client_id}-{base36(self._records)}"
        record = os.path.join(self._layout.associated, name)
        committing = os.path.join(self._layout.committing, name)
        try:
            files.write_new(record, format_record(moves, copies), sync=self._durable)
            if self._durable and not self._keeps_order:
                self._sync_sources(moves, copies)
            faults.point("settle.record")
            # A client that takes over removes the file of this client first, and then this record. So either
            # the check below sees that, or the rename fails.
            self._check(fence)
            os.rename(record, committing)
        except ClaimLost:
            files.remove(record)
            raise
        except OSError as error:
            files.remove(record)
            self.assert_ours()
            raise unwritable(error) from error
        faults.point("settle.committing")
        self._sync_name(committing)
        self._finish(committing, moves, copies)

    def _sync_name(self, committing: str) -> None:
        if self._durable and not self._keeps_order:
            try:
                files.sync_directory(self._layout.committing)
            except OSError as error:
                raise _unfinished(committing, error) from error

    @lazy_property
    def _keeps_order(self) -> bool:
        """Whether the file system of the root makes names durable in the order of the changes."""
        return file_systems.keeps_order(self._layout.root)

    def _sync_sources(self, moves: Sequence[FileMove], copies: Sequence[Copies]) -> None:
        """Makes the names durable that a record moves. A takeover that finishes the record needs them."""
        paths = [move.source for move in moves]
        paths += [source for one in copies for source in one.sources]
        for folder in {path.rpartition("/")[0] for path in paths}:
            with contextlib.suppress(FileNotFoundError):  # as the move itself, this may come too late
                files.sync_directory(self._root + folder)

    def finish_record(self, path: str) -> None:
        """Rolls a record forward that its writer could not finish.

        Raises:
            ProviderError: the record cannot be read or made now. The record stays.
        """
        try:
            with open(path, "rb") as record:
                data = record.read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise ProviderError(f"cannot read the transaction record {path}: {error.strerror}") from error
        self._finish(path, parse_record(data))

    def assert_ours(self) -> None:
        """Raises ClaimLost with the reason if another client has taken over from this client."""
        if self._client is not None:
            self._client.check()

    def _check(self, fence: Iterable[str]) -> None:
        self.assert_ours()
        for path in fence:
            if not os.access(self._root + path, os.F_OK, follow_symlinks=False):  # half the cost of lexists
                raise claim_lost_error(path)

    def _move(self, move: FileMove, *, synced: bool) -> None:
        """Makes the only move of a commit. If the file has lost its known name, the claim is lost."""
        source = self._root + move.source
        try:
            faults.point("settle.move")
            if move.target is None:
                os.unlink(source)
                if synced:
                    self.sync(os.path.dirname(source))
            else:
                target = self._root + move.target
                self._rename(source, target)
                if synced:
                    self.sync(os.path.dirname(target))
        except FileNotFoundError as error:
            if os.path.lexists(source):
                raise unwritable(error) from error
            if move.kind == "sent" and f"/{SUBSCRIPTIONS}/" in move.source:
                return  # the message went with its subscription
            self.assert_ours()
            raise claim_lost_error(move.source) from error
        except OSError as error:
            if move.kind == "sent" or not files.is_stuck(error, self._layout.clients):
                raise unwritable(error) from error
            self._settle_left(move, error)
        faults.point("settle.finished")

    def _settle_left(self, move: FileMove, error: OSError) -> None:
        """Settles a message whose file cannot be moved now. The move is made as soon as it can be.

        Raises:
            SettlementError: the record of the move cannot be written. Nothing has happened.
        """
        self.assert_ours()
        self._records += 1
        path = os.path.join(self._layout.committing, f"{self._client_id}-{base36(self._records)}")
        try:
            self._keep_left(path, [Left(move.source, move.target, error.strerror or "")], 1)
        except ProviderError as failure:
            raise SettlementError(str(failure)) from failure

    def _rename(self, source: str, target: str) -> None:
        try:
            files.rename_new(source, target)
        except FileExistsError:
            files.rename_to_free_name(source, target, self._store.fit)
        except FileNotFoundError:
            if not os.path.lexists(source):
                raise
            if self._layout.make_parent(target):
                files.rename_to_free_name(source, target, self._store.fit)
            else:  # the target has ended
                files.remove(source)

    def _finish(self, path: str, moves: Sequence[FileMove], copies: Sequence[Copies] = ()) -> None:
        renames = [(move.source, move.target) for move in moves] if moves else []
        for one in copies:
            renames += zip(one.sources, one.targets, strict=True)
        left: list[Left] = []
        folders = roll_forward(self._layout, renames, self._store.fit, left)
        if left and not self._keep_left(path, left, len(renames)):
            return
        is_kept = self._window is not None and (
            any(one.published for one in copies) or any(one.published for one in moves)
        )
        try:
            if self._durable:
                for folder in folders:
                    self.sync(folder)
            if self._window is not None and is_kept:
                os.rename(path, os.path.join(self._window, os.path.basename(path)))
            else:
                os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _unfinished(path, error) from error
        faults.point("settle.finished")

    def _keep_left(self, path: str, left: Sequence[Left], number: int) -> bool:
        """Keeps the moves that cannot be made now in a record of their own. Names their files once.

        Args:
            path: of the record that is being finished.
            left: its moves that cannot be made.

        Returns:
            whether the record ``path`` can be finished. False for the record of such moves, with nothing new.

        Raises:
            ProviderError: the record cannot be written.
        """
        for one in left:
            if one.source not in self._named:
                self._named.add(one.source)
                reason = f"{one.reason}; let this user rename the file (its owner, its attributes, a mount)"
                extra = {"file": ascii(self._root + one.source), "reason": reason}
                _log.error("a settled message cannot be moved now and stays where it is", extra=extra)
        if path.endswith(LEFT) and len(left) == number:
            return False
        try:
            self._write_left(path.removesuffix(LEFT), left)
        except OSError as error:
            raise ProviderError(
                f"cannot write the transaction record {path}: {error.strerror}{remedy(error)}"
            ) from error
        return not path.endswith(LEFT)

    def _write_left(self, path: str, left: Sequence[Left]) -> None:
        name = os.path.basename(path) + LEFT
        record = os.path.join(self._layout.associated, name)
        moves = [FileMove("received", one.source, one.target) for one in left]
        files.write_new(record, format_record(moves), sync=self._durable, replace=True)
        os.rename(record, os.path.join(self._layout.committing, name))

    def finish_left(self) -> None:
        """Tries again to make the moves of settled messages that could not be made.

        Raises:
            ProviderError: the moves cannot be made now, whatever their files are.
        """
        for name in files.names_in(self._layout.committing):
            if name.endswith(LEFT):
                self.finish_record(os.path.join(self._layout.committing, name))

    def sync(self, folder: str) -> None:
        """Makes the names in a folder durable. A temporary folder that has ended has nothing to keep."""
        try:
            files.sync_directory(folder)
        except FileNotFoundError:
            if not self._layout.may_end(self._layout.relative(folder)):
                raise


def _unfinished(path: str, error: OSError) -> ProviderError:
    """Returns the error of a commit that failed after its commit point."""
    return ProviderError(f"cannot finish the transaction record {path}: {error.strerror}{remedy(error)}")


def unwritable(error: OSError) -> SettlementError:
    """Returns the error of a commit that failed before its commit point."""
    if error.filename2:
        return SettlementError(
            f"cannot move a message: {error.strerror}: {error.filename!r} -> {error.filename2!r}; give this "
            "user the right to write there, or make room on the disk. It stays where it is until then, none "
            "is lost"
        )
    where = f": {error.filename!r}" if error.filename else ""
    return SettlementError(
        f"cannot write the commit record of a poll: {error.strerror}{where}; "
        "make room on the disk, or give this user the right to write there. The messages stay claimed "
        "until then, none is lost"
    )


def claim_lost_error(path: str) -> ClaimLost:
    """Returns the error of a claim, or of a prepared message, that is gone."""
    return ClaimLost(
        f"{path!r} is not this client's any more: somebody has taken it over, or removed it by hand; nothing "
        "was changed. A message that was taken over comes again, to us or another"
    )
