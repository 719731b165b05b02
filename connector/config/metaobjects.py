"""Reads ``metaobjects/*.yaml`` into definitions, rules and options."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.object_map import ObjectMap
from connector.businessobjects.rules import StaticMetaObject
from connector.config.document_kinds import DOCUMENTS, DocumentKind
from connector.config.metaobject_model import (
    ALIASES,
    NAME_RULE,
    REFUSED,
    BusinessObjectDocument,
    HandlerDocument,
    StaticDocument,
    is_name,
)
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.problems import Position, Problems
from connector.declare.reading import Location, Model, SectionReader, find, join, node_at
from connector.declare.section import Section
from connector.declare.tree import Items, Leaf, Node, Table, kind_of, read_file
from connector.formats.datahandler import OptionText
from connector.plugins import PlugInError
from connector.text.names import nearest, shown

_IGNORE: Final = "CxIgnore"
"""The text for no default in WBI Adapter for JMS."""

KINDS: Final = ("business_object", "static_metaobject", "datahandler_metaobject")
"""The keys that name the kind of a document."""


def _expected() -> str:
    *names, last = (*KINDS, *DOCUMENTS.names)
    return f"{', '.join(names)} or {last}"


@dataclass(frozen=True, slots=True)
class MetaObjects:
    """The meta-objects of a deployment.

    Attributes:
        handler_options: data-handler meta-object -> MIME type -> option -> its value, as written.
        maps: by their names.
    """

    definitions: Definitions = field(default_factory=Definitions)
    static: dict[str, StaticMetaObject] = field(default_factory=dict)
    handler_options: dict[str, dict[str, dict[str, OptionText]]] = field(default_factory=dict, repr=False)
    maps: dict[str, ObjectMap] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document(ProblemReporter):
    """A document, and the list that gets its mistakes. Paths have the names of keys as written."""

    kind: str
    name: str

    def path(self, location: Location) -> str:
        _, _, path = find(self.tree, location)
        return join(self.name, path)

    def keys(self, section: str) -> list[str]:
        """Returns the keys of a mapping in the document, also those with mistakes."""
        node = self.tree.entries.get(section)
        return list(node.entries) if isinstance(node, Table) else []


class StaticTexts(NamedTuple):
    """The texts of a static meta-object.

    Attributes:
        defaults: those of ``Default``.
        rules: those of each rule, by its id.
        numbers: name and position of each rule that stands in a list, by its id.
    """

    defaults: dict[str, Leaf]
    rules: dict[str, dict[str, Leaf]]
    numbers: dict[str, tuple[str, int]]

    def said(
        self, static: StaticMetaObject
    ) -> Iterator[tuple[Location, Mapping[str, str], Mapping[str, Leaf]]]:
        """Yields the places that say how messages are sent, their properties, and their own texts."""
        yield ("Default",), static.defaults, self.defaults
        for one in static.entries:
            yield ("rules", one.id), one.properties, self.rules[one.id]


@dataclass(slots=True)
class Collected:
    """All documents of a deployment.

    Attributes:
        incomplete: a part could not be read, so a missing name may be defined there.
        defaults: texts of attribute defaults, by business object and attribute.
        facets: as they are written, by business object, attribute and key.
        rules: the texts of each static meta-object, by its name.
        others: the documents of further kinds, by their names: how each makes its map, and its section.
        home_of: as of :func:`collect`.
    """

    documents: dict[str, Document] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    defaults: dict[tuple[str, str], Leaf] = field(default_factory=dict)
    facets: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    rules: dict[str, StaticTexts] = field(default_factory=dict)
    handler_options: dict[str, dict[str, dict[str, OptionText]]] = field(default_factory=dict)
    others: dict[str, tuple[DocumentKind, Section]] = field(default_factory=dict)
    incomplete: bool = False
    home_of: Callable[[str], str | None] | None = None


def collect(
    sources: Sequence[tuple[Path, str, Position, str]],
    problems: Problems,
    home_of: Callable[[str], str | None] | None = None,
) -> Collected:
    """Reads the files and directories of ``metaobjects:``.

    Args:
        sources: path, path as the user would type it, place in ``adapter.yaml``, path of the field.
        home_of: as of :class:`connector.declare.reading.SectionReader`.
    """
    collected = Collected(home_of=home_of)
    seen: set[Path] = set()
    for path, display, position, where in sources:
        for file, shown_file in _files(path, display, position, where, problems, collected):
            real = file.resolve()
            if real in seen:
                continue
            seen.add(real)
            documents = read_file(file, shown_file, problems)
            if documents is None:
                collected.incomplete = True
            for document in documents or ():
                _take(document, collected, problems)
    return collected


def _files(
    path: Path, display: str, position: Position, where: str, problems: Problems, collected: Collected
) -> Iterator[tuple[Path, str]]:
    if not path.is_dir():
        if path.exists():
            yield path, display
            return
        collected.incomplete = True
        problems.add(position, where, f"there is no {display}", "a directory of *.yaml files, or a file")
        return
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        collected.incomplete = True
        problems.add(position, where, f"{display} cannot be read: {error.strerror}", "a readable directory")
        return
    # *.test.yaml are test cases of data handlers.
    names = [n for n in names if n.endswith(".yaml") and not n.endswith(".test.yaml") and n[0] != "."]
    if not names:
        problems.add(position, where, f"there is no *.yaml in {display}", "definitions", warning=True)
    for name in names:
        yield path / name, os.path.join(display, name)


def _take(node: Node, collected: Collected, problems: Problems) -> None:
    if not isinstance(node, Table):
        problems.add(node.position, "", kind_of(node), f"a mapping with {_expected()}")
        collected.incomplete = True
        return
    kinds = (*KINDS, *DOCUMENTS.names)
    present = [kind for kind in kinds if kind in node.entries]
    if len(present) != 1:
        collected.incomplete = True
        if present:
            where = node.keys[present[1]].position
            problems.add(
                where, present[1], f"{' and '.join(present)} in one document", "--- between documents"
            )
            return
        first = next(iter(node.keys.values()), None)
        near = next((close for key in node.keys if (close := nearest(key, kinds))), None)
        problems.add(
            first.position if first else node.position, "", "a document of unknown kind", _expected(), near
        )
        return
    kind = present[0]
    name_node = node.entries[kind]
    if not isinstance(name_node, Leaf) or not is_name(name_node):
        collected.incomplete = True
        found = shown(name_node) if isinstance(name_node, Leaf) else kind_of(name_node)
        problems.add(name_node.position, kind, found, f"a name: {NAME_RULE}")
        return
    name = str(name_node)
    table = _rename(node, problems, name)
    document = Document(table, problems, kind, name)
    first_document = collected.documents.get(name)
    if first_document is not None:
        first_position = first_document.key_position(first_document.kind)
        problems.add(
            name_node.position,
            kind,
            f"{name!r} is defined twice, first in {first_position.file}:{first_position.line}",
            "one definition",
        )
        return
    collected.documents[name] = document
    readers = {
        "business_object": _read_business_object,
        "static_metaobject": _read_static,
        "datahandler_metaobject": _read_handlers,
    }
    readers.get(kind, _read_other)(document, collected, problems)


def _read_other(document: Document, collected: Collected, problems: Problems) -> None:
    """Reads a document of a kind that is found by entry point."""
    try:
        kind = DOCUMENTS.load(document.kind)
    except PlugInError as error:
        problems.add(document.key_position(document.kind), document.kind, str(error.text), "")
        return
    read = _read(kind.section, document, collected)
    if read is not None:
        collected.others[document.name] = kind, read


def _rename(table: Table, problems: Problems, path: str) -> Table:
    """Returns the table with the key names of WBI Adapter for JMS replaced by the short names."""
    renamed = Table(table.position)
    for key, value in table.entries.items():
        written = table.keys[key]
        short = ALIASES.get(key, key)
        if short in renamed.entries:
            first = renamed.keys[short]
            problems.add(
                written.position,
                join(path, key),
                f"{first.raw!r} in line {first.position.line} and {key!r} in line {written.position.line} "
                "are the same key",
                "one of them",
            )
            continue
        renamed.put(Leaf.of(short, written.position, raw=key), value)
    return renamed


def _each(table: Table, key: str) -> Iterator[tuple[str, Node]]:
    inner = table.entries.get(key)
    if isinstance(inner, Table):
        yield from list(inner.entries.items())


def _set(table: Table, key: str, name: str, node: Node) -> None:
    inner = table.entries[key]
    if isinstance(inner, Table):
        inner.entries[name] = node


def _check_names(document: Document, key: str, problems: Problems) -> None:
    inner = document.tree.entries.get(key)
    if not isinstance(inner, Table):
        return
    for name in [name for name in inner.entries if not is_name(name)]:
        problems.add(inner.keys[name].position, join(document.name, f"{key}.{name}"), shown(name), NAME_RULE)
        del inner.entries[name], inner.keys[name]


def _read(model: type[Model], document: Document, collected: Collected) -> Model | None:
    reader = SectionReader(document.problems, home_of=collected.home_of)
    return reader.read(model, document.tree, document.name, refused=REFUSED).section


def _spell_out(document: Document, problems: Problems) -> None:
    """Replaces the short forms of verbs and attributes in the tree of a business object, and wrong names."""
    table = document.tree
    if isinstance(listed := table.entries.get("verbs"), Items):
        table.entries["verbs"] = _verbs_of_list(listed, f"{document.name}.verbs", problems)
    for key in ("verbs", "attributes"):
        _check_names(document, key, problems)
    for name, node in _each(table, "verbs"):
        if isinstance(node, Leaf) and node.is_absent:
            _set(table, "verbs", name, Table(node.position))
        elif isinstance(node, Table):
            _set(table, "verbs", name, _rename(node, problems, f"{document.name}.verbs.{name}"))
    for name, node in _each(table, "attributes"):
        if isinstance(node, Leaf) and not node.is_absent:
            short = Table(node.position)
            short.put(Leaf.of("type", node.position), node)
            _set(table, "attributes", name, short)
        elif isinstance(node, Leaf):
            _set(table, "attributes", name, Table(node.position))
        elif isinstance(node, Table):
            _set(table, "attributes", name, _rename(node, problems, f"{document.name}.attributes.{name}"))


def _read_business_object(document: Document, collected: Collected, problems: Problems) -> None:
    _spell_out(document, problems)
    read = _read(BusinessObjectDocument, document, collected)
    if read is None:
        collected.incomplete = True
        return
    attributes = {}
    for name, entry in read.attributes.items():
        attributes[name] = Attribute(
            name=name,
            type=entry.type,
            is_key=entry.key,
            is_foreign_key=entry.foreign_key,
            is_required=entry.required,
            max_length=entry.max_length,
            cardinality=entry.cardinality.lower(),
            app_specific_info=entry.app_specific_info,
            is_required_server_bound=entry.required_server_bound,
            contained_object_version=entry.contained_object_version or "",
            relationship=entry.relationship or "",
            digits=entry.digits,
            scale=entry.scale,
            may_be_blank=entry.blank,
        )
        facets = {
            "values": entry.values,
            "minimum": entry.minimum,
            "maximum": entry.maximum,
            "pattern": entry.pattern,
            "min_length": entry.min_length,
        }
        if any(value not in (None, [], 0) for value in facets.values()):
            collected.facets[document.name, name] = facets
        if isinstance(entry.default, Leaf) and entry.default != _IGNORE:
            collected.defaults[document.name, name] = entry.default
    # A verb counts as defined also if its entry has a mistake.
    verbs = {name: Verb(name) for name, _ in _each(document.tree, "verbs")}
    verbs.update({name: Verb(name, verb.app_specific_info) for name, verb in read.verbs.items()})
    collected.definitions[document.name] = Definition(
        document.name,
        read.version,
        read.app_specific_info,
        attributes,
        verbs,
    )


def _verbs_of_list(verbs: Items, path: str, problems: Problems) -> Table:
    """Returns a list of verbs as a mapping of verbs without properties."""
    table = Table(verbs.position)
    for index, verb in enumerate(verbs.items):
        if not isinstance(verb, Leaf) or verb.is_absent:
            found = kind_of(verb) if not isinstance(verb, Leaf) else "nothing"
            problems.add(
                verb.position, f"{path}[{index}]", found, "a verb; verbs with properties are a mapping"
            )
        elif verb in table.entries:
            problems.add(verb.position, f"{path}[{index}]", f"the verb {shown(verb)} stands twice", "it once")
        else:
            table.put(verb, Leaf.of("", verb.position))
    return table


def _read_static(document: Document, collected: Collected, problems: Problems) -> None:
    table = document.tree
    numbers = _separate_lists(document, problems)
    for name, node in _each(table, "rules"):
        if isinstance(node, Leaf):
            _set(table, "rules", name, _pairs(node, f"{document.name}.rules.{name}", problems))
    rules = table.entries.get("rules")
    if isinstance(rules, Table) and "Default" in rules.entries:
        # In WBI Adapter for JMS, Default is an attribute beside the rules.
        key, node = rules.keys.pop("Default"), rules.entries.pop("Default")
        if "Default" in table.entries:
            problems.add(key.position, f"{document.name}.rules.Default", "a second Default", "one")
        else:
            table.put(key, node)
    default = table.entries.get("Default")
    if isinstance(default, Leaf) and not default.is_absent:
        table.entries["Default"] = _pairs(default, f"{document.name}.Default", problems)
    read = _read(StaticDocument, document, collected)
    if read is None:
        collected.incomplete = True
        return

    def texts(names: set[str], *location: str) -> dict[str, Leaf]:
        holder = node_at(table, location)
        found = {}
        for key, node in holder.entries.items() if isinstance(holder, Table) else ():
            if key in names and isinstance(node, Leaf):
                found[key] = node
        return found

    defaults: dict[str, Leaf] = {}
    if read.default is not None:
        defaults = texts(_names_of_keys(read.default), "Default")
    collected.rules[document.name] = StaticTexts(
        defaults,
        {name: texts(_names_of_keys(entry), "rules", name) for name, entry in read.rules.items()},
        numbers,
    )


def _separate_lists(document: Document, problems: Problems) -> dict[str, tuple[str, int]]:
    """Replaces each list of rules by its rules. Returns their names and positions by their ids."""
    rules = document.tree.entries.get("rules")
    if not isinstance(rules, Table) or not any(isinstance(node, Items) for node in rules.entries.values()):
        return {}
    separate, numbers = Table(rules.position), {}
    for name, node in rules.entries.items():
        if not isinstance(node, Items):
            if name not in numbers:
                separate.put(rules.keys[name], node)
            continue
        if not node.items:
            problems.add(node.position, f"{document.name}.rules.{name}", "an empty list", "at least one rule")
        for number, item in enumerate(node.items):
            found = f"{name}[{number}]"
            if found in rules.keys:
                text = f"the name of a rule in the list {name}, too"
                problems.add(
                    rules.keys[found].position, f"{document.name}.rules.{found}", text, "another name"
                )
            separate.put(Leaf.of(found, item.position), item)
            numbers[found] = name, number
    document.tree.entries["rules"] = separate
    return numbers


def _names_of_keys(entry: object) -> set[str]:
    """Returns the keys of a rule that were read, by their names in the file."""
    fields = type(entry).model_fields  # type: ignore[attr-defined]
    return {fields[name].alias or name for name in entry.model_fields_set}  # type: ignore[attr-defined]


def _pairs(leaf: Leaf, path: str, problems: Problems) -> Table:
    """Returns ``name=value;name=value`` as a mapping."""
    table = Table(leaf.position)
    offset = 0
    for part in leaf.split(";"):
        column = leaf.position.column + offset + len(part) - len(part.lstrip()) + (not leaf.plain)
        # The columns of the file match those of the text only in the first line.
        position = leaf.position if "\n" in leaf else leaf.position._replace(column=column)
        offset += len(part) + 1
        if not part.strip():
            continue
        name, separator, value = part.strip().partition("=")
        if not separator or not name.strip():
            problems.add(position, path, shown(part.strip()), "name=value;name=value")
        elif name.strip() in table.entries:
            problems.add(position, path, f"{name.strip()!r} stands twice", "it once")
        else:
            table.put(Leaf.of(name.strip(), position), Leaf.of(value.strip(), position))
    return table


def _read_handlers(document: Document, collected: Collected, problems: Problems) -> None:
    table = document.tree
    handlers = table.entries.get("handlers")
    if isinstance(handlers, Items):
        problems.add(handlers.position, f"{document.name}.handlers", "a list", "MIME type: options")
        table.entries.pop("handlers")
    for name, node in _each(table, "handlers"):
        if isinstance(node, Leaf) and node.is_absent:
            _set(table, "handlers", name, Table(node.position))
    read = _read(HandlerDocument, document, collected)
    if read is None:
        collected.incomplete = True
        return
    collected.handler_options[document.name] = {
        mime: {option: value for option, value in options.items() if value is not None}
        for mime, options in read.handlers.items()
    }
