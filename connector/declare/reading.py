"""Reads a tree as a section. Every mistake becomes a problem, and all valid parts are kept.

A value that is wrong is taken out, and the section is read again without that value. So one mistake hides no
other mistake, neither here nor in the checks that compare sections.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from connector.declare.problems import Position, Problems
from connector.declare.tree import Items, Leaf, Node, Table, is_absent, kind_of
from connector.plugins import PlugInError
from connector.text.names import nearest

Model = TypeVar("Model", bound=BaseModel)
Location = tuple[int | str, ...]
UNKNOWN_KEY: Final = "unknown key"


@dataclass(slots=True)
class Reading(Generic[Model]):
    """The parts of a section that could be read.

    Attributes:
        section: the section without the wrong values. None = a required value is missing.
        left_out: the places of the wrong values.
    """

    section: Model | None = None
    left_out: set[Location] = field(default_factory=set)

    def positions(self, *prefix: int | str) -> Iterator[int]:
        """Yields the positions in the file of the entries of a list that were kept, in order."""
        index = 0
        while True:
            if (*prefix, index) not in self.left_out:
                yield index
            index += 1


@dataclass(frozen=True, slots=True)
class SectionReader:
    """Reads the sections of one file.

    Args:
        directory: relative paths count from here.
        home_of: returns where an unknown key belongs, in words. None = not known.
    """

    problems: Problems
    directory: Path = Path()
    home_of: Callable[[str], str | None] | None = None

    def read(
        self,
        model: type[Model],
        node: Node,
        path: str = "",
        *,
        refused: Mapping[str, tuple[str, str]] | None = None,
        instead: Mapping[Location, str] | None = None,
        given: Mapping[str, Any] | None = None,
        missing_at: Position | None = None,
    ) -> Reading[Model]:
        """Reads ``node`` as ``model``.

        Args:
            path: the path of the field that contains ``node``.
            refused: found and expected text for unknown keys that have an error text of their own. A key is
                named with its section (``connector.Key``).
            instead: texts that replace wrong values that cannot be left out.
            given: values that were read before, in place of those in ``node``.
            missing_at: the place for a key that ``node`` itself lacks. None = the place of ``node``.
        """
        data = plain(node, model)
        data.update(given or {})
        reading: Reading[Model] = Reading()
        for _ in range(50):
            try:
                reading.section = model.model_validate(data, context={"directory": self.directory})
                return reading
            except ValidationError as error:
                details = error.errors(include_url=False)
            wrong: set[Location] = set()
            for detail in details:
                if detail["type"] == "extra_forbidden":
                    self._report_unknown(detail["loc"], node, path, refused or {}, model)
                else:
                    _report(detail, node, path, self.problems, model, missing_at)
                wrong.add(_to_leave_out(detail, data, model, instead or {}))
            if () in wrong:
                return reading
            # From the end, so that the remaining positions stay right.
            for location in sorted(wrong, key=_position, reverse=True):
                _take_out(data, location, (instead or {}).get(location))
            reading.left_out |= wrong
        return reading

    def model_of(self, load: Callable[[], type[Model]], at: Position, path: str) -> type[Model] | None:
        """Returns the model that a plug-in brings. None = the plug-in cannot be used, which is reported."""
        try:
            return load()
        except PlugInError as error:
            self.problems.add(at, path, error.text, "")
            return None

    def _report_unknown(
        self,
        location: Location,
        node: Node,
        path: str,
        refused: Mapping[str, tuple[str, str]],
        model: type[BaseModel],
    ) -> None:
        holder, position, inner = find(node, location[:-1])
        key = str(location[-1])
        if isinstance(holder, Table) and key in holder.keys:
            position = holder.keys[key].position
        where = join(join(path, inner), key)
        section = next((step for step in reversed(location[:-1]) if isinstance(step, str)), "")
        if (reason := refused.get(join(section, key))) is not None:
            self.problems.add(position, where, *reason)
            return
        expected, near = expected_key(key, field_names(model, location[:-1]), self.home_of)
        self.problems.add(position, where, UNKNOWN_KEY, expected, near)


def report_missing(
    key: str, section: Table, known: Collection[str], path: str, position: Position, problems: Problems
) -> None:
    """Reports a needed key that a section lacks.

    An unset variable and a wrong value are reported already, and a misspelt key is reported as unknown.
    """
    given = section.entries.get(key)
    is_reported = not is_absent(given) or (isinstance(given, Leaf) and given.from_environment)
    if not is_reported and not is_misspelt(key, section, known):
        problems.add(position, path, f"{key} is missing", f"{key}: ...")


def is_misspelt(key: str, section: Table, known: Collection[str]) -> bool:
    """Tells whether an unknown key of a section resembles ``key``. It is reported as unknown already."""
    return any(nearest(other, [key]) is not None for other in section.entries if other not in known)


def _to_leave_out(
    detail: ErrorDetails, data: Any, model: type[BaseModel], instead: Mapping[Location, str]
) -> Location:
    """Returns the place of the smallest part that has to be left out because of a mistake."""
    location = _existing(data, detail["loc"])
    if location in instead or detail["type"] == "extra_forbidden":
        return location
    if detail["type"] == "missing" or not location or not isinstance(location[-1], str):
        return location
    # An entry without a required value is left out as a whole.
    section = model_at(model, location[:-1])
    field = fields_by_key(section).get(str(location[-1])) if section else None
    return location[:-1] if field is not None and field.is_required() else location


def plain(node: Node, annotation: Any) -> Any:
    """Returns the tree as dictionaries and lists of leaves, without keys that have no value.

    Args:
        annotation: the type that the node is read as. A key that this type does not know is always kept.
    """
    if isinstance(node, Leaf):
        return node
    if isinstance(node, Items):
        return [plain(item, annotation) for item in node.items]
    section, entries = _inside(annotation)
    fields: Mapping[str, Any] | None = None
    if section is not None:
        fields = {key: field.annotation for key, field in fields_by_key(section).items()}
    return {
        key: plain(value, entries if fields is None else fields.get(key))
        for key, value in node.entries.items()
        if not is_absent(value) or (fields is not None and key not in fields)
    }


def _inside(annotation: Any) -> tuple[type[BaseModel] | None, Any]:
    """Returns the section that ``annotation`` means for a mapping, or the type of the mapping's values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, None
    arguments = get_args(annotation)
    if get_origin(annotation) is dict:
        return None, arguments[1]
    # An optional section is in a union with None. A list has the sections of its entries.
    return next((found for found in map(_inside, arguments) if found != (None, None)), (None, None))


