"""Claims by group on a database: at one moment, beside rows that others have locked, of foreign messages."""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import text

from connector import faults
from connector.events.settle.recovery import Recovery
from connector.events.settle.settling import SettlementRules
from connector.messaging.claim import Claim
from connector.messaging.copy_destinations import CopyDestinations
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from connector.stores.engine.poller import LocalPoller
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.database_page import STATEMENTS
from tests.events.conftest import connection_state
from tests.stores.sql.conftest import program
from tests.waiting import now_ms, wait_for

ORDERS, NOTES, BUSY = (parse_destination(name) for name in ("orders", "notes", "busy"))


@contextmanager
def clients(url: str, number: int) -> Iterator[list[Connection]]:
    provider = SqlProvider(Settings(url))
    made: list[Connection] = [provider.connect("suite", f"instance-{n}") for n in range(number)]
    yield made
    for connection in made:
        connection.abandon()


def send(connection: Connection, *names: str) -> None:
    """Sends a message for each name; its first letter is the group."""
    messages = [Message(name.encode()) for name in names]
    for message in messages:
        message.set_property("JMSXGroupID", message.body.decode()[0])
    connection.send(ORDERS, messages)


def bodies(connection: Connection, claims: Sequence[Claim]) -> list[str]:
    access = connection.access().open()
    return [access.load(claim.reference, 1000).body.decode() for claim in claims]


def test_the_group_of_what_another_program_sends_is_found(url: str) -> None:
    with clients(url, 2) as (one, other):
        one.poller(ORDERS)
        with program(url) as another:
            for body, properties in (
                ("a1", {"JMSXGroupID": "a"}),
                ("a2", {"JMSXGroupID": "a", "note": "\0"}),  # PostgreSQL cannot decode this
                ("a3", {"note": "\\u0000", "JMSXGroupID": "a"}),
                ("none", {"note": "JMSXGroupID"}),
                ("b1", {"JMSXGroupID": "\0"}),
                ("b2", {"JMSXGroupID": "\0"}),
            ):
                sent = text("INSERT INTO message (properties, body) VALUES (:properties, :body) RETURNING id")
                values = {"properties": json.dumps(properties), "body": body.encode()}
                number = another.execute(sent, values).scalar_one()
                referred = text("INSERT INTO message_reference (message, channel) VALUES (:n, :channel)")
                another.execute(referred, {"n": number, "channel": str(ORDERS)})
        claims = one.poller(ORDERS, by_group=True).claim(1, range(1))
        assert bodies(one, claims) == ["a1"]
        poller = other.poller(ORDERS, by_group=True)
        assert bodies(other, poller.claim(1, range(2))) == ["none", "b1"]
        assert one.poller(ORDERS, by_group=True).claim(2, range(1))[0].headers().properties["note"] == "\0"


def test_the_page_shows_who_holds_which_group(url: str) -> None:
    with clients(url, 2) as (one, other):
        send(one, "a1", "a2", "b1", "c1")
        one.poller(ORDERS).claim(1, range(2))
        other.poller(ORDERS, NOTES).claim(1, range(1))
        with program(url) as another:
            rows = another.exec_driver_sql(STATEMENTS["groups"]).fetchall()
        assert [tuple(row) for row in rows] == [("a", one.client_id, 2), ("b", other.client_id, 1)]


@pytest.mark.parametrize("selector", ["", "JMSPriority = 4"])
def test_two_claims_at_one_moment_take_no_two_messages_of_a_group(
    database: str, monkeypatch: pytest.MonkeyPatch, selector: str
) -> None:
    """The second claim waits for the first, and whoever sends or settles does not."""
    with clients(database, 3) as (one, other, beside):
        send(one, "a1", "a2", "b1", "b2", "c1")
        (settled,) = beside.poller(ORDERS, selector="JMSXGroupID = 'c'").claim(1, range(1))
        pollers = [client.poller(ORDERS, selector=selector, by_group=True) for client in (one, other)]
        reached, may_go = threading.Event(), threading.Event()
        found: dict[str, list[str]] = {}

        def point(place: str) -> None:
            if place == "claim.uncommitted" and threading.current_thread().name == "one":
                reached.set()
                assert may_go.wait(120)

        def claim(name: str, number: int) -> None:
            client = (one, other)[number]
            found[name] = bodies(client, pollers[number].claim(1, range(1 + number * 4)))

        monkeypatch.setattr(faults, "point", point)
        threads = [
            threading.Thread(target=claim, args=(n, i), name=n) for i, n in enumerate(("one", "other"))
        ]
        threads[0].start()
        assert reached.wait(120)
        threads[1].start()
        waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        with program(database, isolation_level="AUTOCOMMIT") as another:
            wait_for(lambda: another.exec_driver_sql(waits).scalar_one(), what="the other waits for a lock")
        send(beside, "d1")
        beside.settle([Settlement(settled)])
        assert bodies(beside, beside.poller(ORDERS).claim(2, range(1))) == ["a2"], "not by group"
        may_go.set()
        for thread in threads:
            thread.join(120)
        assert found["one"] == ["a1"]
        assert found["other"] == ["b1", "b2", "d1"]


