"""``connector test``: runs the cases beside the configuration."""

from __future__ import annotations

import base64
import copy
import difflib
import itertools
import os
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from connector.businessobjects.condition import Condition
from connector.businessobjects.definition import OBJECT_EVENT_ID, Schema
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import SECRET, text_of
from connector.cli.common import (
    DEFAULT_CONFIG,
    BadArgument,
    ConfigOption,
    JsonOption,
    answer,
    answer_json,
    counted,
    note,
    user_code,
)
from connector.config.loading import Configuration, load
from connector.declare.problems import Problems
from connector.errors import ConfigurationError, MalformedData
from connector.messaging.destination import names_of
from connector.messaging.message import Message
from connector.printable import printable
from connector.service.assembly import make_explainer
from connector.text.decimals import ExactFloat, from_number
from connector.text.json_text import from_json, to_json_text
from connector.workbench.cases import SUFFIX, Case, ExpectedMessage, ExpectedObject, read_cases
from connector.workbench.explain import Explainer, Explanation

_MASK: Final = "********"


def test(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH...", help=f"Files, or directories with *{SUFFIX}.", show_default=False),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    json: JsonOption = False,
) -> None:
    """Runs the cases in *.test.yaml: a message, and the expected object, outcome and destination.

    Without PATH all cases in the directory of the configuration run. No process is called, and nothing is
    sent. With --json each case is an object on a separate line. Exit status 1 when a case fails, 2 when a
    case cannot be read.
    """
    configuration = load(config, in_process=True, thorough=True)
    places = paths or [Path(os.path.relpath(configuration.directory))]
    root = getattr(configuration.provider, "root", None)  # where a provider keeps its messages
    problems = Problems()
    names = [entry.name for entry in configuration.subscriptions]
    with names_of(own_names=configuration.own_names):
        cases = [
            case
            for file in _files(places, root)
            for case in read_cases(file, os.path.relpath(file), configuration.metaobjects, names, problems)
        ]
    if problems.errors:
        raise ConfigurationError(problems.sorted())
    if not cases:
        raise BadArgument(f"there is no case: no *{SUFFIX} in {' '.join(str(path) for path in places)}")
    failed = 0
    with user_code(configuration.directory, configuration.logging.settings(debug=False)):
        explainer = make_explainer(configuration)
        results = [(case, _run(case, explainer, configuration)) for case in cases]
    for case, mismatches in results:
        failed += bool(mismatches)
        where = f"{case.position.file}:{case.position.line}"
        if json:
            answer_json(
                {"case": case.name, "place": where, "passed": not mismatches, "mismatches": mismatches}
            )
        elif mismatches:
            answer(f"FAILED {where}: {printable(case.name)}")
            for line in mismatches:
                answer(f"  {printable(line)}")
    summary = f"{len(cases) - failed} passed, {failed} failed"
    if json:
        note(summary)
    else:
        answer(summary)
    raise typer.Exit(1 if failed else 0)


def _files(paths: Sequence[Path], root: Path | None) -> Iterator[Path]:
    """Yields the files with cases.

    Args:
        root: this directory is skipped, because it may have any number of messages.
    """
    for path in paths:
        if path.is_dir():
            for directory, names, files in os.walk(path):
                names[:] = sorted(
                    name
                    for name in names
                    if not name.startswith(".")
                    and not os.path.exists(Path(directory, name, "pyvenv.cfg"))
                    and (root is None or os.path.abspath(Path(directory, name)) != os.path.abspath(root))
                )
                yield from (Path(directory, name) for name in sorted(files) if name.endswith(SUFFIX))
        elif path.is_file():
            yield path
        else:
            raise BadArgument(f"{path} does not exist")


def _run(case: Case, explainer: Explainer, configuration: Configuration) -> list[str]:
    """Returns how the result differs from what the case expects, as lines. Empty: the case passes."""
    message = Message(case.body, "B" if case.is_bytes else "T", message_id=f"ID:{case.name}")
    message.type = case.headers.get("type")
    message.correlation_id = case.headers.get("correlation_id")
    for name, kind, value in case.properties:
        message.set_property(name, value, kind)
    destination = case.destination
    if destination is None:
        inputs = configuration.connector.inputs
        if not inputs:
            raise BadArgument(
                f"{case.name}: the configuration has no InputDestination: give message.destination"
            )
        destination = inputs[0].destination
    found = explainer.explain(message, str(destination))
    return [
        *_facts(case, found),
        *_objects(case.objects, found),
        *_subscribers(case, found),
        *_sends(case, found),
        *_maps(case, found, configuration),
    ]


