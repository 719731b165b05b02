"""Response selectors that are Jinja2 templates, with values that stay values.

A template chooses and joins, and does not compute. A template sees the attributes of the request, the filters
of :data:`FILTERS`, ``if``, ``for`` and ``set``. Calls and arithmetic beyond ``+``, ``-`` and ``~`` are
refused. So a template can reach nothing outside, and its time is bounded.

Every ``{{ ... }}`` leaves only a marker in the text. The marker is filled like the placeholder of a plain
selector (:mod:`~connector.requests.selector_values`), so no value ever becomes text of the template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, cast

from jinja2 import (
    ChainableUndefined,
    Template,
    TemplateError,
    TemplateSyntaxError,
    Undefined,
    nodes,
    pass_context,
)
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from connector.businessobjects.definition import Definition, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.errors import RequestRefused
from connector.lazy_property import lazy_property
from connector.requests.selector_values import MAX_SELECTOR, Mistake, Value, follow, marker

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

Chain = tuple[str | int, ...]
"""A path in a template: attributes and indexes."""


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
        self._tree = nodes.Template([])
        self.mistakes: list[Mistake] = []
        try:
            self._tree = _environment().parse(source)
        except TemplateSyntaxError as error:
            start = self._start_of_line(error.lineno)
            self.mistakes.append(Mistake(start, f"no template: {error.message}", "a template of Jinja2"))
        except (RecursionError, ValueError):
            found = "no template: something in it is too large"
            self.mistakes.append(Mistake(offset, found, "a smaller one"))
        else:
            self.mistakes.extend(self._forbidden_parts())

    def render(self, data: Mapping[str, Any]) -> tuple[str, list[Value]]:
        """Returns the text with markers, and the values for these markers.

        Raises:
            RequestRefused: the template cannot be rendered with these attributes, or its loops have too many
                rounds.
        """
        text = ""
        try:
            context = cast("_Context", self._template.new_context(dict(data)))
            for piece in self._template.root_render_func(context):
                text += piece
                if len(text) > MAX_SELECTOR:
                    raise RequestRefused(
                        f"the response selector has more than {MAX_SELECTOR} characters: shorten the template"
                    )
        except RequestRefused:
            raise
        except Exception as error:  # an expression may raise anything for values of the wrong type
            what = error if isinstance(error, TemplateError) else f"{type(error).__name__} in an expression"
            raise RequestRefused(f"response_selector_template cannot be rendered: {what}") from None
        return text.strip(), context.found

    def problems(self, definition: Definition, definitions: Definitions) -> Iterator[Mistake]:
        """Yields a mistake for each attribute that does not exist."""
        if self.mistakes:
            return
        own = {name.name for name in self._tree.find_all(nodes.Name) if name.ctx == "store"} | {"loop"}
        # A chain that is put out leads to a value. Any other may lead to a child or a list.
        for chain, to_value in dict.fromkeys(_chains(self._tree)):
            if chain[0] not in own:
                result = follow(self._with_places(chain), definition, definitions, to_value=to_value)
                if isinstance(result, Mistake):
                    yield result

    # --- reading ---------------------------------------------------------------------------------

    @lazy_property
    def _template(self) -> Template:
        tree = _environment().parse(self._source)
        for loop in tree.find_all(nodes.For):
            loop.iter = _filter_by(loop.iter, "_rounds")
        for assignment in tree.find_all(nodes.Assign):
            assignment.node = _filter_by(assignment.node, "_limit_length")
        for output in tree.find_all(nodes.Output):
            output.nodes = [
                child if isinstance(child, nodes.TemplateData) else _add_label(child)
                for child in output.nodes
            ]
        return _environment().from_string(tree)

    def _forbidden_parts(self) -> Iterator[Mistake]:
        tests = tuple(_environment().tests)
        for node in self._tree.find_all(nodes.Node):
            start = self._start_of_line(node.lineno)
            if not isinstance(node, _ALLOWED) or (isinstance(node, nodes.For) and node.recursive):
                what = "a call" if isinstance(node, nodes.Call) else type(node).__name__.lower()
                yield Mistake(start, f"{what} in a template", "if, for, set, and values with filters")
            elif isinstance(node, nodes.Filter) and node.name not in FILTERS:
                expected = f"one of {', '.join(FILTERS)}"
                yield Mistake(start, f"no filter {node.name!r}", expected, meant=node.name, among=FILTERS)
            elif isinstance(node, nodes.Test) and node.name not in tests:
                what = f"no test {node.name!r}"
                yield Mistake(start, what, "a test of Jinja2", meant=node.name, among=tests)

    def _start_of_line(self, line: int | None) -> int:
        return self._offset + sum(map(len, self._source.splitlines(keepends=True)[: (line or 1) - 1]))

    def _with_places(self, chain: Chain) -> list[tuple[str | int, int]]:
        """Returns the steps of a chain with their offsets.

        Searches the source: Jinja's nodes know their line only.
        """
        position = 0
        steps: list[tuple[str | int, int]] = []
        for step in chain:
            found = re.compile(rf"(?<!\w){re.escape(str(step))}(?!\w)").search(self._source, position)
            position = found.start() if found else position
            steps.append((step, self._offset + position))
        return steps


# --- the environment ---------------------------------------------------------------------------


class _Unset(ChainableUndefined):
    """An attribute that is not set: false in a condition, and never a text."""

    @property
    def _undefined_message(self) -> str:
        return f"{self._undefined_name} has no value"

    def __str__(self) -> str:
        self._fail_with_undefined_error()


class _Context(Context):
    """What one rendering has found: its values, and the rounds that its loops have left."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.found: list[Value] = []
        self.rounds = MAX_ROUNDS


