"""The answer of a task: what a worker tells the driver.

JSON: ``{"seconds": 0.12, "ended": null, "outcomes": [...]}``. Where ``ended`` is a text, the answer is not
whole, and the journal says how far the task came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from connector.events.outcome import Outcome


class Answer(NamedTuple):
    """What a task has come to.

    Args:
        outcomes: those of its events, without those left untouched.
        seconds: that its events took.
        ended: why it has no outcomes, as in "its worker ..."; None where it came to its end.
    """

    outcomes: list[Outcome]
    seconds: float
    ended: str | None


def pack_answer(outcomes: Sequence[bytes], seconds: float = 0.0, ended: str | None = None) -> bytes:
    """The answer of a task, of outcomes as :meth:`Outcome.to_json` gives them."""
    head = orjson.dumps({"seconds": seconds, "ended": ended})
    return b'%b,"outcomes":[%b]}' % (head[:-1], b",".join(outcomes))


def unpack_answer(data: bytes) -> Answer:
    """Undoes :func:`pack_answer`.

    Raises:
        ValueError: that is no answer.
    """
    values = orjson.loads(data)
    outcomes = [Outcome.from_list(one) for one in values["outcomes"]]
    return Answer(outcomes, values["seconds"], values["ended"])
