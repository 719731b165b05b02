"""Settlement: what becomes of the claims of a batch, as one commit record.

One move alone, of which nobody has to remember more, needs no record: a rename is atomic by itself. What is
sent to a topic is one move for each of its subscriptions (:mod:`connector.providers.dropbox.distribution`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from connector.errors import (
    ClaimLost,
    DestinationError,
    ProviderError,
    SettlementError,
    UnknownDestination,
)
from connector.messaging.destination import Destination
from connector.messaging.message import PropertyValue, natural_type
from connector.messaging.provider import (
    HISTORY,
    Claim,
    GroupSettlement,
    Prepared,
    Settlement,
    one_by_one,
)
from connector.providers.dropbox import codec, headers
from connector.providers.dropbox.claims import ORIGIN, WAITS, DropboxClaim, owned_name
from connector.providers.dropbox.committer import Committer, lost, unwritable
from connector.providers.dropbox.distribution import Distributor, FanOut
from connector.providers.dropbox.layout import Layout
from connector.providers.dropbox.log import Copies, Move

_log = logging.getLogger("connector.dropbox")

_OURS: Final = (
    *(f"{name}{letter}=" for name in HISTORY for letter in codec.LETTER_TYPES),
    codec.DELIVERY_COUNT,
    codec.OWNER,
)
"""Properties that a copy does not inherit from the message as it was claimed."""


class Settler:
    """Settles the claims of one client.

    Args:
        layout, store: of the root.
        committer, distributor: of the client.
        keep: whether a message that gets no copy is kept in ``processed/``.
    """

    def __init__(
        self,
        layout: Layout,
        store: headers.HeaderStore,
        committer: Committer,
        distributor: Distributor,
        *,
        keep: bool,
    ) -> None:
        self._layout = layout
        self._store = store
        self._committer = committer
        self._distributor = distributor
        self._keep = keep
        self._prefix = len(layout.root) + 1
        self.returns: Callable[[str], object] = _nothing
        """Called with the path under which a message is about to be given back."""
        self._suffixes: dict[int, tuple[Mapping[str, PropertyValue], str]] = {}

    def settle(
        self,
        settlements: Sequence[Settlement | GroupSettlement],
        sends: Sequence[Prepared] = (),
        discards: Sequence[Prepared] = (),
        *,
        fenced: bool = False,
    ) -> None:
        """See :meth:`connector.messaging.provider.Connection.settle`."""
        if len(settlements) == 1 and not sends and not discards:
            one = settlements[0]
            if isinstance(one, Settlement) and one.copy_to is None and not one.sends and not one.discards:
                self._settle_alone(one)
                return
        if len(sends) == 1 and not settlements and not discards and sends[0].destination.is_queue:
            self._send_alone(sends[0])
            return
        singles: list[Settlement] = []
        groups: list[GroupSettlement] = []
        for one in settlements:
            if isinstance(one, Settlement):
                singles.append(one)
            elif len(one.claims) > 1 and one.copy_to is not None and one.copy_to.is_queue:
                groups.append(one)
            else:
                singles += one.each()
        places = {(_folder(s.claim), s.copy_to) for s in singles if s.copy_to is not None}
        for one in groups:
            if one.copy_to is not None:
                places.update((folder, one.copy_to) for folder in {_folder(claim) for claim in one.claims})
        for folder, destination in places:
            self._check_writable(destination, folder)
        targets = {prepared.destination for prepared in sends}
        targets.update(prepared.destination for s in singles for prepared in s.sends)
        for destination in targets:
            if not self._has_ended(destination):
                self._check_writable(destination)
        fan_out = FanOut()
        try:
            moves: list[Move] = []
            for prepared in sends:
                self._send(prepared, moves, fan_out)
            for prepared in discards:
                moves += self._discard(prepared)
            for settlement in singles:
                self._add_moves(settlement, moves, fan_out)
            found = [self._copies(one, moves, fan_out) for one in groups]
            copies = [one for one in found if one.sources]
            self._distributor.sync(fan_out)
        except OSError as error:
            self._distributor.undo(fan_out)
            raise unwritable(error) from error
        except ProviderError:
            self._distributor.undo(fan_out)
            raise
        if not moves and not copies:
            return
        fence: Sequence[str] = ()
        if fenced or (len(singles) == 1 and not groups):
            fence = [_path(one.claim) for one in one_by_one(settlements)]
        try:
            self._committer.commit(moves, copies, fence=fence, synced=bool(places or targets))
        except (SettlementError, ClaimLost):
            self._distributor.undo(fan_out)
            raise

    def _settle_alone(self, settlement: Settlement) -> None:
        """One message acknowledged or given back, and nothing else: what is done most often."""
        try:
            moves = self._moves(settlement, FanOut())
        except OSError as error:
            raise unwritable(error) from error
        self._committer.commit(moves, fence=(_path(settlement.claim),), synced=False)

    def _send_alone(self, prepared: Prepared) -> None:
        """One message sent to a queue, and nothing else: what a request is."""
        moves: list[Move] = []
        self._send(prepared, moves, FanOut())
        if moves:
            try:
                self._committer.commit(moves)
            except SettlementError:
                self._check_writable(prepared.destination)  # which says more clearly what is wrong
                raise

    def _send(self, prepared: Prepared, moves: list[Move], fan_out: FanOut) -> None:
        """Sends a prepared message; one to a topic goes to its subscriptions of this moment."""
        working, target = prepared.handle
        if self._has_ended(prepared.destination):
            _log.info(
                "a message goes with its temporary destination",
                extra={"destination": str(prepared.destination)},
            )
        elif not self._is_there(working):
            self._committer.assert_ours()
            raise lost(working)
        elif prepared.destination.is_queue:
            moves.append(Move("sent", working, target))
        else:
            moves += self._distributor.add(
                fan_out, prepared.destination, self._layout.absolute(working), target.rpartition("/")[2]
            )

    def _is_there(self, path: str) -> bool:
        """Whether a file of the root is there."""
        return os.access(self._layout.absolute(path), os.F_OK, follow_symlinks=False)

    def _add_moves(self, settlement: Settlement, moves: list[Move], fan_out: FanOut) -> None:
        if settlement.sends or settlement.discards:
            for prepared in settlement.sends:
                self._send(prepared, moves, fan_out)
            moves += [move for prepared in settlement.discards for move in self._discard(prepared)]
        moves += self._moves(settlement, fan_out)

    def _has_ended(self, destination: Destination) -> bool:
        """Whether a temporary destination is gone: what was prepared for it went with it."""
        folders = self._layout.outbox(destination)
        return folders.whole and not os.path.isdir(folders.base)

    def _moves(self, settlement: Settlement, fan_out: FanOut) -> list[Move]:
        claim = settlement.claim
        assert isinstance(claim, DropboxClaim)
        moves: list[Move] = []
        home = claim.home
        rollback = f"{home.relative_target}/{claim.name}" if claim.owner is None else None
        if settlement.give_back:
            name = self._returned_name(settlement, claim)
            stays = settlement.stay and claim.owner is not None
            target: str | None = f"{_folder(claim) if stays else home.relative_target}/{name}"
            if not stays:
                self.returns(f"{home.target}/{name}")
        elif settlement.copy_to is not None:
            name = self._copy_name(claim, settlement.properties)
            if settlement.copy_to.is_queue:
                target = f"{self._layout.outbox(settlement.copy_to).relative_target}/{name}"
            else:
                source = self._layout.absolute(claim.path)
                moves += self._distributor.add(fan_out, settlement.copy_to, source, name, moved=False)
                self._store.remove(name, keep=claim.name)  # each subscription has a sidecar of its own
                # but one that is lost is spoken of by all
                name, target, rollback = self._store.full(claim.name), None, None
        elif home.requeues:
            name = self._store.fit(codec.without_properties(claim.full_name, (codec.DELIVERY_COUNT,)))
            target = f"{home.relative_processed}/{name}"
        elif self._keep:
            name = claim.name if claim.owner is None else codec.without_properties(claim.name, (codec.OWNER,))
            target = f"{home.relative_processed}/{name}"
        else:
            name, target, rollback = "", None, None
        moves.append(Move("received", claim.path, target, rollback, settlement.published))
        moves += self._sidecars_removed(claim.name, keep=name)
        return moves

    def _copies(self, group: GroupSettlement, moves: list[Move], fan_out: FanOut) -> Copies:
        """The copies of a group, whose destination is a queue.

        A claim that needs more than one rename, or cannot be rolled back, gets moves of its own.
        """
        assert group.copy_to is not None
        copies = Copies()
        folder = f"{self._layout.outbox(group.copy_to).relative_target}/"
        keys = group.published
        for place, claim in enumerate(group.claims):
            assert isinstance(claim, DropboxClaim)
            key = keys[place] if keys else None
            if claim.owner is not None or codec.HEADER_KEY in claim.name:
                one = Settlement(claim, group.copy_to, group.properties, published=key)
                moves += self._moves(one, fan_out)
                continue
            copies.sources.append(claim.path)
            copies.targets.append(f"{folder}{self._copy_name(claim, group.properties)}")
            copies.rollbacks.append(f"{claim.home.relative_target}/{claim.name}")
            if key is not None:
                copies.published.append(key)
        return copies

    def _discard(self, prepared: Prepared) -> list[Move]:
        """Removes a prepared message, and the sidecar that its name would have spoken of."""
        working, target = prepared.handle
        if not self._is_there(working):
            return []
        return [Move("received", working, None), *self._sidecars_removed(target.rpartition("/")[2])]

    def _sidecars_removed(self, name: str, *, keep: str = "") -> list[Move]:
        """The moves that do what :meth:`connector.providers.dropbox.headers.HeaderStore.remove` does."""
        return [
            Move("received", self._relative(self._store.path(key)), None)
            for key in headers.keys_of(name)
            if key not in headers.keys_of(keep)
        ]

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
        if claim.home.mark:
            # two subscriptions may hold one and the same file; a copy of each has a name of its own
            suffix = f"{suffix}&{claim.home.mark}" if suffix else claim.home.mark
        copy = codec.add_properties(name, suffix)
        if len(copy) > codec.NAME_MAX or (not copy.isascii() and len(os.fsencode(copy)) > codec.NAME_MAX):
            copy = self._store.fit(copy)
        return copy

    def _suffix(self, properties: Mapping[str, PropertyValue]) -> str:
        """The encoded pairs; those of a batch are few and shared, so they are encoded once."""
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
        returned = full
        if claim.owner is not None and settlement.stay:
            returned = owned_name(full, WAITS, claim.destination)
        elif claim.owner is not None:
            returned = codec.without_properties(full, (codec.OWNER, ORIGIN))
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
        try:
            folders = self._layout.outbox(destination)
        except DestinationError as error:
            raise SettlementError(f"{error}. Its messages stay claimed until then, none is lost") from error
        folder = folders.target
        if not os.path.isdir(folder):
            try:
                self._layout.make(folders)
            except (ProviderError, UnknownDestination) as error:
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


def _path(claim: Claim) -> str:
    assert isinstance(claim, DropboxClaim)
    return claim.path


def _nothing(path: str) -> None:
    """Nobody wants to know."""


def _device(path: str) -> int | None:
    try:
        return os.stat(path).st_dev
    except OSError:
        return None
