"""``connector test``: runs the cases beside the configuration."""

from __future__ import annotations

import difflib
import json as json_module
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from connector.cli.common import (
    DEFAULT_CONFIG,
    BadArgument,
    ConfigOption,
    JsonOption,
    answer,
    answer_json,
    note,
    printable,
    read_destination,
)
from connector.cli.send import add_property
from connector.config.cases import SUFFIX, Case, ExpectedObject, read_cases
from connector.config.loading import Configuration, load
from connector.config.problems import Problems
from connector.errors import ConfigurationError
from connector.events.explain import Explainer, Explanation
from connector.messaging.message import Message
from connector.parts import explaining_settings, make_event_settings


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
    configuration = load(config, in_process=True)
    files = list(_files(paths or [configuration.directory]))
    problems = Problems()
    definitions = configuration.metaobjects.definitions
    cases = [
        case for file in files for case in read_cases(file, os.path.relpath(file), definitions, problems)
    ]
    if problems.errors:
        raise ConfigurationError(problems.sorted())
    if not cases:
        where = " ".join(str(path) for path in paths or [configuration.directory])
        raise BadArgument(f"there is no case: no *{SUFFIX} in {where}")
    settings = make_event_settings(configuration, "")
    explainer = Explainer(explaining_settings(configuration), settings.copies, str(configuration.directory))
    failed = 0
    for case in cases:
        mismatches = _run(case, explainer, configuration)
        failed += bool(mismatches)
        where = f"{case.position.file}:{case.position.line}"
        if json:
            answer_json(
                {"case": case.name, "place": where, "passed": not mismatches, "mismatches": mismatches}
            )
        elif mismatches:
            answer(f"FAILED {where}: {printable(case.name)}")
            for line in mismatches:
                answer(f"  {line}")
    if not json:
        answer(f"{len(cases) - failed} passed, {failed} failed")
    else:
        note(f"{len(cases) - failed} passed, {failed} failed")
    raise typer.Exit(1 if failed else 0)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            for directory, names, files in os.walk(path):
                names[:] = sorted(
                    name
                    for name in names
                    if not name.startswith(".") and not os.path.exists(Path(directory, name, "pyvenv.cfg"))
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
    for text in case.properties:
        add_property(message, text)
    inputs = configuration.connector.inputs
    if not case.destination and not inputs:
        raise BadArgument(f"{case.name}: the configuration has no InputDestination: give message.destination")
    destination = read_destination(case.destination) if case.destination else inputs[0].destination
    found = explainer.explain(message, str(destination))
    return [*_facts(case, found), *_objects(case.objects, found), *_subscribers(case, found)]


def _facts(case: Case, found: Explanation) -> Iterator[str]:
    actual = {
        "outcome": found.outcome,
        "destination": found.settled or "none",
        "rule": found.rule or "none",
        "data_handler": found.data_handler,
    }
    for key, expected in case.facts.items():
        if key == "reason":
            if expected not in (found.error or _unwanted(found)):
                yield f"reason: expected {expected!r} in {found.error or _unwanted(found)!r}"
            continue
        same = actual[key] == expected
        if key == "destination" and found.settled and expected != "none":
            same = str(read_destination(expected)) == found.settled
        if not same:
            because = f" ({printable(found.error)})" if key == "outcome" and found.error else ""
            yield f"{key}: expected {expected}, found {actual[key]}{because}"


def _unwanted(found: Explanation) -> str:
    one = next((one for one in found.objects if not one.subscribers), None)
    return "" if one is None else f"no subscription wants {one.object}.{one.verb}"


def _objects(expected: Sequence[ExpectedObject], found: Explanation) -> Iterator[str]:
    if not expected:
        return
    if not found.objects:
        yield f"object: expected {expected[0].object or 'an object'}, found none: {printable(found.error)}"
        return
    if len(expected) != len(found.objects):
        yield f"records: expected {len(expected)}, found {len(found.objects)}"
    for number, (wanted, bo) in enumerate(zip(expected, found.business_objects, strict=False), 1):
        place = f"record {number}: " if len(expected) > 1 else ""
        for key, name, has in (("object", wanted.object, bo.type), ("verb", wanted.verb, bo.verb)):
            if name is not None and name != has:
                yield f"{place}{key}: expected {name}, found {has}"
        if wanted.values is not None:
            values = bo.as_dict(body_only=not _has_metaobject(wanted, bo.definition.metaobject_attributes))
            if not wanted.whole:
                values = _common(wanted.values, values)
            yield from (f"{place}{line}" for line in _difference(wanted.values, values))


def _has_metaobject(wanted: ExpectedObject, names: Sequence[str]) -> bool:
    return any(name in (wanted.values or {}) for name in names)


def _common(wanted: Any, values: Any) -> Any:
    """Returns the part of the values that a case with ``contains`` looks at."""
    if isinstance(wanted, dict) and isinstance(values, dict):
        return {name: _common(wanted.get(name), value) for name, value in values.items() if name in wanted}
    if isinstance(wanted, list) and isinstance(values, list):
        shared = [_common(one, other) for one, other in zip(wanted, values, strict=False)]
        return shared + values[len(shared) :]
    return values


def _difference(expected: Any, found: Any) -> Iterator[str]:
    """Yields the lines of a diff, one attribute a line."""
    if expected == found:
        return
    before, after = (
        json_module.dumps(one, ensure_ascii=False, indent=2, sort_keys=True).splitlines()
        for one in (expected, found)
    )
    lines = list(difflib.unified_diff(before, after, "expected", "found", lineterm="", n=2))
    yield from lines or [f"expected {expected!r}, found {found!r}"]


def _subscribers(case: Case, found: Explanation) -> Iterator[str]:
    if case.subscriptions is None:
        return
    actual = list(dict.fromkeys(name for one in found.objects for name in one.subscribers))
    if sorted(actual) != sorted(case.subscriptions):
        expected = ", ".join(case.subscriptions) or "none"
        yield f"subscriptions: expected {expected}, found {', '.join(actual) or 'none'}"
