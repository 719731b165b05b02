"""How hooks are called.

A hook observes and decides nothing. Whatever it raises changes no outcome. The way of an event goes over the
observers of a moment (``for observe in hooks.converted``), so that a feature that is off has no part in it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

_log: Final = logging.getLogger("connector.events")

_P = ParamSpec("_P")
_Hook = TypeVar("_Hook")


def observers(
    hooks: Iterable[_Hook], moment: Callable[Concatenate[_Hook, _P], None]
) -> tuple[Callable[_P, object], ...]:
    """Returns the methods with which hooks observe a moment, each guarded.

    Args:
        hooks: in the order of their calls.
        moment: the method of their base class, which observes nothing.
    """
    name = moment.__name__
    return tuple(guard(one, getattr(one, name)) for one in hooks if getattr(type(one), name) is not moment)


def guard(hook: object, method: Callable[_P, Any]) -> Callable[_P, Any]:
    """Returns a function that calls a method of a hook and raises nothing.

    The first exception is logged. After an exception the function returns None.
    """
    has_failed = False

    def call(*args: _P.args, **kwargs: _P.kwargs) -> Any:
        nonlocal has_failed
        try:
            return method(*args, **kwargs)
        except Exception as error:
            if not has_failed:
                has_failed = True
                fields = {"hook": type(hook).__name__, "moment": method.__name__}
                _log.error("a hook has failed, which harms no event", extra=fields, exc_info=error)
            return None

    return call
