"""Loads the code of a deployment as ``run`` would, each piece in a child process of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from connector.config.loading import Configuration
from connector.datahandlers.text_handler import TextHandler
from connector.errors import ConnectorError
from connector.events.run.convert import Converter
from connector.events.run.open_sinks import OpenSinks
from connector.events.run.task_settings import TaskSettings
from connector.formats.handlers import Handlers, HandlerSpec, is_harmless
from connector.limits.call import call_limited
from connector.messaging.provider import Provider
from connector.messaging.provider_kind import Finding
from connector.service.assembly import make_task_settings
from connector.service.load_kind import loads_of
from connector.sinks.functions import load_process

_SECONDS: Final = 60.0
"""For each piece. A first import of a large library may take half of that."""

_ABSENT: Any = None  # nothing here reads a message or calls a sink


def check_imports(
    configuration: Configuration, provider: Provider, *, seconds: float = _SECONDS
) -> Iterator[Finding]:
    """Yields what ``run`` could not load: data handlers with their name handlers, sinks, functions of loads.

    Workers that run elsewhere import there, so of their code nothing is loaded.

    Args:
        provider: of the deployment. It need not be connected.
        seconds: the longest time for a piece.
    """
    directory = str(configuration.directory)
    kind = loads_of(configuration)
    for function in kind.functions(configuration) if kind is not None else ():
        load = functools.partial(load_process, function, directory)
        yield from _try(f"load {function}", load, seconds)
    if not configuration.spark.runs_here:
        return
    settings = make_task_settings(configuration, provider, _ABSENT)
    tried: dict[tuple[str, str], list[Finding]] = {}
    for spec in settings.handlers:
        what = (spec.reference, repr(spec.options))
        if what not in tried and not is_harmless(spec):
            handlers = Handlers(settings.handlers, settings.definitions, Path(directory))
            make = functools.partial(handlers.get, spec.mime_type, spec.config)
            tried[what] = list(_try(f"data handler {spec.reference}", make, seconds))
            yield from tried[what]
    good = tuple(
        _stand_in(spec) if tried.get((spec.reference, repr(spec.options))) else spec
        for spec in settings.handlers
    )
    rest = replace(settings, handlers=good)
    for one in settings.subscriptions:
        open_sink = functools.partial(_open, replace(rest, subscriptions=(one,)), directory)
        yield from _try(f"subscription {one.name}", open_sink, seconds)


def _stand_in(spec: HandlerSpec) -> HandlerSpec:
    """Returns a handler that can be made, in place of one that cannot, which shall not fail each sink."""
    return replace(spec, class_name="TextHandler", module=TextHandler.__module__, path="", options={})


def _open(settings: TaskSettings, directory: str) -> None:
    OpenSinks(settings, directory, Converter(settings, directory), _ABSENT).close()


def _try(name: str, load: Callable[[], object], seconds: float) -> Iterator[Finding]:
    """Yields why a piece cannot be loaded."""

    def loads() -> None:
        load()

    try:
        call_limited(loads, seconds, None, property_name="", subject="its code")
    except ConnectorError as error:
        yield Finding(name, False, " ".join(str(error).split()), needed=True)
