"""Limits the time that a caller may ask to wait: ResponseTimeout, in the query or in the body.

Requests in flight are few (``SessionPoolSizeForRequests``). Callers that wait for days would use all of them.
So there is a bound. The bound does not apply to the static meta-object, because the adapter's own
configuration sets that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from connector.businessobjects.definition import Definition
from connector.businessobjects.metadata import MAX_TIMEOUT, is_blank, read_timeout
from connector.http.problems import HttpProblem
from connector.messaging.numbers import read_whole
from connector.text.names import did_you_mean, shown

TIMEOUT: Final = "ResponseTimeout"
_TOO_LONG: Final = 10**10
"""Milliseconds that no bound allows."""


def milliseconds(seconds: float) -> int:
    """Returns the bound of a server, ``http.max_timeout``, in milliseconds."""
    return min(int(seconds * 1000), MAX_TIMEOUT)


def requested_timeout(given: Sequence[tuple[str, str]], most: int) -> int | None:
    """Returns ResponseTimeout of this request in ms, from ``?timeout=``. None = as the meta-objects say.

    Args:
        most: the bound in ms.

    Raises:
        HttpProblem: 400, the timeout is not valid, or there is another parameter. 422, the timeout is beyond
            the bound.
    """
    wrong = [name for name, _ in given if name != "timeout"]
    if wrong:
        guess = did_you_mean(wrong[0], ["timeout"])
        raise HttpProblem(
            HTTPStatus.BAD_REQUEST, f"unknown parameter {shown(wrong[0])}{guess}; there is timeout"
        )
    if not given:
        return None
    text = given[0][1]
    try:
        found = read_whole(text)
    except ValueError:
        found = None
    if len(given) > 1 or found is None or not -1 <= found < _TOO_LONG:
        raise HttpProblem(
            HTTPStatus.BAD_REQUEST,
            f"timeout: expected milliseconds, once, from 0 to {most}, or -1: do not wait for a reply",
        )
    return _check_bound("timeout", found, most)


def check_dynamic(definition: Definition, data: Mapping[str, Any], most: int) -> None:
    """Checks that the ResponseTimeout of a dynamic meta-object is within the bound.

    A value that is not a valid ResponseTimeout passes, because the request client reports that mistake.

    Args:
        data: its attributes, as they came.
        most: the bound in ms.

    Raises:
        HttpProblem: 422.
    """
    holder = definition.dynamic_metaobject
    metadata = data.get(holder) if holder else None
    value = metadata.get(TIMEOUT) if isinstance(metadata, dict) else None
    if not isinstance(value, str | int | float) or is_blank(value):
        return
    try:
        found = read_timeout(value)
    except ValueError:
        return
    _check_bound(f"{definition.name}: {holder}.{TIMEOUT}", found, most)


def _check_bound(place: str, found: int, most: int) -> int:
    if found > most:
        detail = f"{place}: found {found} ms, expected at most {most} (http.max_timeout)"
        raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
    return found
