"""Attributes that are made when they are first read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

_T = TypeVar("_T")


class lazy_property(Generic[_T]):
    """Like :func:`functools.cached_property`, but without its lock, which Python 3.11 has for each class.

    A process that is forked while another thread holds that lock would wait for ever. Two threads may both
    make the value, so making it must have no effect.
    """

    def __init__(self, make: Callable[[Any], _T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | _T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._make(instance)
        return value