@pytest.mark.parametrize("selector", ["", "JMSPriority = 4"])
def test_nothing_overtakes_a_message_of_its_group_that_is_locked(database: str, selector: str) -> None:
    with clients(database, 1) as (one,):
        send(one, "a1", "b1", "a2", "c1", "a3", "b2")
        poller = one.poller(ORDERS, selector=selector, by_group=True)
        first = "(SELECT min(id) FROM message_reference)"
        with program(database) as another:
            another.exec_driver_sql(f"SELECT 1 FROM message_reference WHERE id = {first} FOR UPDATE")
            assert bodies(one, poller.claim(1, range(1))) == ["b1"], "as many as were asked for"
            assert bodies(one, poller.claim(2, range(9))) == ["c1", "b2"]
        assert bodies(one, poller.claim(3, range(2))) == ["a1", "a2"]
        assert bodies(one, poller.claim(4, range(2))) == ["a3"]


def test_what_runs_again_holds_its_group_all_the_time(url: str) -> None:
    """A dead adapter has begun the first message of a group. This message runs again before the rest."""
    provider = SqlProvider(Settings(url))
    state = provider.state("suite")
    with clients(url, 3) as (victim, heir, rival):
        send(victim, "a1", "a2")
        victim.poller(ORDERS, BUSY, by_group=True).claim(1, range(2))
        journals = state.journals(victim.client_id, "instance-0")
        journals.make()
        task = journals.file(1, 0, 0).open()
        task.begin(0)
        task.close()
        victim.abandon()
        rules = SettlementRules(CopyDestinations())
        recovery = Recovery(connection_state(heir, BUSY), state, rules)
        recovered = recovery.run(at_start=False, timeout=0.0)
        assert (bodies(heir, recovered.reprocess), recovered.returned) == (["a1"], 1)
        assert rival.poller(ORDERS, BUSY, by_group=True).claim(1, range(2)) == []
        assert bodies(heir, heir.poller(ORDERS, BUSY, by_group=True).claim(2, range(2))) == ["a2"]


@pytest.mark.parametrize("selector", ["", "JMSPriority = 4"])
def test_what_comes_again_later_holds_its_group_until_its_time(url: str, selector: str) -> None:
    with clients(url, 2) as (one, other):
        send(one, "a1", "a2", "b1")
        (claim,) = one.poller(ORDERS, selector=selector, by_group=True).claim(1, range(1))
        poller = other.poller(ORDERS, selector=selector, by_group=True)
        due = now_ms() + 500
        one.settle([Settlement(claim, give_back=True, due=due)])
        assert bodies(other, poller.claim(1, range(9))) == ["b1"]
        assert isinstance(poller, LocalPoller)
        has_news = poller.has_news()
        assert not has_news or now_ms() >= due
        wait_for(poller.has_news, what="the message is due")
        assert now_ms() >= due
        assert bodies(other, poller.claim(2, range(9))) == ["a1", "a2"]


@pytest.mark.parametrize("selector", ["", "JMSPriority = 4"])
def test_many_clients_keep_the_order_of_each_group(url: str, selector: str) -> None:
    """Each settles the first of its claims and gives the rest back, in one step, until all are settled."""
    names = [f"{group}{n:02}" for n in range(15) for group in "abcdefgh"]
    done: dict[str, list[str]] = defaultdict(list)
    at_work: dict[str, int] = {}
    overlaps: list[str] = []
    guard = threading.Lock()
    ended = threading.Event()

    def work(client: Connection, number: int) -> None:
        chance = random.Random(number)
        poller = client.poller(ORDERS, selector=selector, by_group=True)
        cycle = 0
        try:
            while not ended.is_set():
                cycle += 1
                claims = poller.claim(cycle, range(chance.randint(1, 9)))
                found = bodies(client, claims)
                groups = {name[0] for name in found}
                with guard:
                    overlaps.extend(
                        f"{group}: {at_work[group]} and {number}" for group in groups & at_work.keys()
                    )
                    at_work.update(dict.fromkeys(groups, number))
                settled = chance.randint(0, len(claims))
                with guard:
                    for name in found[:settled]:
                        done[name[0]].append(name)
                    for group in groups:
                        del at_work[group]
                    if sum(map(len, done.values())) >= len(names):
                        ended.set()
                client.settle(
                    [Settlement(claim, give_back=place >= settled) for place, claim in enumerate(claims)]
                )
        finally:
            ended.set()  # all end where one fails

    with clients(url, 4) as made, ThreadPoolExecutor() as threads:
        send(made[0], *names)
        list(threads.map(work, made, range(4)))
    assert overlaps == []
    assert {group: found for group, found in done.items() if found != sorted(found)} == {}
    assert sorted(name for found in done.values() for name in found) == sorted(names)
