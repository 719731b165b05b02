"""The runs that are recorded, and what must hold after each crash of them."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from connector import faults
from connector.events.settle import settling
from connector.messaging.destination import parse_destination
from connector.messaging.once import OnceKey
from connector.messaging.settlement import Settlement
from connector.messaging.state_store import PauseNote
from connector.state import duplicates
from tests.crash_states.recorder import replace_functions
from tests.crash_states.states import KILLED
from tests.crash_states.world import World

STORE: Final = {"object": "Customer", "name": "store", "process": "processes:store"}
BOOK: Final = {"object": "Customer", "name": "book", "process": "processes:book", "transaction": "shop"}
OUT: Final = {"object": "Customer", "name": "out", "destination": "queue://out"}
LONG: Final = "x" * 300
_PLACES: Final = {"fail": "error", "unwanted": "unsubscribed"}

_ONCE: Final = {"a": "queue://later", "b": "queue://later", "c": "topic://news"}
"""What is sent once by key, and where to."""

Act = Callable[[World], None]


# -- what every message must keep ----------------------------------------------------------------------


def check_messages(world: World) -> None:
    """Each message is in one place, its effects happened once or as promised, and nothing is left."""
    found = world.places()
    sent = {identity: name for _, identity, name in facts_of(world, "sent")}
    problems = []
    for identity, name in sent.items():
        wanted = f"{_PLACES.get(name, 'archive')}/incoming/target/"
        places = found.pop(identity, [])
        if len(places) != 1 or not places[0].startswith(wanted):
            problems.append(f"{identity} {name!r} is in {places}, expected once in {wanted}")
    for identity, places in found.items():
        if not is_copy(places[0]) and len(places) > 1:
            problems.append(f"{identity}, which nobody has been told was sent, is in {places}")
    problems += check_calls(world, sent)
    problems += world.remains()
    for path in world.files("data/in/incoming/target"):
        problems.append(f"left in the input: {path}")
    assert not problems, "\n".join(problems)


def is_copy(path: str) -> bool:
    return path.startswith(("out/", "topic-root/"))


def facts_of(world: World, kind: str) -> list[tuple[Any, ...]]:
    return [fact for fact in world.facts if fact[0] == kind]


def check_calls(world: World, sent: Mapping[str, str]) -> list[str]:
    """Returns what is wrong with the calls of business processes.

    A run calls once. A later run calls again only if the event was neither done nor settled before. After a
    loss of power only what is settled counts.
    """
    problems: list[str] = []
    calls: Counter[tuple[str, str]] = Counter()
    before: Counter[tuple[str, str]] = Counter()
    events: dict[tuple[Any, ...], str] = {}
    done: set[str] = set()
    settled: set[str] = set()
    over: set[str] = set()
    crashes: list[str] = []
    for fact in world.facts:
        if fact[0] == "call":
            _, who, identity, event = fact
            message = identity.partition("#")[0]
            events[event] = message
            calls[who, identity] += 1
            if message in over and who != "book":
                problems.append(f"{who} was called again for {identity}, which was over before {crashes}")
            most = before[who, identity] + 1
            if sent.get(message) == "away" and not before[who, identity]:
                most += 1
            if calls[who, identity] > most:
                problems.append(f"{who} was called {calls[who, identity]} times for {identity} in one run")
        elif fact[0] == "done":
            done.add(events[fact[1:]]) if fact[1:] in events else None
        elif fact[0] == "settled":
            settled.add(fact[1])
        elif fact[0] == "crash":
            crashes.append(fact[1])
            over = settled | done if set(crashes) == {KILLED} else set(settled)
            before = Counter(calls)
    return problems


def _archived(world: World) -> Counter[str]:
    """Returns how often each message is in the archive."""
    paths = (f"archive/incoming/target/{name}" for name in world.files("data/archive/incoming/target"))
    return Counter(map(world.identity, paths))


def _sent_to(world: World, folder: str) -> Counter[str]:
    """Returns how many messages of each event are in a folder."""
    return Counter(world.event_id(f"{folder}/{name}") for name in world.files(f"data/{folder}"))


def check_published(world: World) -> None:
    """Each message in the archive has been published, and its copies are sent once."""
    check_messages(world)
    called = {identity for _, process, identity, _ in facts_of(world, "call") if process == "store"}
    archived = _archived(world)
    assert set(archived) <= {one.partition("#")[0] for one in called}, f"archived, not published: {archived}"


def check_sent(world: World) -> None:
    """Each published event has sent one message, and no other has."""
    check_published(world)
    sent, archived = _sent_to(world, "out/incoming/target"), _archived(world)
    assert sent == archived, f"sent: {sent}, archived: {archived}"


def run(world: World) -> None:
    world.run()


def nothing(world: World) -> None:
    """Does nothing: the recorded run makes all."""


def sends(*names: str, **headers: Any) -> Act:
    """Returns a setup that sends customers of these names, by an adapter that has run before."""

    def setup(world: World) -> None:
        world.run()
        world.send("queue://in", *names, **headers)

    return setup


def _begin(world: World) -> None:
    """The first start of a deployment, which makes its root, and the first messages."""
    world.run()
    world.send("queue://in", "a", "b")
    world.run()


# -- destinations and topics ---------------------------------------------------------------------------


def _ready(world: World) -> None:
    world.run()
    world.subscribe("topic://news", "first", "second")


def _subscribed(world: World) -> None:
    _ready(world)
    world.send("queue://in", "a", "b", "fail")


def _check_topic(world: World) -> None:
    check_published(world)
    archived = _archived(world)
    for name in ("first", "second"):
        sent = _sent_to(world, f"topic-root/news/.subscriptions/{name}.reader/target")
        assert sent == archived, f"{name}: {sent}, archived: {archived}"


def _without_links(world: World) -> None:
    def no_link(*arguments: object, **named: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    replace_functions(os, link=no_link)
    world.run()


def _publish(world: World) -> None:
    """Sends to a queue and to a topic from a program, without an adapter."""
    world.send("queue://in", "a")
    world.send("queue://in", "b", "c", "d")
    world.send("queue://in", "e", note=LONG)
    world.send("topic://news", "f")
    world.send("topic://news", "g", "h", note=LONG)
    world.send("queue://later", "i", "j", delivery_time=1 << 50)


def _check_publish(world: World) -> None:
    problems = []
    found = world.places()
    for _, identity, name in facts_of(world, "sent"):
        places = sorted(found.get(identity, []))
        if name in "abcdeij":
            if len(places) != 1 or not places[0].startswith(("archive/", "later/incoming/delayed/")):
                problems.append(f"{identity} {name!r} is in {places}")
        elif [path.split("/")[3] for path in places] != ["first.reader", "second.reader"]:
            problems.append(f"{identity} {name!r} is in {places}")
    for identity, places in found.items():
        is_topic = places[0].startswith("topic-root")
        if len(places) != (2 if is_topic else 1):
            problems.append(f"{identity} is in {places}")
    names = {world.customer(places[0]) for places in found.values()}
    for batch in ("bcd", "gh", "ij"):
        if len({name in names for name in batch}) > 1:
            problems.append(f"of the messages {batch} of one call there are {sorted(names & set(batch))}")
    problems += world.remains()
    assert not problems, "\n".join(problems)


def _send_once(world: World) -> None:
    """Sends to a queue and to a topic once by key, without an adapter."""
    connection = world.provider.connect()
    for name, destination in _ONCE.items():
        key = OnceKey("states", f"key {name}", 1e9)
        message = world.message(name, note=LONG if name == "b" else "")
        answer = connection.send_once(parse_destination(destination), message, key)
        world.mark("once", name, answer.message_id)
    connection.close()


def _recover_once(world: World) -> None:
    world.run()
    _send_once(world)


def _check_once(world: World) -> None:
    """Each message is there once, with the id that each of its senders has been told."""
    problems = []
    told: dict[str, set[str]] = {}
    for _, name, identity in facts_of(world, "once"):
        told.setdefault(name, set()).add(identity)
    there: dict[str, set[str]] = {}
    for identity, places in world.places().items():
        there.setdefault(world.customer(places[0]), set()).add(identity)
        if len(places) != (2 if places[0].startswith("topic-root") else 1):
            problems.append(f"{identity} is in {places}")
    if not told == there == {name: told.get(name, set()) for name in _ONCE}:
        problems.append(f"told: {told}, there: {there}")
    problems += [f"{name} has the ids {ids}" for name, ids in told.items() if len(ids) != 1]
    problems += [f"left: {path}" for path in (world.directory / "data").glob("**/sent.d/new-*")]
    problems += world.remains()
    assert not problems, "\n".join(problems)


def _dropped(world: World) -> None:
    """Another program has put messages into a topic, which nobody has distributed yet."""
    _ready(world)
    folder = world.directory / "data/topic-root/news/.incoming/target"
    for number, name in enumerate("abc"):
        identity = f"1700000000000{number:03d}-t-{number}"
        (folder / f"4.{identity}.T").write_bytes(world.message(name).body)
        world.mark("sent", f"ID:{identity}", name)


def _distribute(world: World) -> None:
    """Lets a consumer come, which distributes what waits in the topic."""
    world.subscribe("topic://news", "first")


def _recover_distribution(world: World) -> None:
    world.run()
    _distribute(world)


def _check_distributed(world: World) -> None:
    """Each message is in both subscriptions, and its file is among the processed."""
    base = "topic-root/news"
    wanted = [
        f"{base}/.incoming/processed",
        *(f"{base}/.subscriptions/{name}.reader/target" for name in ("first", "second")),
    ]
    found = world.places()
    problems = []
    for _, identity, name in facts_of(world, "sent"):
        folders = sorted(os.path.dirname(path) for path in found.pop(identity, []))
        if folders != wanted:
            problems.append(f"{identity} {name!r} is in {folders}")
    problems += [f"not sent: {paths}" for paths in found.values()]
    problems += [f"left: {path}" for path in world.leftovers()]
    problems += [f"the body is damaged: {path}" for path in world.damaged()]
    assert not problems, "\n".join(problems)


# -- business database ---------------------------------------------------------------------------------


def _with_shop(*names: str) -> Act:
    def setup(world: World) -> None:
        with contextlib.closing(sqlite3.connect(world.database)) as connection:
            connection.execute("CREATE TABLE booking (event TEXT NOT NULL)")
            connection.commit()
        sends(*names)(world)

    return setup


def _check_booked(world: World) -> None:
    check_messages(world)
    booked = Counter(world.bookings())
    wanted = Counter(identity for _, identity, name in facts_of(world, "sent") if name not in _PLACES)
    assert booked == wanted, f"booked {booked}, expected {wanted}"


# -- settled without a copy ----------------------------------------------------------------------------


def _check_discarded(world: World) -> None:
    """Nothing of a message is kept but its effects."""
    left = [path for paths in world.places().values() for path in paths if not path.startswith("out/")]
    assert not left, left
    sent = {identity: name for _, identity, name in facts_of(world, "sent")}
    out = _sent_to(world, "out/incoming/target")
    assert set(out) <= set(sent), out
    problems = check_calls(world, sent)
    problems += [f"{one}: {number} times" for one, number in out.items() if number != 1]
    called = {identity for _, process, identity, _ in facts_of(world, "call")}
    problems += [f"{one} is lost" for one in sent if one not in called or one not in out]
    problems += [f"left: {path}" for path in world.leftovers()]
    assert not problems, "\n".join(problems)


# -- duplicates ----------------------------------------------------------------------------------------


def _merge_early() -> None:
    """Makes the window merge three records, and not 200."""
    patch.object(duplicates, "_MAX_FILES", 2).start()


def _copies(world: World) -> None:
    """Two messages of one id each, as a sender that has repeated itself leaves them."""
    _merge_early()
    world.run()
    for number in range(3):
        _drop(world, f"1700000000000{number:03d}-t-{number}", "a")
        world.run()
    for number in range(2, 5):
        _drop(world, f"1700000000000{number:03d}-t-{number}", "again")


def _drop(world: World, identity: str, name: str) -> None:
    world.deployment.drop("in", world.message(name).body, f"4.{identity}.T")
    if name == "a" or not world.number("sent", f"ID:{identity}"):
        world.mark("sent", f"ID:{identity}", "a")


def _run_in_window(world: World) -> None:
    _merge_early()
    world.run()
    for number in range(3, 5):
        _drop(world, f"1700000000000{number:03d}-t-{number}", "again")
    world.run()


def _recover_window(world: World) -> None:
    _merge_early()
    world.run()


def _check_window(world: World) -> None:
    problems = []
    sent = {identity: name for _, identity, name in facts_of(world, "sent")}
    found = world.places()
    for identity in sent:
        strays = [path for path in found.get(identity, []) if not path.startswith("archive/incoming/target/")]
        if strays or not found.get(identity):
            problems.append(f"{identity} is in {found.get(identity)}")
    problems += check_calls(world, sent)
    problems += [f"left: {path}" for path in world.leftovers()]
    assert not problems, "\n".join(problems)


# -- lots ----------------------------------------------------------------------------------------------

_IN: Final = parse_destination("queue://in")


def _take_lots(world: World) -> None:
    """Takes lots of two until none is left. Each lot is told to the world before it is settled."""
    connection = world.provider.connect()
    try:
        while (lot := connection.lots.claim(_IN, "lake", 2)) is not None:
            ids = tuple(claim.message_id for claim in lot.claims)
            world.mark("lot", lot.sequence_id, lot.number, ids)
            lot.settle([Settlement(claim) for claim in lot.claims])
            world.mark("lot settled", lot.sequence_id, lot.number)
    finally:
        connection.close()


def _recover_lots(world: World) -> None:
    world.run()  # takes over from the dead client, and leaves the lots alone
    _take_lots(world)


def _filled(world: World) -> None:
    world.send("queue://in", "a", "b", "c", "d", "e")
    connection = world.provider.connect()
    connection.close()


def _check_lots(world: World) -> None:
    problems = []
    seen: dict[tuple[str, int], tuple[str, ...]] = {}
    over: set[tuple[str, int]] = set()
    for fact in world.facts:
        if fact[0] == "lot":
            key = fact[1], fact[2]
            if key in over:
                problems.append(f"the lot {key} was settled, and came again")
            if seen.setdefault(key, fact[3]) != fact[3]:
                problems.append(f"the lot {key} has changed from {seen[key]} to {fact[3]}")
        elif fact[0] == "lot settled":
            over.add(fact[1:])
    told = Counter(one for ids in seen.values() for one in ids)
    sent = [identity for _, identity, name in facts_of(world, "sent")]
    if told != Counter(sent):
        problems.append(f"in lots: {told}, sent: {sent}")
    found = world.places()
    strays = [path for paths in found.values() for path in paths if "/processed/" not in path]
    problems += [f"left: {path}" for path in [*strays, *world.leftovers()]]
    problems += [f"{one} is in {found.get(one)}" for one in sent if len(found.get(one, ())) != 1]
    assert not problems, "\n".join(problems)


# -- pruning -------------------------------------------------------------------------------------------


def _aged(world: World) -> None:
    """Three copies are old enough to be removed, and the next run looks for such copies."""
    with patch.object(settling, "timestamp", lambda: "2020-01-01T00:00:00.000Z"):
        sends("a", "b", note=LONG)(world)
        world.send("queue://in", "c")
        world.run()
    (world.directory / "data/dropboxmq/adapter/states/pruned").unlink()
    world.send("queue://in", "d", "e")


def _check_pruned(world: World) -> None:
    """Old copies may be gone, but not their names alone, and the young are there."""
    found = world.places()
    problems = []
    for _, identity, name in facts_of(world, "sent"):
        places = found.get(identity, [])
        least = name in "de"
        if not least <= len(places) <= 1 or not all(one.startswith("archive/") for one in places):
            problems.append(f"{identity} {name!r} is in {places}")
    problems += check_calls(world, {})
    problems += world.remains()
    assert not problems, "\n".join(problems)


# -- takeover ------------------------------------------------------------------------------------------


def _dead_client(world: World) -> None:
    """An adapter has died that had events done, begun, at work and untouched, and a commit under way."""
    sends("a", "b", "fail", "c", "d")(world)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        left = [3]

        def die(place: str) -> None:
            if place == "deliver":
                left[0] -= 1
                if not left[0]:
                    os.write(writing, pickle.dumps(world.facts))
                    os._exit(0)

        replace_functions(faults, point=die)
        world.run()
        os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as facts:
        world.facts = [*pickle.loads(facts.read()), ("crash", KILLED)]
    os.waitpid(pid, 0)


# -- control -------------------------------------------------------------------------------------------


def _pause(world: World) -> None:
    """An operator pauses three inputs, one after the other."""
    control = world.provider.state("states").control()
    for name in ("x", "y", "z"):
        with control.change() as value:
            value.paused.append(PauseNote("input", name, "somebody", 1.0))
        world.mark("paused", name)


def _check_control(world: World) -> None:
    paused = {one.what for one in world.provider.state("states").control().read().paused}
    told = {name for _, name in facts_of(world, "paused")}
    assert told <= paused <= {"x", "y", "z"}, f"paused: {paused}, told: {told}"


# -- all -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """A run.

    Args:
        name: of the scenario.
        setup: what is there before the record begins.
        check: raises AssertionError for whatever is lost, doubled or left.
        subscriptions, connector, provider: of ``adapter.yaml``.
        act: what is recorded.
        recover: what a fresh process does after the crash.
        has_database: whether there is a business database.
    """

    name: str
    setup: Act
    check: Act
    subscriptions: Sequence[Mapping[str, Any]] = (STORE,)
    connector: Mapping[str, Any] = field(default_factory=dict)
    provider: Mapping[str, Any] = field(default_factory=dict)
    act: Act = run
    recover: Act = run
    has_database: bool = False

    def make(self, directory: Path, durability: str) -> World:
        """Makes the deployment."""
        return World.make(
            directory,
            [dict(one) for one in self.subscriptions],
            dict(self.connector),
            {"durability": durability, **self.provider},
            has_database=self.has_database,
        )


_IN_PROGRESS: Final = {"InProgressDestination": "queue://in-progress"}
_LATER: Final = {"retry_later": {"attempts": 100, "first": "1ms", "most": "1ms"}}
_LINES: Final = {"DataHandlerMimeType": "application/jsonl"}
_WINDOW: Final = {"DuplicateEventElimination": True, "duplicate_window": 100}
_BESIDE: Final = {"InputDestination": "queue://none"}
_AND_OUT: Final = (STORE, OUT)
_AND_NEWS: Final = (STORE, {"object": "Customer", "name": "news", "destination": "topic://news"})

SCENARIOS: Final = (
    Scenario("archive", sends("a", "b", "c"), check_published),
    Scenario("error", sends("a", "fail", "unwanted", "fail"), check_published),
    Scenario("headers", sends("a", "fail", note=LONG), check_sent, _AND_OUT),
    Scenario("in-progress", sends("a", "b", "fail"), check_published, connector=_IN_PROGRESS),
    Scenario("in-progress headers", sends("a", "fail", note=LONG), check_published, connector=_IN_PROGRESS),
    Scenario("destination", sends("a", "b", "fail"), check_sent, _AND_OUT),
    Scenario(
        "discard",
        sends("a", "b", "c"),
        _check_discarded,
        _AND_OUT,
        {"ArchiveDestination": None},
        {"keep_processed": 0},
    ),
    Scenario("transaction", _with_shop("a", "b", "fail"), _check_booked, (BOOK,), has_database=True),
    Scenario("retry_later", sends("away", "b", "away"), check_sent, ({**STORE, **_LATER}, OUT)),
    Scenario("split", sends("a", "fail", records=3), check_published, connector=_LINES),
    Scenario("topic", _subscribed, _check_topic, _AND_NEWS),
    Scenario(
        "topic without links",
        _subscribed,
        _check_topic,
        _AND_NEWS,
        act=_without_links,
        recover=_without_links,
    ),
    Scenario("send", _ready, _check_publish, act=_publish),
    Scenario("once", _ready, _check_once, act=_send_once, recover=_recover_once),
    Scenario("distribute", _dropped, _check_distributed, act=_distribute, recover=_recover_distribution),
    Scenario("new root", nothing, check_messages, act=_begin),
    Scenario("lots", _filled, _check_lots, connector=_BESIDE, act=_take_lots, recover=_recover_lots),
    Scenario(
        "window", _copies, _check_window, connector=_WINDOW, act=_run_in_window, recover=_recover_window
    ),
    Scenario("pruning", _aged, _check_pruned, connector={"keep_archive": "1d"}),
    Scenario("takeover", _dead_client, check_sent, _AND_OUT),
    Scenario("control", run, _check_control, act=_pause, recover=nothing),
)
