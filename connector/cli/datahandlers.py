"""``connector datahandlers``: lists the data handlers of a deployment and their options."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, answer, answer_json, note
from connector.cli.deployment import note_mistakes
from connector.config.loading import Configuration, load_valid_parts
from connector.errors import ConfigurationError
from connector.formats.catalogue import Catalogue, HandlerInfo, discover, spec_for_class
from connector.formats.datahandler import COMMON_OPTIONS, Option

_CLASS_KEY: Final = "DataHandlerClassName"


def datahandlers(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Lists the data handlers that are there, each with its options, their types and defaults.

    Without a configuration the list has the shipped and installed ones. A configuration with mistakes is read
    as far as possible. With --json each data handler is an object on a separate line.
    """
    configuration = _load(config)
    if configuration is None:
        catalogue = discover(Path())
    else:
        catalogue = discover(configuration.directory, configuration.datahandlers)
    for warning in (*catalogue.mistakes, *catalogue.warnings):
        note(f"warning: {warning}")
    handlers = [*catalogue.handlers, *_named_classes(configuration)]
    for info in handlers:
        document = _document(info, catalogue, configuration)
        if json:
            answer_json(document)
        else:
            for line in _lines(document):
                answer(line)
    if not json:
        answer("options of every data handler")
        for option in COMMON_OPTIONS:
            answer(_option_line(_option(option, ())))


def _load(config: str) -> Configuration | None:
    """Returns the deployment without its mistakes. None = there is none, as stderr says.

    Raises:
        ConfigurationError: the user has named a file, and the file cannot be read.
    """
    if config == DEFAULT_CONFIG and not Path(config).exists():
        note(f"{config} does not exist: without the data handlers of a deployment")
        return None
    configuration, problems = load_valid_parts(config)
    if configuration is None:
        raise ConfigurationError(problems)
    if problems:
        note_mistakes(config, len(problems), "read as far as possible")
    return configuration


def _named_classes(configuration: Configuration | None) -> Iterator[HandlerInfo]:
    """Yields the data handlers that the connector or a rule names by their class."""
    if configuration is None:
        return
    names = [configuration.connector.data_handler_class_name or ""]
    for static in configuration.metaobjects.static.values():
        names += [
            properties.get(_CLASS_KEY, "").strip()
            for properties in (static.defaults, *(rule.handler for rule in static.rules))
        ]
    directory = configuration.directory
    for name in dict.fromkeys(filter(None, names)):
        try:
            spec = spec_for_class(name, directory)
            found = discover(directory, Path(spec.path)).handlers if spec.path else ()
        except ConfigurationError:
            continue  # one of the mistakes that connector check shows
        declared = next((one for one in reversed(found) if one.class_name == spec.class_name), None)
        if declared is None:
            declared = HandlerInfo(spec.class_name, (), "", spec.module, spec.path)
        yield replace(declared, mime_types=(name,), origin=f"named by {_CLASS_KEY}")


def _document(info: HandlerInfo, catalogue: Catalogue, configuration: Configuration | None) -> dict[str, Any]:
    is_class = ":" in info.mime_types[0]  # no MIME type has a colon
    configured: list[dict[str, Any]] = []
    default = ""
    if configuration is not None:
        settings = configuration.connector
        default = settings.default_handler
        configured = [
            {"option": option, "value": text, "mime_type": mime_type, "config": config}
            for config, by_type in configuration.metaobjects.handler_options.items()
            for mime_type, options in by_type.items()
            if catalogue.find(mime_type) is info
            for option, text in options.items()
        ]
    return {
        "mime_types": [] if is_class else list(info.mime_types),
        "class": info.reference,
        "origin": info.origin,
        "doc": info.doc,
        "default": default in info.mime_types
        if is_class or ":" in default
        else catalogue.find(default) is info,
        "replaced": []
        if is_class
        else [mime for mime in info.mime_types if catalogue.find(mime) is not info],
        "options": None if info.options is None else [_option(one, configured) for one in info.options],
        "common_options": [_option(one, configured) for one in COMMON_OPTIONS],
    }


def _option(option: Option, configured: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": option.name,
        "type": option.type.__name__.lower(),
        "default": option.default,
        "choices": list(option.choices),
        "doc": option.doc,
        "configured": [
            {name: value for name, value in one.items() if name != "option"}
            for one in configured
            if one["option"] == option.name
        ],
    }


def _lines(document: dict[str, Any]) -> Iterator[str]:
    default = ", the default of the connector" if document["default"] else ""
    replaced = f", replaced for {', '.join(document['replaced'])}" if document["replaced"] else ""
    names = f"{', '.join(document['mime_types'])}: " if document["mime_types"] else ""
    yield f"{names}{document['class']} ({document['origin']}{default}{replaced})"
    if document["doc"]:
        yield f"  {document['doc']}"
    if document["options"] is None:
        yield "  options: not declared as literals"
    for option in document["options"] or ():
        yield _option_line(option)
    for option in document["common_options"]:
        if option["configured"]:
            yield _option_line(option)


def _option_line(option: dict[str, Any]) -> str:
    kind = option["type"] if option["type"] == "dict" else " | ".join(option["choices"]) or option["type"]
    configured = "".join(
        f", configured for {one['mime_type']} in {one['config']}: {one['value']}"
        for one in option["configured"]
    )
    default = json_module.dumps(option["default"], ensure_ascii=False)
    return f"  {option['name']} ({kind}, default {default}{configured}): {option['doc']}"
