"""Drafts a business object from a JSON sample."""

from __future__ import annotations

import json
from typing import Any

from connector.authoring.drafting.draft import Draft, key
from connector.authoring.drafting.kinds import (
    BLANK,
    BOOLEAN,
    HUGE,
    kind_of_number,
    kind_of_string,
    type_of_json,
)
from connector.authoring.drafting.shape import SampleShape, draft_shape
from connector.datahandlers.json_handler import parse_object
from connector.text.encoding import decode

_KEYS = ("BusinessObject", "Verb")
"""The members of the outermost object that name the business object and the verb."""

_EITHER = "a list in one place, a single value in another"


class _Number(str):
    """A number as the sample writes it."""

    __slots__ = ()


def draft_json(draft: Draft, body: bytes) -> None:
    """Drafts from a JSON object, as the data handler for ``application/json`` reads it.

    Raises:
        MalformedData: the body is no JSON object.
    """
    parse_object(body)  # the checks of the handler, and the limit of the depth
    document: dict[str, Any] = json.loads(decode(body, "utf-8"), parse_int=_Number, parse_float=_Number)
    named = document.get(_KEYS[0])
    if isinstance(named, str) and not isinstance(named, _Number):
        draft.name_in_sample(named)
    verb = document.get(_KEYS[1])
    if isinstance(verb, str) and not isinstance(verb, _Number):
        draft.add_verb(verb)
    shape = SampleShape()
    _observe_object(shape, {name: value for name, value in document.items() if name not in _KEYS})
    draft_shape(draft, draft.top, shape, type_of_json)


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
        shape.kinds.add(BOOLEAN)
    elif isinstance(value, _Number):
        shape.kinds.add(kind_of_number(value) or HUGE)
    elif value:
        shape.kinds.add(kind_of_string(value))
    else:
        shape.kinds.add(BLANK)
