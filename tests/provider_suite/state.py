"""The suite that every StateStore passes.

Subclass it in a test module. Define fixtures that open the store, and that record published keys as a
settlement of your provider does::

    class TestShelfState(StateStoreSuite):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda: ShelfState(tmp_path)

        @pytest.fixture
        def record(self, tmp_path):
            return lambda client_id, keys: ShelfSettlement(tmp_path, client_id).publish(keys)

Every test checks one sentence of :mod:`connector.messaging.state_store` and begins with an empty store. Some
tests start real processes, which open journals by their pickled handles. The suite needs the extra ``dev``
(pytest).
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from connector.errors import ProviderError
from connector.messaging.history import HistoryRow
from connector.messaging.state_store import (
    CallLimits,
    Control,
    CycleJournal,
    JournalHandle,
    KeptCall,
    PauseNote,
    StateStore,
)

OpenStore = Callable[[], StateStore]
Record = Callable[[str, Sequence[str]], None]
StartTask = Callable[[JournalHandle], "RunningTask"]

_TASK = """
import base64, os, pickle, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
journal = pickle.loads(base64.b64decode(sys.argv[2])).open()
for line in sys.stdin:
    name, _, values = line.strip().partition(" ")
    numbers = [int(value) for value in values.split()]
    try:
        if name == "done":
            journal.done(numbers[0], b"[%d]" % numbers[0], *numbers[1:])
        else:
            getattr(journal, name)(*numbers)
        print("ok", flush=True)
    except OSError as error:
        print(type(error).__name__, flush=True)
"""


class RunningTask:
    """A process that holds a journal and calls methods on request."""

    def __init__(self, handle: JournalHandle) -> None:
        import base64

        pickled = base64.b64encode(pickle.dumps(handle)).decode()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _TASK, os.pathsep.join(sys.path), pickled],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, command: str) -> str:
        """Calls a method of the journal. Returns ``ok``, or the name of the raised error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        """Kills the process with SIGKILL."""
        self._process.kill()
        self._process.communicate()

    def wait(self, timeout: float) -> int:
        """Waits for the exit status. A signal is a negative number."""
        return self._process.wait(timeout)


