"""A selector that is none: the error says what was found, what was expected, and where."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connector.errors import SelectorError
from connector.messaging.message import Message
from connector.messaging.selector import Selector, compile_selector
from tests.tables import rows

SEEN = (
    "expected one of the headers that a selector sees (JMSDeliveryMode, JMSPriority, JMSMessageID, "
    "JMSTimestamp, JMSCorrelationID, JMSType), or a property"
)
UNSEEN = ("JMSDestination = 'q'", "JMSExpiration > 0", "JMSRedelivered", "JMSMessageId = 'a'")
EQUAL_ONLY = "(strings and booleans have only = and <>)"
NO_NUMBERS = ("08", "0x", "0b12", "1_", "1.2.3", "5kg", "3AND")
BEYOND = {"double": ("1e400", "1e-400", "0x1p2000"), "float": ("1e39f", "1e-50f")}
LONG = "expected a number within the range of a long (64 bits)"


@rows(
    "text, position, said",
    [
        ("", 1, "found the end, expected a value"),
        ("  \n", 4, "found the end, expected a value"),
        ("AND", 1, "found 'AND', expected a value"),
        ("x = 1 AND and", 11, "found 'and', expected a value"),
        ("x = 1 OR", 9, "found the end, expected a value"),
        ("x =", 4, "found the end, expected a value"),
        ("x = 1 y", 7, "found 'y', expected an operator or the end"),
        ("x = 1 = 2", 7, "found '=', expected an operator or the end"),
        ("x < 1 < 2", 7, "found '<', expected an operator or the end"),
        ("x == 1", 4, "found '=', expected a value"),
        ("x != 1", 3, "found '!', expected an operator or the end (unequal is written <>)"),
        ('x = "a"', 5, "found '\"', expected a value (strings stand in single quotes)"),
        ("x = NULL", 5, "found 'NULL', expected a value (a missing value is asked for with IS NULL)"),
        ("x = NOT y", 5, "found 'NOT', expected a value"),
        ("x; y", 2, "found ';', expected an operator or the end"),
        ("x = ?", 5, "found '?', expected a value"),
        ("order-id.x = 1", 9, "found '.', expected an operator or the end"),
        ("x\u00a0= 1", 2, "found '\\xa0', expected an operator or the end"),
        ("²x = 1", 1, "found '²', expected a value"),
        ("x→y = 1", 2, "found '→', expected a letter, digit, '_' or '$'"),
        ("(x = 1", 7, "found the end, expected ')'"),
        ("x = 1)", 6, "found ')', expected the end"),
        ("()", 2, "found ')', expected a value"),
        ("(x = 1 y)", 8, "found 'y', expected an operator or ')'"),
        ("'abc", 1, "found 'abc, expected a closing quote"),
        ("x = 'it's'", 9, "found 's', expected an operator or the end"),
        ("x = 'abc''", 5, "found 'abc'', expected a closing quote"),
        ("x NOT y", 7, "found 'y', expected BETWEEN, IN or LIKE"),
        ("x IS 1", 6, "found '1', expected NOT or NULL"),
        ("x IS NOT 1", 10, "found '1', expected NULL"),
        ("x BETWEEN 1, 2", 12, "found ',', expected AND"),
        ("x BETWEEN 1 OR 2", 13, "found 'OR', expected AND"),
        ("x BETWEEN 1 AND", 16, "found the end, expected a value"),
        ("x IN 'a'", 6, "found 'a', expected '('"),
        ("x IN ()", 7, "found ')', expected a string"),
        ("x IN (1)", 7, "found '1', expected a string"),
        ("x IN ('a' 'b')", 11, "found 'b', expected ',' or ')'"),
        ("x IN ('a',)", 11, "found ')', expected a string"),
        ("x LIKE y", 8, "found 'y', expected a string"),
        ("x LIKE 'a' 'b'", 12, "found 'b', expected an operator, ESCAPE or the end"),
        ("x LIKE 'a' ESCAPE 1", 19, "found '1', expected a string"),
        ("x LIKE 'a' ESCAPE 'ab'", 19, "found 'ab', expected a string of one character after ESCAPE"),
        ("x LIKE 'a' ESCAPE ''", 19, "found '', expected a string of one character after ESCAPE"),
        ("x LIKE 'a!b' ESCAPE '!'", 8, "found '!' before 'b' of 'a!b', expected '%', '_' or '!' after it"),
        ("x LIKE 'a!' ESCAPE '!'", 8, "found '!' at the end of 'a!', expected '%', '_' or '!' after it"),
        ("x LIKE '%%%' ESCAPE '%'", 8, "found '%' at the end of '%%%', expected '%', '_' or '%' after it"),
        ("5 IS NULL", 1, "found a number, expected the name of a header or property before IS NULL"),
        ("x + 1 IN ('a')", 1, "found a number, expected the name of a header or property before IN"),
        ("'a' LIKE 'a'", 1, "found a string, expected the name of a header or property before LIKE"),
        ("(x = 1) IS NULL", 2, "found a condition, expected the name of a header or property before IS NULL"),
        ("5", 1, "found a number, expected a condition"),
        ("'a'", 1, "found a string, expected a condition"),
        ("x + 1", 1, "found a number, expected a condition"),
        ("JMSType", 1, "found a string, expected a condition"),
        ("x = 1 AND 5", 11, "found a number, expected a condition beside AND"),
        ("JMSPriority OR x", 1, "found a number, expected a condition beside OR"),
        ("NOT 'a'", 5, "found a string, expected a condition after NOT"),
        ("x < 'a'", 5, f"found a string, expected a number beside '<' {EQUAL_ONLY}"),
        ("TRUE >= x", 1, f"found a condition, expected a number beside '>=' {EQUAL_ONLY}"),
        ("JMSType > 5", 1, f"found a string, expected a number beside '>' {EQUAL_ONLY}"),
        ("x + 'a' = 1", 5, "found a string, expected a number beside '+'"),
        ("x * (y = 1) = 1", 6, "found a condition, expected a number beside '*'"),
        ("-'a' = x", 2, "found a string, expected a number after '-'"),
        ("x BETWEEN 'a' AND 'b'", 11, "found a string, expected a number with BETWEEN"),
        ("x = 9223372036854775808", 5, f"found '9223372036854775808', {LONG}"),
        ("x = 1 - 9223372036854775808", 9, f"found '9223372036854775808', {LONG}"),
        ("x = 99999999999999999999", 5, f"found '99999999999999999999', {LONG}"),
        ("x = 0x10000000000000000", 5, f"found '0x10000000000000000', {LONG}"),
        *(
            (f"x = {text}", 5, f"found '{text}', expected a number within the range of a {kind}")
            for kind, numbers in BEYOND.items()
            for text in numbers
        ),
        *((f"x = {text}", 5, f"found '{text}', expected a number") for text in NO_NUMBERS),
        *((text, 1, f"found '{text.partition(' ')[0]}', {SEEN}") for text in UNSEEN),
        ("x AND JMSReplyTo = 'q'", 7, f"found 'JMSReplyTo', {SEEN}"),
        ("x = 1 " + "y" * 50, 7, f"found '{'y' * 37}...', expected an operator or the end"),
        ("x = 'a\nb\x1b[31m", 5, "found 'a\\nb\\x1b[31m, expected a closing quote"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(text: str, position: int, said: str) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_selector(text)
    assert str(caught.value) == f"{said}, at character {position}"
    assert caught.value.position == position


@rows(
    "text, position",
    [
        ("(" * 10_000, 65),
        ("(" * 10_000 + "x" + ")" * 10_000, 65),
        ("NOT " * 10_000 + "x", 64 * 4 + 1),
        ("x = " + "-" * 10_000 + "1", 4 + 65),
        ("x + (" * 10_000, 64 * 5 + 5),
        ("NOT (" * 10_000, 32 * 5 + 1),
    ],
)
def test_what_is_nested_too_deep_is_refused_where_it_becomes_so(text: str, position: int) -> None:
    words = "at most 64 parentheses, NOTs and signs in one another"
    with pytest.raises(SelectorError, match=words) as caught:
        compile_selector(text)
    assert caught.value.position == position


def compiled_or_error(text: str) -> Selector | SelectorError:
    try:
        return compile_selector(text)
    except SelectorError as error:
        return error


PIECES = """
AND OR NOT BETWEEN IN LIKE ESCAPE IS NULL TRUE false x y JMSType JMSPriority JMSExpiration 'a' '%_' '
1 2.5 0x1F 1e9 9223372036854775808 = <> < <= > >= + - * / ( ) , ß $ ! "
"""
WORDS = st.sampled_from([*PIECES.split(), " ", "\n"])
TEXTS = st.one_of(
    st.text(), st.text("()'=<>,+-*/. 0x1eELdf_%naNOTR"), st.lists(WORDS, max_size=30).map(" ".join)
)


@given(TEXTS)
@example("\ud800 = 'x")
@example("x = '\x00' OR \x00")
@example("ıN = 1")
@example("1" * 5000 + " = x")
@example("x = 0" + "7" * 5000)
def test_any_text_is_a_selector_or_an_error_with_a_place_in_it(text: str) -> None:
    compiled = compiled_or_error(text)
    if isinstance(compiled, SelectorError):
        assert 1 <= compiled.position <= len(text) + 1
        assert str(compiled).endswith(f"at character {compiled.position}")
    else:
        assert compiled.matches(Message()) in (True, False)


@rows(
    "text",
    [
        "x = '" + "''" * 200_000,
        "x" * 400_000,
        "1" * 400_000,
        "1_" * 200_000,
        "x = 0." + "0" * 400_000 + "_",
        "'a' " * 50_000,
        " " * 400_000,
        "x LIKE '" + "%_" * 50_000 + "'",
        "x = 1 AND " * 3_000,
    ],
)
def test_the_time_it_takes_grows_no_faster_than_the_text(text: str) -> None:
    started = time.process_time()
    compiled_or_error(text)
    assert time.process_time() - started < 10
