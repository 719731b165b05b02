"""What a journal in PostgreSQL promises when processes and servers are killed or stopped."""

from __future__ import annotations

import base64
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from connector.errors import ProviderError
from connector.messaging.notes import ClientState
from connector.messaging.state_store import ClientJournals, CycleJournal, TaskJournal
from connector.stores.sql.database import MessageDatabase, Settings
from connector.stores.sql.provider import SqlProvider
from connector.stores.sql.state import PostgresState
from tests.forked_command import PipedProcess
from tests.postgres import PostgresServer
from tests.provider_suite.state import RunningTask
from tests.stores.sql.conftest import program
from tests.waiting import wait_for

pytestmark = pytest.mark.process

LEASE = 1.0
StartTask = Callable[..., RunningTask]
AT_WORK = {1: CycleJournal(done={0: [0]}, begun={0: 1, 1: 1}, at_work={1: 1})}
"""A batch of which the first event is done and the second has begun."""


def open_on(url: str, lease: float = 60.0) -> PostgresState:
    settings = Settings(url, lease=lease)
    database = MessageDatabase(settings)
    database.prepare(make=True)
    return PostgresState(settings, lambda: database, "crashes")


@pytest.fixture
def start_task() -> Iterator[StartTask]:
    """Starts a task with a new journal of the first batch of a client, and lets it do some things."""
    started: list[RunningTask] = []

    def start(journals: ClientJournals, *commands: str, place: int = 0) -> RunningTask:
        journals.make()
        task = RunningTask(journals.file(1, place, 0))
        started.append(task)
        assert [task.tell(command) for command in commands] == ["ok"] * len(commands)
        return task

    yield start
    for task in started:
        task.kill()


def one_done(journals: ClientJournals) -> TaskJournal:
    """Returns the journal of a task that has done one event."""
    journal = journals.file(1, 0, 0).open()
    journal.begin(0)
    journal.done(0, b"[0]")
    return journal


def execute(url: str, statement: str) -> None:
    with program(url) as connection:
        assert connection.execute(text(statement)).rowcount


# -- processes -----------------------------------------------------------------------------------------


def test_a_stopped_task_is_taken_over_and_begins_nothing_when_it_goes_on(
    database: str, start_task: StartTask
) -> None:
    journals = open_on(database, LEASE).journals("c1", "a")
    task = start_task(journals, "at 0", "begin 0", "done 0 1", "begin 1")
    os.kill(task.pid, signal.SIGSTOP)
    heir = open_on(database, LEASE).journals("c1", "a")
    heir.seal()
    assert heir.wait(120)
    assert heir.read() == AT_WORK
    os.kill(task.pid, signal.SIGCONT)
    assert task.tell("done 1 2") == "ok"
    assert task.tell("begin 2") == "FileNotFoundError"
    assert 2 not in heir.read()[1].begun


def test_a_task_stopped_within_its_lease_goes_on(database: str, start_task: StartTask) -> None:
    journals = open_on(database).journals("c1", "a")
    task = start_task(journals, "begin 0")
    os.kill(task.pid, signal.SIGSTOP)
    assert not journals.wait(0.1)
    os.kill(task.pid, signal.SIGCONT)
    assert [task.tell(command) for command in ("done 0 1", "begin 1")] == ["ok", "ok"]


def test_a_task_that_was_killed_on_another_machine_is_held_for_its_lease(
    database: str, start_task: StartTask
) -> None:
    journals = open_on(database).journals("c1", "a")
    task = start_task(journals, "begin 0")
    execute(database, f"UPDATE process SET machine = 'another' WHERE pid = {task.pid}")
    task.kill()
    assert not journals.wait(0.0)
    execute(database, f"UPDATE process SET beat = beat - interval '1 hour' WHERE pid = {task.pid}")
    execute(database, "UPDATE process SET lease = 0.01")  # the server has not run for longer than a minute
    assert journals.wait(120)
    assert journals.read()[1].begun == {0: 1}


