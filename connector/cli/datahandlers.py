"""``connector datahandlers``: lists the data handlers of a deployment and their options."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from connector.businessobjects.catalogue import Catalogue, HandlerInfo, discover
from connector.businessobjects.datahandler import COMMON_OPTIONS, Option
from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, answer, answer_json, note
from connector.config.loading import Configuration, load


def datahandlers(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Lists the data handlers that are there, each with its options, their types and defaults.

    Without a configuration the list has the shipped and installed ones. With --json each data handler is an
    object on a separate line.
    """
    configuration = load(config, in_process=True) if Path(config).exists() else None
    if configuration is None:
        note(f"{config} does not exist: without the data handlers of a deployment")
        catalogue = discover(Path())
    else:
        catalogue = discover(configuration.directory, configuration.datahandlers)
    for warning in catalogue.warnings:
        note(f"warning: {warning}")
    for info in catalogue.handlers:
        document = _document(info, catalogue, configuration)
        if json:
            answer_json(document)
        else:
            for line in _lines(document):
                answer(line)
    if not json:
        answer("options of every data handler")
        for option in COMMON_OPTIONS:
            answer(_option_line(_option(option, {})))


def _document(info: HandlerInfo, catalogue: Catalogue, configuration: Configuration | None) -> dict[str, Any]:
    given: dict[str, str] = {}
    is_default = False
    if configuration is not None:
        settings = configuration.connector
        options = configuration.metaobjects.handler_options.get(settings.data_handler_config_mo, {})
        given = {name: text for mime in info.mime_types for name, text in options.get(mime, {}).items()}
        is_default = not settings.data_handler_class_name and (
            catalogue.find(settings.data_handler_mime_type) is info
        )
    replaced = [mime for mime in info.mime_types if catalogue.find(mime) is not info]
    return {
        "mime_types": list(info.mime_types),
        "class": info.reference,
        "origin": info.origin,
        "doc": info.doc,
        "default": is_default,
        "replaced": replaced,
        "options": None if info.options is None else [_option(one, given) for one in info.options],
        "common_options": [_option(one, given) for one in COMMON_OPTIONS],
    }


def _option(option: Option, given: dict[str, str]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": option.name,
        "type": option.type.__name__.lower(),
        "default": option.default,
        "doc": option.doc,
    }
    if option.choices:
        document["choices"] = list(option.choices)
    if option.name in given:
        document["configured"] = given[option.name]
    return document


def _lines(document: dict[str, Any]) -> Iterator[str]:
    default = ", the default of the connector" if document["default"] else ""
    replaced = f", replaced for {', '.join(document['replaced'])}" if document["replaced"] else ""
    origin = f"{document['origin']}{default}{replaced}"
    yield f"{', '.join(document['mime_types'])}: {document['class']} ({origin})"
    if document["doc"]:
        yield f"  {document['doc']}"
    if document["options"] is None:
        yield "  options: not declared as literals"
    for option in document["options"] or ():
        yield _option_line(option)


def _option_line(option: dict[str, Any]) -> str:
    kind = " | ".join(option["choices"]) if "choices" in option else option["type"]
    configured = f", configured: {option['configured']}" if "configured" in option else ""
    return f"  {option['name']} ({kind}, default {option['default']!r}{configured}): {option['doc']}"
