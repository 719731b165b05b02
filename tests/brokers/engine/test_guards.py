"""Guards of messages at a broker, without InProgressDestination and with it.

docs/explanation/after-a-crash.md has the table. :data:`GUARDS` names the test of each cell.
"""

from __future__ import annotations

import ast
import contextlib
from pathlib import Path
from typing import Any, Final

import pytest

from connector.errors import CapabilityError, ProviderError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import deploy, ids, seen, send, stored
from tests.waiting import beside, wait_for

PROGRESS: Final = parse_destination("queue://progress")
COMMITS: Final = "connector.lent.commits"
OWN: Final = ("connector_owner", "connector_state", "connector_claim")

_ADAPTER, _OPEN, _HELD, _FULL = (f"test_{one}.py " for one in ("adapter", "open_settlements", "held", "full"))
GUARDS: Final[dict[str, tuple[str, ...]]] = {
    "another state directory": ("test_another_state_directory_is_refused_and_nobody_is_robbed",),
    "the same with `commit_queue: none`": (
        "test_without_a_commit_queue_only_messages_in_progress_tell",
        "test_messages_of_a_lost_directory_are_in_doubt",
        "test_an_owner_that_nobody_knows_is_not_taken_for_dead",
    ),
    "two processes with one name": ("test_an_instance_has_its_name_alone",),
    "an instance that lives": (
        "test_what_a_living_instance_works_on_is_left_to_it",
        "test_applications_share_an_in_progress_destination",
    ),
    "an instance that has ended": (
        "../../servers/test_crash.py test_a_killed_adapter_loses_nothing_and_repeats_nothing_without_need",
        "test_kills.py test_a_transaction_without_a_task_leaves_nothing",
        _OPEN + "test_recovery_settles_what_was_done_and_calls_nothing_again",
    ),
    "a task of it still runs": ("test_a_task_that_still_runs_is_waited_for",),
    "a connection breaks while an event runs": (
        _ADAPTER + "test_a_message_of_a_running_event_waits_until_the_other_instance_has_its_outcome",
        "test_a_connection_that_breaks_gives_nobody_a_message_in_progress",
    ),
    "the answer to a commit is lost": (
        _ADAPTER + "test_a_commit_without_an_answer_is_neither_lost_nor_repeated",
        "test_in_progress.py test_a_commit_without_an_answer_is_found_out_by_looking",
    ),
    "a message does not come": (
        _OPEN + "test_a_mark_that_does_not_come_stops_nothing_for_ever_and_is_removed",
        _OPEN + "test_a_settlement_of_which_a_message_does_not_come_settles_nothing_and_is_tried_again",
    ),
    "the broker's limit of deliveries": (
        _HELD + "test_an_inactive_process_costs_no_event",
        _HELD + "test_messages_in_progress_whose_settlement_is_refused_stay_out_of_the_dead_letters",
    ),
    "a destination refuses one message": (
        _ADAPTER + "test_a_refused_copy_or_message_of_a_subscription_fails_its_event_and_no_other",
        _ADAPTER + "test_a_refused_copy_of_a_message_in_progress_holds_up_no_other",
        "test_refusals.py test_a_refused_prepared_message_fails_its_event_and_no_other",
        "test_refusals.py test_a_refused_reply_fails_its_event_and_no_other",
    ),
    "a destination takes nothing": (
        _FULL + "test_an_input_rests_until_a_destination_takes_messages_again_and_that_costs_no_delivery",
        _HELD + "test_no_delivery_is_used_up_while_no_queue_takes_a_message",
        _HELD + "test_an_input_rests_while_nothing_can_be_moved_in_progress",
    ),
    "an operator, or a program": ("test_replay.py test_what_an_adapter_has_in_progress_at_a_broker_stays",),
    "the mode is changed": ("test_the_other_mode_is_refused_while_it_has_left_something",),
    "marks of a client that nobody knows": ("test_marks_that_nobody_knows_are_removed",),
}


def test_each_row_of_the_table_has_its_tests() -> None:
    page = Path(__file__).parents[3] / "docs/explanation/after-a-crash.md"
    table = page.read_text().partition("## Guards in both modes")[2].partition("\n## ")[0]
    cells = [line.split(" | ")[0].strip("| ") for line in table.splitlines() if line.startswith("| ")]
    assert cells[1:] == list(GUARDS)
    for test in (one for tests in GUARDS.values() for one in tests):
        file, _, name = test.rpartition(" ")
        tree = ast.parse((Path(__file__).parent / (file or Path(__file__).name)).read_text())
        assert name in [one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)], test


def mode(in_progress: bool, **connector: Any) -> dict[str, Any]:
    keys = {"InProgressDestination": str(PROGRESS), "InDoubtEvents": "Reprocess"} if in_progress else {}
    return {"DuplicateEventElimination": False, **keys, **connector}


def running(deployment: Deployment, provider: LentProvider) -> InProcessAdapter:
    """Its processes run in this one, because the end of an adapter ends the children of all."""
    return InProcessAdapter(deployment.configuration, provider)