class _Environment(ImmutableSandboxedEnvironment):
    """Reads attributes of business objects only: ``Order.items`` is no method of a mapping."""

    context_class = _Context

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute) if isinstance(obj, dict) else super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        try:
            return obj.value(argument) if isinstance(obj, BusinessObject) else obj[argument]
        except (LookupError, TypeError, AttributeError):
            return self.undefined(obj=obj, name=str(argument))


@cache
def _environment() -> _Environment:
    environment = _Environment(undefined=_Unset, finalize=_finalize)
    environment.globals.clear()
    environment.filters = {name: environment.filters[name] for name in FILTERS}
    environment.filters.update({"_rounds": _rounds, "_limit_length": _limit_length})
    return environment


@pass_context
def _finalize(context: _Context, labelled: tuple[str, object]) -> str:
    """Keeps a value, and leaves its marker."""
    label, value = labelled
    context.found.append(Value(label, None if isinstance(value, Undefined) else value))
    return marker(len(context.found) - 1)


@pass_context
def _rounds(context: _Context, value: Iterable[Any]) -> list[Any]:
    items = list(value or ())
    context.rounds -= len(items)
    if context.rounds < 0:
        raise RequestRefused(f"the loops of response_selector_template have more than {MAX_ROUNDS} rounds")
    return items


def _limit_length(value: Any) -> Any:
    if isinstance(value, str | list | tuple) and len(value) > MAX_SELECTOR:
        what = "characters" if isinstance(value, str) else "values"
        raise RequestRefused(f"response_selector_template sets more than {MAX_SELECTOR} {what}")
    return value


# --- the tree ----------------------------------------------------------------------------------


def _filter_by(node: nodes.Node, name: str) -> nodes.Expr:
    return nodes.Filter(
        cast("nodes.Expr", node), name, [], [], None, None, lineno=node.lineno, environment=_environment()
    )


def _add_label(node: nodes.Expr) -> nodes.Expr:
    """Returns an expression with the name of its value for errors."""
    label = f"an expression in line {node.lineno}"
    if chain := _chain(node):
        label = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in chain)[1:]
    return nodes.Tuple([nodes.Const(label), node], "load", lineno=node.lineno)


def _chains(tree: nodes.Node) -> Iterator[tuple[Chain, bool]]:
    """Yields the longest paths of attributes and indexes in a tree, and whether each is put out."""
    for child in tree.iter_child_nodes():
        chain = _chain(child)
        if chain is None:
            yield from _chains(child)
        else:
            yield chain, isinstance(tree, nodes.Output)


def _chain(node: nodes.Node) -> Chain | None:
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