class StateStoreSuite:
    """The tests of a StateStore. Override the fixtures ``open_store`` and ``record``."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """Opens the store of one application. Each call stands for another process."""
        raise NotImplementedError("override the fixture 'open_store'")

    @pytest.fixture
    def record(self) -> Record:
        """Records published keys as a settlement of a client does."""
        raise NotImplementedError("override the fixture 'record'")

    @pytest.fixture
    def store(self, open_store: OpenStore) -> StateStore:
        """One store."""
        return open_store()

    @pytest.fixture
    def start_task(self) -> Iterator[StartTask]:
        """Starts processes that hold a journal. They end with the test."""
        started: list[RunningTask] = []

        def start(handle: JournalHandle) -> RunningTask:
            started.append(RunningTask(handle))
            return started[-1]

        yield start
        for task in started:
            with suppress(ValueError):  # its pipes are closed already
                task.kill()

    # -- names -------------------------------------------------------------------------------------

    def test_a_name_belongs_to_one_process_until_it_is_given_up(self, open_store: OpenStore) -> None:
        held = open_store().instance("a")
        assert held.name == "a"
        with pytest.raises(ProviderError, match="'a' runs already"):
            open_store().instance("a")
        held.close()
        held.close()
        open_store().instance("a").close()

    def test_an_instance_without_a_configured_name_gets_one_that_is_free(self, open_store: OpenStore) -> None:
        first, second = open_store().instance(None), open_store().instance(None)
        assert first.name != second.name
        second.close()
        again = open_store().instance(None)
        assert again.name == second.name
        first.close()
        again.close()

    def test_any_name_is_a_good_one(self, store: StateStore) -> None:
        names = ["a/b", "..", "published", "Zoë", "a b"]
        held = [store.instance(name) for name in names]
        assert {(one.name, one.runs) for one in store.instances()} == {(name, True) for name in names}
        for one in held:
            one.close()

    def test_an_instance_keeps_its_note_and_is_known_to_run_or_not(self, open_store: OpenStore) -> None:
        store = open_store()
        assert store.instances() == []
        held = store.instance("a")
        held.note({"polls": 12345})
        held.note({"polls": 7})
        (seen,) = open_store().instances()
        assert (seen.name, seen.runs, seen.note["polls"]) == ("a", True, 7)
        held.close()
        (seen,) = open_store().instances()
        assert (seen.name, seen.runs, seen.note["polls"]) == ("a", False, 7)

    # -- journals ----------------------------------------------------------------------------------

    def test_what_a_task_writes_elsewhere_is_read_here(
        self, store: StateStore, open_store: OpenStore, start_task: StartTask
    ) -> None:
        journals = store.journals("c1", "a")
        journals.make()
        task = start_task(journals.file(1, 0, 0))
        for command in ("at 0", "begin 0", "done 0 1", "begin 1", "done 1 2"):
            assert task.tell(command) == "ok"
        expected = CycleJournal(done={0: [0], 1: [1]}, begun={0: 1, 1: 1}, at_work={2: 1})
        assert journals.read() == {1: expected}
        assert open_store().journals("c1", "a").read() == {1: expected}
        assert open_store().journals("c2", "a").read() == {}

    def test_nothing_is_at_work_once_a_journal_is_closed(self, store: StateStore) -> None:
        journals = store.journals("c1", "a")
        journals.make()
        journal = journals.file(1, 0, 0).open()
        journal.at(0)
        journal.close()
        journal.close()
        assert journals.read()[1] == CycleJournal()

    def test_the_journals_of_a_batch_add_up(self, store: StateStore, start_task: StartTask) -> None:
        journals = store.journals("c1", "a")
        journals.make()
        for batch, place, number in ((1, 0, 0), (1, 0, 1), (1, 1, 0), (11, 0, 2)):
            task = start_task(journals.file(batch, place, number))
            assert task.tell("at 3") == "ok"
            assert task.tell("begin 3") == "ok"
            task.kill()
        found = journals.read()
        assert found[1] == CycleJournal(begun={3: 3}, at_work={3: 3})
        assert found[11] == CycleJournal(begun={3: 1}, at_work={3: 1})

    def test_a_handle_reads_its_own_journal_and_says_where_there_is_none(self, store: StateStore) -> None:
        journals = store.journals("c1", "a")
        journals.make()
        handle, found = journals.file(1, 0, 0), CycleJournal()
        assert not handle.read(found)
        journal = handle.open()
        journal.begin(4)
        assert handle.read(found)
        assert found.begun == {4: 1}
        journal.close()

    def test_no_task_runs_twice(self, store: StateStore, start_task: StartTask) -> None:
        journals = store.journals("c1", "a")
        journals.make()
        handle = journals.file(1, 0, 0)
        task = start_task(handle)
        assert task.tell("begin 0") == "ok"
        with pytest.raises(FileExistsError):
            handle.open()
        task.kill()
        with pytest.raises(FileExistsError):
            handle.open()
        journals.file(1, 0, 1).open().close()

    def test_a_journal_is_held_until_it_is_closed_or_its_process_has_died(
        self, store: StateStore, start_task: StartTask
    ) -> None:
        journals = store.journals("c1", "a")
        journals.make()
        assert journals.wait(0.0)
        closed, killed = start_task(journals.file(1, 0, 0)), start_task(journals.file(1, 1, 0))
        assert closed.tell("at 0") == killed.tell("at 5") == "ok"
        assert not journals.wait(0.05)
        assert {(one.batch, one.pid, one.sequence) for one in journals.running()} == {
            (1, closed.pid, 0),
            (1, killed.pid, 5),
        }
        assert closed.tell("close") == "ok"
        assert not journals.wait(0.05)
        assert journals.wait(0.0, [journals.file(1, 0, 0), journals.file(1, 2, 0)])
        assert not journals.wait(0.0, [journals.file(1, 1, 0)])
        killed.kill()
        assert journals.wait(10.0)
        assert list(journals.running()) == []

    def test_those_that_hold_a_journal_here_can_be_ended(
        self, store: StateStore, start_task: StartTask
    ) -> None:
        journals = store.journals("c1", "a")
        journals.make()
        task = start_task(journals.file(1, 0, 0))
        assert task.tell("at 0") == "ok"
        journals.file(1, 1, 0).open().close()
        journals.end_writers()
        assert task.wait(10) == -signal.SIGKILL
        assert journals.wait(10.0)

    def test_a_sealed_journal_is_never_opened(self, store: StateStore) -> None:
        journals = store.journals("c1", "a")
        journals.make()
        new, running = journals.file(1, 0, 0), journals.file(1, 1, 0)
        journal = running.open()
        journals.seal([new, running])
        for handle in (new, running):
            with pytest.raises(FileExistsError):
                handle.open()
        journal.begin(0)
        journal.done(0, b"[0]")
        journal.close()
        assert journals.read()[1].done == {0: [0]}
        journals.file(1, 0, 1).open().close()

    def test_where_all_is_sealed_no_task_opens_a_journal_or_begins_a_delivery(
        self, store: StateStore, open_store: OpenStore, start_task: StartTask
    ) -> None:
        journals = store.journals("c1", "a")
        journals.make()
        task = start_task(journals.file(1, 0, 0))
        assert task.tell("begin 0") == "ok"
        heir = open_store().journals("c1", "a")
        heir.seal()
        heir.seal()
        assert task.tell("done 0 1") == "ok"
        assert task.tell("begin 1") == "FileNotFoundError"
        with pytest.raises(FileNotFoundError):
            journals.file(2, 0, 0).open()
        assert heir.read()[1].done == {0: [0]}
        heir.forget()
        assert task.tell("begin 2") == "FileNotFoundError"
        assert open_store().journals("c1", "a").read() == {}

    def test_a_heir_that_was_interrupted_finds_sealed_journals_again(self, open_store: OpenStore) -> None:
        journals = open_store().journals("c1", "a")
        journals.make()
        journal = journals.file(1, 0, 0).open()
        journal.begin(0)
        journal.close()
        open_store().journals("c1", "a").seal()
        second = open_store().journals("c1", "a")
        second.seal()
        assert second.wait(0.0)
        assert second.read() == {1: CycleJournal(begun={0: 1})}

    def test_journals_are_kept_until_their_batch_is_settled(self, store: StateStore) -> None:
        journals = store.journals("c1", "a")
        journals.make()
        for batch in (1, 2, 12):
            journals.file(batch, 0, 0).open().close()
        journals.forget(1)
        assert set(journals.read()) == {2, 12}
        journals.forget()
        assert journals.read() == {}

    def test_the_note_of_an_event_stands_beside_its_outcome(self, store: StateStore) -> None:
        journals = store.journals("c1", "a")
        journals.make()
        journal = journals.file(1, 0, 0).open()
        for number, note in enumerate((b'["k",null]', b"", b'"k"')):
            journal.begin(number)
            journal.done(number, b"[%d]" % number, number + 1, note)
        journal.close()
        found = journals.read()[1]
        assert found.done == {0: [0], 1: [1], 2: [2]}
        assert found.notes == {0: ["k", None], 2: "k"}

    def test_a_client_without_journals_has_nothing_to_say(self, store: StateStore) -> None:
        nobody = store.journals("c9", "a")
        nobody.seal()
        assert nobody.wait(0.0)
        assert nobody.read() == {}
        assert list(nobody.running()) == []
        nobody.end_writers()
        nobody.forget()

    # -- the history -------------------------------------------------------------------------------

    def test_rows_are_found_by_each_text_of_theirs_by_every_process(self, open_store: OpenStore) -> None:
        first, second = (open_store().history(name) for name in ("a", "b"))
        one = HistoryRow(time=1.5, what="published", ids=["ID:1", "ID:2"], notes=["k1", ["k2", "c", ["o"]]])
        first.append([one, HistoryRow(time=2.5, what="failed", ids=["ID:3"], reason='ID:1 is "wrong"')])
        second.append([HistoryRow(time=3.5, what="later", ids=["ID:3"], instance="b")])
        found = open_store().history()
        for text in ("ID:1", "ID:2", "k1", "k2", "c", "o"):
            assert list(found.find([text])) == [one]
        assert sorted(row.what for row in found.find(["ID:3"])) == ["failed", "later"]
        assert sorted(row.time for row in found.find(["ID:2", "ID:3"])) == [1.5, 2.5, 3.5]
        for text in ("ID", "ID:", "k", "1", "wrong"):
            assert list(found.find([text])) == []

    def test_all_rows_since_a_time_are_found(self, store: StateStore) -> None:
        history = store.history("a")
        rows = [HistoryRow(time=86400.0 * day + 0.5, what="published", ids=["x"]) for day in range(3)]
        for row in rows:
            history.append([row])
        assert list(history.find(None)) == rows
        assert list(history.find(None, 86400.0)) == rows[1:]
        assert list(history.find(["x"], 86400.75)) == rows[2:]
        history.append([])
        assert list(history.find([])) == []

    def test_a_row_holds_any_text(self, store: StateStore) -> None:
        texts = ('"', "\\", "\n", "\x00", "\udc80", "\u00e9", "\U0001f600", "a b", "[1]")
        for time, text in enumerate(texts, 1):
            history = store.history(text)
            history.append([HistoryRow(time=time, what="published", ids=["\udc80", text, "\u00e9"])])
            (row,) = (one for one in history.find([text]) if one.time == time)
            assert row.ids[1] == text.encode("utf-8", "backslashreplace").decode()
            assert row in history.find(["\u00e9"])

    def test_only_whole_days_are_removed(self, store: StateStore, open_store: OpenStore) -> None:
        history = store.history("a")
        rows = [HistoryRow(time=86400.0 * day + 0.5, what="published", ids=["x"]) for day in range(4)]
        for row in rows:
            history.append([row])
        open_store().history().prune(2 * 86400.0 + 4000.0)
        assert list(history.find(None)) == rows[2:]
        history.append(rows[:1])
        assert list(history.find(None)) in (rows[2:] + rows[:1], rows[:1] + rows[2:])

    # -- the window --------------------------------------------------------------------------------

    def test_published_keys_are_known_to_all_clients_and_after_a_restart(
        self, store: StateStore, open_store: OpenStore, record: Record
    ) -> None:
        window = store.window("c1", 100)
        record("c2", ["k1", "k2"])
        assert window.reserve(["other"]) == set()
        assert [key in window for key in ("k1", "k2", "k3")] == [True, True, False]
        record("c3", ["k3"])
        assert "k3" in open_store().window("c4", 100)

    def test_what_a_client_has_just_published_is_known_before_it_is_recorded(
        self, store: StateStore, open_store: OpenStore
    ) -> None:
        window = store.window("c1", 100)
        window.add(["k1"])
        assert "k1" in window
        assert "k1" not in open_store().window("c2", 100)

    def test_keys_in_flight_keep_neighbours_off_until_they_are_released(self, open_store: OpenStore) -> None:
        first, second = open_store().window("c1", 100), open_store().window("c2", 100)
        assert first.reserve(["k1", "k2"]) == set()
        assert second.reserve(["k2", "k3"]) == {"k2"}
        assert first.reserve(["k3"], held=["k1"]) == {"k3"}  # k2 is released, k1 is not
        assert second.reserve(["k1", "k2"]) == {"k1"}
        first.release()
        assert second.reserve(["k1", "k2"]) == set()

    def test_what_a_dead_client_had_in_flight_is_released_by_its_heir(
        self, open_store: OpenStore, record: Record
    ) -> None:
        open_store().window("dead", 100).reserve(["k1", "k2"])
        heir = open_store().window("heir", 100)
        assert heir.reserve(["k1"]) == {"k1"}
        record("dead", ["k2"])
        heir.release("dead")
        assert "k2" in heir
        assert heir.reserve(["k1"]) == set()

    def test_the_window_keeps_as_many_keys_as_it_was_made_for(
        self, store: StateStore, record: Record
    ) -> None:
        keys = [f"k{number}" for number in range(300)]
        for start in range(0, 300, 30):
            record(f"c{start}", keys[start : start + 30])
        window = store.window("c1", 300)
        assert all(key in window for key in keys)

    # -- the control -------------------------------------------------------------------------------

    def test_nothing_is_paused_at_first(self, store: StateStore) -> None:
        assert store.control().read() == Control()

    def test_all_instances_read_a_change_also_after_a_restart(self, open_store: OpenStore) -> None:
        record, neighbour = open_store().control(), open_store().control()
        notes = [
            PauseNote("input", "queue://orders", "ann@host", 17.5, "the shop is closed"),
            PauseNote("subscription", "Zoë's ERP", "bob", 18.0),
        ]
        for number in (1, 2):
            with record.change() as control:
                control.paused.append(notes[number - 1])
            assert [one.read().paused for one in (record, neighbour)] == [notes[:number]] * 2
        with neighbour.change() as control:
            assert control.paused.pop(0) == notes[0]
        assert record.read().paused == open_store().control().read().paused == notes[1:]

    def test_a_change_that_fails_is_none(self, store: StateStore) -> None:
        record = store.control()

        def fail() -> None:
            with record.change() as control:
                control.paused.append(PauseNote("input", "queue://orders", "ann", 17.5))
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        assert record.read() == Control()

    def test_no_change_is_lost(self, open_store: OpenStore) -> None:
        def pause(who: str) -> None:
            record = open_store().control()
            for number in range(10):
                with record.change() as control:
                    control.paused.append(PauseNote("input", f"queue://{number}", who, 1.0))

        with ThreadPoolExecutor(3) as threads:
            list(threads.map(pause, "abc"))
        assert len(open_store().control().read().paused) == 30

    # -- calls with a key --------------------------------------------------------------------------

    def test_a_call_is_begun_once_and_keeps_its_answer(self, open_store: OpenStore) -> None:
        limits = CallLimits(3600.0, 100, 1 << 20)
        one, other = open_store().calls(limits), open_store().calls(limits)
        assert one.begin("a1", "f") is None
        assert other.begin("a1", "g") == KeptCall("f", True, 0, b"")
        one.finish("a1", "f", 200, '{"Name":"Zoë"}'.encode())
        assert other.begin("a1", "f") == KeptCall("f", False, 200, '{"Name":"Zoë"}'.encode())
        assert other.begin("b2", "f") is None
        other.forget("b2")
        assert one.begin("b2", "f") is None
        one.close()
        one.close()
        assert other.begin("b2", "f") == KeptCall("f", False, 0, b""), "nobody knows its answer"
        other.close()

    def test_kept_calls_have_limits_and_calls_at_work_have_none(self, open_store: OpenStore) -> None:
        old = open_store().calls(CallLimits(0.0, 10, 1 << 20))
        assert old.begin("a1", "f") is None
        assert old.begin("a1", "f") is not None
        old.finish("a1", "f", 200, b"{}")
        assert old.begin("a1", "f") is None
        few = open_store().calls(CallLimits(3600.0, 10, 1 << 20))
        for number in range(201):
            assert few.begin(f"b{number}", "f") is None
            few.finish(f"b{number}", "f", 200, b"{}")
        assert few.begin("a1", "f") == KeptCall("f", True, 0, b"")
        assert few.begin("b200", "f") == KeptCall("f", False, 200, b"{}")
        assert few.begin("b0", "f") is None
        few.close()
        old.close()