def elsewhere(provider: LentProvider, root: Path, **options: Any) -> LentProvider:
    """The same broker with another state directory."""
    other = LentProvider(root / "elsewhere", **options)
    other.broker = provider.broker
    return other


def refuse(deployment: Deployment, provider: LentProvider, reason: str) -> str:
    with (
        pytest.raises((CapabilityError, ProviderError), match=reason) as refused,
        running(deployment, provider),
    ):
        pass
    return str(refused.value)


@contextlib.contextmanager
def at_work(adapter: InProcessAdapter, deployment: Deployment, provider: LentProvider) -> Any:
    """Two events in a poll, of which the second waits in its process until the end of the block."""
    sent = send(provider, "", "wait")
    poll = beside(adapter.poll)
    wait_for((deployment.directory / "waits").exists, what="the process of the second event waits")
    try:
        yield sent
    finally:
        deployment.write("go", "")
        poll.result(120)
    adapter.drain()
    assert stored(deployment) == ["0 1", "1 1"]
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
    assert ids(provider, "customers") == ids(provider, "progress") == []


@pytest.mark.parametrize("in_progress", [False, True])
def test_another_state_directory_is_refused_and_nobody_is_robbed(
    root: Path, tmp_path: Path, provider: LentProvider, in_progress: bool
) -> None:
    deployment = deploy(tmp_path, **mode(in_progress))
    other = deploy(tmp_path / "two", **mode(in_progress, instance="two"))
    with running(deployment, provider) as adapter:
        refuse(other, elsewhere(provider, root), r"state\.directory")
        with at_work(adapter, deployment, provider):
            refuse(other, elsewhere(provider, root), r"state\.directory")
        adapter.stop()
        adapter.start()
    assert stored(other) == []


def without_commits(root: Path) -> LentProvider:
    return LentProvider(root / "state", commit_queue=None)


def test_without_a_commit_queue_only_messages_in_progress_tell(root: Path, tmp_path: Path) -> None:
    provider = without_commits(root)
    deployment = deploy(tmp_path, **mode(True))
    other = deploy(tmp_path / "two", **mode(True, instance="two"))
    there = elsewhere(provider, root, commit_queue=None)
    with running(deployment, provider) as adapter:
        with running(other, there) as second, at_work(adapter, deployment, provider) as sent:
            inbound = second._connection.inbound
            assert inbound is not None
            inbound.recover(at_start=False)
            second.drain()
            with contextlib.closing(there.connect()) as operator:
                ((note,), _) = operator.owners(PROGRESS).values()
                assert "the adapter 'lent' with another state directory" in str(note)
                assert operator.picker(PROGRESS, lambda message: True).claim(1, range(9)) == []
                assert len(sent) == len(list(operator.browse(PROGRESS)))
        (tmp_path / "waits").unlink()
        (tmp_path / "go").unlink()
    assert stored(other) == []


def leave_one(provider: LentProvider, application: str = "lent") -> None:
    """An adapter dies with a message in progress."""
    send(provider, "")
    connection = provider.connect(application, "dead")
    assert connection.poller(parse_destination("queue://customers"), PROGRESS).claim(1, range(1))
    connection.abandon()


def test_messages_of_a_lost_directory_are_in_doubt(root: Path, tmp_path: Path) -> None:
    """What was delivered stood in its journal. The id of the directory makes another one its heir."""
    provider = without_commits(root)
    leave_one(provider)
    there = elsewhere(provider, root, commit_queue=None)
    deployment = deploy(tmp_path, **mode(True))
    for _ in range(2):
        text = refuse(deployment, there, "stop all instances: write ")
    identity, _, path = text.partition(": write ")[2].partition(",")[0].partition(" into ")
    Path(path).write_text(identity)
    with running(deployment, there) as adapter:
        adapter.drain()
    assert stored(deployment) == ["0 2"]
    assert ids(provider, "progress") == []


@pytest.mark.parametrize("mark", ["", "0123456789abcdef lent"])
def test_an_owner_that_nobody_knows_is_not_taken_for_dead(
    tmp_path: Path, provider: LentProvider, mark: str
) -> None:
    """An earlier version sets no mark."""
    message = Message(b'{"BusinessObject": "Customer", "Id": "0"}', "T")
    for name, value in zip(OWN, ("b0123456789ab", mark, "1/0"), strict=True):
        if value:
            message.set_property(name, value)
    session = provider.broker.connect().session()
    session.send("progress", message)
    session.commit()
    deployment = deploy(tmp_path, **mode(True))
    text = refuse(deployment, provider, "another state directory")
    assert ("connector discard queue://progress" in text) is not bool(mark)
    assert len(ids(provider, "progress")) == 1


