"""The answer of a task: what a worker tells the driver.

JSON: ``{"seconds": 0.12, "ended": null, "outcomes": [[OUTCOME, [SEQUENCE, ...]], ...]}``. Events with equal
outcomes are told together. Where ``ended`` is a text, the answer is not whole, and the journal says how far
the task came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import orjson

from connector.events.outcome import Outcome


class Answer(NamedTuple):
    """What a task has come to.

    Args:
        outcomes: those of its events by sequence, without those left untouched. Equal ones are one object.
        seconds: that its events took.
        ended: why it has no outcomes, as in "its worker ..."; None where it came to its end.
    """

    outcomes: dict[int, Outcome]
    seconds: float
    ended: str | None


def pack_answer(
    outcomes: Mapping[bytes, Sequence[int]], seconds: float = 0.0, ended: str | None = None
) -> bytes:
    """The answer of a task.

    Args:
        outcomes: the sequences of the events by outcome, as :meth:`Outcome.to_json` gives it.
        seconds, ended: as in :class:`Answer`.
    """
    head = orjson.dumps({"seconds": seconds, "ended": ended})
    told = [b"[%b,%b]" % (outcome, orjson.dumps(sequences)) for outcome, sequences in outcomes.items()]
    return b'%b,"outcomes":[%b]}' % (head[:-1], b",".join(told))


def unpack_answer(data: bytes) -> Answer:
    """Undoes :func:`pack_answer`.

    Raises:
        ValueError: that is no answer.
    """
    values = orjson.loads(data)
    outcomes: dict[int, Outcome] = {}
    for outcome, sequences in values["outcomes"]:
        outcomes.update(dict.fromkeys(sequences, Outcome.from_list(outcome)))
    return Answer(outcomes, values["seconds"], values["ended"])
