"""A timer sends each due time once, over all instances, restarts and crashes."""

from __future__ import annotations

import datetime
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from connector import faults
from connector.config.loading import Configuration, load
from connector.core.once_sender import OnceSender
from connector.cron import Cron
from connector.errors import ConfigurationError, ProviderError, UnknownDestination
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.history import HistoryRow
from connector.messaging.message import Message
from connector.messaging.once import SentOnce
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.state_store import Control
from connector.service import timer_times
from connector.service.assembly import make_provider
from connector.service.timer_messages import make_timers
from connector.service.timer_notes import timer_rows
from connector.service.timer_times import DueTimes
from connector.service.timers import Timers
from connector.text.iso_time import iso_time
from tests.tables import Table, rows

VIENNA = ZoneInfo("Europe/Vienna")
NOON = 1_780_000_000_000 // 3_600_000 * 3_600_000
"""A full hour, in milliseconds since 1970."""
MINUTE = 60_000
OBJECTS = """\
business_object: Job
verbs: {Create: , Run: }
attributes:
  Kind: {type: String, key: true, required: true}
  Number: Integer
---
static_metaobject: MO
rules:
  Job_Run: {DataHandlerMimeType: text/xml, OutputFormat: JOB, Priority: 7, OutputDestination: queue://other}
"""


class FakeClock:
    """A clock that somebody moves."""

    def __init__(self) -> None:
        self.now, self.seconds = NOON + 1_000, 0.0

    def monotonic(self) -> float:
        return self.seconds

    def local(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.now / 1000, datetime.UTC)

    def go_on(self, seconds: float) -> None:
        self.now, self.seconds = self.now + round(seconds * 1000), self.seconds + seconds


class FailingSender(OnceSender):
    """A sender whose provider may be away."""

    failure: Exception | None = None
    asked: int = 0

    def send(self, *arguments: Any, **options: Any) -> SentOnce:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return super().send(*arguments, **options)


class World:
    """A deployment with timers, and its instances."""

    def __init__(self, directory: Path, provider: str) -> None:
        self.directory = directory
        self.section = provider
        self.clock = FakeClock()
        self.history: list[HistoryRow] = []
        self.senders: list[FailingSender] = []
        (directory / "objects.yaml").write_text(OBJECTS)
        self._provider: AdapterProvider | None = None

    def configure(self, *timers: str, plug_ins: str = "") -> Configuration:
        listed = "".join(f"  - {{{one}}}\n" for one in timers)
        (self.directory / "adapter.yaml").write_text(
            f"provider: {self.section}\n"
            "connector: {ApplicationName: shop, ConfigurationMetaObject: MO}\n"
            "metaobjects: objects.yaml\n"
            + (f"datahandlers: {plug_ins}\n" if plug_ins else "")
            + (f"timers:\n{listed}" if listed else "")
        )
        return load(self.directory / "adapter.yaml", in_process=True, thorough=True)

    def provider(self, configuration: Configuration) -> AdapterProvider:
        if "memory" not in self.section:
            return make_provider(configuration)
        self._provider = self._provider or make_provider(configuration)  # is only in this process
        return self._provider

    def instance(self, *timers: str, plug_ins: str = "") -> Timers:
        """Returns an instance that has just started."""
        configuration = self.configure(*timers, plug_ins=plug_ins)
        provider = self.provider(configuration)
        sender = FailingSender(provider, "shop")
        self.senders.append(sender)
        record = provider.state("shop").control()
        found = Timers(sender, record, self.clock, self.history.append)
        found.take(make_timers(configuration, provider))
        return found

    def record(self) -> Control:
        """Returns what all instances know."""
        configuration = load(self.directory / "adapter.yaml", in_process=True)
        return self.provider(configuration).state("shop").control().read()

    def messages(self, queue: str = "jobs") -> list[Message]:
        """Returns what was sent, in the order of the due times."""
        configuration = load(self.directory / "adapter.yaml", in_process=True)
        connection = self.provider(configuration).connect()
        try:
            found = list(connection.browse(parse_destination(f"queue://{queue}")))
        except UnknownDestination:  # nothing was sent so far
            found = []
        finally:
            connection.close()
        return sorted(found, key=lambda one: int(str(one.properties["connector_timer_due"])))

    def dues(self, queue: str = "jobs") -> list[int]:
        """Returns the minutes after :data:`NOON` of what was sent."""
        return [minutes(one) for one in self.messages(queue)]

    def close(self) -> None:
        for sender in self.senders:
            sender.close()


def minutes(message: Message) -> int:
    return (int(str(message.properties["connector_timer_due"])) - NOON) // MINUTE


