"""Faults that somebody could make, each as a change of one function: who plants one must see it found.

They show what the worlds of crashes can find. ``tests/README.md`` says which other test finds each one.
A fault that only a loss of power shows is in ``tests/crash_states/planted.py``.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from connector import faults
from connector.brokers.engine.connection import RemoteConnection
from connector.databases.database import Database
from connector.events.claim.duplicate_keys import DuplicateKeys
from connector.events.outcome import Outcome
from connector.events.settle import recovery
from connector.events.settle.redeliveries import Redeliveries
from connector.events.settle.settling import untouched_settlement
from connector.events.settle.transactions import Transactions
from connector.messaging.claim import Claim
from connector.state.journal import Journal
from connector.state.locked_file import LockedFile
from connector.stores.dropbox import files
from connector.stores.dropbox.committer import Committer
from connector.stores.dropbox.delayed import DelayedFiles
from connector.stores.dropbox.fan_out import FanOutFiles
from connector.stores.engine.claims import LocalClaim
from connector.stores.engine.connection import LocalConnection
from connector.stores.engine.recovery import LocalRecovery
from connector.stores.sql.store import SqlStore
from tests.crashing.scenario import Scenario


@dataclass(frozen=True)
class Plant:
    """One fault.

    Args:
        what: it does, in words.
        plant: changes the product in this process, and in those that it forks.
        scenario: in which it shows soon.
    """

    what: str
    plant: Callable[[], None]
    scenario: Scenario = field(
        default_factory=lambda: Scenario("dropbox", order="none", sinks=("store", "copy"))
    )


def _set(owner: object, name: str, value: object) -> None:
    setattr(owner, name, value)


def _drop_done() -> None:
    done = Journal.done

    def drop(
        self: Journal, sequence: int, outcome: bytes, following: int | None = None, note: bytes = b""
    ) -> None:
        if sequence % 3:
            done(self, sequence, outcome, following, note)
        elif following is not None:
            self.at(following)

    _set(Journal, "done", drop)


def _drop_begin() -> None:
    def begin(self: Journal, sequence: int) -> None:
        self.check()

    def at(self: Journal, sequence: int) -> None:
        """Does nothing."""

    _set(Journal, "begin", begin)
    _set(Journal, "at", at)


def _settle_twice() -> None:
    def finish_record(self: Committer, path: str) -> None:
        files.remove(path)  # so that the journal decides a second time

    _set(Committer, "finish_record", finish_record)


def _settle_half() -> None:
    apply = SqlStore.apply

    def half(self: SqlStore, changes: Any, *arguments: Any, **more: Any) -> None:
        for change in changes:
            apply(self, [change], *arguments, **more)

    _set(SqlStore, "apply", half)


def _forget_takeover() -> None:
    def leftovers(self: LocalConnection, *_: object, **__: object) -> Iterable[object]:
        return ()

    _set(LocalConnection, "leftovers", leftovers)


def _wrong_count() -> None:
    _set(recovery, "begun_settlement", lambda claim, begun: untouched_settlement(claim))


def _release_lock() -> None:
    take = LockedFile._take.__func__  # type: ignore[attr-defined]

    def release(cls: type[LockedFile], path: str, flags: int) -> LockedFile | None:
        file: LockedFile | None = take(cls, path, flags)
        if file is not None and "/clients/" in path:
            fcntl.flock(file.descriptor, fcntl.LOCK_UN)
        return file

    _set(LockedFile, "_take", classmethod(release))


def _swallow_refusal() -> None:
    insert = Database._insert

    def swallow(self: Database, connection: Any, row: Any) -> bool:
        if not insert(self, connection, row):
            connection.begin()
        return True

    _set(Database, "_insert", swallow)


def _leave_early() -> None:
    def hand_over(self: FanOutFiles, *arguments: Any, moved: bool, **more: Any) -> list[Any]:
        return add(self, *arguments, moved=True, **more)

    add = FanOutFiles.add
    _set(FanOutFiles, "add", hand_over)
    _set(FanOutFiles, "removal", lambda self, source, name: [])


def _forget_redelivered() -> None:
    _set(Redeliveries, "take", lambda self, claims: {})


def _skip_marks() -> None:
    _set(RemoteConnection, "committed_cycles", lambda self, client_id: set())


def _keep_pending() -> None:
    _set(Transactions, "_end_pending", lambda self, transactions: None)


_BROKER: Final = Scenario("broker", order="none", sinks=("store", "copy"))


def _forget_topic() -> None:
    def not_distributed(self: LocalRecovery, claims: Sequence[LocalClaim]) -> Sequence[LocalClaim]:
        return [one for one in claims if one.home.subscription or one.home.destination.is_queue]

    _set(LocalRecovery, "_not_distributed", not_distributed)


def _double_delayed() -> None:
    def move(self: DelayedFiles, source: str, target: str) -> bool:
        os.link(source, target)
        faults.point("delayed.move")
        os.unlink(source)
        return True

    _set(DelayedFiles, "_move", move)


def _forget_key() -> None:
    published = DuplicateKeys.published

    def forget(self: DuplicateKeys, claim: Claim, outcome: Outcome, key: str | None = None) -> list[str]:
        return published(self, claim, outcome, key)[:1]

    _set(DuplicateKeys, "published", forget)


PLANTS: Final = {
    "drop-done": Plant("a `done` line of the journal is not written", _drop_done),
    "drop-begin": Plant("the `begin` lines of the journal are not written", _drop_begin),
    "settle-twice": Plant("a commit record of a dead client is removed in place of finished", _settle_twice),
    "settle-half": Plant(
        "a settlement is many transactions",
        _settle_half,
        Scenario("sqlite", order="none", sinks=("store", "copy")),
    ),
    "forget-takeover": Plant("nobody takes over from a dead client", _forget_takeover),
    "wrong-count": Plant("a begun delivery does not count", _wrong_count),
    "release-lock": Plant(
        "a client releases its lock at once",
        _release_lock,
        Scenario("dropbox", order="none", sinks=("store", "copy"), neighbour=True),
    ),
    "swallow-refusal": Plant(
        "a database that knows the event does not keep its process out",
        _swallow_refusal,
        Scenario("dropbox", order="none", sinks=("store", "book")),
    ),
    "leave-early": Plant(
        "a prepared message leaves its place before the commit",
        _leave_early,
        Scenario("dropbox", order="none", sinks=("store", "news")),
    ),
    "forget-redelivered": Plant(
        "a broker's message that comes again is taken for a new one", _forget_redelivered, _BROKER
    ),
    "skip-marks": Plant("nobody looks which commits of a dead client have happened", _skip_marks, _BROKER),
    "keep-pending": Plant("a commit that has not happened stays pending", _keep_pending, _BROKER),
    "forget-topic": Plant(
        "what a dead client was about to distribute from a topic is not given back",
        _forget_topic,
        Scenario("dropbox", order="none", topic=True),
    ),
    "double-delayed": Plant(
        "a delayed message that is due is copied to where messages wait, and then removed",
        _double_delayed,
        Scenario("dropbox", order="none", later=True),
    ),
    "forget-key": Plant(
        "a published event keeps its id, and not the key of its object",
        _forget_key,
        Scenario("dropbox", order="none", sinks=("store", "copy"), keyed=True),
    ),
}
