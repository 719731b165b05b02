"""Drafts a business object from samples in JSON, or from lines of JSON."""

from __future__ import annotations

import json
from typing import Any

from connector.authoring.drafting.draft import Draft, key
from connector.authoring.drafting.kinds import (
    BLANK,
    BOOLEAN,
    HUGE,
    guess_of_json,
    kind_of_number,
    kind_of_string,
)
from connector.authoring.drafting.sample_files import Samples
from connector.authoring.drafting.shape import SampleShape, draft_shape
from connector.datahandlers.json_handler import JsonHandler, parse_object, parse_objects
from connector.datahandlers.jsonlines_handler import JsonLinesHandler, lines_of
from connector.errors import MalformedData
from connector.formats.splitting import in_record

_KEYS = ("BusinessObject", "Verb")
"""The members of the outermost object that name the business object and the verb."""

_EITHER = "a list in one place, a single value in another"


class _Number(str):
    """A number as the sample writes it."""

    __slots__ = ()


def draft_json(draft: Draft, samples: Samples) -> None:
    """Drafts from JSON objects, or lists of them, as the data handler for ``application/json`` reads them.

    Raises:
        MalformedData: a body is neither.
    """
    draft.handler = JsonHandler
    shape = SampleShape()
    for body in samples.each(shape.count):
        if body.lstrip().startswith("["):
            parse_objects(body)  # the checks of the handler, and the limit of the depth
            for document in _values_of(body):
                _observe_document(draft, shape, document)
            draft.need("split", True, "the sample is a list")
        else:
            parse_object(body)
            _observe_document(draft, shape, _values_of(body))
    draft_shape(draft, draft.top, shape, guess_of_json)


def draft_json_lines(draft: Draft, samples: Samples) -> None:
    """Drafts from lines with a JSON object each. All lines of a file are one sample.

    Raises:
        MalformedData: a line is no JSON object.
    """
    draft.handler = JsonLinesHandler
    shape = SampleShape()
    for body in samples.each(shape.count):
        for number, line in enumerate(lines_of(body.encode()), 1):
            try:
                parse_object(line.text)
            except MalformedData as error:
                raise in_record(number, error, line.mistake(error)) from None
            if number == 2:
                draft.need("split", True, "the sample has several lines")
            _observe_document(draft, shape, _values_of(line.text))
    draft_shape(draft, draft.top, shape, guess_of_json)


def _values_of(body: str | bytes) -> Any:
    """Returns the value in a body, with numbers as the body writes them."""
    return json.loads(body, parse_int=_Number, parse_float=_Number)


def _observe_document(draft: Draft, shape: SampleShape, document: dict[str, Any]) -> None:
    if _has_null(document):
        draft.options["null"] = "value"
        draft.check_once("null means not set: the data handler needs null: value to tell it from missing")
    named = document.get(_KEYS[0])
    if isinstance(named, str) and not isinstance(named, _Number):
        draft.name_in_sample(named)
    verb = document.get(_KEYS[1])
    if isinstance(verb, str) and not isinstance(verb, _Number):
        draft.add_verb(verb)
    _observe_object(shape, {name: value for name, value in document.items() if name not in _KEYS})


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    return any(map(_has_null, value)) if isinstance(value, list) else value is None


def _observe_object(shape: SampleShape, value: dict[str, Any]) -> None:
    shape.is_object = True
    for name, inner in value.items():
        _observe(shape.member(key(name)), inner)


def _observe(shape: SampleShape, value: Any) -> None:
    if isinstance(value, list):
        shape.is_list = True
        if shape.is_single:
            shape.misfit = _EITHER
        for inner in value:
            if isinstance(inner, list):
                shape.misfit = "a list of lists"
            elif inner is None:
                shape.misfit = "a list with null"
            else:
                _observe_one(shape, inner)
    elif value is not None:
        shape.is_single = True
        if shape.is_list:
            shape.misfit = _EITHER
        _observe_one(shape, value)


def _observe_one(shape: SampleShape, value: Any) -> None:
    """Notes a value that is no list."""
    if isinstance(value, dict):
        _observe_object(shape, value)
    elif isinstance(value, bool):
        shape.add(BOOLEAN)
    elif isinstance(value, _Number):
        shape.add(kind_of_number(value) or HUGE, value)
    elif value:
        shape.add(kind_of_string(value))
    else:
        shape.add(BLANK)
