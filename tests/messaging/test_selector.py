"""Message selectors: the language of JMS 2.0, 3.8, and the reference page that says what selectors do."""

from __future__ import annotations

import enum
import math
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from connector.errors import SelectorError
from connector.messaging.message import Message, PropertyValue
from connector.messaging.selector import compile_selector
from connector.messaging.selectors.identifiers import HEADERS, KEYWORDS
from connector.messaging.selectors.syntax import MAX_NESTING
from tests.tables import rows, texts


def message(**properties: PropertyValue | tuple[str, PropertyValue]) -> Message:
    """A message with properties; a pair is the JMS type and the value."""
    made = Message()
    for name, value in properties.items():
        if isinstance(value, tuple):
            made.set_property(name, value[1], value[0])
        else:
            made.set_property(name, value)
    return made


def truth(text: str, subject: Message) -> bool | None:
    """All three truth values, told apart by asking for the opposite as well."""
    yes = compile_selector(text).matches(subject)
    no = compile_selector(f"NOT ({text})").matches(subject)
    assert not (yes and no)
    return True if yes else False if no else None


SAMPLE = message(
    t=True,
    f=False,
    one=1,
    two=2,
    half=0.5,
    text="text",
    empty="",
    age=17,
    Country="Peru",
    phone="12993",
    word="lse",
    underscored="_foo",
)

TRUTHS: dict[str, dict[bool | None, str]] = {
    "the examples of JMS 2.0, 3.8.1.2": {
        True: r"""
            age BETWEEN 15 AND 19   age >= 15 AND age <= 19   Country NOT IN ('UK', 'US', 'France')
            phone LIKE '12%3'   underscored LIKE '\_%' ESCAPE '\'   absent IS NULL   Country IS NOT NULL
        """,
        False: """
            age NOT BETWEEN 15 AND 19   age < 15 OR age > 19   Country IN ('UK', 'US', 'France')
            (Country = 'UK') OR (Country = 'US') OR (Country = 'France')   word LIKE 'l_se'
            phone NOT LIKE '12%3'
        """,
        None: "JMSType = 'car' AND color = 'blue' AND weight > 2500",
    },
    "every operator": {
        True: """
            one = 1   one <> 2   one < 2   two <= 2   two >= 2   two > 1   2 > one   1 >= one
            3 = one + two   one < two   one = one   one <> two   two > one   two >= two   one - two = -1
            two * two * 1.5 = 6   7 / two = 3   -7 / two = -3   7 / -two = -3   7 / 2. = 3.5
            -two = 0 - two   +two = 2   - - two = 2   two + half = 2.5   two BETWEEN one AND 3
            one + two BETWEEN 3 AND 3   two NOT BETWEEN 3 AND 4   text = 'text'   text <> 'other'
            'text' = text   text = text   text <> empty   empty = ''   t = TRUE   t <> FALSE   FALSE = f
            t <> f   TRUE   1 = 1   TRUE = TRUE   (one = 1) = t   (one = 1) <> (two = 1)
            (text LIKE 'x%') = f   (text IN ('text')) = t   (one BETWEEN 0 AND 2) = t   (NOT t OR f) = f
        """,
        False: """
            one = 2   one <> 1   two < 2   two > 2   2 < one   two <= one   two NOT BETWEEN one AND 3
            two BETWEEN one + 2 AND 3   text <> 'text'   t = FALSE   f <> FALSE   t = f   FALSE   'a' = 'b'
            (one IS NULL) = (text LIKE 't%')   (one NOT BETWEEN 0 AND 2) = t   (text) = f
        """,
        None: "(one = 1 AND absent) = t   (absent LIKE 't%') = t   (NOT text) = f",
    },
    "parentheses": {
        True: "(one + two) * 3 = 9   10 - (4 - 3) = 9",
        False: "(t OR t) AND f",
    },
    "a missing value": {
        None: """
            absent = 1   absent <> 1   absent < 1   absent = 'a'   absent <> 'a'   absent = TRUE
            absent <> TRUE   absent = one   one <> absent   one > absent   absent = absent
            absent + 1 = 1   -absent < 1   +absent < 1   absent * 0 = 0   absent BETWEEN 1 AND 2
            absent NOT BETWEEN 1 AND 2   one BETWEEN absent AND 2   absent LIKE '%'   absent NOT LIKE 'a'
            absent IN ('a')   absent NOT IN ('a')   JMSCorrelationID = 'a'   JMSType LIKE '%'
        """,
    },
    "a missing value on which nothing depends": {
        True: """
            one NOT BETWEEN 2 AND absent   absent IS NULL   one IS NOT NULL   JMSType IS NULL
            JMSPriority IS NOT NULL
        """,
        False: "one BETWEEN 2 AND absent   absent IS NOT NULL   one IS NULL",
    },
    "a comparison of unlike types": {
        False: """
            text = 1   text <> 1   text < 1   text > 1   text = TRUE   text <> TRUE   one = 'text'
            one <> 'text'   one = TRUE   one <> FALSE   f = 0   t = 1   t <> 0   t < 2   t >= 1
            f BETWEEN 0 AND 1   t NOT BETWEEN 5 AND 6   text BETWEEN 0 AND 1   text NOT BETWEEN 0 AND 1
            t = one   text = one   text <> one   text < empty   t > f   one IN ('1')   one LIKE '1'
            t LIKE '%'   JMSPriority = '4'   1 = '1'   phone = 12993
        """,
    },
    "a property of a type that the operator cannot use": {
        None: "text   one   text OR f   text + 1 = 2   t * 2 = 2   -text < 1   +t = 1",
    },
    "exact division by zero": {None: "5 / (two - two) = 0"},
    "names in another case, which are other names": {None: "Text = 'text'   country = 'Peru'"},
    "literals that are equal and not the same": {
        True: "7 / 2 = 3 AND 7 / 2. = 3.5   1 / 0. > 1 AND 1 / -0. < -1",
    },
}