def _maps(case: Case, found: Explanation, configuration: Configuration) -> Iterator[str]:
    """Yields the difference between the objects that a case expects of maps and those that they make."""
    use_defaults = configuration.connector.use_defaults
    for name, expected in case.maps.items():
        made = configuration.metaobjects.maps[name]
        taken = [bo for bo in found.business_objects if bo.type == made.source]
        if len(taken) != len(expected):
            wanted, count = counted(len(expected), "object"), counted(len(taken), "object")
            yield f"maps: {name}: expected {wanted}, found {count}"
        for number, (wanted_one, bo) in enumerate(zip(expected, taken, strict=False), 1):
            place = f"maps: {name}: {f'record {number}: ' if len(expected) > 1 else ''}"
            try:
                result = made.make(bo, use_defaults=use_defaults)
            except MalformedData as error:
                yield f"{place}{error}"
            else:
                yield from _object(wanted_one, result, place)


def _facts(case: Case, found: Explanation) -> Iterator[str]:
    actual = {
        "outcome": found.outcome,
        "destination": found.settled or "none",
        "rule": found.rule or "none",
        "data_handler": found.data_handler,
    }
    if found.outcome == "failed" and not case.facts.keys() & {"outcome", "reason"}:
        yield f"outcome: found failed ({found.reason})"
    for key, expected in case.facts.items():
        if key == "reason":
            if expected not in found.reason:
                yield f"reason: expected {expected!r} in {found.reason!r}"
        elif actual[key] != expected:
            because = f" ({found.reason})" if key == "outcome" and found.reason else ""
            yield f"{key}: expected {expected}, found {actual[key]}{because}"


def _objects(expected: Sequence[ExpectedObject], found: Explanation) -> Iterator[str]:
    if not expected:
        return
    if not found.objects:
        yield f"object: expected {expected[0].object or 'an object'}, found none: {found.reason}"
        return
    if len(expected) != len(found.objects):
        yield f"records: expected {len(expected)}, found {len(found.objects)}"
    for number, (wanted, bo) in enumerate(zip(expected, found.business_objects, strict=False), 1):
        yield from _object(wanted, bo, f"record {number}: " if len(expected) > 1 else "")


def _object(wanted: ExpectedObject, bo: BusinessObject, place: str) -> Iterator[str]:
    for key, name, has in (("object", wanted.object, bo.type), ("verb", wanted.verb, bo.verb)):
        if name is not None and name != has:
            yield f"{place}{key}: expected {name}, found {has}"
    if wanted.values is not None and wanted.object == bo.type:
        for line in _values(wanted.values, bo, whole=wanted.whole):
            yield f"{place}{line}"
    if wanted.expression is not None and (reason := _misfit(wanted.expression, bo)) is not None:
        yield f"{place}jmespath: {wanted.expression.text} does not hold{reason}"


def _misfit(condition: Condition, bo: BusinessObject) -> str | None:
    """Returns why a condition cannot be evaluated for an object, or empty. None = the condition holds."""
    try:
        return None if condition.holds(bo, bo.as_dict()) else ""
    except ValueError as error:
        return f": {error}"


def _values(wanted: dict[str, Any], bo: BusinessObject, *, whole: bool) -> Iterator[str]:
    """Yields the difference between the values that a case expects and those of an object."""
    values = bo.as_dict()
    for name in (OBJECT_EVENT_ID, *bo.definition.metaobject_attributes):  # of the message, not of the body
        if name not in wanted:
            values.pop(name, None)
    wanted = _without_unset(wanted, values)
    if not whole:
        values = _common(wanted, values)
    if wanted != values:
        expected = copy.deepcopy(wanted)
        _mask(bo.definitions.schema(bo.type), expected, values)
        yield from _difference(_pretty(expected), _pretty(values))


def _without_unset(wanted: Any, values: Any) -> Any:
    """Returns the wanted values without each None that is not null in the object: it means not set."""
    if isinstance(wanted, list) and isinstance(values, list):
        pairs = itertools.zip_longest(wanted, values[: len(wanted)])
        return [_without_unset(one, other) for one, other in pairs]
    if not isinstance(wanted, dict):
        return wanted
    found = values if isinstance(values, dict) else {}
    return {
        name: _without_unset(value, found.get(name))
        for name, value in wanted.items()
        if value is not None or found.get(name, "") is None
    }


