"""Gates: a job that was sent ahead begins when it is told to, or has touched nothing."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from connector.events.gate import Gate, pass_gate
from connector.state.journal import Journal


def test_an_open_gate_lets_pass_and_a_refused_one_does_not(tmp_path: Path) -> None:
    first, second = Gate(str(tmp_path / "1.gate")), Gate(str(tmp_path / "2.gate"))
    assert first.open()
    second.refuse()
    assert pass_gate(first.path)
    assert not pass_gate(second.path)


@pytest.mark.parametrize("answer", ["open", "refuse"])
def test_a_task_waits_for_the_answer(tmp_path: Path, answer: str) -> None:
    gate = Gate(str(tmp_path / "1.gate"))
    passed: list[bool] = []
    task = threading.Thread(target=lambda: passed.append(pass_gate(gate.path)))
    task.start()
    time.sleep(0.05)
    assert passed == []
    getattr(gate, answer)()
    task.join(5)
    assert passed == [answer == "open"]


def test_the_first_answer_counts(tmp_path: Path) -> None:
    gate = Gate(str(tmp_path / "1.gate"))
    assert gate.refuse()
    assert not gate.open()
    assert gate.opened_at() is None
    assert not pass_gate(gate.path)
    other = Gate(str(tmp_path / "2.gate"))
    assert other.opened_at() is None
    assert other.open()
    assert not other.refuse()
    assert other.open()
    assert abs(time.time() - (other.opened_at() or 0)) < 5
    assert pass_gate(other.path)


def test_the_end_of_every_task_of_the_job_before_opens_a_gate(tmp_path: Path) -> None:
    gate = Gate(str(tmp_path / "2.gate"))
    paths = [str(tmp_path / "1.0.0"), str(tmp_path / "1.1.0")]
    passed: list[bool] = []
    task = threading.Thread(target=lambda: passed.append(pass_gate(gate.path, paths)))
    task.start()
    first, second = Journal(paths[0]), Journal(paths[1])
    first.begin(0)
    first.done(0, b'[0,"published"]')
    first.end()
    first.close()
    second.begin(1)
    second.done(1, b'[1,"published"]')
    second.close()  # without its end: something in it was not journalled, or was given back
    time.sleep(0.05)
    assert passed == []
    with open(paths[1], "ab") as journal:
        journal.write(b"E\n")
    task.join(5)
    assert passed == [True]
    assert gate.opened_at() is not None
    assert not gate.refuse(), "the driver is told that its tasks have begun"


def test_an_outcome_that_ends_like_an_end_is_none(tmp_path: Path) -> None:
    gate, path = Gate(str(tmp_path / "2.gate")), str(tmp_path / "1.0.0")
    journal = Journal(path)
    journal.done(0, b'[0,"published","E')
    stopping = iter([False, False, True])
    assert not pass_gate(gate.path, [path], lambda: next(stopping))
    journal.close()


def test_a_refused_gate_stays_closed_when_the_job_before_ends(tmp_path: Path) -> None:
    gate, path = Gate(str(tmp_path / "2.gate")), str(tmp_path / "1.0.0")
    assert gate.refuse()
    journal = Journal(path)
    journal.end()
    journal.close()
    assert not pass_gate(gate.path, [path])


def test_a_task_gives_up_where_the_directory_was_taken_over(tmp_path: Path) -> None:
    directory = tmp_path / "journals"
    directory.mkdir()
    passed: list[bool] = []
    task = threading.Thread(target=lambda: passed.append(pass_gate(str(directory / "1.gate"))))
    task.start()
    time.sleep(0.02)
    directory.rename(tmp_path / "journals.closed")
    task.join(5)
    assert passed == [False]


def test_an_answer_leaves_nothing_but_itself(tmp_path: Path) -> None:
    gate = Gate(str(tmp_path / "1.gate"))
    gate.open()
    gate.refuse()
    assert [path.name for path in tmp_path.iterdir()] == ["1.gate"]
