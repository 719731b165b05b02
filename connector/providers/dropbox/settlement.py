"""Settlement: what becomes of the claims of a cycle, as one commit record."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from connector import faults
from connector.errors import ProviderError, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import PropertyValue, natural_type
from connector.messaging.provider import Claim, Prepared, Settlement
from connector.providers.dropbox import codec, files, headers
from connector.providers.dropbox.claims import ORIGIN, DropboxClaim
from connector.providers.dropbox.clients import base36
from connector.providers.dropbox.layout import Layout
from connector.providers.dropbox.log import Move, format_record, parse_record, roll_forward

_OURS: Final = ("connector_", codec.DELIVERY_COUNT, codec.OWNER)
"""Properties that a copy does not inherit from the message as it was claimed."""


class Settler:
    """Writes and finishes the commit records of one client.

    Args:
        layout, store: of the root.
        client_id: names the records.
        durable: whether records and moves are synced.
        window: directory that finished records with published ids go to; None = nobody needs them.
        keep: whether a message that gets no copy is kept in ``processed/``.
    """

    def __init__(
        self,
        layout: Layout,
        store: headers.HeaderStore,
        client_id: str,
        *,
        durable: bool,
        window: str | None,
        keep: bool,
    ) -> None:
        self._layout = layout
        self._store = store
        self._client_id = client_id
        self._durable = durable
        self._window = window
        self._keep = keep
        self._records = 0
        self._prefix = len(layout.root) + 1
        self._suffixes: dict[int, tuple[Mapping[str, PropertyValue], str]] = {}

    def settle(
        self,
        settlements: Sequence[Settlement],
        sends: Sequence[Prepared] = (),
        discards: Sequence[Prepared] = (),
    ) -> None:
        """See :meth:`connector.messaging.provider.Connection.settle`."""
        copies = {(_folder(s.claim), s.copy_to) for s in settlements if s.copy_to is not None}
        for folder, destination in copies:
            self._check_writable(destination, folder)
        all_sends = [*sends, *(prepared for s in settlements for prepared in s.sends)]
        for destination in {prepared.destination for prepared in all_sends}:
            self._check_writable(destination)
        try:
            moves = [Move("sent", *prepared.handle) for prepared in sends]
            moves += [move for prepared in discards for move in self._discard(prepared)]
            moves += [move for settlement in settlements for move in self._moves(settlement)]
        except OSError as error:
            raise _unwritable(error) from error
        if moves:
            self.commit(moves)

    def commit(self, moves: Sequence[Move]) -> None:
        """Commits moves: written, synced, renamed into ``committing/``, made, finished.

        Raises:
            SettlementError: before the commit point; nothing has happened.
            ProviderError: after it; whoever recovers finishes it.
        """
        self._records += 1
        name = f"{self._client_id}-{base36(self._records)}"
        record = os.path.join(self._layout.associated, name)
        committing = os.path.join(self._layout.committing, name)
        try:
            files.write_new(record, format_record(moves), sync=self._durable)
            faults.point("settle.record")
            os.rename(record, committing)
        except OSError as error:
            files.remove(record)
            raise _unwritable(error) from error
        faults.point("settle.committing")
        self._finish(committing, moves)

    def finish_record(self, path: str) -> None:
        """Rolls a record forward that its writer could not finish.

        Raises:
            ProviderError: it cannot be read or made now; it stays.
        """
        try:
            with open(path, "rb") as record:
                data = record.read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise ProviderError(f"cannot read the transaction record {path}: {error.strerror}") from error
        self._finish(path, parse_record(data))

    def _finish(self, path: str, moves: Sequence[Move]) -> None:
        folders = roll_forward(self._layout, moves, self._store.fit)
        try:
            if self._durable:
                for folder in folders:
                    files.sync_directory(folder)
            if self._window is not None and any(move.published for move in moves):
                os.rename(path, os.path.join(self._window, os.path.basename(path)))
            else:
                os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise ProviderError(f"cannot finish the transaction record {path}: {error.strerror}") from error
        faults.point("settle.finished")

    def _moves(self, settlement: Settlement) -> list[Move]:
        claim = settlement.claim
        assert isinstance(claim, DropboxClaim)
        moves = []
        if settlement.sends or settlement.discards:
            moves += [Move("sent", *prepared.handle) for prepared in settlement.sends]
            moves += [move for prepared in settlement.discards for move in self._discard(prepared)]
        home = claim.home
        rollback = f"{home.relative_target}/{claim.name}" if claim.owner is None else None
        if settlement.give_back:
            name = self._returned_name(settlement, claim)
            target: str | None = f"{home.relative_target}/{name}"
        elif settlement.copy_to is not None:
            name = self._copy_name(claim, settlement.properties)
            target = f"{self._layout.queue(settlement.copy_to).relative_target}/{name}"
        elif self._keep:
            name = claim.name if claim.owner is None else codec.without_properties(claim.name, (codec.OWNER,))
            target = f"{home.relative_processed}/{name}"
        else:
            name, target, rollback = "", None, None
        moves.append(Move("received", claim.path, target, rollback, settlement.published))
        key = headers.key_of(claim.name)
        if key is not None and key != headers.key_of(name):  # the sidecar goes with its file
            moves.append(Move("received", self._relative(self._store.path(key)), None))
        return moves

    def _discard(self, prepared: Prepared) -> list[Move]:
        """Removes a prepared message, and the sidecar that its name would have spoken of."""
        working, target = prepared.handle
        moves = [Move("received", working, None)]
        key = headers.key_of(target.rpartition("/")[2])
        if key is not None:
            moves.append(Move("received", self._relative(self._store.path(key)), None))
        return moves

    def _relative(self, path: str) -> str:
        return path[self._prefix :]

    def _copy_name(self, claim: DropboxClaim, properties: Mapping[str, PropertyValue]) -> str:
        suffix = self._suffix(properties)
        name = claim.name
        if codec.HEADER_KEY in name:
            full = self._store.full(name)
            if "connector_" in full or codec.DELIVERY_COUNT in full or codec.OWNER in full:
                name = full  # what the copy must not inherit stands in the sidecar
        if "connector_" in name or codec.DELIVERY_COUNT in name or codec.OWNER in name:
            name = codec.without_properties(name, _OURS)
        copy = codec.add_properties(name, suffix)
        if len(copy) > codec.NAME_MAX or (not copy.isascii() and len(os.fsencode(copy)) > codec.NAME_MAX):
            copy = self._store.fit(copy)
        return copy

    def _suffix(self, properties: Mapping[str, PropertyValue]) -> str:
        """The encoded pairs; those of a cycle are few and shared, so they are encoded once."""
        known = self._suffixes.get(id(properties))
        if known is not None and known[0] is properties:
            return known[1]
        suffix = "&".join(
            codec.encode_property(name, natural_type(value), value) for name, value in properties.items()
        )
        if len(self._suffixes) > 1000:
            self._suffixes.clear()
        self._suffixes[id(properties)] = (properties, suffix)
        return suffix

    def _returned_name(self, settlement: Settlement, claim: DropboxClaim) -> str:
        full = name = claim.name
        if codec.HEADER_KEY in name:
            full = self._store.full(name)
        returned = codec.without_properties(full, (codec.OWNER, ORIGIN)) if claim.owner is not None else full
        if settlement.delivery_count != claim.delivery_count or settlement.properties:
            pairs = []
            if settlement.delivery_count > 0:
                pairs.append(f"{codec.DELIVERY_COUNT}I={settlement.delivery_count + 1}")
            if settlement.properties:
                pairs.append(self._suffix(settlement.properties))
            dropped = [f"{pair.partition('=')[0]}=" for pair in "&".join(pairs).split("&")]
            returned = codec.without_properties(returned, (codec.DELIVERY_COUNT, *dropped))
            if pairs:
                returned = codec.add_properties(returned, "&".join(pairs))
        return name if returned == full else self._store.fit(returned)

    def _check_writable(self, destination: Destination, source: str | None = None) -> None:
        """Whether files can be moved to a destination, from the folder ``source`` of the root.

        Raises:
            SettlementError: they cannot.
        """
        folder = self._layout.queue(destination).target
        if not os.path.isdir(folder):
            try:
                self._layout.make(self._layout.queue(destination))
            except ProviderError as error:
                raise SettlementError(
                    f"{destination} cannot be written: {error}. "
                    "Its messages stay claimed until then, none is lost"
                ) from error
        if source is not None and len({_device(folder), _device(self._layout.absolute(source))} - {None}) > 1:
            raise SettlementError(
                f"{destination} cannot be written: {folder} lies on another file system than {source}, and "
                "a message is moved in one step; put both on one. Its messages stay claimed until then, "
                "none is lost"
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise SettlementError(
                f"{destination} cannot be written: {folder}: permission denied; give this user the right to "
                "write there. Its messages stay claimed until then, none is lost"
            )


def _folder(claim: Claim) -> str:
    """Where a claimed file is, relative to the root."""
    assert isinstance(claim, DropboxClaim)
    return claim.path.rpartition("/")[0]


def _device(path: str) -> int | None:
    try:
        return os.stat(path).st_dev
    except OSError:
        return None


def _unwritable(error: OSError) -> SettlementError:
    return SettlementError(
        f"cannot write the commit record of a poll: {error.strerror}: {error.filename!r}; "
        "make room on the disk, or give this user the right to write there. The messages stay claimed "
        "until then, none is lost"
    )