MEMORY = "{type: memory}"
DROPBOX = "{type: dropbox, root: ./data, create: true}"
SQLITE = '{type: sql, url: "sqlite:///./messages.db"}'
EACH = "name: each, every: 1m, to: queue://jobs, body: go"


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Makes worlds that are independent of each other."""
    made: list[World] = []

    def make(provider: str = MEMORY) -> World:
        directory = tmp_path / str(len(made))
        directory.mkdir()
        made.append(World(directory, provider))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def world(worlds: Callable[..., World]) -> World:
    return worlds()


def run(timers: Timers, world: World, seconds: int, step: int = 10) -> None:
    """Lets time pass for an instance that looks now and then."""
    for _ in range(0, seconds, step):
        world.clock.go_on(step)
        timers.look()


def test_a_timer_sends_its_body_at_each_due_time(world: World) -> None:
    timers = world.instance("name: each, every: 1m, to: queue://jobs, body: go, mime_type: text/plain")
    timers.look()
    assert world.dues() == []
    run(timers, world, 180)
    first, *_ = world.messages()
    assert world.dues() == [1, 2, 3]
    assert (first.body, first.message_class) == (b"go", "T")
    due = NOON + MINUTE
    assert first.properties | {} == {
        "connector_timer": "each",
        "connector_timer_due": due,
        "connector_key": f"timer/each/{due}",
        "connector_content_type": "text/plain",
    }
    assert first.property_types["connector_timer_due"] == "long"


def test_an_object_is_written_as_its_rule_says(world: World) -> None:
    timers = world.instance(
        "name: nightly, every: 1m, to: queue://jobs, object: Job, verb: Run, data: {Kind: 0710, Number: 7}"
    )
    timers.look()
    run(timers, world, 60)
    (message,) = world.messages()
    assert b"<Kind>0710</Kind><Number>7</Number>" in message.body
    assert (message.type, message.priority) == ("JOB", 7)
    (row,) = world.history
    assert (row.what, row.ids, row.object, row.verb, row.by, row.destination) == (
        "sent",
        [message.message_id],
        "Job",
        "Run",
        "timer nightly",
        "queue://jobs",
    )


def section_of(kind: str, request: pytest.FixtureRequest) -> str:
    """Returns the section of a provider that several processes can use."""
    if kind == "postgresql":
        return f'{{type: sql, url: "{request.getfixturevalue("database")}"}}'
    return {"dropbox": DROPBOX, "sqlite": SQLITE}[kind]


@pytest.mark.parametrize("kind", ["dropbox", "sqlite", "postgresql"])
def test_instances_that_look_at_the_same_moment_share_each_due_time(
    worlds: Callable[..., World], kind: str, request: pytest.FixtureRequest
) -> None:
    world = worlds(section_of(kind, request))
    instances = [world.instance(EACH) for _ in range(3)]
    with ThreadPoolExecutor(len(instances)) as threads:
        for _ in range(5):
            for ended in [threads.submit(one.look) for one in instances]:
                ended.result()
            world.clock.go_on(60)
    assert world.dues() == [1, 2, 3, 4]
    assert len(world.history) == 4


@pytest.mark.parametrize("kind", ["dropbox", "sqlite", "postgresql"])
def test_after_a_kill_each_due_time_has_one_message(
    worlds: Callable[..., World], kind: str, request: pytest.FixtureRequest
) -> None:
    with Table() as table:
        for place in ("timer.due", "timer.sent", "timer.noted"):
            with table.row(place):
                world = worlds(section_of(kind, request))
                assert end_of(lambda: _work(world, place)) == signal.SIGKILL  # noqa: B023
                world.clock.go_on(119)  # just after the second due time, at which the process was killed
                again = world.instance(f"name: {place}, every: 1m, to: {place}, body: go")
                again.look()
                assert world.dues(place) == [1, 2]
                run(again, world, 60)
                assert world.dues(place) == [1, 2, 3]


def _work(world: World, place: str) -> None:
    """Runs an instance that is killed at its second due time."""
    faults.point = faults._Faults(f"{place}:2=kill")
    timers = world.instance(f"name: {place}, every: 1m, to: {place}, body: go")
    timers.look()
    run(timers, world, 180)


def end_of(work: Callable[[], None]) -> int:
    """Lets a process of its own do the work. Returns the signal that has killed it, or 0."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(1)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


@rows(
    "misfire, sent",
    [("once", [1, 6, 7]), ("all", [1, 2, 3, 4, 5, 6, 7]), ("none", [1, 7])],
)
def test_misfire_decides_about_the_times_while_no_instance_ran(
    worlds: Callable[..., World], caplog: pytest.LogCaptureFixture, misfire: str, sent: list[int]
) -> None:
    caplog.clear()
    world = worlds()
    timer = f"{EACH}, misfire: {misfire}"
    first = world.instance(timer)
    first.look()
    run(first, world, 60)
    world.clock.go_on(300)
    again = world.instance(timer)
    again.look()
    again.look()
    run(again, world, 60)
    assert world.dues() == sent
    said = [one for one in caplog.messages if one == "missed times of a timer have no message"]
    assert len(said) == (misfire != "all")


