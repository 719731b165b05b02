"""The JSON Schema of ``adapter.yaml``, for editors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from connector.config.model import AdapterFile
from connector.config.provider_section import provider_sections
from connector.config.sinks import SINKS
from connector.declare.section import DEFAULT_PROVIDER, ProviderSection

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Returns the schema. The schema covers the keys and the form of values, but not all checks."""
    entries = [entry for _, entry in SINKS.all()]
    sinks, definitions = models_json_schema([(entry, "validation") for entry in entries], by_alias=True)
    schema = AdapterFile.model_json_schema(by_alias=True)
    schema["properties"]["provider"] = {"anyOf": _providers(schema["$defs"])}
    schema["$defs"].update(definitions["$defs"])
    schema["properties"]["subscriptions"]["items"] = {"anyOf": [*sinks.values()]}
    _tidy(schema)
    connector = schema["$defs"]["Connector"]["properties"]
    for name, model in provider_sections().items():  # keys that a provider adopts
        provider = schema["$defs"][name]
        connector.update({key: dict(one) for key, one in provider["properties"].items() if model.adopts(key)})
        if "patternProperties" in provider:
            schema["$defs"]["Connector"]["patternProperties"] = provider["patternProperties"]
    _allow_short_forms(schema, sinks)
    for section in (schema, *schema["$defs"].values()):
        for key, field in section["properties"].items():
            if key not in section.get("required", ()):
                _or_nothing(field)
    return {"$schema": DIALECT, "title": "adapter.yaml", **schema}


def _allow_short_forms(schema: dict[str, Any], sinks: Mapping[Any, dict[str, Any]]) -> None:
    """Allows the forms that a model splits before the check of the type.

    Args:
        sinks: references to the sections of the subscriptions.
    """
    connector = schema["$defs"]["Connector"]["properties"]
    listed = connector["InputDestination"].pop("items")
    connector["InputDestination"].pop("type")
    entry = {"anyOf": [{"type": "string"}, listed]}
    connector["InputDestination"]["anyOf"] = [
        {"type": "array", "items": entry},
        {"type": "string"},
        {"type": "null"},
    ]
    tokens = schema["$defs"]["Http"]["properties"]["tokens"]
    tokens["items"] = {"anyOf": [{"type": ["string", "number"]}, tokens["items"]]}
    for sink in sinks.values():
        rest_after = schema["$defs"][sink["$ref"].rpartition("/")[2]]["properties"].get("rest_after")
        if rest_after is not None:
            rest_after["anyOf"].insert(0, {"type": "integer", "minimum": 1})
    events = schema["$defs"]["Http"]["properties"]["events"]
    events["items"] = {"anyOf": [{"type": "string"}, events["items"]]}
    for section, key in (
        ("AdapterFile", "metaobjects"),
        *((sink["$ref"].rpartition("/")[2], "verbs") for sink in sinks.values()),
        ("Spark", "ship"),
        ("Http", "tokens"),
        ("Http", "events"),
        ("Http", "hosts"),
        ("TokenEntry", "roles"),
        ("RetryLaterEntry", "on"),
    ):
        properties = (
            schema["properties"] if section == "AdapterFile" else schema["$defs"][section]["properties"]
        )
        field = properties[key]
        lists = field.pop("anyOf", None) or [{"type": field.pop("type"), "items": field.pop("items")}]
        field["anyOf"] = [*lists, {"type": "string"}]


def _providers(definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """Replaces the base section among the definitions by the section of each provider."""
    del definitions[ProviderSection.__name__]
    references = []
    for name, model in provider_sections().items():
        schema = model.model_json_schema(by_alias=True, ref_template=f"#/$defs/{name}.{{model}}")
        inner = schema.pop("$defs", {})
        schema["properties"]["type"]["const"] = name
        if name != DEFAULT_PROVIDER:
            schema["required"] = ["type", *schema.get("required", ())]
        definitions[name] = schema
        definitions.update({f"{name}.{key}": value for key, value in inner.items()})
        references.append({"$ref": f"#/$defs/{name}"})
    return references


def _or_nothing(field: dict[str, Any]) -> None:
    """Allows a key without a value, which counts as not given."""
    about: dict[str, Any] = {key: field.pop(key) for key in ("description", "default") if key in field}
    forms = field.pop("anyOf", None) or [dict(field)]
    field.clear()
    nothing = {"type": "null"}
    field.update(about, anyOf=forms if nothing in forms else [*forms, nothing])


def _tidy(node: Any) -> None:
    """Takes out the titles that only repeat the name of a field."""
    if isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        for value in node.values():
            _tidy(value)
    elif isinstance(node, list):
        for value in node:
            _tidy(value)
