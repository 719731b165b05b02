"""Response selectors that are Jinja2 templates, with values that stay values.

A template chooses and joins, and does not compute. A template sees the attributes of the request, the filters
of :data:`FILTERS`, ``if``, ``for`` and ``set``. Calls and arithmetic beyond ``+``, ``-`` and ``~`` are
refused. So a template can reach nothing outside, and its time is bounded.

Every ``{{ ... }}`` leaves only a mark in the text. The mark is filled like the placeholder of a plain
selector (:mod:`~connector.requests.selector_values`), so no value ever becomes text of the template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from typing import Any, Final, cast

from jinja2 import ChainableUndefined, TemplateError, TemplateSyntaxError, Undefined, nodes, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from connector.businessobjects.definition import Definition, Definitions
from connector.errors import RequestRefused
from connector.requests.attribute_paths import Mistake, Step, follow
from connector.requests.selector_values import MAX_SELECTOR, Value, mark

MAX_ROUNDS: Final = 10_000
"""Most rounds of all loops of a template together."""

FILTERS: Final = (
    *("abs", "default", "first", "float", "int", "join", "last", "length", "lower"),
    *("max", "min", "replace", "round", "string", "title", "trim", "upper"),
)  # fmt: skip

_ALLOWED: Final = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign),
    *(nodes.Name, nodes.Const, nodes.List, nodes.Tuple, nodes.Getattr, nodes.Getitem, nodes.Slice),
    *(nodes.Filter, nodes.Test, nodes.Keyword, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not),
    *(nodes.CondExpr, nodes.Concat, nodes.Add, nodes.Sub, nodes.Neg, nodes.Pos),
)  # fmt: skip
_FOUND: Final = "found"
_ROUNDS: Final = "rounds"


class ResponseTemplate:
    """A parsed and checked template.

    Args:
        source: as written.
        offset: of the template in the text that it was taken from.

    Attributes:
        mistakes: the mistakes of the template. Only a template without mistakes can be rendered.
    """

    def __init__(self, source: str, offset: int) -> None:
        self._source = source
        self._offset = offset
        self._tree: nodes.Template | None = None
        self.mistakes: list[Mistake] = []
        try:
            self._tree = _environment().parse(source)
        except TemplateSyntaxError as error:
            start = self._start_of_line(error.lineno)
            self.mistakes.append(Mistake(start, f"no template: {error.message}", "a template of Jinja2"))
        except (RecursionError, ValueError):
            self.mistakes.append(
                Mistake(offset, "no template: something in it is too large", "a smaller one")
            )
        else:
            self.mistakes.extend(self._not_allowed(self._tree))

    def render(self, data: Mapping[str, Any]) -> tuple[str, list[Value]]:
        """Returns the text with marks, and the values for these marks.

        Args:
            data: the attributes of the request.

        Raises:
            RequestRefused: the template cannot be rendered with these attributes, or its loops have too many
                rounds.
        """
        found: list[Value] = []
        variables = {**data, _private(_FOUND): found, _private(_ROUNDS): [MAX_ROUNDS]}
        pieces: list[str] = []
        length = 0
        try:
            for piece in self._template.generate(variables):
                length += len(piece)
                if length > MAX_SELECTOR:
                    raise RequestRefused(
                        f"the response selector has more than {MAX_SELECTOR} characters: shorten the template"
                    )
                pieces.append(piece)
        except RequestRefused:
            raise
        except TemplateError as error:
            raise RequestRefused(f"response_selector_template cannot be rendered: {error}") from None
        except Exception as error:  # an expression may raise anything for values of the wrong type
            what = type(error).__name__
            raise RequestRefused(
                f"response_selector_template cannot be rendered: {what} in one of its expressions"
            ) from None
        return "".join(pieces).strip(), found

    def problems(self, definition: Definition, definitions: Definitions) -> Iterator[Mistake]:
        """Yields a mistake for each attribute that does not exist."""
        if self._tree is None or self.mistakes:
            return
        own = {name.name for name in self._tree.find_all(nodes.Name) if name.ctx == "store"} | {"loop"}
        outputs = {id(node) for output in self._tree.find_all(nodes.Output) for node in output.nodes}
        seen: set[tuple[tuple[str | int, ...], bool]] = set()
        for node, chain in _chains(self._tree):
            is_value = id(node) in outputs
            if chain[0] in own or (chain, is_value) in seen:
                continue
            seen.add((chain, is_value))
            result = follow(self._placed(chain), definition, definitions, to_value=is_value)
            if isinstance(result, Mistake):
                yield result

    # --- reading ---------------------------------------------------------------------------------

    @cached_property
    def _template(self) -> Any:
        environment = _environment()
        tree = environment.parse(self._source)
        for loop in tree.find_all(nodes.For):
            loop.iter = _filtered(loop.iter, "_rounds")
        for assignment in tree.find_all(nodes.Assign):
            assignment.node = _filtered(assignment.node, "_bounded")
        for output in tree.find_all(nodes.Output):
            output.nodes = [
                child if isinstance(child, nodes.TemplateData) else _filtered(child, "_value", _label(child))
                for child in output.nodes
            ]
        return environment.from_string(tree)

    def _not_allowed(self, tree: nodes.Template) -> Iterator[Mistake]:
        environment = _environment()
        for node in _all_nodes(tree):
            start = self._start_of_line(node.lineno)
            what = type(node).__name__.lower()
            if not isinstance(node, _ALLOWED) or (isinstance(node, nodes.For) and node.recursive):
                if isinstance(node, nodes.Call):
                    what = "a call"
                yield Mistake(start, f"{what} in a template", "if, for, set, and values with filters")
            elif isinstance(node, nodes.Filter) and node.name not in FILTERS:
                expected = f"one of {', '.join(FILTERS)}"
                yield Mistake(start, f"no filter {node.name!r}", expected, meant=node.name, among=FILTERS)
            elif isinstance(node, nodes.Test) and node.name not in environment.tests:
                tests = tuple(environment.tests)
                what = f"no test {node.name!r}"
                yield Mistake(start, what, "a test of Jinja2", meant=node.name, among=tests)
            elif isinstance(node, nodes.Name) and node.name.startswith(_PRIVATE):
                yield Mistake(start, f"the name {node.name!r}", "the name of an attribute")

    def _start_of_line(self, line: int | None) -> int:
        return self._offset + sum(
            len(each) for each in self._source.splitlines(keepends=True)[: (line or 1) - 1]
        )

    def _placed(self, chain: tuple[str | int, ...]) -> list[Step]:
        """Returns the steps of a chain with their offsets.

        Searches the source: Jinja's nodes know their line only.
        """
        position = 0
        steps: list[Step] = []
        for step in chain:
            found = re.compile(rf"(?<!\w){re.escape(str(step))}(?!\w)").search(self._source, position)
            position = found.start() if found else position
            steps.append((step, self._offset + position))
        return steps


class _Unset(ChainableUndefined):
    """An attribute that is not set: false in a condition, and never a text."""

    @property
    def _undefined_message(self) -> str:
        return f"{self._undefined_name} has no value"

    def __str__(self) -> str:
        self._fail_with_undefined_error()


class _Environment(ImmutableSandboxedEnvironment):
    """Reads attributes of business objects only: ``Order.items`` is no method of a mapping."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, dict):
            return self.getitem(obj, attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        try:
            return obj[argument]
        except (LookupError, TypeError, AttributeError):
            return self.undefined(obj=obj, name=str(argument))


@cache
def _environment() -> _Environment:
    environment = _Environment(undefined=_Unset, autoescape=False, keep_trailing_newline=False)
    environment.globals.clear()
    environment.filters = {name: environment.filters[name] for name in FILTERS}
    environment.filters.update({"_value": _value, "_rounds": _rounds, "_bounded": _bounded})
    return environment


# --- while it renders --------------------------------------------------------------------------

_PRIVATE: Final = "_connector_"


def _private(name: str) -> str:
    return _PRIVATE + name


@pass_context
def _value(context: Context, value: object, label: str) -> str:
    found: list[Value] = context[_private(_FOUND)]
    found.append(Value(label, None if isinstance(value, Undefined) else value))
    return mark(len(found) - 1)


@pass_context
def _rounds(context: Context, value: Iterable[Any]) -> list[Any]:
    items = list(value or ())
    left: list[int] = context[_private(_ROUNDS)]
    left[0] -= len(items)
    if left[0] < 0:
        raise RequestRefused(f"the loops of response_selector_template have more than {MAX_ROUNDS} rounds")
    return items


def _bounded(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_SELECTOR:
        raise RequestRefused(f"response_selector_template sets a text of more than {MAX_SELECTOR} characters")
    return value


# --- the tree ----------------------------------------------------------------------------------


def _filtered(node: nodes.Node, name: str, *arguments: str) -> nodes.Expr:
    constants = [nodes.Const(argument, lineno=node.lineno) for argument in arguments]
    made = nodes.Filter(cast("nodes.Expr", node), name, constants, [], None, None, lineno=node.lineno)
    made.set_environment(_environment())
    return made


def _all_nodes(tree: nodes.Node) -> Iterator[nodes.Node]:
    yield tree
    yield from tree.find_all(nodes.Node)


def _chains(tree: nodes.Node) -> Iterator[tuple[nodes.Node, tuple[str | int, ...]]]:
    """Yields the longest paths of attributes and indexes in a tree."""
    for child in tree.iter_child_nodes():
        chain = _chain(child)
        if chain is not None:
            yield child, chain
        else:
            yield from _chains(child)


def _chain(node: nodes.Node) -> tuple[str | int, ...] | None:
    if isinstance(node, nodes.Name):
        return (node.name,) if node.ctx == "load" else None
    step: object = None
    if isinstance(node, nodes.Getattr):
        step = node.attr
    elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        step = node.arg.value
    if not isinstance(step, str | int) or isinstance(step, bool):
        return None
    before = _chain(node.node)  # type: ignore[attr-defined]
    return (*before, step) if before is not None else None


def _label(node: nodes.Node) -> str:
    """Returns the name of an expression's value for errors."""
    chain = _chain(node)
    if chain is None:
        return f"an expression in line {node.lineno}"
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in chain)[1:]
