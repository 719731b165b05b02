"""Hooks observe events. What a hook raises is logged once, and changes no outcome."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from connector.events.hooks.activity import OutcomeCounts, TaskActivity
from connector.events.hooks.event_history import EventHistory, TaskNotes
from connector.events.hooks.event_hook import EventHook
from connector.events.hooks.failures import TaskFailures
from connector.events.hooks.outcome_log import OutcomeLog
from connector.events.hooks.spans import EventSpans, TaskSpans
from connector.events.hooks.task_hook import TaskHook, TaskHooks
from connector.events.run.publication import TaskEvent
from connector.messaging.message import Message
from connector.sinks.lazy_requests import LazyRequests
from tests.events.conftest import Bench, logged
from tests.sinks.web_server import serving

DRIVER = (EventHistory, OutcomeCounts, OutcomeLog, EventSpans)
HOOKS = (*DRIVER, TaskNotes, TaskActivity, TaskSpans, TaskFailures)


def let_fail(monkeypatch: pytest.MonkeyPatch, hook: type) -> None:
    """Makes a hook raise at each moment that it observes."""
    base = TaskHook if issubclass(hook, TaskHook) else EventHook
    for name, nothing in vars(base).items():
        if callable(nothing) and getattr(hook, name) is not nothing:
            monkeypatch.setattr(hook, name, failing(name))


def failing(name: str) -> Any:
    def fail(*_: Any) -> NoReturn:
        raise LookupError("no shelf")

    fail.__name__ = name
    return fail


def test_hooks_that_fail_at_each_moment_are_logged_once_and_change_no_outcome(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for hook in HOOKS:
        let_fail(monkeypatch, hook)
    names = ["", "a: fail for good", "", "a: unsubscribed", ""]
    with serving() as collector:
        deployment = bench.deploy(more={"tracing": {"endpoint": collector.url}}, PollQuantity=1)
        deployment.drop_customers(**{f"c{number}": name for number, name in enumerate(names)})
        deployment.drop("customers", "no JSON", "4.x.T")
        deployment.drain(isolated=False)
    told = [(one["hook"], one["moment"]) for one in logged(caplog, "a hook has failed, which harms no event")]
    assert {hook for hook, _ in told} == {hook.__name__ for hook in HOOKS}
    assert len(told) == len(set(told))
    assert len(bench.called()) == 5
    found = {queue: len(deployment.names(queue)) for queue in ("archive", "error", "unsubscribed")}
    assert found == {"archive": 3, "error": 2, "unsubscribed": 1}


def test_a_moment_that_no_hook_observes_costs_no_call() -> None:
    class Deliveries(TaskHook):
        def called(self, subscription: str, seconds: float) -> None: ...

    hooks = TaskHooks([Deliveries(), TaskHook()])
    moments = ("begun", "taken", "converted", "delivering", "called", "delivered", "ended")
    assert [len(getattr(hooks, name)) for name in moments] == [0, 0, 0, 0, 1, 0, 0]
    assert hooks.tellers == []


def test_what_an_assignment_without_an_answer_leaves_is_not_told_with_the_next_one() -> None:
    """Its numbers are those of another batch."""
    notes, spans = TaskNotes(keys=True), TaskSpans(1.0)
    event = TaskEvent(7, "queue://in", LazyRequests(None, "."), Message(b"1", correlation_id="c-1"))
    for hook in (notes, spans):
        hook.begun(event)
        hook.taken(event)
        hook.not_converted(event, ValueError())
        hook.ended(event)
        hook.abandoned()
        assert not hook.take(), hook