def test_nothing_is_missed_before_the_first_start(world: World) -> None:
    timers = world.instance(
        f"{EACH}, misfire: all", "name: late, cron: '* * * * *', misfire: all, to: q, body: x"
    )
    world.clock.go_on(300)  # nobody has looked so far
    timers.look()
    assert world.dues() == []
    run(timers, world, 60)
    assert (len(world.dues()), len(world.messages("q"))) == (1, 1)


def test_a_start_before_the_first_due_time_counts(world: World) -> None:
    world.instance(EACH).look()
    world.clock.go_on(90)
    world.instance(EACH).look()
    assert world.dues() == [1]


def test_all_has_a_limit_and_says_what_is_left_out(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timer_times, "MOST", 20)
    timer = "name: each, every: 1s, to: queue://jobs, body: go, misfire: all"
    world.instance(timer).look()
    world.clock.go_on(270)
    world.instance(timer).look()
    messages = world.messages()
    assert len(messages) == 20
    (said,) = [one for one in caplog.records if one.message == "missed times of a timer have no message"]
    first = NOON + 2_000
    assert said.first == iso_time(first / 1000)  # type: ignore[attr-defined]
    assert said.last == iso_time(first / 1000 + 249)  # type: ignore[attr-defined]
    assert messages[0].properties["connector_timer_due"] == first + 250_000


def test_other_times_begin_anew_and_another_body_does_not(world: World) -> None:
    world.instance(EACH).look()
    world.clock.go_on(300)
    world.instance("name: each, every: 2m, to: queue://jobs, body: go").look()
    assert world.dues() == []
    world.clock.go_on(300)
    world.instance("name: each, every: 2m, to: queue://jobs, body: new").look()
    assert [(minutes(one), one.body) for one in world.messages()] == [(10, b"new")]


def test_a_timer_that_was_taken_out_begins_anew(world: World) -> None:
    other = "name: other, every: 1m, to: queue://q, body: go"
    world.instance(EACH, other).look()
    world.clock.go_on(60)
    world.instance(other).look()
    world.clock.go_on(300)
    world.instance(EACH, other).look()
    assert world.dues() == []


def test_a_provider_that_is_away_loses_no_due_time(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "connector.timers")
    timers = world.instance(f"{EACH}, misfire: none")
    timers.look()
    world.senders[0].failure = ProviderError("the disk is full")
    run(timers, world, 200)
    assert (world.dues(), world.senders[0].asked) == ([], 9)
    (row,) = timer_rows(
        world.configure(f"{EACH}, misfire: none").timers, world.record().timers, world.clock.now / 1000
    )
    assert row["last_error"] == "the disk is full"
    assert row["next_due"] == (NOON + MINUTE) / 1000
    world.senders[0].failure = None
    run(timers, world, 40)
    assert world.dues() == [1, 2, 3, 4]
    (said,) = [one for one in caplog.records if one.levelname == "WARNING"]
    assert said.reason == "the disk is full"  # type: ignore[attr-defined]
    assert caplog.messages.count("a timer works again") == 1
    assert world.record().timers["each"].error == ""


def test_a_timer_that_fails_does_not_hold_another(world: World) -> None:
    timers = world.instance(EACH, "name: other, every: 1m, to: queue://others, body: go")
    timers.look()
    send = world.senders[0].send

    def send_to_others(to: Destination, *given: Any, **options: Any) -> SentOnce:
        if to.name != "others":
            raise ZeroDivisionError
        return send(to, *given, **options)

    world.senders[0].send = send_to_others  # type: ignore[method-assign]
    run(timers, world, 120)
    assert (world.dues(), world.dues("others")) == ([], [1, 2])


def test_a_clock_that_goes_back_sends_nothing_twice(world: World, caplog: pytest.LogCaptureFixture) -> None:
    timers = world.instance(EACH)
    timers.look()
    run(timers, world, 180)
    world.clock.now -= 180_000
    run(timers, world, 120)
    again = world.instance(f"{EACH}, misfire: all")
    run(again, world, 60)
    assert world.dues() == [1, 2, 3]
    run(again, world, 60)
    assert world.dues() == [1, 2, 3, 4]


@rows("misfire, sent", [("once", [1, 31]), ("none", [1]), ("all", list(range(1, 32)))])
def test_times_during_the_sleep_of_the_machine_are_missed(
    worlds: Callable[..., World], misfire: str, sent: list[int]
) -> None:
    world = worlds()
    timers = world.instance(f"{EACH}, misfire: {misfire}")
    timers.look()
    run(timers, world, 60)
    world.clock.now += 30 * MINUTE
    timers.look()
    assert world.dues() == sent


