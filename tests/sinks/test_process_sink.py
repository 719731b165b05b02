"""The sink ``process``: its function, what the function may answer and ask, and who is called at all."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.businessobjects.instance import BusinessObject
from connector.errors import NotActive, TemporaryFailure, Unsubscribed
from connector.sinks.calling import guard
from connector.sinks.contract import Event
from connector.sinks.functions import ProcessNotFound, load_process
from connector.sinks.process.sink import ProcessSink, ProcessSpec
from connector.sinks.subscriptions import Broker, Subscription
from connector.testing.deployment import Deployment
from connector.testing.sinks import ExternalSinkSuite, sample_event, sample_object
from tests.tables import rows


class TestProcess(ExternalSinkSuite):
    key = "process"
    entry = "{process: 'processes:note'}"
    files: ClassVar = {
        "processes.py": (
            "import json, os\n"
            "def note(bo, event):\n"
            "    with open(os.path.join(os.path.dirname(__file__), 'notes'), 'a') as notes:\n"
            "        notes.write(json.dumps(bo['Text']) + '\\n')\n"
        )
    }

    def arrived(self, deployment: Deployment) -> Sequence[str]:
        return [json.loads(line) for line in (deployment.directory / "notes").read_text().splitlines()]


class TestFileOfEachEvent(ExternalSinkSuite):
    """A subscriber whose files have the ids of their events, in a directory that the suite prepares."""

    key = "process"
    files: ClassVar = {
        "processes.py": (
            "import os\n"
            "def note(bo, event):\n"
            "    path = os.path.join(os.path.dirname(__file__), 'made', event.id)\n"
            "    with open(path, 'w') as file:\n"
            "        file.write(bo['Text'])\n"
        )
    }

    def prepare(self, directory: Path) -> str:
        self.made = directory / "made"
        self.made.mkdir()
        return "{process: 'processes:note'}"

    def end(self) -> None:
        assert self.made.is_dir()

    def arrived(self, deployment: Deployment) -> Sequence[str]:
        return [one.read_text() for one in sorted(self.made.iterdir())]


@pytest.mark.parametrize("replies", [False, True])
def test_what_nobody_gets_of_the_function_is_warned_of_once(
    caplog: pytest.LogCaptureFixture, replies: bool
) -> None:
    sink = ProcessSink(lambda bo, event: bo["Text"], "s", replies=replies)
    with caplog.at_level(logging.WARNING):
        assert [sink.deliver(sample_object(), sample_event()) for _ in range(2)] == ["one", "one"]
    texts = ["a process returned a value, but its subscription does not set reply: true"]
    assert [record.message for record in caplog.records] == ([] if replies else texts)


# -- the function behind module:function ---------------------------------------------------------------


def write(directory: Path, name: str, text: str) -> None:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@rows(
    "file, reference",
    [
        ("processes.py", "processes:f"),
        ("package/__init__.py", "package:f"),
        ("package/module.py", "package.module:f"),
        ("processes.py", "processes:Group.f"),
    ],
)
def test_a_function_beside_the_configuration_is_found(tmp_path: Path, file: str, reference: str) -> None:
    write(tmp_path, "package.py", "def f(bo, event): return 'a package of its name comes before a module'\n")
    write(tmp_path, file, "def f(bo, event): return 42\nclass Group:\n    f = staticmethod(f)\n")
    assert load_process(reference, str(tmp_path))(None, None) == 42


def test_an_installed_function_is_found_and_a_module_of_the_deployment_hides_none(tmp_path: Path) -> None:
    assert load_process("json:dumps", str(tmp_path)) is json.dumps
    write(tmp_path, "json.py", "def mine(bo, event): return 'mine'\n")
    assert load_process("json:mine", str(tmp_path))(None, None) == "mine"
    assert sys.modules["json"] is json
    assert sys.path.index(str(tmp_path)) == len(sys.path) - 1


def test_two_deployments_have_a_module_of_one_name_each(tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path / str(number), "processes.py", f"def f(bo, event): return {number}\n")
    found = [load_process("processes:f", str(tmp_path / str(n)))(None, None) for n in (1, 2)]
    assert found == [1, 2]


def test_a_module_is_run_once_for_all_its_functions(tmp_path: Path) -> None:
    text = "f = g = print\nwith open(__file__ + '.ran', 'a') as m: m.write('x')\n"
    write(tmp_path, "counted.py", text)
    for name in ("f", "g", "f"):
        load_process(f"counted:{name}", str(tmp_path))
    assert (tmp_path / "counted.py.ran").read_text() == "x"


RAISED = "importing processes raised"


@rows(
    "reference, text, words",
    [
        ("processes", "", "is not module:function"),
        (":f", "", "is not module:function"),
        ("processes:", "", "is not module:function"),
        ("processes:g", "def f(bo, event): ...", "has no function g"),
        ("processes:x", "x = 3", "has no function x"),
        ("processes:f", "1 / 0", f"{RAISED} ZeroDivisionError: division by zero (processes.py:1)"),
        ("processes:f", "x = 1\nimport no_such", "No module named 'no_such' (processes.py:2)"),
        ("processes:f", "def f(:", f"{RAISED} SyntaxError"),
        ("processes:f", "raise SystemExit(2)", f"{RAISED} SystemExit: 2"),
        ("no_such_module_anywhere:f", "", "importing no_such_module_anywhere raised ModuleNotFoundError"),
    ],
)
def test_what_cannot_be_loaded_is_named_with_why(
    tmp_path: Path, reference: str, text: str, words: str
) -> None:
    write(tmp_path, "processes.py", text)
    with pytest.raises(ProcessNotFound) as raised:
        load_process(reference, str(tmp_path))
    assert (reference in str(raised.value), words in str(raised.value)) == (True, True)


def test_a_module_that_failed_runs_again_when_it_was_corrected(tmp_path: Path) -> None:
    write(tmp_path, "processes.py", "1 / 0")
    with pytest.raises(ProcessNotFound):
        load_process("processes:f", str(tmp_path))
    write(tmp_path, "processes.py", "def f(bo, event): return 'corrected by now'\n")
    os.utime(tmp_path / "processes.py", (1, 1))  # no compiled file of the first can be meant
    assert load_process("processes:f", str(tmp_path))(None, None) == "corrected by now"


@pytest.fixture(autouse=True)
def _same_path() -> object:
    """Every deployment is appended to ``sys.path``; a test leaves it as it was."""
    before = list(sys.path)
    yield
    sys.path[:] = before


# -- who wants which business object -------------------------------------------------------------------


def subscription(object_name: str, *verbs: str, name: str = "s") -> Subscription:
    return Subscription(name, object_name, verbs or None, ProcessSpec("m:f"))


@rows(
    "pattern, names, others",
    [
        ("Order", ["Order"], ["order", "OrderLine", "MyOrder", ""]),
        ("Order*", ["Order", "OrderLine"], ["MyOrder", "order"]),
        ("*Line", ["OrderLine", "Line"], ["Lines"]),
        ("*", ["Order", "x"], []),
        ("Order?", ["Orders"], ["Order", "OrderLine"]),
    ],
)
def test_a_pattern_is_that_of_a_shell_with_case(pattern: str, names: list[str], others: list[str]) -> None:
    wanted = [name for name in names + others if subscription(pattern).wants(name, "Create")]
    assert wanted == names


def test_without_verbs_every_verb_is_wanted_with_them_no_other() -> None:
    assert subscription("Order").wants("Order", "Anything")
    some = subscription("Order", "Create", "Update")
    assert [verb for verb in ("Create", "Update", "Delete", "create", "") if some.wants("Order", verb)] == [
        "Create",
        "Update",
    ]


names = st.sampled_from(["Order", "OrderLine", "Note"])
entries = st.lists(st.tuples(st.sampled_from(["*", "Order", "Order*", "N*"]), st.booleans()), max_size=6)


@given(entries, st.lists(st.tuples(names, st.sampled_from(["Create", "Delete"])), max_size=8))
def test_every_match_is_found_in_the_order_of_the_configuration_however_often_it_is_asked(
    configured: list[tuple[str, bool]], asked: list[tuple[str, str]]
) -> None:
    subscriptions = [
        subscription(pattern, *(["Create"] if only else []), name=str(n))
        for n, (pattern, only) in enumerate(configured)
    ]
    broker = Broker(subscriptions)
    for object_name, verb in asked * 2:
        expected = [s for s in subscriptions if s.wants(object_name, verb)]
        assert list(broker.subscribers(object_name, verb)) == expected


# -- calls: tried again after a TemporaryFailure, and bounded in time ----------------------------------


class Clockwork:
    """A watch that notes what it was told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def arm(self, seconds: float, what: str) -> None:
        self.told.append((seconds, what))

    def disarm(self) -> None:
        self.told.append("disarmed")