@rows(
    "rule, text, expected",
    [
        (rule, text, expected)
        for rule, groups in TRUTHS.items()
        for expected, table in groups.items()
        for text in texts(table)
    ],
)
def test_a_selector_is_true_false_or_unknown(rule: str, text: str, expected: bool | None) -> None:
    assert truth(text, SAMPLE) is expected, rule


@rows(
    "literal, value",
    [
        *(("57", 57), ("0", 0), ("57L", 57), ("1_000", 1000), ("0x1F", 31), ("0XffL", 255), ("0b101", 5)),
        *(("017", 15), ("0_7", 7), ("0x7FFFFFFFFFFFFFFF", 2**63 - 1), ("0xFFFFFFFFFFFFFFFF", -1)),
        *(("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63))),
        *(("7.", 7.0), ("-95.7", -95.7), (".5", 0.5), ("7E3", 7000.0), ("-57.9e2", -5790.0)),
        *(("1e-3", 0.001), ("2.5E+2", 250.0), ("7d", 7.0), ("7.25F", 7.25), ("010.5", 10.5)),
        *(("1_0.2_5", 10.25), ("0x1.8p1", 3.0), ("0x.8P-1", 0.25)),
    ],
)
def test_numbers_are_written_as_in_java(literal: str, value: float) -> None:
    kind = "long" if isinstance(value, int) else "double"
    assert truth(f"x = {literal}", message(x=(kind, value))) is True
    assert truth(f"x = {literal}", message(x=(kind, value + 3 if value < 0 else value - 3))) is False


@rows(
    "literal, value",
    [
        ("'EU'", "EU"),
        ("''", ""),
        ("'it''s'", "it's"),
        ("''''", "'"),
        ("'a\nb'", "a\nb"),
        ("'größe 日本'", "größe 日本"),
    ],
)
def test_a_quote_in_a_string_is_doubled(literal: str, value: str) -> None:
    assert truth(f"x = {literal}", message(x=value)) is True


@rows("name", ["_x", "$x", "x1", "größe", "日本", "ﬁ", "x$y_z", "naïve", "NOTE", "ORDER_ID", "€"])
def test_a_name_is_an_identifier_of_java(name: str) -> None:
    assert truth(f"{name} = 1", message(**{name: 1})) is True


def test_space_stands_anywhere_between_words_or_nowhere() -> None:
    subject = message(a=1, b="x")
    assert truth("\t a\n=\r\n1\f AND(b)='x'AND(a)NOT IN('y')AND+a*-a<0", subject) is True


class Rank(enum.IntEnum):
    HIGH = 9


class Region(enum.StrEnum):
    EU = "EU"


@rows(
    "rule, subject, true, false",
    [
        (
            "keywords and truth values are in any case",
            message(Region="EU", flag=True),
            """
            Region lIkE 'E%' aNd fLaG iS nUlL Or faLSE
            flag = true And not (Region in ('US') Or Region not like 'E_' escape '!')
            """,
            "",
        ),
        *(
            (
                "an exact number compares with every number",
                message(x=(kind, 100), y=("double", 100.0)),
                "x = 100   x = 1e2   x = y   x < 100.5   x + 0.5 > 100   x BETWEEN 99.5 AND 100",
                "",
            )
            for kind in ("byte", "short", "int", "long")
        ),
        *(
            (
                "an approximate number compares with every number",
                message(x=(kind, 2.5), y=5),
                "x = 2.5   x > 2   x * 2 = y   x <> 2   x BETWEEN 2 AND 3   y / 2 < x",
                "",
            )
            for kind in ("float", "double")
        ),
        ("a literal with f is rounded as a float is", message(x=("float", 1.1)), "x = 1.1f", "x = 1.1"),
        (
            "a long and a double are compared as doubles, even where a double is too coarse",
            message(x=("long", 2**53 + 1), y=("double", 2.0**53)),
            """
            x = y   x = 9007199254740992.0   y = 9007199254740993
            y BETWEEN 9007199254740993 AND 9007199254740993
            """,
            "x = 9007199254740992",
        ),
        (
            "exact arithmetic wraps round as a long does",
            message(x=("long", 2**63 - 1), y=("long", -(2**63))),
            "x + 1 = y   y - 1 = x   -y = y   y / -1 = y   x * 2 = -2",
            "",
        ),
        (
            "approximate division by zero is infinite or no number",
            message(zero=0.0, inf=math.inf, nan=math.nan),
            "5 / zero = inf   -5 / zero = -inf   5 / -zero = -inf   5 / 0. = inf   nan / zero <> 1",
            "zero / 0 = 1",
        ),
        (
            "NaN is not equal to itself, and in no order",
            message(nan=math.nan),
            "nan <> nan   nan <> 1",
            "nan = nan   nan < 1   nan > 1   nan BETWEEN 0 AND 1   nan NOT BETWEEN 0 AND 1",
        ),
        (
            "headers are seen",
            Message(message_id="7", timestamp=9, correlation_id="c", type="a", priority=7, delivery_count=3),
            """
            JMSMessageID = '7'   JMSTimestamp > 8   JMSCorrelationID LIKE '_'
            JMSType IN ('a', 'b')   JMSPriority BETWEEN 5 AND 9   JMSPriority + 1 = 8
            JMSXDeliveryCount >= 3   JMSDeliveryMode = 'PERSISTENT'
            """,
            "JMSXDeliveryCount >= 4   JMSDeliveryMode = 2   JMSDeliveryMode = 'NON_PERSISTENT'",
        ),
        (
            "properties of the specification, of a provider, and called as a header in another case are seen",
            message(JMSXGroupID="g1", JMSXGroupSeq=4, JMS_vendor_flag=True, jmspriority=9),
            "JMSXGroupID = 'g1' AND JMSXGroupSeq = 4 AND JMS_vendor_flag   jmspriority = 9",
            "",
        ),
        (
            "values of subclasses count as what they are",
            message(rank=Rank.HIGH, region=Region.EU),
            "rank > 8   rank + 1 = 10   rank / 2 = 4   region <> 'US'   region LIKE 'E%'",
            "",
        ),
    ],
)
def test_properties_and_headers_are_compared_by_their_types(
    rule: str, subject: Message, true: str, false: str
) -> None:
    assert [text for text in texts(true) if truth(text, subject) is not True] == [], rule
    assert [text for text in texts(false) if truth(text, subject) is not False] == [], rule


@rows(
    "pattern, matching, others",
    [
        ("'a%c'", ["ac", "abc", "a\nc", "acbc"], ["a", "c", "acb", "ac\n", "AC"]),
        ("'.*+?[a]{1}^$|()'", [".*+?[a]{1}^$|()"], ["a", "x"]),
        ("'100!%' ESCAPE '!'", ["100%"], ["100", "1000", "100!%"]),
        ("'a!_b%' ESCAPE '!'", ["a_b", "a_bc"], ["axb"]),
        ("'a!!b' ESCAPE '!'", ["a!b"], ["a!!b", "ab"]),
        ("'a\\%\\_' ESCAPE '\\'", ["a%_"], ["a\\%\\_"]),
        ("'it''s%'", ["it's", "it's so"], ["its"]),
        ("'%%a%_' ESCAPE '%'", ["%a_"], ["a", "%ab"]),
        ("'a''%%' ESCAPE ''''", ["a%", "a%b"], ["a'", "ab"]),
    ],
)
def test_like_takes_percent_for_any_text_and_underscore_for_one_character(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    for value in (*matching, *others):
        fits = value in matching
        assert truth(f"x LIKE {pattern}", message(x=value)) is fits, value
        assert truth(f"x NOT LIKE {pattern}", message(x=value)) is not fits, value


def test_a_text_that_almost_fits_a_pattern_of_many_wildcards_is_answered() -> None:
    """A search that tries all combinations would not end before the limit of a test."""
    pattern = "a%" * 40 + "_b"
    assert compile_selector(f"x LIKE '{pattern}'").matches(message(x="a" * 5000)) is False
    assert compile_selector(f"x LIKE '%{'_%' * 500}!'").matches(message(x="a" * 5000)) is False


def test_a_selector_knows_the_identifiers_it_asks_for() -> None:
    selector = compile_selector("JMSType = 'car' AND (weight > 2500 OR NOT color IS NULL) AND x = -y")
    assert selector.identifiers == {"JMSType", "weight", "color", "x", "y"}


def test_a_selector_answers_with_a_truth_value_of_python() -> None:
    subject = message(text="x", flag=True)
    for text in ("text", "flag", "flag AND text", "text LIKE 'x%y%z'", "flag = flag", "NOT flag"):
        assert type(compile_selector(text).matches(subject)) is bool


def test_a_selector_keeps_its_text_and_survives_pickling() -> None:
    selector = compile_selector("region = 'EU'")
    assert selector.text == "region = 'EU'"
    again = pickle.loads(pickle.dumps(selector))
    assert again == selector
    assert hash(again) == hash(selector)
    assert again.matches(message(region="EU")) is True
    assert selector != compile_selector("region ='EU'")


def test_the_same_text_is_compiled_once() -> None:
    assert compile_selector("once = 1") is compile_selector("once = 1")


def test_several_threads_may_compile_at_once() -> None:
    def right(number: int) -> bool:
        selector = compile_selector(f"threaded = {number} AND NOT ({'x = 1 OR ' * 20} y = 'a')")
        return selector.matches(message(threaded=number, x=2, y="b"))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(right, range(200)))


def test_a_selector_of_many_thousand_terms_works() -> None:
    subject = message(x=2500)
    assert compile_selector(" OR ".join(f"x = {number}" for number in range(3000))).matches(subject) is True
    assert compile_selector(" AND ".join(f"x <> {number}" for number in range(2000))).matches(subject) is True
    assert compile_selector("x = 0" + " + 1" * 2500).matches(subject) is True
    strings = ", ".join(f"'{number}'" for number in range(5000))
    assert compile_selector(f"y IN ({strings})").matches(message(y="4999")) is True


@rows(
    "step, size, start, end",
    [
        *((step, 1, "t", "") for step in ("({})", "NOT {}", "(f OR t AND {})", "(f OR t AND t = {})")),
        ("t = ({} AND t)", 1, "t", ""),
        *((step, 2, "t", "") for step in ("(t AND ({} OR f))", "NOT (f OR t AND {})")),
        ("t = (f OR t AND f = ({}))", 2, "t", ""),
        *((step, 1, "one", " BETWEEN -100 AND 100") for step in ("-{}", "1 - ({})")),
        ("1 + 1 * -({})", 2, "one", " BETWEEN -100 AND 100"),
        ("({}) * 1 * 1 * 1 + 1 - 1 - 1", 1, "one", " BETWEEN -100 AND 100"),
    ],
)
def test_conditions_and_arithmetic_may_be_nested_to_the_limit(
    step: str, size: int, start: str, end: str
) -> None:
    text = start
    for _ in range(64 // size):
        text = step.format(text)
    assert compile_selector(text + end).matches(SAMPLE) is True


# --- the page -------------------------------------------------------------------------------------

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/selectors.md").read_text("utf-8")

PROPERTIES: dict[str, PropertyValue] = {
    "region": "EU",
    "quantity": 12,
    "price": 2.5,
    "code": "10%_x",
    "number": "5",
    "urgent": True,
}
"""Those of the message that the page shows."""


def block(name: str) -> list[str]:
    found = re.search(rf"^```text {name}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found.group(1).splitlines()


@rows("line", block("examples"))
def test_an_example_has_the_truth_value_that_stands_beside_it(line: str) -> None:
    message = Message(type="ORDER", priority=7)
    for name, value in PROPERTIES.items():
        message.set_property(name, value)
    text, expected = line.rsplit(maxsplit=1)
    yes = compile_selector(text).matches(message)
    no = compile_selector(f"NOT ({text})").matches(message)
    assert (yes, no) == {"true": (True, False), "false": (False, True), "unknown": (False, False)}[expected]


@rows("text, said", list(zip(block("mistakes")[::2], block("mistakes")[1::2], strict=True)))
def test_a_mistake_gives_the_error_that_stands_below_it(text: str, said: str) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_selector(text)
    assert str(caught.value) == said.strip()


def test_every_header_that_a_selector_sees_is_named() -> None:
    table = PAGE.partition("| identifier | value |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(JMS\w+)`", table)) == set(HEADERS)


def test_every_keyword_is_named() -> None:
    line = re.search(r"^\| keyword \|.*`([A-Z ]+)`", PAGE, re.MULTILINE)
    assert line is not None
    assert set(line.group(1).split()) == KEYWORDS


def test_the_limit_of_nesting_is_the_one_there_is() -> None:
    assert f"up to {MAX_NESTING} deep" in PAGE
