"""Makes the documents of ``metaobjects/*.yaml`` from the business objects of a repository file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from connector.authoring.metaobject_files import SUFFIX, Neighbours
from connector.authoring.metaobject_text import DocumentText, Entries, Path, Places, file_text, remove
from connector.authoring.repository_import.reader import FileSection
from connector.authoring.repository_import.recognition import (
    CLASS_NAME,
    DEFAULT,
    handler_children,
    has_class_name,
    is_handlers,
    is_static,
    mime_type,
    rule_key,
    simple_type,
)
from connector.businessobjects.definition import OBJECT_EVENT_ID, SIMPLE_TYPES, Definition, Verb
from connector.businessobjects.rules import split_rule_name
from connector.config.metaobject_model import ALIASES, MATCH_KEYS, NAME_RULE, is_name
from connector.declare.problems import Position, Problems
from connector.errors import ConfigurationError, Problem
from connector.formats.catalogue import Catalogue
from connector.text.names import nearest, shown

BUSINESS_OBJECT: Final = "business_object"
STATIC: Final = "static_metaobject"
HANDLERS: Final = "datahandler_metaobject"

_SHIPPED_CLASSES: Final = "com.crossworlds.DataHandlers."
_DUMMY: Final = "dummy"
"""The start of the names of attributes that are only there because every object needs a key."""
_MAX_RULE: Final = 161
"""Characters of two names with ``_`` between them."""
_ROUNDS: Final = 20


@dataclass(slots=True)
class Imported:
    """A document, and the places in the repository file that its entries come from."""

    document: DocumentText
    place: Position
    places: dict[Path, Position] = field(default_factory=dict)
    left_out: list[tuple[int, str]] = field(default_factory=list)

    @property
    def file_name(self) -> str:
        return f"{self.document.name}{SUFFIX}"

    def set(self, path: Path, value: str | Entries, place: Position) -> None:
        holder: Entries = self.document.entries
        for key in path[:-1]:
            inner = holder.setdefault(key, {})
            assert isinstance(inner, dict)
            holder = inner
        holder[path[-1]] = value
        self.places[path] = place

    def place_of(self, path: Path) -> Position:
        """Returns the place of an entry, else of the nearest entry around it."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places[path] if path else self.place

    def leave_out(self, problems: Problems, path: Path, reason: str, place: Position | None = None) -> None:
        """Reports an entry that has no counterpart."""
        place = place or self.place_of(path)
        name = ".".join((self.document.name, *path))
        problems.add(place, name, f"left out: {reason}", "", warning=True)
        self.left_out.append((place.line, f"{name}: {reason}"))

    def section(self, key: str) -> Entries:
        """Returns a copy of a mapping in the document."""
        inner = self.document.entries.get(key)
        return dict(inner) if isinstance(inner, dict) else {}

    def text(self) -> str:
        head = [f"Imported from {self.place.file}, line {self.place.line}."]
        if self.left_out:
            head += ["Left out:", *(f"  line {line}: {text}" for line, text in sorted(self.left_out))]
        self.document.head = head
        return file_text([self.document])


def convert(
    objects: Mapping[str, FileSection],
    problems: Problems,
    catalogue: Catalogue,
    *,
    static: Collection[str] = (),
    handlers: Collection[str] = (),
) -> list[Imported]:
    """Returns the documents for business objects, in their order.

    Args:
        problems: gets a warning for each part that has no counterpart.
        static: names of static meta-objects. Others are recognised.
        handlers: names of data-handler meta-objects. Others are recognised.

    Raises:
        ConfigurationError: a name is not valid.
    """
    tops = {
        name
        for name, section in objects.items()
        if name in handlers or (name not in static and is_handlers(section, objects))
    }
    options = _options_only(objects, tops)
    found = []
    for name, section in objects.items():
        if name in options:
            continue
        if not is_name(name):
            raise _bad_name(section, "the business object")
        if name in tops:
            found.append(_convert_handlers(section, objects, catalogue, problems))
        elif name in static or is_static(section):
            found.append(_convert_static(section, problems))
        else:
            found.append(_convert_object(section, objects))
            if has_class_name(section):
                problems.add(
                    section.place("Name"),
                    name,
                    "looks like the options of a data handler, but no data-handler meta-object has it as a "
                    "child: written as a business object",
                    "",
                    warning=True,
                )
    return found


def _options_only(objects: Mapping[str, FileSection], tops: Collection[str]) -> set[str]:
    """Returns the objects that serve only as options of data handlers."""
    inside, elsewhere = set(), set()
    for name, section in objects.items():
        types = {one.get("Type") for one in section.attributes.values()}
        if name in tops:
            inside |= types & objects.keys()
        else:
            elsewhere |= types
    return inside - elsewhere - set(tops)


# --- business objects ------------------------------------------------------------------------


