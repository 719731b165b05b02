"""The resolved configuration: every key with its value, as it would be written in the file.

Secrets are masked: values of keys whose name says that they are secret, wherever they came from,
and the user part of URLs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml

from connector.config.loading import Configuration

MASK: Final = "********"

_SECRET: Final = re.compile(
    r"passw|passphrase|passwd|\bpwd|secret|token|credential|private.?key|access.?key|api.?key|auth.?key",
    re.IGNORECASE,
)
_USER_PART: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s]*@")


def is_secret(key: str) -> bool:
    """Whether a key of this name holds a secret."""
    return _SECRET.search(key) is not None


def mask(value: Any, key: str = "") -> Any:
    """The value, also a mapping or list of values, with every secret replaced by :data:`MASK`."""
    if isinstance(value, dict):
        return {name: mask(inner, name) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [mask(inner, key) for inner in value]
    if value is None or isinstance(value, bool):
        return value
    if is_secret(key):
        return MASK
    return _USER_PART.sub(rf"\g<1>{MASK}@", value) if isinstance(value, str) else value


def resolved(configuration: Configuration) -> dict[str, Any]:
    """The sections by their names in the file, defaults filled in, paths absolute, secrets masked.

    Keys without a value are left out, as the file has no word for that, and so are defaults that mean
    nothing here, such as ``InDoubtEvents`` without an ``InProgressDestination``: apart from secrets, the
    answer is itself a configuration, and the same one.
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
    subscriptions = []
    for subscription in configuration.subscriptions:
        entry = _section(subscription)
        if subscription.process is None:
            del entry["timeout"], entry["retries"]
        subscriptions.append(entry)
    sections: dict[str, Any] = {
        "provider": _section(configuration.provider),
        "connector": connector,
        "subscriptions": subscriptions,
        "metaobjects": [str(path) for path in configuration.metaobject_paths],
        "datahandlers": _path(configuration.datahandlers),
        "spark": _section(configuration.spark),
        "logging": _section(configuration.logging),
        "state": _section(configuration.state),
    }
    masked: dict[str, Any] = mask({key: value for key, value in sections.items() if value is not None})
    return masked


def as_yaml(document: dict[str, Any]) -> str:
    """The resolved configuration as the text of an ``adapter.yaml``."""
    text: str = yaml.safe_dump(_escaped(document), sort_keys=False, allow_unicode=True, width=110)
    return text.rstrip("\n")


def _escaped(value: Any) -> Any:
    """What was ``$${`` in the file is so again."""
    if isinstance(value, dict):
        return {key: _escaped(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_escaped(inner) for inner in value]
    return value.replace("${", "$${") if isinstance(value, str) else value


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _section(section: Any) -> dict[str, Any]:
    dumped = section.model_dump(by_alias=True)
    return {key: value for key, value in dumped.items() if value is not None}