def test_a_process_that_a_task_forks_leaves_its_journal_alone(database: str) -> None:
    journals = open_on(database).journals("c1", "a")
    journals.make()
    code = """
import base64, gc, os, pickle, signal, sys
journal = pickle.loads(base64.b64decode(sys.argv[1])).open()
journal.begin(0)
child = os.fork()
if child == 0:
    try:
        journal.begin(7)
    except OSError:
        pass
    journal.close()
    del journal
    gc.collect()
    if os.fork():
        sys.exit(0)  # with all that Python does at its end
    os.close(1)
    signal.pause()
os.waitpid(child, 0)
journal.done(0, b"[0]", 1)
print(os.getpid(), flush=True)
sys.stdin.read()
"""
    pickled = base64.b64encode(pickle.dumps(journals.file(1, 0, 0))).decode()
    task = PipedProcess(pickled, script=code)
    try:
        assert int(task.stdout.readline()) == task.pid
        assert journals.read() == {1: CycleJournal(done={0: [0]}, begun={0: 1}, at_work={1: 1})}
        assert not journals.wait(0.0)
        task.kill()
        task.wait()
        assert journals.wait(120)
    finally:
        os.killpg(task.pid, signal.SIGKILL)
        task.communicate()


# -- servers -------------------------------------------------------------------------------------------


def test_a_killed_server_makes_no_task_forget_what_it_has_begun_and_done(
    own_postgres: PostgresServer, start_task: StartTask
) -> None:
    journals = open_on(own_postgres.url()).journals("c1", "a")
    tasks = [
        start_task(journals, "at 0", "begin 0", "done 0 1", "begin 1"),
        start_task(journals, "at 10", "begin 10", "done 10 11", "begin 11", place=1),
    ]
    own_postgres.kill()
    with ThreadPoolExecutor() as threads:
        answers = threads.map(RunningTask.tell, tasks, ("done 1 2", "done 11 12"))
        own_postgres.start()
        assert list(answers) == ["ok", "ok"]
    assert tasks[0].tell("begin 2") == "ok"
    assert journals.read() == {
        1: CycleJournal(
            done={0: [0], 1: [1], 10: [10], 11: [11]},
            begun={0: 1, 1: 1, 2: 1, 10: 1, 11: 1},
            at_work={2: 1, 12: 1},
        )
    }


def test_a_task_that_is_busy_writes_its_journal_again_by_itself(
    own_postgres: PostgresServer, start_task: StartTask
) -> None:
    journals = open_on(own_postgres.url(), LEASE).journals("c1", "a")
    start_task(journals, "at 0", "begin 0", "done 0 1", "begin 1")
    own_postgres.kill()
    own_postgres.start()
    wait_for(lambda: journals.read() == AT_WORK)


def test_no_task_dies_with_the_server(own_postgres: PostgresServer, start_task: StartTask) -> None:
    url = own_postgres.url()
    journals = open_on(url).journals("c1", "a")
    task = start_task(journals, "begin 0")
    execute(url, f"UPDATE process SET beat = beat - interval '1 day' WHERE pid = {task.pid}")
    own_postgres.kill()
    own_postgres.start()
    assert not journals.wait(0.0)


def test_a_task_whose_client_was_given_up_during_an_outage_begins_nothing(
    own_postgres: PostgresServer, start_task: StartTask
) -> None:
    journals = open_on(own_postgres.url(), LEASE).journals("c1", "a")
    task = start_task(journals, "begin 0", "done 0 1")
    os.kill(task.pid, signal.SIGSTOP)
    journals.seal()
    own_postgres.kill()  # what was given up stays so
    own_postgres.start()
    os.kill(task.pid, signal.SIGCONT)
    assert task.tell("begin 1") == "FileNotFoundError"
    assert task.tell("close") == "ok"
    assert journals.wait(120)
    assert journals.read() == {1: CycleJournal(done={0: [0]}, begun={0: 1})}


