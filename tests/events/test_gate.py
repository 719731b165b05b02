"""Gates: a job that was sent ahead begins when it is told to, or has touched nothing."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from connector.events.gate import Gate, pass_gate


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
    gate.refuse()
    assert not gate.open()
    assert not pass_gate(gate.path)
    other = Gate(str(tmp_path / "2.gate"))
    assert other.open()
    other.refuse()
    assert other.open()
    assert pass_gate(other.path)


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
