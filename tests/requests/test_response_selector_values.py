"""Whatever a value is, the filled selector is true for the message that has it, and for no other."""

from __future__ import annotations

import itertools
import re
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.instance import BusinessObject
from connector.errors import RequestRefused
from connector.messaging.message import Message
from connector.messaging.selector import compile_selector
from connector.requests.response_selector import ResponseSelector
from connector.requests.selector_values import Quoting
from tests.tables import rows

KINDS = {"A": "String", "B": "String", "N": "Integer", "D": "Double", "E": "Decimal"}
THING = Definition(
    "Thing",
    attributes={name: Attribute(name, kind) for name, kind in KINDS.items()},
    verbs={"Get": Verb("Get")},
)
DEFINITIONS = Definitions({"Thing": THING})
SPECIAL = "'\"%_\\!~^|#$&*+/:;<=>?@`{}()[]-, \t\n\r\0\x01\x7f\u2028é漢😀aAxX1"
EVERY_ESCAPE_CHARACTER = "\\!~^|#$&*+/:;<=>?@`%_'"
TEXTS = st.one_of(
    st.text(st.sampled_from(SPECIAL), max_size=12),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.permutations(EVERY_ESCAPE_CHARACTER).map("".join),
)
INJECTIONS = [
    *("' OR TRUE OR 'a' = '", "' OR 1 = 1 --", "x' OR '1'='1", "'; DROP TABLE messages; --", "\\", "\\%"),
    *("' OR JMSCorrelationID LIKE '%", "%", "_", "%%%%", "x%' ESCAPE 'x", "\\' OR TRUE OR p = '", "!"),
    *("\\_' OR TRUE OR p LIKE '", "'' OR TRUE OR p = ''", "''' OR TRUE OR '''' = '", "') OR ('a' = 'a"),
    *("a' IS NOT NULL OR p <> 'b", "/* */' OR TRUE /*", "{1}", "{{1}}", "{{ A }}", "\x000\x00", "\x00"),
    *("{% if True %}' OR TRUE{% endif %}", "\n' OR TRUE OR p = '", "\u2019 OR TRUE OR p = \u2019"),
    *("\uff07 OR TRUE", "' ESCAPE '!", "',p) OR TRUE OR p IN ('"),
]
"""Texts that would be more than a value, were they not quoted."""
WRITTEN = TEXTS.map(lambda text: text.replace("\0", ""))
"""As a file can hold it."""


def selector(info: str, **values: object) -> str:
    parsed = ResponseSelector.parse(info, "quoted")
    assert parsed is not None
    return parsed.fill(BusinessObject(DEFINITIONS, "Thing", "Get", values))


def is_true(text: str, **properties: str | int | float) -> bool:
    return compile_selector(text).matches(Message(properties=properties))


def others(value: str) -> list[str]:
    """Values that a mistake in quoting would take for this one."""
    changed = [
        value + "x", "x" + value, value + "'", value[1:], value[:-1], value + value, value + "\\",
        value.replace("%", "anything"), value.replace("_", "x"), value.replace("\\", ""),
        value.replace("\\", "\\\\"), value.replace("'", "''"), value.replace("''", "'"), value.swapcase(),
        "", "%", "_", "'",
    ]  # fmt: skip
    return [other for other in changed if other != value]


def selects_exactly(filled: str, value: str, *more: str) -> bool:
    """Whether a selector is true for a message with the value, and for no other."""
    strangers = [other for other in (*others(value), *more) if other != value]
    return (
        is_true(filled, p=value) and not is_true(filled) and not any(is_true(filled, p=s) for s in strangers)
    )


@rows("value", INJECTIONS)
@rows("form", ["p = '{1}'", "p LIKE '{1}'", "p LIKE '{1}' ESCAPE '!'", "p IN ('{1}')"])
def test_an_injected_value_selects_its_own_reply_and_no_stranger(form: str, value: str) -> None:
    for info in (f"={form}:A", f"_template={form.replace('{1}', '{{ A }}')}"):
        assert selects_exactly(selector(f"response_selector{info}", A=value), value, *INJECTIONS)


@settings(max_examples=200)
@given(value=TEXTS, random=TEXTS, escape=st.sampled_from(["", *"\\!'%_a😀"]))
def test_a_filled_selector_selects_exactly_the_value(value: str, random: str, escape: str) -> None:
    """An equal comparison, LIKE with and without an escape character, and a template."""
    written = f" ESCAPE '{escape.replace(chr(39), chr(39) * 2)}'" if escape else ""
    for info in ("p = '{1}'", f"p LIKE '{{1}}'{written}"):
        assert selects_exactly(selector(f"response_selector={info}:A", A=value), value, random)
    filled = selector("response_selector_template=p LIKE '{{ A }}' AND q = '{{ B }}'", A=value, B=random)
    assert is_true(filled, p=value, q=random)
    assert not any(is_true(filled, p=other, q=random) for other in [*others(value), random] if other != value)
    assert not any(is_true(filled, p=value, q=other) for other in others(random))