@pytest.mark.parametrize("is_away", [False, True])
def test_a_journal_is_on_the_disk_once_it_is_closed_or_the_server_is_back(
    own_postgres: PostgresServer, is_away: bool
) -> None:
    journals = open_on(own_postgres.url(), LEASE).journals("c1", "a")
    journals.make()
    journal = one_done(journals)
    if is_away:
        own_postgres.kill()
    journal.close()
    if not is_away:
        own_postgres.kill()
    own_postgres.start()
    assert journals.wait(120)
    assert journals.read() == {1: CycleJournal(done={0: [0]}, begun={0: 1})}


def test_a_connection_that_is_lost_while_a_batch_is_removed_leaves_no_outcome(database: str) -> None:
    journals = open_on(database).journals("removed", "a")
    journals.make()
    one_done(journals).close()
    left = text("SELECT count(*) FROM task_outcome WHERE task NOT IN (SELECT id FROM task)")
    waiting = text("SELECT pid FROM pg_locks WHERE relation = 'task_outcome'::regclass AND NOT granted")
    with ThreadPoolExecutor() as threads, program(database) as operator:
        assert operator.execute(left).scalar() == 0
        operator.execute(text("LOCK TABLE task_outcome IN SHARE MODE"))
        removal = threads.submit(journals.forget, 1)
        pid = wait_for(lambda: operator.execute(waiting).scalar(), what="the removal of the outcomes waits")
        operator.execute(text(f"SELECT pg_terminate_backend({pid})"))
        operator.commit()
        removal.result()
    assert journals.read() == {}
    with program(database) as operator:
        assert operator.execute(left).scalar() == 0


def test_nobody_begins_without_the_server(own_postgres: PostgresServer, start_task: StartTask) -> None:
    store = open_on(own_postgres.url(), LEASE)
    journals = store.journals("c1", "a")
    task = start_task(journals, "at 0")
    own_postgres.kill()
    assert task.tell("begin 0") == "OSError"
    with pytest.raises(OSError, match=r"look whether the server runs.*127\.0\.0\.1"):
        journals.wait(0.0)
    with pytest.raises(ProviderError, match=r"cannot use .*127\.0\.0\.1.*: look whether the server runs"):
        store.instance("a")
    with pytest.raises(OSError, match=r"127\.0\.0\.1"):
        journals.seal()
    own_postgres.start()
    assert task.tell("begin 0") == "ok"
    assert journals.read()[1].begun == {0: 1}


# -- names of instances --------------------------------------------------------------------------------

HOLDER = """
import os, sys
from connector.stores.sql.database import MessageDatabase, Settings
from connector.stores.sql.state import PostgresState
settings = Settings(sys.argv[1], lease=float(sys.argv[2]))
database = MessageDatabase(settings)
held = PostgresState(settings, lambda: database, "crashes").instance("a")
print("ready", flush=True)
sys.stdin.read()
os._exit(0)  # as one that is killed
"""


def test_the_name_of_an_instance_on_another_machine_is_refused_until_it_has_died(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_on(database)
    with PipedProcess(database, LEASE, script=HOLDER) as holder:
        assert holder.stdout.readline() == "ready\n"
        execute(database, f"UPDATE process SET machine = 'another', host = 'far' WHERE pid = {holder.pid}")
        said = f"'a' runs already: process {holder.pid} on far; give this one"
        with pytest.raises(ProviderError, match=said):
            store.instance("a")
        holder.kill()
        holder.wait()
        with caplog.at_level("WARNING", "connector.state"):
            assert store.instance("a").name == "a"
    assert "waiting until another process releases the name of this instance" in caplog.text


# -- operators -----------------------------------------------------------------------------------------


def test_to_declare_a_client_dead_in_the_middle_of_a_claim_says_what_to_wait_for(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connector.stores.sql.provider._PATIENCE", 0.05)
    provider = SqlProvider(Settings(database))
    frozen = provider.connect("suite", "one").client_id
    with program(database) as connection:
        connection.execute(text("SELECT 1 FROM client FOR SHARE"))
        with pytest.raises(ProviderError, match=f"{frozen} is in the middle of a claim.* 60 s.* try again"):
            provider.declare_dead(frozen)
    assert provider.declare_dead(frozen) is ClientState.ALIVE
    assert provider.declare_dead(frozen) is ClientState.DECLARED_DEAD
