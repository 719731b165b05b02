"""What dead clients leave: records to finish, claims to decide about, prepared messages to remove."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Final

from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.providers.dropbox import codec
from connector.providers.dropbox.claims import DropboxClaim, in_progress_origin, split_tag
from connector.providers.dropbox.clients import ClientInfo, DeadClient, dead_clients, living_clients
from connector.providers.dropbox.committer import Committer
from connector.providers.dropbox.files import names_in, remove, rename_to_free_name
from connector.providers.dropbox.headers import HeaderStore
from connector.providers.dropbox.layout import VIEW_LETTERS, Layout, QueueFolders
from connector.providers.dropbox.subscriptions import SubscriptionStore
from connector.providers.dropbox.temporary import end_temporaries

_log = logging.getLogger("connector.dropbox")
_UNKNOWN: Final = ClientInfo()


class DropboxLeftover:
    """See :class:`connector.messaging.provider.Leftover`."""

    def __init__(
        self,
        layout: Layout,
        headers: HeaderStore,
        store: SubscriptionStore,
        client_id: str,
        info: ClientInfo,
        claims: list[DropboxClaim],
        dead: DeadClient | None,
    ) -> None:
        self._layout = layout
        self._headers = headers
        self._store = store
        self._dead = dead
        self.client_id = client_id
        self.application = info.application
        self.instance = info.instance
        self.declared_dead = info.declared_dead
        self.claims = claims

    @property
    def is_held(self) -> bool:
        """Whether it is neither forgotten nor released."""
        return self._dead is not None and self._dead.is_held

    def forget(self) -> None:
        """All of it is dealt with: removes its unsent messages, what ends with it and, last, its mark."""
        for claim in self.claims:
            self._give_back(claim)
        for folders in self._layout.everywhere():
            for name in names_in(folders.working):
                owner = split_tag(name)[1]
                if owner is not None and owner.client_id == self.client_id:
                    remove(f"{folders.working}/{name}")
        end_temporaries(self._layout, self._headers, self.client_id)
        if self._dead is not None:
            self._dead.forget()
        self._store.sweep()

    def _give_back(self, claim: DropboxClaim) -> None:
        """Returns a claim that nobody has settled; mostly there is none."""
        path = self._layout.absolute(claim.path)
        if claim.in_progress or not os.path.lexists(path):
            return
        counted = codec.with_delivery_count(claim.full_name, claim.delivery_count + 2)
        returned = self._headers.fit(counted)
        try:
            rename_to_free_name(path, f"{claim.home.target}/{returned}", self._headers.fit)
        except OSError as error:
            self._headers.remove(returned, keep=claim.name)
            if not isinstance(error, FileNotFoundError):
                raise ProviderError(f"cannot give back {claim.path}: {error.strerror}") from error
        else:
            self._headers.remove(claim.name, keep=returned)

    def release(self) -> None:
        """Leaves it to whoever looks next."""
        if self._dead is not None:
            self._dead.release()


def find_leftovers(
    layout: Layout,
    headers: HeaderStore,
    committer: Committer,
    store: SubscriptionStore,
    *,
    own: str,
    application: str,
    in_progress: Destination | None,
    at_start: bool,
    lease: float | None,
) -> Iterator[DropboxLeftover]:
    """The dead clients that this one takes over from, each locked until forgotten or released.

    An adapter of another application is left to its own instances: only they know its settings. A
    client that is no adapter is anybody's.

    Raises:
        ProviderError: a record in ``committing/`` cannot be finished.
    """
    dead = []
    for client in dead_clients(layout.clients, own, lease):
        if client.info.application in ("", application):
            dead.append(client)
        else:
            if at_start:
                _log.warning(
                    "the claims of a dead adapter wait for one of that ApplicationName to start",
                    extra={
                        "application": client.info.application,
                        "host": client.info.host,
                        "pid": client.info.pid,
                    },
                )
            client.release()
    if not dead and not at_start:
        return
    remaining = list(dead)
    try:
        for client in dead:
            _finish_records(layout, committer, client.client_id)
        if at_start:
            _finish_orphan_records(layout, committer)
        _return_undistributed(layout, {client.client_id for client in dead}, at_start=at_start)
        claims = claims_by_owner(layout, headers, in_progress)
        for client in dead:
            remaining.remove(client)
            left = claims.pop(client.client_id, [])
            yield DropboxLeftover(layout, headers, store, client.client_id, client.info, left, client)
    finally:
        for client in remaining:
            client.release()
    if at_start:  # claims whose owner has no mark any more: it was removed by hand
        living = living_clients(layout.clients)
        for client_id, orphans in claims.items():
            in_processing = [claim for claim in orphans if claim.owner is None]
            if client_id not in living and in_processing:
                _log.warning(
                    "the claims of an unknown client go back to their queues",
                    extra={"client": client_id, "number": len(in_processing)},
                )
                yield DropboxLeftover(layout, headers, store, client_id, _UNKNOWN, in_processing, None)


def _finish_records(layout: Layout, committer: Committer, client_id: str) -> None:
    prefix = f"{client_id}-"
    # first what is not committed: a late owner may commit in between, and that is seen then
    for name in os.listdir(layout.associated):
        if name.startswith(prefix):
            remove(os.path.join(layout.associated, name))
    for name in sorted(os.listdir(layout.committing)):
        if name.startswith(prefix):
            _log.info("a commit record of a dead client is finished", extra={"record": name})
            committer.finish_record(os.path.join(layout.committing, name))


def _finish_orphan_records(layout: Layout, committer: Committer) -> None:
    names = sorted(os.listdir(layout.committing))
    living = living_clients(layout.clients)  # after the names: whoever writes a record has a mark before
    for name in names:
        if name.partition("-")[0] not in living:
            committer.finish_record(os.path.join(layout.committing, name))


def _return_undistributed(layout: Layout, dead: set[str], *, at_start: bool) -> None:
    """Messages of topics that a dead client had claimed for distribution: nobody has got them yet."""
    for folders in filter(_is_topic, layout.everywhere()):
        for name in names_in(folders.processing):
            short, owner = split_tag(name)
            if owner is None:
                continue
            if owner.client_id in dead or (
                at_start and owner.client_id not in living_clients(layout.clients)
            ):
                rename_to_free_name(f"{folders.processing}/{name}", f"{folders.target}/{short}", str)


def _is_topic(folders: QueueFolders) -> bool:
    """Whether these are messages of a topic that are not distributed yet."""
    return not folders.destination.is_queue and not folders.mark


def claims_by_owner(
    layout: Layout, headers: HeaderStore, in_progress: Destination | None
) -> dict[str, list[DropboxClaim]]:
    """All claims under the root, by the client that its name says; oldest claim first."""
    found: dict[str, list[DropboxClaim]] = {}
    for folders in layout.everywhere():
        if _is_topic(folders):
            continue
        relative = layout.relative(folders.processing)
        for name in names_in(folders.processing):
            short, owner = split_tag(name)
            if owner is None:
                continue
            home = folders
            if owner.view:
                queue = folders.destination
                home = layout.queue(Destination(queue.kind, f"{queue.name}~{VIEW_LETTERS[owner.view]}"))
            claim = DropboxClaim(
                layout, headers, home, short, f"{relative}/{name}", owner.cycle, owner.sequence
            )
            found.setdefault(owner.client_id, []).append(claim)
    if in_progress is not None:
        for claim in _in_progress_claims(layout, headers, in_progress):
            if claim.owner is not None:
                found.setdefault(claim.owner.client_id, []).append(claim)
    for claims in found.values():
        claims.sort(key=lambda claim: (claim.cycle, claim.sequence))
    return found


def _in_progress_claims(layout: Layout, headers: HeaderStore, in_progress: Destination) -> list[DropboxClaim]:
    folders = layout.queue(in_progress)
    relative = layout.relative(folders.target)
    claims = []
    try:
        with os.scandir(folders.target) as entries:
            names = sorted(e.name for e in entries if e.is_file(follow_symlinks=False) and e.name[0] != ".")
    except FileNotFoundError:
        return []
    for name in names:
        owner, origin = in_progress_origin(name if codec.OWNER in name else headers.full(name))
        home = layout.queue(origin) if origin is not None else folders
        claims.append(
            DropboxClaim(
                layout,
                headers,
                home,
                name,
                f"{relative}/{name}",
                owner.cycle if owner else 0,
                owner.sequence if owner else 0,
                owner,
            )
        )
    return claims


def unowned_claims(layout: Layout, headers: HeaderStore, in_progress: Destination) -> list[DropboxClaim]:
    """Messages in the in-progress destination that no client with a mark owns: left from before."""
    known = living_clients(layout.clients)
    return [
        claim
        for claim in _in_progress_claims(layout, headers, in_progress)
        if claim.owner is None or claim.owner.client_id not in known
    ]