def _convert_object(section: FileSection, objects: Mapping[str, FileSection]) -> Imported:
    found = Imported(DocumentText(BUSINESS_OBJECT, section.name), section.place("Name"))
    for key in ("Version", "AppSpecificInfo"):
        if section.get(key):
            found.set((ALIASES[key],), section.get(key), section.place(key))
    for name, verb in section.verbs.items():
        if not is_name(name):
            raise _bad_name(verb, "the verb")
        found.set(("verbs", name), {}, verb.place("Name"))
        if verb.get("AppSpecificInfo"):
            path = ("verbs", name, ALIASES["AppSpecificInfo"])
            found.set(path, verb.get("AppSpecificInfo"), verb.place("AppSpecificInfo"))
    for name, attribute in section.attributes.items():
        if name == OBJECT_EVENT_ID:
            continue  # the connector has the id of every event, declared or not
        if not is_name(name):
            raise _bad_name(attribute, "the attribute")
        found.set(("attributes", name), {}, attribute.place("Name"))
        for key, text, source in _attribute_entries(attribute, objects):
            found.set(("attributes", name, key), text, attribute.place(source))
    return found


def _attribute_entries(
    attribute: FileSection, objects: Mapping[str, FileSection]
) -> Iterator[tuple[str, str, str]]:
    """Yields key, text and the key in the repository file, without the texts that are the defaults."""
    written = attribute.get("Type")
    simple = None if written in objects else simple_type(written)
    yield "type", simple or written, "Type"
    for key in ("IsKey", "IsForeignKey", "IsRequired", "IsRequiredServerBound"):
        flag = attribute.get(key).lower()
        if flag not in ("", "false"):
            yield ALIASES[key], flag, key
    length = attribute.get("MaxLength")
    if length not in ("", "0") and simple is not None:  # files give children a length, too
        yield ALIASES["MaxLength"], length, "MaxLength"
    if attribute.get("DefaultValue"):
        yield ALIASES["DefaultValue"], attribute.get("DefaultValue"), "DefaultValue"
    if attribute.get("Cardinality") not in ("", "1"):
        yield ALIASES["Cardinality"], attribute.get("Cardinality").lower(), "Cardinality"
    if simple is None and attribute.get("ContainedObjectVersion"):
        yield "contained_object_version", attribute.get("ContainedObjectVersion"), "ContainedObjectVersion"
    for key in ("Relationship", "RelationshipType"):
        if attribute.get(key) and attribute.get(key).lower() != "containment":  # there is no other
            yield ALIASES["Relationship"], attribute.get(key), key
    if attribute.get("AppSpecificInfo"):
        yield ALIASES["AppSpecificInfo"], attribute.get("AppSpecificInfo"), "AppSpecificInfo"


# --- static meta-objects ---------------------------------------------------------------------


def _convert_static(section: FileSection, problems: Problems) -> Imported:
    found = Imported(DocumentText(STATIC, section.name), section.place("Name"))
    for name, attribute in section.attributes.items():
        info = attribute.get("AppSpecificInfo")
        if name == OBJECT_EVENT_ID or (not info and name.lower().startswith(_DUMMY)):
            continue
        place = attribute.place("Name")
        path: Path = (DEFAULT,) if name == DEFAULT else ("rules", name)
        if simple_type(attribute.get("Type")) != "String":
            found.leave_out(problems, path, f"type {shown(attribute.get('Type'))} of a rule", place)
            continue
        found.set(path, {}, place)
        place = attribute.place("AppSpecificInfo")
        for part in info.split(";"):
            key, equals, text = part.partition("=")
            key, text = rule_key(key.strip()), text.strip()
            if not part.strip():
                continue
            if not equals or not key:
                found.leave_out(problems, path, f"{shown(part.strip())}, which is not name=value", place)
            elif (*path, key) in found.places:
                found.leave_out(problems, (*path, key), "it stands twice", place)
            else:
                text = text.lower() if text.lower() in ("true", "false") else text
                found.set((*path, key), text, place)
    if DEFAULT in found.document.entries:  # in front of the rules that it completes
        found.document.entries = {DEFAULT: found.document.entries.pop(DEFAULT), **found.document.entries}
    return found


# --- data-handler meta-objects ---------------------------------------------------------------


def _convert_handlers(
    section: FileSection,
    objects: Mapping[str, FileSection],
    catalogue: Catalogue,
    problems: Problems,
) -> Imported:
    found = Imported(DocumentText(HANDLERS, section.name), section.place("Name"))
    children = set(handler_children(section, objects))
    for name, attribute in section.attributes.items():
        type_name = attribute.get("Type")
        place = attribute.place("Name")
        if name == OBJECT_EVENT_ID or (simple_type(type_name) is not None and type_name not in objects):
            continue  # the key that every object needs
        mime = mime_type(name, catalogue)
        path: Path = ("handlers", mime)
        if type_name not in objects:
            found.leave_out(problems, path, f"there is no {shown(type_name)} with its options", place)
            continue
        if path in found.places:
            found.leave_out(problems, path, f"{shown(name)} means a MIME type a second time", place)
            continue
        found.set(path, {}, place)
        child = objects[type_name]
        if type_name in children:
            _check_class(found, path, child, problems)
        for option, entry in child.attributes.items():
            text = entry.get("DefaultValue")
            if not text or option in (OBJECT_EVENT_ID, CLASS_NAME) or option.lower().startswith(_DUMMY):
                continue
            found.set((*path, option), text, entry.place("DefaultValue"))
    return found


