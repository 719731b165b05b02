"""The resolved configuration: every key with its value, in the form of the file.

Values of keys with a secret name are masked, from the file or the environment. So is the user part of URLs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from connector.config.loading import Configuration
from connector.declare.masking import mask
from connector.declare.value_types import MIN_FREE


def as_document(configuration: Configuration) -> dict[str, Any]:
    """Returns the sections by name, with defaults, absolute paths and masked secrets.

    Keys without a value are left out. So are defaults without effect, such as ``InDoubtEvents`` without an
    ``InProgressDestination``. Apart from secrets, the result is the same configuration again.
    """
    connector = _section(configuration.connector)
    if configuration.connector.in_progress_destination is None:
        del connector["InDoubtEvents"]
    given = configuration.connector.model_fields_set
    options = configuration.metaobjects.handler_options
    if "data_handler_config_mo" not in given and connector["DataHandlerConfigMO"] not in options:
        del connector["DataHandlerConfigMO"]
    if "default_verb" not in given:
        definitions = configuration.metaobjects.definitions
        if not any(connector["DefaultVerb"] in definition.verbs for definition in definitions.values()):
            del connector["DefaultVerb"]
    sections: dict[str, Any] = {
        "provider": _section(configuration.provider),
        "connector": connector,
        "subscriptions": [_section(subscription) for subscription in configuration.subscriptions],
        "metaobjects": [str(path) for path in configuration.metaobject_paths],
        "datahandlers": _path(configuration.datahandlers),
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
    return masked


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


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _section(section: Any) -> dict[str, Any]:
    dumped = section.model_dump(by_alias=True)
    return {key: value for key, value in dumped.items() if value is not None}