def find(node: Node, location: Sequence[int | str]) -> tuple[Node, Position, str]:
    """Returns the node at ``location`` or the deepest node on the way, with the place and the path.

    The place of a value in a mapping is the place of the value, not of the key.
    """
    path = ""
    for step in location:
        if isinstance(node, Table) and isinstance(step, str) and step in node.entries:
            key = node.keys[step]
            node = node.entries[step]
            path = f"{path}.{key.raw}" if path else key.raw
        elif isinstance(node, Items) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
            path = f"{path}[{step}]"
        else:
            break
    return node, node.position, path


def node_at(node: Node, location: Sequence[int | str]) -> Node | None:
    """Returns the node at ``location``. None = there is no such node."""
    for step in location:
        if isinstance(node, Table) and isinstance(step, str) and step in node.entries:
            node = node.entries[step]
        elif isinstance(node, Items) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        else:
            return None
    return node


def join(first: str, second: str) -> str:
    """Joins two parts of a path."""
    if not first or not second or second.startswith("["):
        return first + second
    return f"{first}.{second}"


def _position(location: Location) -> list[tuple[int, int, str]]:
    return [(0, step, "") if isinstance(step, int) else (1, 0, step) for step in location]


def _existing(data: Any, location: Location) -> Location:
    """Returns the part of ``location`` that exists in ``data``."""
    kept: list[int | str] = []
    for step in location:
        try:
            data = None if isinstance(data, Leaf) else data[step]
        except (KeyError, IndexError, TypeError):
            break
        if data is None:
            break
        kept.append(step)
    return tuple(kept)


def _take_out(data: Any, location: Location, instead: str | None) -> None:
    for step in location[:-1]:
        try:
            data = data[step]
        except (KeyError, IndexError):
            return
    if location[-1] not in data and not isinstance(data, list):
        return
    if instead is None:
        del data[location[-1]]
    else:
        data[location[-1]] = Leaf.of(instead, Position(""))


def _report(
    detail: ErrorDetails,
    node: Node,
    path: str,
    problems: Problems,
    model: type[BaseModel],
    missing_at: Position | None,
) -> None:
    location, kind = detail["loc"], detail["type"]
    if kind == "missing":
        section, position, inner = find(node, location[:-1])
        if isinstance(section, Table):
            key, where = str(location[-1]), join(path, inner)
            if missing_at is not None and not inner:
                position, where = missing_at, join(path, key)
            report_missing(key, section, field_names(model, location[:-1]), where, position, problems)
        return
    _, position, inner = find(node, location)
    given = detail["input"]
    if isinstance(given, Leaf):
        position = given.position
        if given.is_absent and given.from_environment:
            return  # an unset variable, which is reported already, or an empty variable
    if kind == "refused":
        context = detail["ctx"]
        if isinstance(given, Leaf) and context["offset"]:
            position = given.place(context["offset"])
        problems.add(position, join(path, inner), context["found"], context["expected"], context["nearest"])
    elif kind in ("model_type", "dict_type", "mapping_type"):
        problems.add(position, join(path, inner), kind_of(given), "a mapping")
    elif kind in ("list_type", "tuple_type"):
        problems.add(position, join(path, inner), kind_of(given), "a list")
    else:
        problems.add(position, join(path, inner), detail["msg"], "")


def expected_key(
    key: str, known: Sequence[str], home_of: Callable[[str], str | None] | None
) -> tuple[str, str | None]:
    """Returns what is expected in place of an unknown key, and the known key that may be meant."""
    near = nearest(key, known)
    if home_of is not None and (home := home_of(key)) is not None:
        return home, None
    expected = "a key of this section"
    if near is None:
        expected = f"one of {', '.join(known)}" if len(known) <= 12 else expected
    return expected, near


def field_names(model: type[BaseModel], location: Location) -> list[str]:
    """Returns the keys that the section at ``location`` of ``model`` takes."""
    return list(fields_by_key(model_at(model, location) or model))


def fields_by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Returns the fields of a section by their keys in the file."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def model_at(model: type[BaseModel], location: Location) -> type[BaseModel] | None:
    """Returns the model of the section at ``location``. None = there is no section."""
    section: type[BaseModel] | None = model
    repeated = ""
    for step in location:
        if repeated:
            is_key = repeated.startswith(".NAME")
            repeated = repeated.removeprefix(".NAME" if is_key else "[]")
            if is_key or isinstance(step, int):
                continue  # the key of a dictionary, or the position in a list
        field = fields_by_key(section).get(str(step)) if section is not None else None
        if field is None:
            return None
        section, repeated = section_in(field.annotation)
    return section


def section_in(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """Returns the section that an annotation means, and the words for a section that is one of several."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    repeated = {dict: ".NAME", list: "[]", tuple: "[]"}.get(get_origin(annotation), "")
    for argument in get_args(annotation):
        inner, more = section_in(argument)
        if inner is not None:
            return inner, repeated + more
    return None, ""