class Failing:
    """A sink that fails so many times."""

    def __init__(self, times: int, error: Exception) -> None:
        self.times, self.error = times, error
        self.calls: list[float] = []

    def __call__(self, bo: BusinessObject, event: Event) -> str:
        self.calls.append(time.monotonic())
        if len(self.calls) <= self.times:
            raise self.error
        return "whatever it returns means done"


@rows("retries, failures, calls", [(0, 0, 1), (2, 1, 2), (2, 2, 3), (2, 9, 3), (0, 1, 1)])
def test_a_temporary_failure_is_tried_as_often_as_configured(retries: int, failures: int, calls: int) -> None:
    sink = Failing(failures, TemporaryFailure("busy"))
    deliver = guard(sink, "s", retries=retries, timer=Clockwork())
    if failures > retries:
        with pytest.raises(TemporaryFailure, match="busy"):
            deliver(sample_object(), sample_event())
    else:
        assert deliver(sample_object(), sample_event()) == "whatever it returns means done"
    assert len(sink.calls) == calls


def test_the_wait_between_two_tries_grows() -> None:
    sink = Failing(9, TemporaryFailure())
    with pytest.raises(TemporaryFailure):
        guard(sink, "s", retries=3, timer=Clockwork())(sample_object(), sample_event())
    waits = [later - earlier for earlier, later in pairwise(sink.calls)]
    for wait, least in zip(waits, (0.1, 0.2, 0.4), strict=True):
        assert wait >= least


@rows("error", [Unsubscribed("x"), NotActive("x"), ValueError("x")])
def test_any_other_answer_comes_through_at_once(error: Exception) -> None:
    sink = Failing(9, error)
    with pytest.raises(type(error), match="x"):
        guard(sink, "s", retries=5, timer=Clockwork())(sample_object(), sample_event())
    assert len(sink.calls) == 1


@rows("failures", [0, 1])
def test_each_call_has_the_whole_timeout_and_none_runs_on_after_it(failures: int) -> None:
    timer = Clockwork()
    sink = Failing(failures, TemporaryFailure())
    guard(sink, "s", retries=1, timeout=2.5, timer=timer)(sample_object(), sample_event())
    assert timer.told == [(2.5, "s"), "disarmed"] * (failures + 1)
