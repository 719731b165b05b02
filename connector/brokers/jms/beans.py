"""Properties of Java objects, set by the setters of a bean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from connector.brokers.jms.reasons import reason_of
from connector.errors import ProviderMisconfigured
from connector.text.names import did_you_mean

_BOOLEANS: Final = {"true": True, "false": False}
_TYPES: Final[dict[str, tuple[str, Callable[[Any, str], Any]]]] = {
    "boolean": ("true or false", lambda jpype, text: jpype.JBoolean(_BOOLEANS[text.casefold()])),
    "int": ("a whole number", lambda jpype, text: jpype.JInt(int(text))),
    "long": ("a whole number", lambda jpype, text: jpype.JLong(int(text))),
    "java.lang.String": ("a text", lambda jpype, text: jpype.JString(text)),
}
"""The types of properties: what a value is, and its Java value. A property of two types gets the first."""


def set_properties(jpype: Any, bean: Any, properties: Mapping[str, str]) -> None:
    """Sets properties of a Java object, in their order.

    Args:
        properties: name -> value. ``Port`` and ``port`` are ``setPort``. ``prefetchPolicy.all`` is the
            property ``all`` of the object that ``getPrefetchPolicy`` returns.

    Raises:
        ProviderMisconfigured: there is no such property, or the object refuses the value. The text may have
            the value.
    """
    for name, text in properties.items():
        *path, last = name.split(".")
        holder = bean
        try:
            for step in path:
                holder = _get(holder, step, name)
            _set(jpype, holder, last, text, name)
        except jpype.JException as error:
            raise ProviderMisconfigured(f"properties.{name}: it is refused: {reason_of(error)}") from None


def url_setter(bean: Any) -> str | None:
    """Returns the property of a factory that is the URL of its broker. None = there is none."""
    known = {name.casefold(): name for name, types in _methods(bean, "set", 1).items() if types}
    return next((known[name] for name in _URLS if name in known), None)


_URLS: Final = ("url", "uri", "brokerurl", "remoteuri", "serverurl", "providerurl")
"""Names that client libraries have for the URL, without their case."""


def _get(holder: Any, step: str, name: str) -> Any:
    getters = _methods(holder, "get", 0)
    if (found := _property(step)) not in getters:
        raise _unknown(holder, step, name, getters)
    value = getattr(holder, f"get{found}")()
    if value is None:
        raise ProviderMisconfigured(f"properties.{name}: {step} of {_class_of(holder)} is not set")
    return value


def _set(jpype: Any, holder: Any, last: str, text: str, name: str) -> None:
    setters = _methods(holder, "set", 1)
    types = setters.get(found := _property(last))
    if not types:
        raise _unknown(holder, last, name, [one for one, usable in setters.items() if usable])
    for kind in types:
        try:
            value = _TYPES[kind][1](jpype, text)
        except (ValueError, KeyError, OverflowError):
            continue
        getattr(holder, f"set{found}")(value)
        return
    raise ProviderMisconfigured(f"properties.{name}: the value is not {_TYPES[types[0]][0]}")


def _methods(holder: Any, verb: str, arguments: int) -> dict[str, list[str]]:
    """Returns the properties that have a public getter or setter, with the types that a value may have."""
    found: dict[str, list[str]] = {}
    for method in holder.getClass().getMethods():
        name, given = str(method.getName()), [str(one.getName()) for one in method.getParameterTypes()]
        if name.startswith(verb) and len(name) > len(verb) and len(given) == arguments:
            found.setdefault(name.removeprefix(verb), []).extend(given)
    return {name: [kind for kind in _TYPES if kind in kinds] for name, kinds in found.items()}


def _property(step: str) -> str:
    return step[:1].upper() + step[1:]


def _unknown(holder: Any, step: str, name: str, known: Any) -> ProviderMisconfigured:
    names = sorted(known)
    near = did_you_mean(_property(step), names) or "."
    text = f"{_class_of(holder)} has no property {step!r}{near} It has {', '.join(names)}"
    return ProviderMisconfigured(f"properties.{name}: {text}")


def _class_of(holder: Any) -> str:
    return str(holder.getClass().getName())