@settings(max_examples=200)
@given(
    parts=st.tuples(WRITTEN, WRITTEN, WRITTEN),
    values=st.tuples(TEXTS, TEXTS),
    between=st.tuples(TEXTS, TEXTS, TEXTS),
)
def test_the_wildcards_of_the_pattern_stay_wildcards_and_those_of_values_do_not(
    parts: tuple[str, str, str], values: tuple[str, str], between: tuple[str, str, str]
) -> None:
    written = [part.replace("'", "''").replace("{", "{{") for part in parts]
    pattern = f"{written[0]}{{1}}{written[1]}{{2}}{written[2]}"
    filled = selector(f"response_selector=p LIKE '{pattern}':A,B", A=values[0], B=values[1])
    wild = {"%": ".*", "_": "."}
    meant = [[wild.get(character, re.escape(character)) for character in part] for part in parts]
    between_them = (re.escape(values[0]), re.escape(values[1]), "")
    written_out = zip(map("".join, meant), between_them, strict=True)
    expression = re.compile("".join(itertools.chain.from_iterable(written_out)), re.DOTALL)
    whole = f"{parts[0]}{values[0]}{parts[1]}{values[1]}{parts[2]}"
    filled_in = [part.replace("%", more).replace("_", "x") for part, more in zip(parts, between, strict=True)]
    alike = f"{filled_in[0]}{values[0]}{filled_in[1]}{values[1]}{filled_in[2]}"
    for candidate in (whole, alike, *others(whole), *others(alike)):
        assert is_true(filled, p=candidate) is bool(expression.fullmatch(candidate)), candidate


@settings(max_examples=100)
@given(
    number=st.integers(-(2**31), 2**31 - 1),
    real=st.floats(allow_nan=False, allow_infinity=False),
    other=st.floats(allow_nan=False, allow_infinity=False),
)
def test_numbers_select_exactly_themselves(number: int, real: float, other: float) -> None:
    filled = selector("response_selector=n = {1} AND d = {2} AND n -{1} = 0:N,D", N=number, D=real)
    assert is_true(filled, n=number, d=real)
    assert not is_true(filled, n=number + 1, d=real)
    assert is_true(filled, n=number, d=other) is (other == real)


PIECES = [
    *("response_selector=", "response_selector_template=", "'", "''", "{", "{{", "}}", "}", "{1}", "{0}"),
    *(";", ":", ",", "A", "N", "x", "[0]", "[", ".", "()", " = ", " LIKE ", " ESCAPE ", "%", "\\", "\0"),
    *("|", "{{ A }}", "{%", "%}", "{% if A %}", "{% endif %}", "{% for x in A %}", "{% endfor %}"),
    *("{{ x | upper }}", "{# #}"),
]


@settings(max_examples=300)
@given(
    key=st.sampled_from(PIECES[:2]),
    pieces=st.lists(st.sampled_from(PIECES), max_size=12),
    quoting=st.sampled_from(["quoted", "raw"]),
)
def test_no_application_specific_information_makes_the_reader_the_check_or_the_filling_break(
    key: str, pieces: list[str], quoting: Quoting
) -> None:
    text = key + "".join(pieces)
    parsed = ResponseSelector.parse(text, quoting)
    assert parsed is not None
    mistakes = list(parsed.problems(THING, DEFINITIONS))
    assert all(0 <= mistake.offset <= len(text) and mistake.found for mistake in mistakes)
    try:
        filled = parsed.fill(BusinessObject(DEFINITIONS, "Thing", "Get", {"A": "a", "N": 1}))
    except RequestRefused:
        return
    assert filled.strip()
    assert not [mistake for mistake in mistakes if mistake.offset < len(key)]


@given(st.decimals(-(10**15), 10**15, places=2))
def test_a_decimal_is_written_with_its_digits(value: Decimal) -> None:
    digits = format(value if value else value.copy_abs(), "f")
    assert selector("response_selector=price = '{1}':E", E=value) == f"price = '{digits}'"
    filled = selector("response_selector=price = {1}:E", E=value)
    assert filled == f"price = {digits}"
    assert is_true(filled, price=float(value))
    assert not is_true(filled, price=float(value) + 1)


def test_a_decimal_that_no_selector_can_have_is_refused_and_others_keep_their_digits() -> None:
    with pytest.raises(RequestRefused, match="beyond 64 bits"):
        selector("response_selector=price = {1}:E", E="1e30")
    assert selector("response_selector=price = '{1}':E", E="1e3") == "price = '1000'"
    assert selector("response_selector=price = '{1}':sum([E, E])", E="0.10") == "price = '0.20'"
    for template in ("price = '{{ E }}'", "price = {{ E }}"):
        filled = selector(f"response_selector_template={template}", E="12345678901234567890.10")
        assert "12345678901234567890.10" in filled
