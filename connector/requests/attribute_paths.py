"""Paths to attributes in meta-data: JMESPath, with fields and indexes checked beforehand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.names import shown
from connector.businessobjects.types import SECRET, SimpleValue

Step = tuple[str | int, int]
"""The name of an attribute or the index of a child, and its offset in the path."""

_COMMA: Final = re.compile(r"""'[^']*(?:'|\Z)|"(?:\\.|[^"\\])*(?:"|\Z)|`[^`]*(?:`|\Z)|[()\[\]{}]|,""")


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in a text.

    Args:
        offset: of the wrong character in the text.
        found, expected: as in :class:`connector.errors.Problem`.
        warning: True if the text may be right all the same.
        meant: the name that may be misspelt, or empty.
        among: the right names.
    """

    offset: int
    found: str
    expected: str
    warning: bool = False
    meant: str = ""
    among: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.found}, expected {self.expected}" if self.expected else self.found


@dataclass(frozen=True, slots=True)
class AttributePath:
    """A path, and its offset in the text that it was taken from."""

    text: str
    offset: int

    def mistake(self) -> Mistake | None:
        """Returns the mistake in the syntax of the path, or None."""
        import jmespath

        if not self.text:
            return Mistake(self.offset, "no attribute", "the path of one, Address[0].City")
        try:
            jmespath.compile(self.text)
        except jmespath.exceptions.JMESPathError as error:
            position = getattr(error, "lex_position", None) or 0
            expected = "JMESPath: Attribute, Child.Attribute, Child[0].Attribute"
            return Mistake(self.offset + position, f"no path of an attribute: {shown(self.text)}", expected)
        except RecursionError:
            return Mistake(self.offset, "no path of an attribute: it is too deep", "a simpler one")
        return None

    def value(self, data: Mapping[str, Any]) -> Any:
        """Returns the value that the path leads to, or None if that is not set.

        Raises:
            ValueError: a function got an argument of the wrong type. The text names the function.
        """
        import jmespath

        try:
            return jmespath.search(self.text, data)
        except jmespath.exceptions.JMESPathError as error:
            raise ValueError(_without_values(error)) from None

    def steps(self) -> list[Step] | None:
        """Returns the attributes and indexes of the path, or None if the path holds anything else."""
        from jmespath.lexer import Lexer

        found: list[Step] = []
        for token in Lexer().tokenize(self.text):
            if token["type"] in ("unquoted_identifier", "quoted_identifier", "number"):
                found.append((token["value"], self.offset + token["start"]))
            elif token["type"] not in ("dot", "lbracket", "rbracket", "eof"):
                return None
        return found


def split_paths(text: str, offset: int) -> tuple[AttributePath, ...]:
    """Returns the paths of a list that is separated by commas.

    Args:
        text: the list.
        offset: of the list in the text that it was taken from.
    """
    depth = 0
    commas = []
    for token in _COMMA.finditer(text):
        if token[0] in ("(", "[", "{"):
            depth += 1
        elif token[0] in (")", "]", "}"):
            depth -= 1
        elif token[0] == "," and depth <= 0:
            commas.append(token.start())
    paths = []
    for start, end in zip([0, *(comma + 1 for comma in commas)], [*commas, len(text)], strict=True):
        part = text[start:end]
        paths.append(AttributePath(part.strip(), offset + start + len(part) - len(part.lstrip())))
    return tuple(paths)


def follow(
    steps: Sequence[Step], definition: Definition, definitions: Definitions, *, to_value: bool = True
) -> Mistake | Attribute | None:
    """Walks along the definitions.

    Args:
        steps: the path.
        definition: the start of the path.
        to_value: whether the path must lead to a single value.

    Returns:
        The attribute at the end, the mistake, or None if the definitions do not tell.
    """
    holder: Definition | None = definition
    attribute: Attribute | None = None
    is_list = False
    for step, offset in steps:
        if isinstance(step, int):
            if not is_list:
                name = attribute.name if attribute else definition.name
                return Mistake(offset, f"{name} is no list", "an index behind a child of cardinality n only")
            is_list = False
            continue
        if is_list and attribute is not None:
            return Mistake(offset, f"{attribute.name} is a list", f"{attribute.name}[0].{step}")
        if attribute is not None and not attribute.is_child:
            return Mistake(offset, f"{attribute.name} is a {attribute.type}", "nothing behind it")
        if holder is None:
            return None
        names = tuple(holder.attributes)
        attribute = holder.attributes.get(step)
        if attribute is None:
            what = f"{holder.name} has no attribute {shown(step)}"
            return Mistake(offset, what, "one of its attributes", meant=step, among=names)
        is_list = attribute.is_many
        holder = definitions.get(attribute.type)
    if to_value and attribute is not None and attribute.is_child:
        what = "a list" if is_list else f"a business object ({attribute.type})"
        whole = f"{attribute.name}[0]" if is_list else attribute.name
        return Mistake(
            steps[-1][1], f"{attribute.name} is {what}", f"one of its attributes: {whole}.Attribute"
        )
    if to_value and attribute is not None and attribute.type == SECRET:
        what = f"{attribute.name} is a {SECRET}: the provider would see its value in the selector"
        return Mistake(steps[-1][1], what, "another attribute")
    return attribute


def _without_values(error: Exception) -> str:
    """Returns the error of a function without the argument, which may be confidential."""
    name = getattr(error, "function_name", None)
    return f"the function {name}() cannot be applied to it" if name else "it cannot be evaluated"


# --- samples -----------------------------------------------------------------------------------

_SAMPLES: Final[Mapping[str, SimpleValue]] = {
    "Boolean": True,
    "Integer": 1,
    "Float": 1.5,
    "Double": 1.5,
    "Date": "2024-05-31",
}
_SAMPLE_DEPTH: Final = 8


def sample(attribute: Attribute) -> SimpleValue:
    """Returns a sample value for an attribute of a simple type."""
    return _SAMPLES.get(attribute.type, "x")


def samples(definition: Definition, definitions: Definitions) -> dict[str, Any]:
    """Returns sample values of a business object. A list has the same single element at every index."""
    return _samples(definition, definitions, _SAMPLE_DEPTH, {})


def _samples(
    definition: Definition, definitions: Definitions, depth: int, made: dict[tuple[str, int], dict[str, Any]]
) -> dict[str, Any]:
    key = definition.name, depth
    if key in made:
        return made[key]
    values: dict[str, Any] = {}
    for attribute in definition.attributes.values():
        if not attribute.is_child:
            values[attribute.name] = sample(attribute)
        elif depth and attribute.type in definitions:
            child = _samples(definitions[attribute.type], definitions, depth - 1, made)
            values[attribute.name] = _Endless([child]) if attribute.is_many else child
    made[key] = values
    return values


class _Endless(list[Any]):
    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(0) if isinstance(index, int) else list(self)
