"""The resolved configuration: every key with its value, in the form of the file.

Values of keys with a secret name are masked, from the file or the environment. So are the user part of URLs,
and every content of ``${file:PATH}``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel

from connector.config.loading import Configuration
from connector.config.model import AdapterFile
from connector.declare.input_entry import InputEntry
from connector.declare.masking import mask, mask_texts
from connector.declare.value_types import MIN_FREE


def as_document(configuration: Configuration) -> dict[str, Any]:
    """Returns the sections by name, with defaults, absolute paths and masked secrets.

    Keys without a value are left out. So are defaults without effect, such as ``InDoubtEvents`` without an
    ``InProgressDestination``. Apart from secrets, the result is the same configuration again.
    """
    connector = _section(configuration.connector)
    if configuration.connector.by_input:
        connector["InputDestination"] = [*_inputs(configuration)]
    if configuration.connector.in_progress_destination is None:
        del connector["InDoubtEvents"]
    given = configuration.connector.model_fields_set
    options = configuration.metaobjects.handler_options
    if "data_handler_config_mo" not in given and connector["DataHandlerConfigMO"] not in options:
        del connector["DataHandlerConfigMO"]
    if "default_verb" not in given and not _is_verb(connector["DefaultVerb"], configuration):
        del connector["DefaultVerb"]
    sections: dict[str, Any] = {
        "provider": _section(configuration.provider),
        "connector": connector,
        "subscriptions": [_section(subscription) for subscription in configuration.subscriptions],
        "timers": [_section(one) for one in configuration.timers] or None,
        "metaobjects": [str(path) for path in configuration.metaobject_paths],
        "datahandlers": None if configuration.datahandlers is None else str(configuration.datahandlers),
        "spark": _section(configuration.spark),
        "logging": _section(configuration.logging),
        "state": None if configuration.state is None else _section(configuration.state),
        "min_free": MIN_FREE.write(configuration.min_free),
        "health": _section(configuration.health),
        "http": None if configuration.http is None else _section(configuration.http),
        "tracing": None if configuration.tracing is None else _section(configuration.tracing),
        "databases": {one.name: {"url": one.url} for one in configuration.databases} or None,
    }
    masked: dict[str, Any] = mask({key: value for key, value in sections.items() if value is not None})
    return mask_texts(masked, configuration.file_contents) if configuration.file_contents else masked


def _is_verb(verb: str, configuration: Configuration) -> bool:
    """Whether a business object has a verb."""
    return any(verb in definition.verbs for definition in configuration.metaobjects.definitions.values())


def _inputs(configuration: Configuration) -> Iterator[dict[str, Any]]:
    """Yields each input with the keys that an input may have of its own, as they hold for this input."""
    connector = configuration.connector
    fields = InputEntry.model_fields
    shared = [field.alias or name for name, field in fields.items() if name in type(connector).model_fields]
    for entry in connector.inputs:
        written = entry.short_form()
        options = {"destination": written} if isinstance(written, str) else written
        resolved = connector.of(entry.input)
        values = _section(resolved)
        if resolved.data_handler_class_name is not None:
            del values["DataHandlerMimeType"]
        if entry.default_verb is None and not _is_verb(resolved.default_verb, configuration):
            del values["DefaultVerb"]
        own = {key: value for key, value in options.items() if key not in shared}
        yield own | {key: values[key] for key in shared if key in values}


class ExplainedKey(NamedTuple):
    """A key of the resolved configuration.

    Args:
        key: with the keys above it, below the section.
        value: masked if it is a secret, in YAML.
    """

    key: str
    value: str
    text: str


def explained(configuration: Configuration) -> dict[str, list[ExplainedKey]]:
    """Returns the keys of :func:`as_document` by section. Each key has its meaning."""
    found: dict[str, list[ExplainedKey]] = {}
    for name, value in as_document(configuration).items():
        section = getattr(configuration, name, None)
        field = AdapterFile.model_fields.get(name)
        rows = list(_explained(name, value, section, field.description if field is not None else None))
        found[name] = [row._replace(key=row.key.removeprefix(f"{name}.")) for row in rows]
    return found


def _explained(key: str, value: Any, model: Any, text: str | None) -> Iterator[ExplainedKey]:
    """Yields a key, or the keys below it.

    Args:
        value: as :func:`as_document` returns it.
        model: that the value comes from.
    """
    if isinstance(value, dict) and isinstance(model, BaseModel):
        names = {field.alias or name: name for name, field in type(model).model_fields.items()}
        for inner, one in value.items():
            name = names.get(inner, "")  # a provider of another package may write keys that are no fields
            field = type(model).model_fields.get(name)
            below = getattr(model, name, None)
            yield from _explained(f"{key}.{inner}", one, below, None if field is None else field.description)
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        models = model if isinstance(model, list | tuple) else ()
        for number, (one, each) in enumerate(itertools.zip_longest(value, models), 1):
            yield from _explained(f"{key}[{number}]", one, each, text)
    else:
        shown = yaml.safe_dump(
            value, default_flow_style=True, allow_unicode=True, width=10_000, sort_keys=False
        )
        yield ExplainedKey(key, shown.removesuffix("...\n").strip(), text or "")


def as_yaml(document: dict[str, Any]) -> str:
    """Returns the resolved configuration as the text of an ``adapter.yaml``."""
    text: str = yaml.safe_dump(_escape(document), sort_keys=False, allow_unicode=True, width=110)
    return text.rstrip("\n")


def _escape(value: Any) -> Any:
    """Escapes ``${`` as ``$${``, as the file has to."""
    if isinstance(value, dict):
        return {key: _escape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_escape(inner) for inner in value]
    return value.replace("${", "$${") if isinstance(value, str) else value


def _section(section: Any) -> dict[str, Any]:
    dumped = section.model_dump(by_alias=True)
    return {key: value for key, value in dumped.items() if value is not None}
