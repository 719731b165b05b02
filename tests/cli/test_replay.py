"""``connector replay``, ``move`` and ``discard``, with the adapter that fails events and gets them again."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pytest
import yaml

from connector.messaging.destination import parse_destination
from connector.messaging.message import Message, PropertyValue
from connector.messaging.provider import Connection
from connector.operate.errors import group_of
from connector.operate.replay import MessageChoice, Move, Movement, Mover, Replay
from connector.user import operator_name
from tests.cli.in_process import Commands
from tests.events.conftest import Bench, bench
from tests.tables import Table
from tests.waiting import now_ms, until_past

__all__ = ["bench"]

ERROR = parse_destination("queue://error")
PROCESSES = """\
import pathlib

HERE = pathlib.Path(__file__).parent


def _write(name, order, event):
    with open(HERE / name, "a") as file:
        file.write(f"{order['Id']} {event.delivery_count}\\n")


def note(order, event):
    _write("noted", order, event)


def store(order, event):
    if (HERE / "broken").exists():
        raise ValueError(f"no account for {order['Id']}")
    _write("stored", order, event)
"""


class World:
    """A deployment whose second subscription fails while the file ``broken`` is there."""

    def __init__(self, bench: Bench, provider: Mapping[str, str]) -> None:
        names = ("note", "store")
        news = ({"destination": "topic://news", "subscription": one} for one in ("first", "second"))
        self.deployment = bench.deploy(
            provider=provider,
            subscriptions=[{"object": "Order", "name": one, "process": f"processes:{one}"} for one in names],
            processes=PROCESSES,
            InputDestination=["queue://orders", *news],
            DuplicateEventElimination=True,
            order="none",
        )
        self.directory = self.deployment.directory
        self.document: dict[str, Any] = yaml.safe_load((self.directory / "adapter.yaml").read_text())
        self.broken = self.directory / "broken"
        self.run = Commands(self.directory)

    def do(self, *arguments: str) -> Any:
        """Runs a command with ``--json`` that goes well, and returns its document."""
        (document,) = self.run(*arguments, "--json").documents
        return document

    def configure(self) -> None:
        self.deployment.write("adapter.yaml", yaml.safe_dump(self.document))

    def send(self, *numbers: str, queue: str = "queue://orders", **headers: Any) -> list[str]:
        bodies = [json.dumps({"BusinessObject": "Order", "Verb": "Create", "Id": one}) for one in numbers]
        return [self.deployment.send(queue, body, **headers) for body in bodies]

    def drain(self, *, broken: bool = False) -> None:
        """Runs the adapter until nothing waits."""
        if broken:
            self.broken.touch()
        self.deployment.drain()
        self.broken.unlink(missing_ok=True)

    def messages(self, queue: str) -> list[Message]:
        return self.deployment.messages(queue)

    def ids(self, queue: str) -> list[str]:
        return self.deployment.ids(queue)

    def lines(self, name: str) -> list[str]:
        path = self.directory / name
        return sorted(path.read_text().splitlines()) if path.exists() else []

    def put_into_error(self, *messages: Message) -> list[str]:
        """Sends copies as an adapter makes them."""
        with closing(self.deployment.provider.connect()) as connection:
            return connection.send(ERROR, messages)

    def refuses(self, *lines: str) -> None:
        """Commands are wrong calls."""
        for line in lines:
            self.run(*shlex.split(line)).refusal()


def copy(**properties: PropertyValue) -> Message:
    message = Message(b'{"BusinessObject": "Order", "Verb": "Create", "Id": "1"}')
    origin: dict[str, PropertyValue] = {"origin_destination": "queue://orders", "outcome": "failed"}
    for name, value in {**origin, **properties}.items():
        message.set_property(f"connector_{name}", value)
    return message


@pytest.fixture
def world(bench: Bench) -> World:
    return World(bench, {})


@pytest.fixture(params=["dropbox", "sqlite"])
def each_world(bench: Bench, request: pytest.FixtureRequest) -> World:
    """A world on each store, for what the stores have to do with it."""
    sqlite = {"type": "sql", "url": f"sqlite:///{bench.root}.db"}
    return World(bench, sqlite if request.param == "sqlite" else {})


def test_a_replayed_event_goes_to_those_who_had_not_confirmed_and_counts_from_zero(each_world: World) -> None:
    ids = each_world.send("1", "2")
    each_world.drain(broken=True)
    expected = {"matched": 2, "moved": 0, "to": {"queue://orders": 2}}
    assert each_world.do("replay") == expected
    assert sorted(each_world.ids("error")) == sorted(ids)
    assert each_world.do("replay", "--yes", "--expect", "2") == {**expected, "moved": 2}
    assert each_world.ids("error") == []
    (first, _) = each_world.messages("orders")
    kept = {"connector_delivered": "note", "connector_application": "test"}
    assert (first.delivery_count, first.properties) == (1, kept)
    each_world.drain()
    assert each_world.lines("noted") == ["1 1", "2 1"]
    assert each_world.lines("stored") == ["1 1", "2 1"]
    archived = each_world.messages("archive")
    assert [one.properties["connector_attempts"] for one in archived] == [1, 1]


def test_an_event_of_a_topic_goes_back_to_the_one_subscription_that_it_came_from(each_world: World) -> None:
    each_world.drain()  # makes the subscriptions
    each_world.send("1", queue="topic://news")
    each_world.drain(broken=True)
    assert len(each_world.messages("error")) == 2
    by_name = {str(m.properties["connector_origin_subscription"]): m for m in each_world.messages("error")}
    (first,) = (name for name in by_name if "first" in name)
    selector = f"connector_origin_subscription = '{first}'"
    done = each_world.do("replay", "--selector", selector, "--yes")
    assert done == {"matched": 1, "moved": 1, "to": {f"topic://news {first}": 1}}
    with closing(each_world.deployment.provider.existing()) as connection:
        waiting = {info.subscription.name: info.waiting for info in connection.subscriptions()}
    assert waiting == {"first": 1, "second": 0}
    each_world.drain(broken=True)  # it fails again, and its copy can be replayed once more
    assert each_world.do("replay", "--yes")["moved"] == 2
    each_world.drain()
    assert each_world.messages("error") == []
    assert each_world.lines("noted") == ["1 1", "1 1"], "once for each subscription of the topic"
    assert each_world.lines("stored") == ["1 1", "1 1"]


def test_a_replay_of_a_published_message_says_that_it_becomes_a_duplicate(each_world: World) -> None:
    each_world.send("1", "2")
    each_world.drain()
    expected = {"matched": 2, "moved": 0, "to": {"queue://orders": 2}, "duplicates": 2}
    assert each_world.do("replay", "queue://archive") == expected
    assert "  2 would become duplicates, as published" in each_world.run("replay", "archive").stdout
    done = each_world.run("replay", "archive", "--limit", "1", "--yes")
    assert "  1 becomes a duplicate, as published before: see --again\n" in done.stdout
    each_world.drain()
    assert each_world.lines("stored") == ["1 1", "2 1"]
    outcomes = sorted(str(one.properties["connector_outcome"]) for one in each_world.messages("archive"))
    assert outcomes == ["duplicate", "published"]


def test_published_messages_are_processed_once_more_on_purpose(each_world: World) -> None:
    ids = each_world.send("1", "2")
    each_world.drain()
    for times in (2, 3):
        done = each_world.do("replay", "archive", "--again", "--yes")
        assert done == {"matched": 2, "moved": 2, "to": {"queue://orders": 2}}
        each_world.drain()
        assert each_world.lines("stored") == each_world.lines("noted") == sorted(["1 1", "2 1"] * times)
    assert sorted(each_world.ids("archive")) == sorted(ids)
    assert each_world.do("replay", "archive")["duplicates"] == 2, "it was published again"
    events = each_world.do("history", ids[0])["events"]
    assert [event["what"] for event in events] == ["published", "replayed again"] * 2 + ["published"]


def test_a_message_that_fails_when_it_is_processed_again_is_repaired_as_any_other(world: World) -> None:
    world.send("1")
    world.drain()
    world.do("replay", "archive", "--again", "--yes")
    world.drain(broken=True)
    assert "duplicates" not in world.do("replay")
    world.do("replay", "--yes")
    world.drain()
    assert world.lines("stored") == ["1 1", "1 1"]
    assert [one.properties["connector_outcome"] for one in world.messages("archive")] == ["published"]


def test_nothing_becomes_a_duplicate_where_none_are_eliminated(world: World) -> None:
    world.document["connector"]["DuplicateEventElimination"] = False
    world.configure()
    world.send("1")
    world.drain()
    assert world.do("replay", "archive", "--yes") == {"matched": 1, "moved": 1, "to": {"queue://orders": 1}}
    world.drain()
    assert world.lines("stored") == ["1 1", "1 1"]


def test_files_known_by_their_names_are_processed_again(world: World) -> None:
    world.document["connector"] |= {"DuplicateEventElimination": False, "duplicate_key": "name"}
    world.configure()
    for name in ("orders.json", "other.json"):
        world.deployment.drop("orders", '{"BusinessObject": "Order", "Verb": "Create", "Id": "1"}', name)
    world.drain()
    assert world.do("replay", "archive", "--id", "orders.json")["duplicates"] == 1
    world.do("replay", "archive", "--id", "orders.json", "--again", "--yes")
    world.drain()
    assert world.lines("stored") == ["1 1"] * 3


def test_choices_say_which_messages_are_meant(world: World) -> None:
    ids = world.put_into_error(
        copy(kind="refused", reason="no account for 1"),
        copy(kind="refused", reason="no account for 2"),
        copy(kind="malformed", reason="Amount: wrong"),
    )

    def count(*choices: str) -> int:
        return int(world.do("replay", *choices)["matched"])

    for choices, number in (
        ((), 3),
        (("--id", ids[0], "--id", ids[2].removeprefix("ID:")), 2),
        (("--kind", "refused"), 2),
        (("--kind", "refused", "--id", ids[2]), 0),
        (("--reason", "ACCOUNT"), 2),
        (("--selector", "connector_reason LIKE '%wrong'"), 1),
        (("--limit", "2"), 2),
    ):
        assert count(*choices) == number, choices
    groups = {group_of(message) for message in world.messages("error")}
    by_number = {count("--group", group): group for group in groups}
    assert sorted(by_number) == [1, 2]
    world.refuses("replay --kind refuse", "replay --selector '1 ='")
    for verb in ("replay", "discard queue://error", "move queue://error queue://aside"):
        for more in ("", " --yes"):
            refused = world.run(*shlex.split(f"{verb} --group nope{more}"))
            assert (refused.returncode, "--group nope: there is no such group" in refused.stderr) == (2, True)
    one = by_number[1]
    assert count("--group", one, "--reason", "nothing has this text") == 0, "the group is there"
    assert world.do("replay", "--group", by_number[2], "--limit", "1", "--yes")["moved"] == 1
    assert sorted(world.ids("error")) == sorted(ids[1:])


def test_one_message_goes_back_with_another_body(each_world: World) -> None:
    bad, other = each_world.send("1", "2")
    each_world.drain(broken=True)
    body = '{"BusinessObject": "Order", "Verb": "Create", "Id": "3"}'
    each_world.run.write("body", body)
    given = ("replay", "--id", bad.removeprefix("ID:"), "--body")
    expected = {"matched": 1, "moved": 0, "to": {"queue://orders": 1}}
    assert each_world.do(*given, "body") == expected
    assert sorted(each_world.ids("error")) == sorted([bad, other])
    (done,) = each_world.run(*given, "-", "--yes", "--json", data=body).documents
    assert done == {**expected, "moved": 1}
    assert each_world.ids("error") == [other]
    (new,) = each_world.messages("orders")
    assert (new.body.decode(), new.properties["connector_event_id"]) == (body, bad)
    (old,) = each_world.messages("archive")
    assert (old.message_id, old.properties["connector_outcome"]) == (bad, "discarded")
    each_world.drain()
    assert each_world.lines("noted") == ["1 1", "2 1"], "who has confirmed is not called again"
    assert each_world.lines("stored") == ["3 1"]
    assert "is not in queue://error any more" in each_world.run(*given, "body", "--yes").failure()


def test_what_cannot_be_corrected_stays(world: World) -> None:
    map_message, empty = copy(), copy()
    map_message.message_class, empty.message_class = "P", "M"
    topic = copy(origin_destination="topic://news", origin_subscription="first")
    stays = [
        (topic, "other subscriptions of the topic topic://news"),
        (copy(origin_destination=""), "do not name where they came from"),
        (map_message, "the map message is not valid JSON"),
        (empty, "has no body"),
    ]
    ids = world.put_into_error(*(message for message, _ in stays))
    with Table() as table:
        for identity, (_, word) in zip(ids, stays, strict=True):
            with table.row(word):
                failure = world.run("replay", "--id", identity, "--body", "-", "--yes", data="x").failure()
                assert word in failure
    for identity in ids[:2]:
        preview = world.do("replay", "--id", identity, "--body", "adapter.yaml")
        assert (preview["matched"], len(preview["left"])) == (0, 1)
    world.refuses(
        "replay --body adapter.yaml",
        "replay --id '' --body adapter.yaml",
        "replay --id 1 --id 2 --body adapter.yaml",
        "replay --id 1 --body nowhere",
        *(
            f"replay --id 1 --body adapter.yaml {one}"
            for one in ("--kind refused", "--to orders", "--limit 1")
        ),
        "replay --id 1 --body adapter.yaml --expect 2 --yes",
    )
    del world.document["connector"]["ArchiveDestination"]
    world.configure()
    (fine,) = world.put_into_error(copy())
    for more in ((), ("--yes",)):
        answer = world.run("replay", "--id", fine, "--body", "adapter.yaml", *more)
        assert "there is no ArchiveDestination" in answer.stdout + answer.stderr
    assert sorted(world.ids("error")) == sorted([*ids, fine])


def test_another_number_than_expected_moves_nothing(world: World) -> None:
    world.put_into_error(copy(), copy())
    for more in (["--yes"], []):
        failure = world.run("replay", "--expect", "3", *more).failure()
        assert failure == "connector: expected 3, found 2: nothing was done\n"
    assert len(world.ids("error")) == 2


def test_what_cannot_go_back_stays_and_the_answer_says_why(each_world: World) -> None:
    soon = now_ms() + 100
    expired = copy()
    expired.expiration = soon
    each_world.put_into_error(
        expired,
        copy(origin_destination="topic://news"),
        copy(origin_destination="queue://error"),
        copy(origin_destination="no:name"),
        copy(origin_destination=7),
        copy(),
    )
    until_past(soon)
    found = each_world.do("replay")
    assert (found["matched"], found["to"]) == (1, {"queue://orders": 1})
    assert sorted(found["left"].values()) == [1, 1, 1, 2]
    assert each_world.do("replay", "--limit", "1", "--yes")["moved"] == 1
    assert len(each_world.ids("error")) == 5, "an expired message was not put aside"
    left = {"they have expired, and would expire again": 1}
    done = each_world.do("replay", "--to", "queue://repair", "--yes")
    assert done == {"matched": 4, "moved": 4, "to": {"queue://repair": 4}, "left": left}
    assert len(each_world.ids("repair")) == 4


def test_a_destination_that_takes_nothing_does_not_stop_the_others(each_world: World) -> None:
    gone = copy(origin_destination="topic://news", origin_subscription="gone")
    ids = each_world.put_into_error(gone, copy(), copy())
    answer = each_world.run("replay", "--yes", "--json")
    assert answer.returncode == 1
    done = answer.document
    assert (done["matched"], done["moved"], done["to"]) == (3, 2, {"queue://orders": 2})
    (reason,) = done["left"]
    assert "gone" in reason
    assert each_world.ids("error") == ids[:1]
    (left,) = each_world.messages("error")
    assert left.delivery_count == 1
    assert left.properties["connector_origin_subscription"] == "gone"


def test_nothing_is_replayed_to_a_topic(world: World) -> None:
    world.put_into_error(copy())
    world.refuses("replay --to topic://news", "replay topic://news", "replay --to orders~EXPIRED")
    world.refuses("replay --to error", "move error error", "move error", "discard archive")
    world.run("replay", "no-such-queue").failure()


def test_without_an_error_in_sight_there_is_nothing_to_replay(world: World) -> None:
    world.send("1")
    assert world.do("replay", "--yes") == {"matched": 0, "moved": 0, "to": {}}
    del world.document["connector"]["ErrorDestination"]
    world.configure()
    world.run("replay").refusal()


def test_an_unsubscribed_event_starts_anew_for_all(world: World) -> None:
    world.send("1")
    store = {"object": "Order", "name": "store", "process": "processes:store"}
    world.document["subscriptions"] = [{**store, "verbs": ["Cancel"]}]
    world.configure()
    world.drain()
    assert len(world.ids("unsubscribed")) == 1
    world.document["subscriptions"] = [store]
    world.configure()
    assert world.do("replay", "unsubscribed", "--yes")["moved"] == 1
    world.drain()
    assert world.lines("stored") == ["1 1"]


def test_messages_are_moved_as_they_are(each_world: World) -> None:
    ids = each_world.put_into_error(copy(reason="r", attempts=3, kind="refused", delivered="note"))
    before = each_world.messages("error")[0].properties
    done = each_world.do("move", "error", "later", "--yes")
    assert done == {"matched": 1, "moved": 1, "to": {"queue://later": 1}}
    (moved,) = each_world.messages("later")
    assert (moved.message_id, moved.properties, moved.delivery_count) == (ids[0], before, 1)


def test_discarded_messages_are_in_the_archive_with_who_and_why(world: World) -> None:
    ids = world.put_into_error(copy(reason="r", attempts=3, kind="refused", time="2026-01-01T00:00:00Z"))
    assert world.do("discard", "error")["moved"] == 0
    done = world.do("discard", "error", "--why", "a test order", "--yes")
    assert done == {"matched": 1, "moved": 1, "to": {"queue://archive": 1}}
    (archived,) = world.messages("archive")
    properties = archived.properties
    assert archived.message_id == ids[0]
    told = [properties[f"connector_{name}"] for name in ("outcome", "discarded_reason", "reason")]
    assert told == ["discarded", "a test order", "r"]
    assert os.uname().nodename in str(properties["connector_discarded_by"])
    assert str(properties["connector_time"]) > "2026-01-02"
    assert world.do("replay", "archive", "--yes")["moved"] == 1
    world.drain()
    (archived,) = world.messages("archive")
    assert archived.properties["connector_outcome"] == "published"
    assert "connector_discarded_by" not in archived.properties
    del world.document["connector"]["ArchiveDestination"]
    world.configure()
    world.put_into_error(copy())
    assert world.do("discard", "error", "--yes")["to"] == {"no copy": 1}
    assert world.ids("error") == []


def test_the_history_tells_what_was_done_by_whom(world: World) -> None:
    (identity,) = world.send("1")
    world.drain(broken=True)
    assert world.do("replay", "--yes")["moved"] == 1
    assert world.do("move", "orders", "error", "--yes")["moved"] == 1
    assert world.do("discard", "error", "--why", "a test", "--yes")["moved"] == 1
    events = world.do("history", identity)["events"]
    found = [(one["what"], one["destination"], one["to"], one.get("reason")) for one in events[1:]]
    assert found == [
        ("replayed", "queue://error", "queue://orders", None),
        ("moved", "queue://orders", "queue://error", None),
        ("discarded", "queue://error", "queue://archive", "a test"),
    ]
    assert {one["by"] for one in events[1:]} == {operator_name()}
    world.document["history"] = {"keep": "0"}
    world.configure()
    assert world.do("replay", "archive", "--to", "orders", "--yes")["moved"] == 1
    assert len(world.do("history", identity)["events"]) == 4


def test_people_read_what_would_happen(world: World) -> None:
    world.put_into_error(copy(), copy(origin_destination=1))
    done = world.run("replay")
    assert done.stdout.splitlines() == [
        "1 message of queue://error would be replayed:",
        "  1 to queue://orders",
        "  1 not: their properties do not name where they came from",
    ]
    assert done.stderr == "nothing was done: --yes does it, and --yes --expect 1 only for as many\n"
    done = world.run("move", "error", "later", "--yes")
    assert done.stdout.splitlines() == ["2 messages of queue://error moved:", "  2 to queue://later"]
    assert done.stderr == "connector: queue://later is new, and the configuration does not name it\n"


# --- what others do meanwhile ---------------------------------------------------------------------


@contextmanager
def moving(world: World, number: int, action: Replay | Move) -> Iterator[tuple[Connection, Mover]]:
    """A client that has looked at messages in error, and is about to move them."""
    world.put_into_error(*[copy(time="2026-01-01T00:00:00Z") for _ in range(number)])
    with closing(world.deployment.provider.connect()) as connection:
        mover = Mover(ERROR, MessageChoice(), action)
        assert mover.preview(connection.browse(ERROR)).matched == number
        yield connection, mover


def test_what_fails_again_meanwhile_is_not_replayed_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While an adapter runs, a replayed event may be in error again before the run ends."""
    moved: list[Movement] = []

    def fail_again(movement: Movement) -> None:
        """The adapter fails what was replayed so far, at a later time, and others fail, too."""
        moved.append(movement)
        world.put_into_error(copy(time="2026-01-01T00:00:01Z"))
        for message in world.messages("orders"):
            again = message.copy(message.body)
            again.set_property("connector_time", "2026-01-01T00:00:01Z")
            world.put_into_error(again)

    monkeypatch.setattr("connector.operate.replay.TRANSACTION", 1)
    with moving(world, 3, Replay(ERROR)) as (connection, mover):
        result = mover.run(connection, together=False, note=fail_again)
    assert (result.moved, result.left) == (3, {})
    assert len({one.ids[0] for one in moved}) == 3
    found = [(one.what, str(one.source), one.to) for one in moved]
    assert found == [("replayed", "queue://error", "queue://orders")] * 3


def test_messages_that_another_client_takes_meanwhile_are_not_moved(each_world: World) -> None:
    with (
        moving(each_world, 2, Move(parse_destination("queue://later"))) as (connection, mover),
        closing(each_world.deployment.provider.connect()) as other,
    ):
        assert len(other.poller(ERROR).claim(1, range(1))) == 1
        result = mover.run(connection, together=False, note=lambda _: None)
        assert (result.matched, result.moved, result.left.total()) == (2, 1, 1)


def test_a_note_that_fails_leaves_the_messages_as_they_were(each_world: World) -> None:
    def refuse(movement: Movement) -> None:
        raise OSError("the disk is full")

    with moving(each_world, 2, Replay(ERROR)) as (connection, mover):
        with pytest.raises(OSError, match="full"):
            mover.run(connection, together=False, note=refuse)
        assert mover.result.moved == 0
        assert [one.delivery_count for one in each_world.messages("error")] == [1, 1]
        assert len(connection.poller(ERROR).claim(9, range(5))) == 2
