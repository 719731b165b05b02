"""A queue in every pair of things that can be said about it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import pytest

from connector.core.channel_queue import QueueChannel
from connector.errors import ClaimLost
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from tests.core.channel_world import DELIVERED, NEW, NOT_COMMITTED, Recorder, World, a_world, texts

NO, COMMIT, ROLLBACK = "no transaction", "commit", "rollback"


@dataclass(frozen=True)
class Case:
    """One combination.

    Args:
        recoverable: the messages outlive the process: the directory, else memory.
        receivers: 0 or 1.
        acking: the receiver acknowledges positively at delivery, else negatively, and positively later.
        send, ack: how a transaction around sending, and around acknowledging later, ends.
        reliability: of the messages; in ``mixed`` every second one is persistent.
        many: ten messages, else one.
        crash: all processes end before anything is acknowledged later, or rolled back.
    """

    recoverable: bool
    receivers: int
    acking: bool
    send: str
    ack: str
    reliability: str
    many: bool
    crash: bool

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in asdict(self).items())


ENDS: Final = (NO, COMMIT, ROLLBACK)
BOTH: Final = (False, True)
ALL: Final = [
    Case(*values)
    for values in itertools.product(
        *(BOTH, (0, 1), BOTH, ENDS),
        *(ENDS, ("reliable", "unreliable", "mixed"), BOTH, BOTH),
    )
]
IMPOSSIBLE: Final[dict[str, Callable[[Case], bool]]] = {
    "nobody is there to say no": lambda case: not case.receivers and not case.acking,
    "who has said yes, or is not there, says nothing later": lambda case: case.acking and case.ack != NO,
    "what was never sent is never acknowledged": lambda case: case.send == ROLLBACK and case.ack != NO,
    "one message is of one class": lambda case: case.reliability == "mixed" and not case.many,
}
"""Why a combination does not exist."""
POSSIBLE: Final = [case for case in ALL if not any(rule(case) for rule in IMPOSSIBLE.values())]


def pairs(case: Case) -> set[tuple[tuple[str, object], ...]]:
    """Every two things that are said in a case."""
    return set(itertools.combinations(asdict(case).items(), 2))


def choose(cases: Sequence[Case]) -> list[Case]:
    """Chooses few cases that have every pair of all. Each next one has most of the pairs that are left."""
    left = set().union(*map(pairs, cases))
    chosen = []
    while left:
        chosen.append(max(cases, key=lambda case: len(pairs(case) & left)))
        left -= pairs(chosen[-1])
    return chosen


CASES: Final = choose(POSSIBLE)


def test_every_rule_excludes_something_that_no_other_does() -> None:
    for name, rule in IMPOSSIBLE.items():
        others = [excludes for other, excludes in IMPOSSIBLE.items() if other != name]
        assert any(rule(case) and not any(other(case) for other in others) for case in ALL), name


def test_few_cases_have_every_pair_that_there_can_be() -> None:
    assert set().union(*map(pairs, CASES)) == set().union(*map(pairs, POSSIBLE))
    assert len(CASES) < len(POSSIBLE) / 8


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_queue_does_what_the_specification_says(case: Case) -> None:
    with a_world("dropbox" if case.recoverable else "memory") as world:
        Run(case, world).run()


class Run:
    """One case from sending to the last acknowledgement, with what must be true after every step."""

    def __init__(self, case: Case, world: World) -> None:
        self.case = case
        self.world = world
        self.channels = world.open()
        self.queue: QueueChannel = self.channels.queue("orders")
        self.receiver = Recorder("r", answer=case.acking)

    def run(self) -> None:
        if self.case.receivers:
            self.queue.add_receiver(self.receiver)
        sent = self.send()
        flagged = bool(sent and self.case.receivers)
        left = [] if flagged and self.case.acking else sent
        if self.case.receivers:
            assert self.in_order(self.receiver.bodies, sent)
            assert not any(self.receiver.flags)
        if not (self.case.crash and self.case.send == ROLLBACK):  # there it ends before the rollback
            self.expect(
                new=[] if self.case.receivers else left, delivered=left if self.case.receivers else []
            )
        if self.case.crash:
            left = self.crash(left)
        elif flagged and left:
            left = self.acknowledge(left)
        self.drain(left, flagged)

    def send(self) -> list[str]:
        """Sends; returns the bodies of what is in the channel then."""
        messages = [self.message(number) for number in range(10 if self.case.many else 1)]
        taken = [m for m in messages if self.case.recoverable or m.delivery_mode == NON_PERSISTENT]
        transaction = self.channels.transaction() if self.case.send != NO else None
        for message in messages:
            assert self.queue.handle(message, transaction) is (True if message in taken else None)
        if transaction is None:
            return texts(taken)
        self.expect(not_committed=texts(taken))
        assert self.receiver.bodies == []
        if self.case.send == COMMIT:
            transaction.commit()
            return texts(taken)
        if not self.case.crash:
            transaction.rollback()
            self.expect()
        return []

    def message(self, number: int) -> Message:
        persistent = {"reliable": True, "unreliable": False, "mixed": number % 2 == 1}[self.case.reliability]
        return Message(body=b"%d" % number, delivery_mode=PERSISTENT if persistent else NON_PERSISTENT)

    def acknowledge(self, held: list[str]) -> list[str]:
        """The receiver says yes at last; returns what it holds all the same."""
        transaction = self.channels.transaction() if self.case.ack != NO else None
        for identity in self.receiver.ids:
            self.queue.acknowledge(identity, "r", transaction)
        if transaction is not None:
            self.expect(delivered=held)
            transaction.rollback() if self.case.ack == ROLLBACK else transaction.commit()
        left = held if self.case.ack == ROLLBACK else []
        self.expect(delivered=left)
        if left:
            self.queue.close()
            self.queue = self.channels.queue("orders")
        else:
            for identity in self.receiver.ids:
                self.queue.acknowledge(identity, "r")  # once more is ignored
        return left

    def crash(self, left: list[str]) -> list[str]:
        """Ends the process, with acknowledgements logged and not committed; returns what is recovered."""
        held = self.receiver.ids if not self.case.acking else []
        if self.case.ack != NO:
            transaction = self.channels.transaction()
            for identity in held:
                self.queue.acknowledge(identity, "r", transaction)
        self.world.crash()
        self.channels = self.world.open()
        self.queue = self.channels.queue("orders")
        recovered = left if self.case.recoverable else []
        self.expect(new=recovered)
        for identity in held:
            with pytest.raises(ClaimLost):
                self.queue.acknowledge(identity, "r")
        return recovered

    def drain(self, left: list[str], flagged: bool) -> None:
        """Whatever is left comes, flagged where somebody may have seen it."""
        last = Recorder("last")
        self.queue.add_receiver(last)
        assert self.queue.deliver() is True
        if self.case.crash or not flagged or self.case.ack == ROLLBACK:
            assert self.in_order(last.bodies, left)
            assert last.flags == [flagged] * len(left)
        else:
            assert last.bodies == []
        self.expect()

    def expect(
        self,
        *,
        new: list[str] | None = None,
        delivered: list[str] | None = None,
        not_committed: list[str] | None = None,
    ) -> None:
        assert self.in_order(texts(self.queue.messages(NEW)), new or [])
        assert self.in_order(texts(self.queue.messages(DELIVERED)), delivered or [])
        assert texts(self.queue.messages(NOT_COMMITTED)) == (not_committed or [])
        assert self.in_order(texts(self.queue.browse()), [*(new or []), *(delivered or [])])

    def in_order(self, found: list[str], expected: list[str]) -> bool:
        """Whether they are the same; order is promised within a class only (JBoss Messaging Core, 9.3)."""
        if self.case.reliability != "mixed":
            return found == expected
        return all(
            [body for body in found if int(body) % 2 == parity]
            == [body for body in expected if int(body) % 2 == parity]
            for parity in (0, 1)
        )