def _mask(schema: Schema, expected: dict[str, Any], found: dict[str, Any]) -> None:
    """Replaces each Ciphertext by a text that says only whether the two are equal."""
    for name, field in schema.fields.items():
        before, after = expected.get(name), found.get(name)
        if field.attribute.type == SECRET:
            if before:
                expected[name] = _MASK
            if after:
                found[name] = _MASK if before in (None, "", after) else f"{_MASK} (another text)"
        elif field.child is not None:
            pairs = [(before, after)]
            if field.many:
                pairs = list(itertools.zip_longest(before or (), after or ()))
            for one, other in pairs:
                _mask(field.child, one or {}, other or {})


def _common(wanted: Any, values: Any) -> Any:
    """Returns the part of the values that a case with ``contains`` looks at."""
    if isinstance(wanted, dict) and isinstance(values, dict):
        return {name: _common(wanted.get(name), value) for name, value in values.items() if name in wanted}
    if isinstance(wanted, list) and isinstance(values, list):
        shared = [_common(one, other) for one, other in zip(wanted, values, strict=False)]
        return shared + values[len(shared) :]
    return values


def _pretty(document: Any) -> list[str]:
    """Returns a document with one attribute a line."""
    return to_json_text(document, indent=2, sort_keys=True).splitlines()


def _difference(expected: Sequence[str], found: Sequence[str]) -> Iterator[str]:
    yield from difflib.unified_diff(expected, found, "expected", "found", lineterm="", n=2)


def _subscribers(case: Case, found: Explanation) -> Iterator[str]:
    if case.subscriptions is None:
        return
    actual = list(dict.fromkeys(name for one in found.objects for name in one.subscribers))
    if sorted(actual) != sorted(case.subscriptions):
        expected = ", ".join(case.subscriptions) or "none"
        yield f"subscriptions: expected {expected}, found {', '.join(actual) or 'none'}"


def _sends(case: Case, found: Explanation) -> Iterator[str]:
    for name, expected in case.sends.items():
        sent = [
            (one.sent, one.sends_to or "", bo.has_secret)
            for bo in found.objects
            for one in bo.subscriptions
            if one.name == name and one.sent is not None
        ]
        if len(sent) != len(expected):
            wanted_count, count = counted(len(expected), "message"), counted(len(sent), "message")
            yield f"sends: {name}: expected {wanted_count}, found {count}"
        for wanted, (message, sends_to, has_secret) in zip(expected, sent, strict=False):
            if wanted.destination is not None and str(wanted.destination) != sends_to:
                yield f"sends: {name}: destination: expected {wanted.destination}, found {sends_to}"
            yield from (f"sends: {name}: {line}" for line in _headers(wanted, message))
            before, after = _body(message.body if wanted.body is None else wanted.body), _body(message.body)
            if before != after and has_secret:
                yield f"sends: {name}: another body, which is not shown, because the object has a {SECRET}"
            elif before != after:
                yield f"sends: {name}:"
                yield from _difference(before, after)


def _headers(wanted: ExpectedMessage, message: Message) -> Iterator[str]:
    """Yields the differences between the expected headers and properties and those of a message."""
    has = {
        "priority": str(message.priority),
        "correlation_id": message.correlation_id or "none",
        "group": message.group_id or "none",
    }
    for key, text in wanted.headers.items():
        if text != has[key]:
            yield f"{key}: expected {text}, found {has[key]}"
    for name, kind, value in wanted.properties:
        found, found_kind = message.properties.get(name), message.property_types.get(name, "")
        has_value = None if found is None else text_of(found)
        if has_value != value or (kind and kind != found_kind):
            expected = "none" if value is None else f"{value} ({kind})" if kind else value
            there = "none" if has_value is None else f"{has_value} ({found_kind})"
            yield f"properties.{name}: expected {expected}, found {there}"


def _body(body: bytes) -> list[str]:
    """Returns the lines of a body. JSON has one member a line, so that its white space does not count."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return [f"base64 {base64.b64encode(body).decode()}"]
    try:
        return _pretty(_exact(from_json(text)))
    except (ValueError, RecursionError):
        return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _exact(value: Any) -> Any:
    """Returns a JSON value whose numbers have all their digits, without zeros at the end of the places."""
    if isinstance(value, dict):
        return {name: _exact(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_exact(inner) for inner in value]
    if not isinstance(value, ExactFloat):
        return value
    try:
        digits = text_of(from_number(value))
    except ValueError:  # an exponent that no Decimal may have
        return value.text
    return Decimal(digits.rstrip("0").rstrip(".") if "." in digits else digits)
