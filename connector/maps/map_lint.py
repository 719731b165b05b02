"""Checks a map against the definitions of both objects, and makes it."""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path
from typing import Final

from connector.businessobjects.definition import Definitions, Field, Schema
from connector.businessobjects.expression_types import ExpressionMistake, Type, type_expression, type_of
from connector.businessobjects.expressions import Expression, compile_expression
from connector.businessobjects.types import DECIMAL, NUMBERS, TEXTS
from connector.config.expression_lint import lookups_of
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.reading import node_at
from connector.declare.tree import Table
from connector.errors import MalformedData, UnknownBusinessObject
from connector.maps.expression_map import ExpressionMap, MappedAttribute
from connector.maps.section import MapDocument
from connector.text.names import nearest, shown

_INEXACT: Final = ("Float", "Double")


def make_map(
    document: ProblemReporter, section: MapDocument, definitions: Definitions, use_defaults: bool
) -> ExpressionMap | None:
    """Returns the map of a document, or None when the document has a mistake, which is reported."""
    before = document.problems.errors
    for key, name in (("from", section.source), ("to", section.target)):
        if name not in definitions:
            found, near = f"there is no business object {shown(name)}", nearest(name, definitions)
            document.add((key,), found, "a business object in metaobjects", near)
    if document.problems.errors > before:
        return None
    try:
        source, target = definitions.schema(section.source), definitions.schema(section.target)
    except UnknownBusinessObject:
        return None  # reported where an attribute has this type
    _check_verb(document, section, source, target)
    attributes = [
        made
        for name, text in section.attributes.items()
        if (made := _attribute(document, name, text, source, target)) is not None
    ]
    written = node_at(document.tree, ("attributes",))  # also those with mistakes
    given = written.entries if isinstance(written, Table) else ()
    for missing in _missing(target, given, use_defaults=use_defaults):
        document.add(("attributes",), f"no {missing}, which {target.name} requires", "an expression for it")
    if document.problems.errors > before:
        return None
    return ExpressionMap(section.map, source.name, target.name, section.verb, tuple(attributes))


def _check_verb(document: ProblemReporter, section: MapDocument, source: Schema, target: Schema) -> None:
    verbs, own = target.definition.verbs, source.definition.verbs
    if section.verb is not None and section.verb not in verbs:
        found, expected = f"{target.name} has no verb {shown(section.verb)}", f"one of {', '.join(verbs)}"
        document.add(
            ("verb",), found, expected if verbs else "a verb in its definition", nearest(section.verb, verbs)
        )
    elif section.verb is None and not own.keys() & verbs.keys():
        found = f"no verb, and {target.name} has no verb of {source.name}"
        document.add(("to",), found, f"verb: {' or '.join(verbs)}" if verbs else "a verb in its definition")


def _attribute(
    document: ProblemReporter, name: str, text: str, source: Schema, target: Schema
) -> MappedAttribute | None:
    """Checks an attribute of a map. Returns None when it has a mistake."""
    where = ("attributes", name)
    field = target.fields.get(name)
    if field is None:
        found, near = f"{target.name} has no attribute {shown(name)}", nearest(name, target.fields)
        document.add(where, found, f"one of {', '.join(target.fields)}", near, at_key=True)
        return None
    try:
        lookups = lookups_of(text, Path(document.tree.position.file).parent)
    except ValueError as error:
        found, _, expected = str(error).partition(", expected ")
        document.add(where, found, expected)
        return None
    compiled = compile_expression(text)
    typed = type_expression(compiled, source)
    mistakes = list(typed.mistakes) or list(_misfits(compiled, typed.type, field))
    for mistake in mistakes:
        document.add(where, *mistake)
    return None if mistakes else MappedAttribute(name, text, lookups)


def _misfits(compiled: Expression, found: Type, field: Field) -> Iterator[ExpressionMistake]:
    """Yields why the value of an expression cannot be that of an attribute."""
    value = compiled.tree.get("value")
    if compiled.tree["type"] != "literal" or field.from_typed is None or value is None:
        yield from _Fit().check(found, field, field.name)
        return
    try:
        checked = field.from_typed(compiled.search({}))
        if field.check is not None:
            field.check(checked)
    except (ValueError, MalformedData) as error:
        text, _, expected = str(error).partition(", expected ")
        yield ExpressionMistake(text, expected or f"a {field.attribute.type}")


class _Fit:
    """Compares the type of an expression with an attribute, and with its children."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()

    def check(self, found: Type, field: Field, path: str) -> Iterator[ExpressionMistake]:
        if not found.kind:
            return
        if field.many != (found.kind == "array"):
            expected = f"a list ({field.attribute.type})" if field.many else f"a {field.attribute.type}"
            yield ExpressionMistake(f"{path}: {found}", expected)
            return
        one = found.element if field.many else found
        if field.child is not None:
            yield from self._check_child(one, field.child, path)
        elif one.kind and not _holds(field.attribute.type, one):
            exact = ", which is not exact" if field.attribute.type == DECIMAL else ""
            yield ExpressionMistake(f"{path}: {one}{exact}", f"a {field.attribute.type}")

    def _check_child(self, found: Type, child: Schema, path: str) -> Iterator[ExpressionMistake]:
        if found.kind not in ("", "object"):
            yield ExpressionMistake(f"{path}: {found}", f"an object ({child.name})")
            return
        members = found.members
        if found.schema is not None:
            pair = found.schema.name, child.name
            if pair[0] == pair[1] or pair in self._seen:
                return
            self._seen.add(pair)
            members = {name: type_of(field) for name, field in found.schema.fields.items()}
        for name, inner in (members or {}).items():
            field = child.fields.get(name)
            if field is None:
                text = f"{path}: {child.name} has no attribute {shown(name)}"
                expected = f"one of {', '.join(child.fields)}"
                yield ExpressionMistake(text, expected, nearest(name, child.fields))
            else:
                yield from self.check(inner, field, f"{path}.{name}")
        if members is not None:
            for name in _missing(child, members, use_defaults=True):
                yield ExpressionMistake(f"{path}: no {name}, which {child.name} requires", "it, too")


def _holds(type_name: str, found: Type) -> bool:
    """Tells whether an attribute may hold values of a type."""
    if type_name in NUMBERS:
        if type_name == DECIMAL:
            return found.kind in ("number", "string") and found.name not in _INEXACT
        return found.kind == "number"
    if type_name == "Boolean":
        return found.kind == "boolean"
    return found.kind == "string" and (type_name in TEXTS or found.name in ("", "Date", *TEXTS))


def _missing(schema: Schema, given: Container[str], *, use_defaults: bool) -> Iterator[str]:
    """Yields the required attributes that nothing gives."""
    for field in schema.required:
        if field.name not in given and not (use_defaults and field.attribute.default is not None):
            yield field.name
