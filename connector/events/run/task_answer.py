"""The answer of a task: the outcomes that a worker sends to the driver.

JSON: the fields of :class:`TaskAnswer` in their order, with ``[[OUTCOME, [SEQUENCE, ...]], ...]`` first.
Events with equal outcomes share an entry. If ``ended`` is a text, the answer is incomplete, and the journal
holds the outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from connector.events.outcome import Outcome
from connector.events.run.circuits import CallCounts
from connector.events.run.task_settings import NOTHING


class TaskAnswer(NamedTuple):
    """The answer of a task.

    Args:
        outcomes: by sequence, without untouched events. Equal outcomes are the same object.
        calls: of subscriptions that have failed.
        seconds: duration of the events.
        ended: why there are no outcomes, as in "its worker ...". None if the task has finished.
        exceeded: whether the worker was ended because a conversion took longer than ``convert_timeout``.
            ``ended`` is then the whole reason.
        converting: whether the worker ended in a conversion, as far as known. False = in a transaction
            of a database, or in work of the connector.
        full: whether the task has ended between two events because its worker keeps much memory.
        overdue: the subscription whose call took longer than its ``timeout``, so that the worker was ended.
        told: what hooks of the task tell those of the driver, by their names.
        keys: sequences, each with the duplicate keys by values that the task was asked for.
    """

    outcomes: Mapping[int, Outcome] = NOTHING
    calls: Mapping[str, CallCounts] = NOTHING
    seconds: float = 0.0
    ended: str | None = None
    exceeded: bool = False
    converting: bool = True
    full: bool = False
    overdue: str = ""
    told: Mapping[str, Any] = NOTHING
    keys: Sequence[tuple[int, Sequence[Sequence[str]]]] = ()


NO_ANSWER = TaskAnswer()


def overdue_call(subscription: str) -> TaskAnswer:
    """Returns the answer of a task whose call of a subscription took longer than its ``timeout``."""
    why = f"did not return from {subscription} in time and was ended"
    return TaskAnswer(ended=why, overdue=subscription)


def pack_answer(answer: TaskAnswer, outcomes: Mapping[bytes, Sequence[int]] = NOTHING) -> bytes:
    """Returns the encoded answer of a task.

    Args:
        answer: without outcomes.
        outcomes: the sequences of the events by outcome, encoded with :meth:`Outcome.to_json`.
    """
    found = [b"[%b,%b]" % (outcome, orjson.dumps(sequences)) for outcome, sequences in outcomes.items()]
    calls = {name: [*one] for name, one in answer.calls.items()} if answer.calls else {}
    if answer.keys:
        keys = [(number, [[*one] for one in of_event]) for number, of_event in answer.keys]
        answer = answer._replace(keys=keys)
    return b"[[%b],%b" % (b",".join(found), orjson.dumps([calls, *answer[2:]])[1:])


def unpack_answer(data: bytes) -> TaskAnswer:
    """Undoes :func:`pack_answer`.

    Raises:
        ValueError: the data is no answer.
    """
    packed, calls, *others = orjson.loads(data)
    outcomes: dict[int, Outcome] = {}
    for outcome, sequences in packed:
        outcomes.update(dict.fromkeys(sequences, Outcome.from_list(outcome)))
    failed = {name: CallCounts(*one) for name, one in calls.items()} if calls else NOTHING
    return TaskAnswer(outcomes, failed, *others)