def test_a_reload_takes_changed_timers(world: World) -> None:
    timers = world.instance(EACH)
    timers.look()
    run(timers, world, 60)
    configuration = world.configure(
        "name: each, every: 1m, to: queue://jobs, body: new", "name: two, every: 1m, to: queue://q, body: x"
    )
    timers.take(make_timers(configuration, world.provider(configuration)))
    run(timers, world, 60)
    assert [one.body for one in world.messages()] == [b"go", b"new"]
    assert world.dues("q") == [2]
    timers.take(())
    run(timers, world, 60)
    assert world.dues() == [1, 2]


def at(text: str, zone: ZoneInfo = VIENNA) -> int:
    return round(datetime.datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


@rows(
    "cron, begin, due",
    [
        ("30 2 * * *", "2026-03-28T12:00", "2026-03-29T03:00"),  # the clocks skip 02:30
        ("30 2 * * *", "2026-10-24T12:00", "2026-10-25T02:30"),  # and double it: the first counts
        ("30 2 * * *", "2026-10-25T02:30", "2026-10-26T02:30"),
        ("0 6 * * mon-fri", "2026-05-29T06:00", "2026-06-01T06:00"),
        ("0 0 13 * fri", "2026-06-01T00:00", "2026-06-05T00:00"),
    ],
)
def test_a_cron_comes_once_a_local_time(cron: str, begin: str, due: str) -> None:
    assert DueTimes(None, Cron(cron), VIENNA).next_after(at(begin)) == at(due)


def test_every_counts_from_1970() -> None:
    assert DueTimes(86400.0).next_after(NOON) == (NOON // 86_400_000 + 1) * 86_400_000
    assert DueTimes(900.0).next_after(NOON - 1) == NOON
    assert DueTimes(900.0).next_after(NOON) == NOON + 900_000


DAILY = DueTimes(None, Cron("0 2 * * *"), VIENNA)
FIRST, LAST = "2026-06-01T02:00", "2026-06-10T02:00"


@rows(
    "misfire, since, now, first, left_out",
    [
        ("once", "2026-06-01T01:00", "2026-06-01T01:30", None, None),
        ("once", "2026-06-01T01:00", "2026-06-01T02:00", FIRST, None),
        ("once", "2026-06-01T01:00", "2026-06-10T12:00", LAST, (FIRST, "2026-06-09T02:00")),
        ("all", "2026-06-01T01:00", "2026-06-10T12:00", FIRST, None),
        (
            "all",
            "2020-01-01T00:00",
            "2026-06-10T12:00",
            "2023-09-15T02:00",
            ("2020-01-01T02:00", "2023-09-14T02:00"),
        ),
        ("none", "2026-06-01T01:00", "2026-06-10T12:00", None, (FIRST, LAST)),
        ("none", "2026-06-01T01:00", "2026-06-01T01:30", None, None),
    ],
)
def test_missed_times_of_a_cron(
    misfire: str, since: str, now: str, first: str | None, left_out: tuple[str, str] | None
) -> None:
    found = DAILY.missed(misfire, at(since), at(now))
    due = DAILY.next_after(found.until)
    assert (due if due <= at(now) else None) == (None if first is None else at(first))
    assert found.left_out == (None if left_out is None else tuple(map(at, left_out)))


@rows(
    "every, cron, least, most",
    [
        (1.0, None, 3600, 3600),
        (900.0, None, 900_000, 900_000),
        (None, "* * * * *", 60_000, 130_000),
        (None, "0 2 * * *", 400 * 86400, 400 * 86400),
    ],
)
def test_a_key_is_kept_while_its_time_could_be_sent_again(
    every: float | None, cron: str | None, least: float, most: float
) -> None:
    assert least <= DueTimes(every, None if cron is None else Cron(cron), VIENNA).keep <= most


def test_a_message_that_cannot_be_made_is_a_mistake_of_the_start(world: World) -> None:
    (world.directory / "handlers.py").write_text(
        "class Broken:\n"
        "    mime_types = ('text/broken',)\n"
        "    options = ()\n"
        "    def __init__(self, options, definitions): pass\n"
        "    def to_business_object(self, body, hint): pass\n"
        "    def to_body(self, bo): raise KeyError('nothing')\n"
    )
    good, bad = (
        f"name: {one}, every: 1m, to: jobs, object: Job, data: {{Kind: x}}" for one in ("good", "bad")
    )
    with pytest.raises(ConfigurationError, match=r"timers\[1\]: the data handler Broken raised KeyError"):
        world.instance(good, f"{bad}, mime_type: text/broken", plug_ins="handlers.py")


def test_a_timer_may_send_to_a_topic_without_subscriptions(world: World) -> None:
    timers = world.instance("name: each, every: 1m, to: topic://news, body: go")
    timers.look()
    run(timers, world, 60)
    assert world.record().timers["each"].fired == NOON + MINUTE
