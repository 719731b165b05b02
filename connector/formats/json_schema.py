"""JSON Schema: checks JSON documents against a schema in a file.

Importing this module loads the package ``jsonschema_rs``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

from connector.errors import MalformedData
from connector.formats.json_schema_files import SchemaFiles, json_path
from connector.text.names import cut, shown

_SHOWN: Final = 200
_LARGE: Final = 5_000
"""The values of a document beyond which the mistakes of alternatives are not compared. The engine needs more
than a kilobyte for each mistake."""
_NAMED_BY_PLACE: Final = ("dependentRequired", "dependencies", "minContains", "maxContains")
"""Rules whose name the engine tells by the place in the schema only."""

_kinds: Final = jsonschema_rs.ValidationErrorKind


class JsonSchema:
    """A JSON Schema of the drafts 4, 6, 7, 2019-09 or 2020-12.

    ``$schema`` of a file names its draft. Without ``$schema`` a file has the draft of the first file, and the
    first file that of 2020-12. ``format`` is no rule, as in that draft.
    :mod:`connector.formats.json_schema_files` says where references lead to.

    Raises:
        ValueError: a file cannot be read, is no schema, or refers to another place.
    """

    def __init__(self, path: Path) -> None:
        self._name = path.name
        try:
            self._files = SchemaFiles(path.resolve())
        except RuntimeError:
            raise ValueError(f"{path}: too many links in a circle, expected a file") from None
        except ValueError as error:
            if str(path) in str(error):
                raise
            raise ValueError(f"{path} leads to another file: {error}") from None
        self._validator = self._files.validator()
        self._brief: Any = None
        """The validator for large documents, made at the first one."""

    def check(self, document: Any, subject: str) -> None:
        """Checks a document.

        Args:
            document: as a JSON parser makes it. Numbers may be Decimals, which keep all digits.
            subject: the document in the words of the error.

        Raises:
            MalformedData: the document breaks a rule of the schema. The text names the JSON path, the kind of
                the value and the rule, but no value.
        """
        try:
            if self._validator.is_valid(document):
                return
            reason = self._reason(document)
        except UnicodeError:
            raise MalformedData(f"{subject} is no valid Unicode: half of a surrogate pair") from None
        except RecursionError:
            raise MalformedData(f"{subject} is nested too deeply for the schema {self._name}") from None
        raise MalformedData(f"{subject} breaks the schema {self._name}: {reason}")

    def _reason(self, document: Any) -> str:
        if _is_large(document) and self._brief is None:
            try:
                self._brief = self._files.validator(brief=True)
            except ValueError:  # a reference that leads into alternatives
                self._brief = self._validator
        try:
            (self._brief if _is_large(document) else self._validator).validate(document)
        except jsonschema_rs.ValidationError as error:
            best = _best(error)
            names, value = _find(document, best.instance_path)
            return f"{cut(json_path(names), _SHOWN)}: {self._mistake(best, value)}"
        raise AssertionError("the document is valid after all")

    def _mistake(self, error: Any, value: Any) -> str:
        """Returns the kind of a value and the rule that it breaks. The value itself may be a secret."""
        kind, found, rule = error.kind, _kind_of(value), error.kind.name
        wanted: Any = None
        match kind:
            case _kinds.FalseSchema():
                return f"found {found}, expected nothing here"
            case _kinds.BacktrackLimitExceeded() | _kinds.RegexEngineFailure():
                return f"found {found}, expected {rule}: the comparison takes too many steps"
            case _kinds.PropertyNames(error=inner):
                return f"found an object with a name, {self._mistake(inner, '')[len('found ') :]}"
            case _kinds.OneOfMultipleValid(context=alternatives):
                fitting = sum(not mistakes for mistakes in alternatives)
                return f"found {found} that fits {fitting} alternatives, expected {rule}: one that fits"
            case _kinds.AnyOf() | _kinds.OneOfNotValid():
                return f"found {found} that fits no alternative, expected {rule}: one that fits"
            case _kinds.Not(schema={"connector-alternatives": rule}):  # json_schema_files.ALTERNATIVES
                return f"found {found}, expected {rule}: one alternative that fits"
            case _kinds.Required(property=name):
                found, wanted = f"an object without {shown(name)}", [name]
            case (
                _kinds.AdditionalProperties(unexpected=names) | _kinds.UnevaluatedProperties(unexpected=names)
            ):
                found, wanted = f"an object with {shown(names[0])}", False
            case _kinds.UnevaluatedItems():
                wanted = False
            case _kinds.UniqueItems():
                wanted = True
            case _kinds.Type(types=types):
                wanted = types[0] if len(types) == 1 else types
            case _kinds.Pattern(pattern=pattern):
                wanted = self._files.originals.get(pattern, pattern)
            case _:
                wanted = kind.value
        if error.schema_path and error.schema_path[-1] in _NAMED_BY_PLACE:
            rule = error.schema_path[-1]
        if wanted is None:
            return f"found {found}, expected {rule}"
        text = json.dumps(wanted, ensure_ascii=False, default=str)
        return f"found {found}, expected {rule}: {cut(text, _SHOWN)}"


def _is_large(document: Any) -> bool:
    left = _LARGE
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            left -= len(value)
            if left < 0:
                return True
            waiting.extend(value.values() if isinstance(value, dict) else value)
    return False


def _best(error: Any) -> Any:
    """Returns the mistake of the alternative that fits best, which is the deepest one, if it is only one.

    A value of another type than an alternative expects is far from that alternative.
    """
    while isinstance(error.kind, _kinds.AnyOf | _kinds.OneOfNotValid):
        level = len(error.instance_path)
        firsts = [_best(mistakes[0]) for mistakes in error.kind.context if mistakes]
        near = [one for one in firsts if len(one.instance_path) > level or one.kind.name != "type"]
        deepest = max((len(one.instance_path) for one in near or firsts), default=0)
        nearest = [one for one in near or firsts if len(one.instance_path) == deepest]
        if len(nearest) != 1:
            return error
        error = nearest[0]
    return error


def _find(document: Any, path: list[str | int]) -> tuple[list[str | int], Any]:
    """Returns a path and the value there. The engine tells a name of digits as a number."""
    names: list[str | int] = []
    value = document
    for part in path:
        if isinstance(value, dict) and isinstance(part, int):
            part = next((name for name in value if name.lstrip("+0") == (str(part) if part else "")), "")
        names.append(part)
        if isinstance(value, dict) and part not in value:
            break
        value = value[part]
    return names, value


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else "a number"