@pytest.mark.parametrize("in_progress", [False, True])
def test_an_instance_has_its_name_alone(tmp_path: Path, provider: LentProvider, in_progress: bool) -> None:
    deployment = deploy(tmp_path, **mode(in_progress))
    with running(deployment, provider):
        refuse(deploy(tmp_path / "two", **mode(in_progress)), provider, "'one'")


@pytest.mark.parametrize("in_progress", [False, True])
def test_what_a_living_instance_works_on_is_left_to_it(
    tmp_path: Path, provider: LentProvider, in_progress: bool
) -> None:
    deployment = deploy(tmp_path, **mode(in_progress))
    other = deploy(tmp_path / "two", **mode(in_progress, instance="two"))
    with (
        running(deployment, provider) as adapter,
        at_work(adapter, deployment, provider),
        running(other, provider) as second,
    ):
        second.drain()
    assert stored(other) == []


@pytest.mark.parametrize("shares", [False, True])
def test_applications_share_an_in_progress_destination(
    root: Path, tmp_path: Path, provider: LentProvider, shares: bool
) -> None:
    """With one state directory, or with one each. A dead client waits for its own application."""
    leave_one(provider, "shop")
    there = provider if shares else elsewhere(provider, root)
    deployment = deploy(tmp_path, **mode(True))
    with running(deployment, there) as adapter:
        adapter.drain()
    assert stored(deployment) == []
    shop = deploy(tmp_path / "shop", **mode(True, ApplicationName="shop"))
    with running(shop, provider) as adapter:
        adapter.drain()
    assert stored(shop) == ["0 1"]


@pytest.mark.parametrize("in_progress", [False, True])
def test_a_task_that_still_runs_is_waited_for(
    tmp_path: Path, provider: LentProvider, in_progress: bool, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = deploy(tmp_path, **mode(in_progress))
    send(provider, "")
    connection = provider.connect("lent", "dead")
    source = parse_destination("queue://customers")
    (claim,) = connection.poller(source, PROGRESS if in_progress else None).claim(1, range(1))
    state: Any = provider.state("lent")
    caplog.set_level("WARNING", "connector")
    state.instance("dead").close()
    journals = state.journals(connection.client_id, "dead")
    journals.make()
    task = journals.file(1, 0, 1).open()
    task.begin(claim.sequence)
    connection.abandon()
    with running(deployment, provider) as adapter:
        said = [record.getMessage() for record in caplog.records]
        assert any("a task of a dead client still runs" in one for one in said), said
        inbound = adapter._connection.inbound
        assert inbound is not None
        task.close()
        inbound.recover(at_start=False)
    assert state.dead_clients("dead", "") == {}


def test_a_connection_that_breaks_gives_nobody_a_message_in_progress(
    tmp_path: Path, provider: LentProvider
) -> None:
    deployment = deploy(tmp_path, **mode(True))
    other = deploy(tmp_path / "two", **mode(True, instance="two"))
    sent = send(provider, "", "wait")
    with running(deployment, provider) as adapter, running(other, provider) as second:
        poll = beside(adapter.poll)
        wait_for((deployment.directory / "waits").exists, what="the process of the second event waits")
        (ours, *_) = [one for one in provider.broker.connections if not one.ended]
        ours.close()
        second.drain()
        deployment.write("go", "")
        with contextlib.suppress(ProviderError):
            poll.result(120)
        adapter.stop()
        adapter.start()
        adapter.drain()
    assert (stored(deployment), stored(other)) == (["0 1", "1 1"], [])
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)


@pytest.mark.parametrize("in_progress", [False, True])
def test_the_other_mode_is_refused_while_it_has_left_something(
    tmp_path: Path, provider: LentProvider, in_progress: bool
) -> None:
    before = deploy(tmp_path, **mode(in_progress))
    after = deploy(tmp_path / "after", **mode(not in_progress))
    if in_progress:
        leave_one(provider)
    else:
        send(provider, "", "sleep")  # the first event is done, and its transaction goes back
        with running(before, provider) as adapter:
            adapter.poll()
    refuse(after, provider, "InProgressDestination")
    if in_progress:
        moved = mode(True, InProgressDestination="queue://moved")
        refuse(deploy(tmp_path / "moved", **moved), provider, "InProgressDestination queue://progress")
    before.write("awake", "")
    with running(before, provider) as adapter:
        adapter.drain()
    with running(after, provider):
        pass
    assert stored(before) == (["0 1"] if in_progress else ["0 1", "1 1"])


@pytest.mark.parametrize("in_progress", [False, True])
def test_marks_that_nobody_knows_are_removed(
    tmp_path: Path, provider: LentProvider, in_progress: bool
) -> None:
    mark = Message(b"", "M")
    mark.set_property("connector_client", "b0123456789ab")
    mark.set_property("connector_session", "progress-1")
    session = provider.broker.connect().session()
    session.send(COMMITS, mark)
    session.commit()
    with running(deploy(tmp_path, **mode(in_progress)), provider):
        pass
    assert [one.properties.keys() for one in seen(provider, COMMITS)] == [{"connector_directory"}]
