"""Reads the text of a selector into a tree of nodes (grammar of JMS 2.0, 3.8.1.1)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NoReturn

from lark import Lark, Token, Transformer, Tree, UnexpectedCharacters, UnexpectedToken, v_args
from lark.lark import PostLex

from connector.errors import SelectorError
from connector.messaging.selectors import logic
from connector.messaging.selectors.identifiers import KEYWORDS, kind_of, reader, wrong_character
from connector.messaging.selectors.like import like_pattern
from connector.messaging.selectors.literals import LONG_LIMIT, parse_number, parse_string
from connector.messaging.selectors.nodes import (
    And,
    Comparison,
    Function,
    Identifier,
    Kind,
    Like,
    Literal,
    Member,
    Node,
    Or,
)

MAX_NESTING: Final = 64
"""The limit for nested parentheses, NOTs and signs. Guards the stack: each level is some calls deep."""

_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

# Values and conditions share their rules. The builder tells them apart, with better error texts than a
# parser. NAME and NUMBER also match misspelt names and numbers, so that the error can show the whole mistake.
_GRAMMAR: Final = r"""
    ?start: disjunction
    ?disjunction: conjunction (OR conjunction)*
    ?conjunction: negation (AND negation)*
    ?negation: predicate
        | NOT negation                                          -> not_condition
    ?predicate: sum
        | sum COMPARISON sum                                    -> comparison
        | sum NOT? BETWEEN sum AND sum                          -> between
        | sum NOT? IN "(" STRING ("," STRING)* ")"              -> member
        | sum NOT? LIKE STRING (ESCAPE STRING)?                 -> like
        | sum IS NOT? NULL                                      -> missing
    ?sum: product (SIGN product)*
    ?product: signed (FACTOR signed)*
    ?signed: atom
        | SIGN signed                                           -> sign
    ?atom: "(" disjunction ")"
        | NUMBER                                                -> number
        | STRING                                                -> string
        | TRUE                                                  -> boolean
        | FALSE                                                 -> boolean
        | NAME                                                  -> identifier

    COMPARISON: "<>" | "<=" | ">=" | "=" | "<" | ">"
    SIGN: "+" | "-"
    FACTOR: "*" | "/"
    STRING: /'[^']*(?:''[^']*)*'?/
    NUMBER: /0[xX](?:[pP][+-]|[\w.])*|\.?[0-9](?:[eE][+-]|[\w.])*/
    NAME: /(?:[A-Za-z_$]|[^\x00-\x7f\s])(?:[\w$]|[^\x00-\x7f\s])*/
    %declare AND BETWEEN ESCAPE FALSE IN IS LIKE NOT NULL OR TRUE
    %ignore /[ \t\f\r\n]+/
"""


def parse(text: str) -> Node:
    """Reads a selector.

    Raises:
        SelectorError: the text is no selector. The error says what was found, what was expected, and where.
    """
    try:
        node: Node = _parser().parse(text)  # type: ignore[assignment]
    except UnexpectedToken as error:
        found = error.token
        at_end = found.type == "$END"
        accepted = _terminals_at(error)
        _fail(
            "the end" if at_end else _shown(found),
            _expected(accepted) + _hint(found.type, accepted),
            len(text) if at_end else _start(found),
        )
    except UnexpectedCharacters as error:
        accepted = _terminals_at(error)
        _fail(f"{error.char!r}", _expected(accepted) + _hint(error.char, accepted), error.pos_in_stream or 0)
    _require_kind(node, Kind.CONDITION, "a condition")
    return node


def identifiers(text: str) -> frozenset[str]:
    """Returns the identifiers of a valid selector."""
    return frozenset(str(token) for token in _parser().lex(text) if token.type == "NAME")


def form_of(text: str) -> str:
    """Returns a text that a valid selector shares with the same selector in another spelling.

    White space, the case of keywords, parentheses without effect, and the order of operands of AND and OR do
    not count.
    """
    return _form(_parser(builds=False).parse(text))


def _form(node: Tree[Token] | Token) -> str:
    if isinstance(node, Token):
        return node.type if node.type in KEYWORDS else str(node)
    name, parts = str(node.data), [_form(child) for child in node.children]
    if name in ("conjunction", "disjunction"):
        parts.sort()
    return f"{name}({' '.join(parts)})"


def _terminals_at(error: UnexpectedToken | UnexpectedCharacters) -> set[str]:
    """Returns the terminals that the parser would have accepted at the error."""
    parser: Any = error.interactive_parser  # lark's annotations stop here
    return set(parser.accepts())


def _fail(found: str, expected: str, index: int) -> NoReturn:
    position = index + 1
    raise SelectorError(f"found {found}, expected {expected}, at character {position}", position) from None


def _start(token: Token) -> int:
    return token.start_pos or 0


def _shown(token: str) -> str:
    """Returns a piece of the selector for an error: short, on one line, in quotes."""
    text = str(token) if len(token) <= 40 else token[:37] + "..."
    if not text.isprintable():
        text = ascii(text)[1:-1]
    return text if text.startswith("'") else f"'{text}'"


def _expected(accepted: set[str]) -> str:
    """Returns the tokens that would have been accepted, in words."""
    words = []
    if "NAME" in accepted:
        words.append("a value")
        accepted = accepted - {"NOT", "LPAR", "STRING"}
    if "STRING" in accepted:
        words.append("a string")
    if "OR" in accepted:
        words.append("an operator")
    elif "AND" in accepted:
        words.append("AND")
    else:
        words += [word for word in ("NOT", "BETWEEN", "IN", "LIKE", "NULL") if word in accepted]
    words += [
        word
        for terminal, word in {
            "ESCAPE": "ESCAPE", "COMMA": "','", "LPAR": "'('", "RPAR": "')'", "$END": "the end",
        }.items()
        if terminal in accepted
    ]  # fmt: skip
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def _hint(found: str, accepted: set[str]) -> str:
    """Returns a hint for mistakes that come from other languages."""
    if found == "NULL" and "NAME" in accepted:
        return " (a missing value is asked for with IS NULL)"
    return {'"': " (strings stand in single quotes)", "!": " (unequal is written <>)"}.get(found, "")


# These functions check a token as soon as it is read. So an error names the wrong token, and not a later one.


def _name(token: Token) -> Token:
    """Tells keywords from names."""
    if token.isascii():
        word = token.upper()
        if word in KEYWORDS:
            return Token.new_borrow_pos(word, token, token)
    wrong = wrong_character(token)
    if wrong is not None:
        _fail(
            f"{token[wrong]!r}", "a letter, digit, '_' or '$'" if wrong else "a value", _start(token) + wrong
        )
    try:
        kind_of(token)
    except ValueError as error:
        _fail(_shown(token), str(error), _start(token))
    return token


def _number(token: Token) -> Token:
    try:
        parse_number(token)
    except ValueError as error:
        _fail(_shown(token), str(error), _start(token))
    return token


def _string(token: Token) -> Token:
    if token.count("'") % 2:
        _fail(_shown(token), "a closing quote", _start(token))
    return token


class _NestingGuard(PostLex):
    """Refuses a selector that is nested too deep, before any node is made."""

    _OPERAND_ENDS = frozenset({"NAME", "NUMBER", "STRING", "TRUE", "FALSE", "RPAR"})

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        opened = [0]
        depth = 0
        previous = ""
        for token in stream:
            if token.type == "LPAR":
                depth += 1
                opened.append(depth)
            elif token.type in ("NOT", "SIGN") and previous not in self._OPERAND_ENDS:
                depth += 1
            else:
                if token.type == "RPAR" and len(opened) > 1:
                    opened.pop()
                depth = opened[-1]
            if depth > MAX_NESTING:
                _fail(
                    _shown(token),
                    f"at most {MAX_NESTING} parentheses, NOTs and signs in one another",
                    _start(token),
                )
            previous = token.type
            yield token


def _require_kind(node: Node, kind: Kind, what: str) -> None:
    if node.kind is not kind and node.kind is not Kind.ANY:
        _fail(node.kind.value, what, node.position)


@v_args(inline=True)
class _Builder(Transformer[Token, Node]):
    """Makes nodes, the innermost first, while the parser reads."""

    def number(self, token: Token) -> Node:
        return _literal(token, Kind.NUMBER, parse_number(token))

    def string(self, token: Token) -> Node:
        return _literal(token, Kind.STRING, parse_string(token))

    def boolean(self, token: Token) -> Node:
        return _literal(token, Kind.CONDITION, token.type == "TRUE")

    def identifier(self, token: Token) -> Node:
        name = str(token)
        return Identifier(_start(token), kind_of(name), reader(name), name)

    def sign(self, token: Token, operand: Node) -> Node:
        # Not 0 - x, because the sign of a zero counts.
        _require_kind(operand, Kind.NUMBER, f"a number after '{token}'")
        if not isinstance(operand, Literal):
            factor = _literal(token, Kind.NUMBER, -1 if token == "-" else 1)
            return Node(_start(token), Kind.NUMBER, logic.arithmetic(operand, [("*", factor)]))
        value = operand.value if token == "+" else logic.multiply(operand.value, -1)
        return _literal(token, Kind.NUMBER, value)

    def sum(self, first: Node, *rest: Any) -> Node:
        for operand in (first, *rest[1::2]):
            _require_kind(operand, Kind.NUMBER, f"a number beside '{rest[0]}'")
            _check_range(operand)
        pairs = list(zip(map(str, rest[::2]), rest[1::2], strict=True))
        return Node(first.position, Kind.NUMBER, logic.arithmetic(first, pairs))

    product = sum

    def comparison(self, left: Node, operator: Token, right: Node) -> Node:
        if operator not in ("=", "<>"):
            for operand in (left, right):
                _require_kind(
                    operand,
                    Kind.NUMBER,
                    f"a number beside '{operator}' (strings and booleans have only = and <>)",
                )
        return _compare(str(operator), left, right)

    def between(self, operand: Node, *rest: Any) -> Node:
        low, high = rest[-3], rest[-1]
        for value in (operand, low, high):
            _require_kind(value, Kind.NUMBER, "a number with BETWEEN")
            _check_range(value)
        if len(rest) == 5:  # NOT BETWEEN, which is not NOT of the other
            return _combine(Or, "OR", (_compare("<", operand, low), _compare(">", operand, high)))
        return Node(operand.position, Kind.CONDITION, logic.between(operand, low, high))

    def member(self, operand: Node, *rest: Token) -> Node:
        keywords = [token for token in rest if token.type != "STRING"]
        values = frozenset(parse_string(string) for string in rest[len(keywords) :])
        identifier = _require_identifier(operand, "IN")
        function = logic.member(identifier, values)
        node = Member(operand.position, Kind.CONDITION, function, identifier, values)
        return _negate(node) if len(keywords) == 2 else node

    def like(self, operand: Node, *rest: Token) -> Node:
        negated = rest[0].type == "NOT"
        text, *more = rest[2 if negated else 1 :]
        escape = parse_string(more[1]) if more else None
        if escape is not None and len(escape) != 1:
            _fail(_shown(more[1]), "a string of one character after ESCAPE", _start(more[1]))
        identifier = _require_identifier(operand, "LIKE")
        try:
            pattern = like_pattern(parse_string(text), escape)
        except ValueError as error:
            _fail(f"{error} of {_shown(text)}", f"'%', '_' or {escape!r} after it", _start(text))
        function = logic.like(identifier, pattern.matches)
        node = Like(operand.position, Kind.CONDITION, function, identifier, pattern.prefix)
        return _negate(node) if negated else node

    def missing(self, operand: Node, *rest: Token) -> Node:
        read = _require_identifier(operand, "IS NULL").function
        node = Node(operand.position, Kind.CONDITION, lambda message: read(message) is None)
        return _negate(node) if len(rest) == 3 else node

    def not_condition(self, token: Token, operand: Node) -> Node:
        (function,) = _conditions("a condition after NOT", operand)
        return Node(_start(token), Kind.CONDITION, logic.negation(function))

    def conjunction(self, *operands: Any) -> Node:
        return _combine(And, "AND", operands[::2])

    def disjunction(self, *operands: Any) -> Node:
        return _combine(Or, "OR", operands[::2])


def _combine(kind: type[And | Or], keyword: str, operands: tuple[Node, ...]) -> Node:
    functions = _conditions(f"a condition beside {keyword}", *operands)
    function = logic.combination(functions, decisive=kind is Or)
    return kind(operands[0].position, Kind.CONDITION, function, operands)


def _literal(token: Token, kind: Kind, value: bool | int | float | str) -> Literal:
    return Literal(_start(token), kind, lambda message: value, value)


def _compare(sign: str, left: Node, right: Node) -> Comparison:
    position = left.position
    if isinstance(left, Literal):
        left, right, sign = right, left, _MIRRORED[sign]
    _check_range(left)
    _check_range(right)
    return Comparison(position, Kind.CONDITION, logic.comparison(sign, left, right), sign, left, right)


def _check_range(operand: Node) -> None:
    """Checks an operand with no sign before it."""
    if isinstance(operand, Literal) and type(operand.value) is int and operand.value == LONG_LIMIT:
        _fail(f"'{operand.value}'", "a number within the range of a long (64 bits)", operand.position)


def _negate(node: Node) -> Node:
    return Node(node.position, Kind.CONDITION, logic.negation(node.function))


def _require_identifier(operand: Node, keyword: str) -> Identifier:
    if not isinstance(operand, Identifier):
        _fail(operand.kind.value, f"the name of a header or property before {keyword}", operand.position)
    return operand


def _conditions(what: str, *operands: Node) -> list[Function]:
    """Returns the functions of operands that have to be conditions."""
    for operand in operands:
        _require_kind(operand, Kind.CONDITION, what)
    return [
        logic.as_condition(operand.function) if operand.kind is Kind.ANY else operand.function
        for operand in operands
    ]


@cache
def _parser(*, builds: bool = True) -> Lark:
    return Lark(
        _GRAMMAR,
        parser="lalr",
        lexer="basic",
        transformer=_Builder() if builds else None,
        postlex=_NestingGuard(),
        lexer_callbacks={"NAME": _name, "NUMBER": _number, "STRING": _string},
    )