def _check_class(found: Imported, path: Path, child: FileSection, problems: Problems) -> None:
    attribute = child.attributes[CLASS_NAME]
    name = attribute.get("DefaultValue")
    if name and not name.startswith(_SHIPPED_CLASSES):
        found.leave_out(
            problems,
            (*path, CLASS_NAME),
            f"{shown(name)}, a data handler of your own, has to be written in Python",
            attribute.place("DefaultValue"),
        )


# --- the check -------------------------------------------------------------------------------


def fit(imported: list[Imported], neighbours: Neighbours, problems: Problems) -> dict[str, str]:
    """Leaves out what ``connector check`` would refuse. Returns the texts of the files, by name.

    Args:
        problems: gets a warning for each entry that is left out.

    Raises:
        ConfigurationError: a definition of this name exists already, or cannot be carried over.
    """
    taken = neighbours.names()
    twice = [one for one in imported if one.document.name in taken]
    if twice:
        raise ConfigurationError([_twice(one, taken[one.document.name]) for one in twice])
    _leave_out_unknown(imported, neighbours.definitions, problems)
    by_file = {neighbours.display(one.file_name): one for one in imported}
    for _ in range(_ROUNDS):
        texts = {one.file_name: one.text() for one in imported}
        mistakes = [problem for problem in neighbours.check(texts) if not problem.warning]
        if not mistakes:
            return texts
        places = {name: Places(texts[by_file[name].file_name]) for name in {one.file for one in mistakes}}
        refused = [one for one in mistakes if not _prune(one, by_file[one.file], places[one.file], problems)]
        if refused:
            raise ConfigurationError([_at_source(one, by_file[one.file]) for one in refused])
    raise ConfigurationError([_at_source(one, by_file[one.file]) for one in mistakes])


def _leave_out_unknown(
    imported: list[Imported], others: Mapping[str, Definition], problems: Problems
) -> None:
    """Leaves out attributes whose types are not defined, and rules whose objects or verbs are not.

    The check finds them, too. But the check looks for the nearest name of each, which takes long for many.
    """
    definitions = dict(others)
    for one in imported:
        if one.document.kind == BUSINESS_OBJECT:
            verbs = {name: Verb(name) for name in one.section("verbs")}
            definitions[one.document.name] = Definition(one.document.name, verbs=verbs)
    for one in imported:
        for name, entries in one.section("attributes").items():
            written = entries.get("type") if isinstance(entries, dict) else None
            if isinstance(written, str) and written not in definitions and written not in SIMPLE_TYPES:
                path: Path = ("attributes", name)
                place = one.place_of((*path, "type"))
                remove(one.document.entries, path)
                one.leave_out(problems, path, f"there is no type {shown(written)}", place)
        for name in one.section("rules"):
            if len(name) > _MAX_RULE or not split_rule_name(name, definitions):
                path = ("rules", name)
                remove(one.document.entries, path)
                one.leave_out(problems, path, "there is no such business object with such a verb")


def _prune(mistake: Problem, imported: Imported, places: Places, problems: Problems) -> bool:
    """Removes the entry that has a mistake. Returns False if no entry has the mistake."""
    path = places.path(mistake.line, mistake.column)
    if path[:1] == ("attributes",) and len(path) == 2 and (*path, "type") in imported.places:
        place = imported.place_of((*path, "type"))  # of `Name: String`, or of the attribute as a whole
    else:
        place = imported.place_of(path)
    reason = mistake.mistake
    if len(path) == 3 and path[2] == "type":
        path = path[:2]
    elif len(path) == 3 and path[0] == "rules" and path[2] in MATCH_KEYS:
        reason = f"{path[2]}: {reason}"
        path = path[:2]  # without the key the rule would match more messages
    elif len(path) < 2 and path != (ALIASES["AppSpecificInfo"],):
        return False
    if remove(imported.document.entries, path):
        imported.leave_out(problems, path, reason, place)
    return True  # a second mistake of an entry that was removed for the first


def _at_source(mistake: Problem, imported: Imported) -> Problem:
    place = imported.place
    return Problem(place.file, place.line, 0, mistake.path, mistake.found, mistake.expected, mistake.nearest)


def _twice(imported: Imported, file: str) -> Problem:
    place, name = imported.place, imported.document.name
    return Problem(place.file, place.line, 0, name, f"defined already, in {file}", "one definition")


def _bad_name(section: FileSection, what: str) -> ConfigurationError:
    place = section.place("Name")
    return ConfigurationError(
        [Problem(place.file, place.line, 0, "", f"{what} {shown(section.name)}", f"a name of {NAME_RULE}")]
    )


def check_named(names: Collection[str], objects: Mapping[str, FileSection], option: str) -> None:
    """Checks the names that the user has given with an option.

    Raises:
        ConfigurationError: the file has no such object.
    """
    unknown = [name for name in names if name not in objects]
    if unknown:
        raise ConfigurationError(
            [
                Problem(option, 0, 0, "", f"no {shown(name)} in the file", "", nearest(name, objects))
                for name in unknown
            ]
        )
