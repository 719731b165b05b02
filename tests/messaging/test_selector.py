"""Message selectors: the language of JMS 2.0, 3.8."""

from __future__ import annotations

import enum
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message, PropertyValue
from connector.messaging.selector import compile_selector
from tests.tables import rows


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
    lines="a\nb",
)

T, F, U = "t", "f", "absent"
AND_TABLE = [(T, T, True), (T, F, False), (T, U, None), (F, F, False), (F, U, False), (U, U, None)]
OR_TABLE = [(T, T, True), (T, F, True), (T, U, True), (F, F, False), (F, U, None), (U, U, None)]


@rows("left, right, expected", AND_TABLE)
def test_and_follows_the_table_of_the_specification(left: str, right: str, expected: bool | None) -> None:
    assert truth(f"{left} AND {right}", SAMPLE) is expected
    assert truth(f"{right} AND {left}", SAMPLE) is expected


@rows("left, right, expected", OR_TABLE)
def test_or_follows_the_table_of_the_specification(left: str, right: str, expected: bool | None) -> None:
    assert truth(f"{left} OR {right}", SAMPLE) is expected
    assert truth(f"{right} OR {left}", SAMPLE) is expected


@rows("operand, expected", [(T, False), (F, True), (U, None)])
def test_not_follows_the_table_of_the_specification(operand: str, expected: bool | None) -> None:
    assert truth(f"NOT {operand}", SAMPLE) is expected


@rows(
    "text, expected",
    [
        # JMS 2.0, 3.8.1.2
        ("age BETWEEN 15 AND 19", True),
        ("age >= 15 AND age <= 19", True),
        ("age NOT BETWEEN 15 AND 19", False),
        ("age < 15 OR age > 19", False),
        ("Country IN ('UK', 'US', 'France')", False),
        ("Country NOT IN ('UK', 'US', 'France')", True),
        ("(Country = 'UK') OR (Country = 'US') OR (Country = 'France')", False),
        ("phone LIKE '12%3'", True),
        ("word LIKE 'l_se'", False),
        ("underscored LIKE '\\_%' ESCAPE '\\'", True),
        ("phone NOT LIKE '12%3'", False),
        ("absent IS NULL", True),
        ("Country IS NOT NULL", True),
        ("JMSType = 'car' AND color = 'blue' AND weight > 2500", None),
    ],
)
def test_the_examples_of_the_specification_mean_what_it_says(text: str, expected: bool | None) -> None:
    assert truth(text, SAMPLE) is expected


@rows(
    "text, expected",
    [
        ("one = 1", True),
        ("one = 2", False),
        ("one <> 1", False),
        ("one <> 2", True),
        ("one < 2", True),
        ("two < 2", False),
        ("two <= 2", True),
        ("two > 2", False),
        ("two >= 2", True),
        ("two > 1", True),
        ("2 > one", True),
        ("2 < one", False),
        ("1 >= one", True),
        ("3 = one + two", True),
        ("one < two", True),
        ("two <= one", False),
        ("one = one", True),
        ("one <> two", True),
        ("two > one", True),
        ("two >= two", True),
        ("one - two = -1", True),
        ("two * two * 1.5 = 6", True),
        ("7 / two = 3", True),
        ("-7 / two = -3", True),
        ("7 / -two = -3", True),
        ("7 / 2. = 3.5", True),
        ("-two = 0 - two", True),
        ("+two = 2", True),
        ("- - two = 2", True),
        ("two + half = 2.5", True),
        ("two BETWEEN one AND 3", True),
        ("two NOT BETWEEN one AND 3", False),
        ("two BETWEEN one + 2 AND 3", False),
        ("one + two BETWEEN 3 AND 3", True),
        ("two NOT BETWEEN 3 AND 4", True),
        ("text = 'text'", True),
        ("text <> 'text'", False),
        ("text <> 'other'", True),
        ("'text' = text", True),
        ("text = text", True),
        ("text <> empty", True),
        ("empty = ''", True),
        ("t = TRUE", True),
        ("t = FALSE", False),
        ("t <> FALSE", True),
        ("f <> FALSE", False),
        ("FALSE = f", True),
        ("t = f", False),
        ("t <> f", True),
        ("TRUE", True),
        ("FALSE", False),
        ("1 = 1", True),
        ("'a' = 'b'", False),
        ("TRUE = TRUE", True),
        ("(one = 1) = t", True),
        ("(one = 1) <> (two = 1)", True),
        ("(one = 1 AND absent) = t", None),
        ("(one IS NULL) = (text LIKE 't%')", False),
        ("(absent LIKE 't%') = t", None),
        ("(text LIKE 'x%') = f", True),
        ("(text IN ('text')) = t", True),
        ("(one BETWEEN 0 AND 2) = t", True),
        ("(one NOT BETWEEN 0 AND 2) = t", False),
        ("(NOT t OR f) = f", True),
        ("(text) = f", False),
        ("(NOT text) = f", None),
    ],
)
def test_every_operator_means_what_its_name_says(text: str, expected: bool | None) -> None:
    assert truth(text, SAMPLE) is expected


@rows(
    "text",
    [
        "absent = 1",
        "absent <> 1",
        "absent < 1",
        "absent = 'a'",
        "absent <> 'a'",
        "absent = TRUE",
        "absent <> TRUE",
        "absent = one",
        "one <> absent",
        "one > absent",
        "absent = absent",
        "absent + 1 = 1",
        "-absent < 1",
        "+absent < 1",
        "absent * 0 = 0",
        "absent BETWEEN 1 AND 2",
        "absent NOT BETWEEN 1 AND 2",
        "one BETWEEN absent AND 2",
        "absent LIKE '%'",
        "absent NOT LIKE 'a'",
        "absent IN ('a')",
        "absent NOT IN ('a')",
        "JMSCorrelationID = 'a'",
        "JMSType LIKE '%'",
    ],
)
def test_what_is_asked_of_a_missing_value_is_unknown(text: str) -> None:
    assert truth(text, SAMPLE) is None


@rows(
    "text, expected",
    [
        # The value is NULL, and one comparison decides all the same.
        ("one BETWEEN 2 AND absent", False),
        ("one NOT BETWEEN 2 AND absent", True),
        ("absent IS NULL", True),
        ("absent IS NOT NULL", False),
        ("one IS NULL", False),
        ("one IS NOT NULL", True),
        ("JMSType IS NULL", True),
        ("JMSPriority IS NOT NULL", True),
    ],
)
def test_what_does_not_depend_on_the_missing_value_is_known(text: str, expected: bool) -> None:
    assert truth(text, SAMPLE) is expected


@rows(
    "text",
    [
        "text = 1",
        "text <> 1",
        "text < 1",
        "text > 1",
        "text = TRUE",
        "text <> TRUE",
        "one = 'text'",
        "one <> 'text'",
        "one = TRUE",
        "one <> FALSE",
        "f = 0",
        "t = 1",
        "t <> 0",
        "t < 2",
        "t >= 1",
        "f BETWEEN 0 AND 1",
        "t NOT BETWEEN 5 AND 6",
        "text BETWEEN 0 AND 1",
        "text NOT BETWEEN 0 AND 1",
        "t = one",
        "text = one",
        "text <> one",
        "text < empty",
        "t > f",
        "one IN ('1')",
        "one LIKE '1'",
        "t LIKE '%'",
        "JMSPriority = '4'",
        "1 = '1'",
    ],
)
def test_a_comparison_of_unlike_types_is_false(text: str) -> None:
    assert truth(text, SAMPLE) is False


@rows("text", ["text", "one", "text OR f", "text + 1 = 2", "t * 2 = 2", "-text < 1", "+t = 1"])
def test_a_property_of_a_type_that_an_operator_cannot_use_makes_it_unknown(text: str) -> None:
    assert truth(text, SAMPLE) is None


def test_a_string_is_never_made_a_number() -> None:
    assert truth("number = 5", message(number="5")) is False


@rows(
    "text, same",
    [
        ("t OR t AND f", "t OR (t AND f)"),
        ("NOT f AND f", "(NOT f) AND f"),
        ("NOT one = 2", "NOT (one = 2)"),
        ("one + two * 3 = 7", "(one + (two * 3)) = 7"),
        ("10 - 4 - 3 = 3", "((10 - 4) - 3) = 3"),
        ("16 / 4 / 2 = 2", "((16 / 4) / 2) = 2"),
        ("12 / 4 * 3 = 9", "((12 / 4) * 3) = 9"),
        ("-one + 2 = 1", "((-one) + 2) = 1"),
        ("two BETWEEN 1 AND 3 AND t", "(two BETWEEN 1 AND 3) AND t"),
        ("NOT two BETWEEN 4 AND 5 OR f", "(NOT (two BETWEEN 4 AND 5)) OR f"),
    ],
)
def test_operators_bind_in_the_order_of_the_specification(text: str, same: str) -> None:
    assert truth(text, SAMPLE) is truth(same, SAMPLE) is not None


def test_parentheses_change_the_order() -> None:
    assert truth("(t OR t) AND f", SAMPLE) is False
    assert truth("(one + two) * 3 = 9", SAMPLE) is True
    assert truth("10 - (4 - 3) = 9", SAMPLE) is True


@rows(
    "literal, value",
    [
        ("57", 57),
        ("0", 0),
        ("57L", 57),
        ("1_000", 1000),
        ("0x1F", 31),
        ("0XffL", 255),
        ("0b101", 5),
        ("017", 15),
        ("0_7", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0x7FFFFFFFFFFFFFFF", 2**63 - 1),
        ("0xFFFFFFFFFFFFFFFF", -1),
        ("7.", 7.0),
        ("-95.7", -95.7),
        (".5", 0.5),
        ("7E3", 7000.0),
        ("-57.9e2", -5790.0),
        ("1e-3", 0.001),
        ("2.5E+2", 250.0),
        ("7d", 7.0),
        ("7.25F", 7.25),
        ("010.5", 10.5),
        ("1_0.2_5", 10.25),
        ("0x1.8p1", 3.0),
        ("0x.8P-1", 0.25),
    ],
)
def test_numbers_are_written_as_in_java(literal: str, value: float) -> None:
    kind = "long" if isinstance(value, int) else "double"
    assert truth(f"x = {literal}", message(x=(kind, value))) is True
    assert truth(f"x = {literal}", message(x=(kind, value + 3 if value < 0 else value - 3))) is False


def test_a_literal_with_f_is_rounded_as_a_float_property_is() -> None:
    subject = message(x=("float", 1.1))
    assert truth("x = 1.1f", subject) is True
    assert truth("x = 1.1", subject) is False


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


def test_keywords_and_truth_values_are_in_any_case_and_names_are_not() -> None:
    subject = message(Region="EU", flag=True)
    assert truth("Region lIkE 'E%' aNd fLaG iS nUlL Or faLSE", subject) is True
    assert truth("flag = true And not (Region in ('US') Or Region not like 'E_' escape '!')", subject) is True
    assert truth("region = 'EU'", subject) is None


@rows("name", ["_x", "$x", "x1", "größe", "日本", "ﬁ", "x$y_z", "naïve", "NOTE", "ORDER_ID", "€"])
def test_a_name_is_an_identifier_of_java(name: str) -> None:
    assert truth(f"{name} = 1", message(**{name: 1})) is True


def test_space_stands_anywhere_between_words_or_nowhere() -> None:
    subject = message(a=1, b="x")
    assert truth("\t a\n=\r\n1\f AND(b)='x'AND(a)NOT IN('y')AND+a*-a<0", subject) is True


@rows("kind", ["byte", "short", "int", "long"])
def test_every_exact_type_compares_with_every_number(kind: str) -> None:
    subject = message(x=(kind, 100), y=("double", 100.0))
    for text in ("x = 100", "x = 1e2", "x = y", "x < 100.5", "x + 0.5 > 100", "x BETWEEN 99.5 AND 100"):
        assert truth(text, subject) is True, text


@rows("kind", ["float", "double"])
def test_every_approximate_type_compares_with_every_number(kind: str) -> None:
    subject = message(x=(kind, 2.5), y=5)
    for text in ("x = 2.5", "x > 2", "x * 2 = y", "x <> 2", "x BETWEEN 2 AND 3", "y / 2 < x"):
        assert truth(text, subject) is True, text


def test_long_and_double_are_compared_as_doubles_even_where_a_double_is_too_coarse() -> None:
    subject = message(x=("long", 2**53 + 1), y=("double", 2.0**53))
    assert truth("x = y", subject) is True
    assert truth("x = 9007199254740992.0", subject) is True
    assert truth("x = 9007199254740992", subject) is False
    assert truth("y = 9007199254740993", subject) is True
    assert truth("y BETWEEN 9007199254740993 AND 9007199254740993", subject) is True


def test_exact_arithmetic_wraps_round_as_a_long_does() -> None:
    subject = message(x=("long", 2**63 - 1), y=("long", -(2**63)))
    assert truth("x + 1 = y", subject) is True
    assert truth("y - 1 = x", subject) is True
    assert truth("-y = y", subject) is True
    assert truth("y / -1 = y", subject) is True
    assert truth("x * 2 = -2", subject) is True


def test_exact_division_by_zero_is_unknown() -> None:
    assert truth("5 / zero = 0", message(zero=0)) is None


def test_approximate_division_by_zero_is_infinite_or_no_number() -> None:
    subject = message(zero=0.0, inf=math.inf, nan=math.nan)
    assert truth("5 / zero = inf", subject) is True
    assert truth("-5 / zero = -inf", subject) is True
    assert truth("5 / -zero = -inf", subject) is True
    assert truth("5 / 0. = inf", subject) is True
    assert truth("zero / 0 = 1", subject) is False
    assert truth("nan / zero <> 1", subject) is True


def test_literals_that_are_equal_are_not_taken_for_the_same() -> None:
    assert truth("7 / 2 = 3 AND 7 / 2. = 3.5", SAMPLE) is True
    assert truth("1 / 0. > 1 AND 1 / -0. < -1", SAMPLE) is True


def test_nan_is_not_equal_to_itself_and_in_no_order() -> None:
    subject = message(nan=math.nan)
    for text in ("nan = nan", "nan < 1", "nan > 1", "nan BETWEEN 0 AND 1", "nan NOT BETWEEN 0 AND 1"):
        assert truth(text, subject) is False, text
    assert truth("nan <> nan", subject) is True
    assert truth("nan <> 1", subject) is True


@rows(
    "pattern, matching, others",
    [
        ("'abc'", ["abc"], ["ab", "abcd", "xabc", "ABC", ""]),
        ("''", [""], ["a"]),
        ("'%'", ["", "a", "a\nb"], []),
        ("'_'", ["a", "\n", "é"], ["", "ab"]),
        ("'a%'", ["a", "abc", "a\n"], ["", "ba"]),
        ("'%c'", ["c", "abc", "\nc"], ["", "cb", "c\n"]),
        ("'%b%'", ["b", "abc", "a\nb\nc"], ["", "ac"]),
        ("'a%c'", ["ac", "abc", "a\nc", "acbc"], ["a", "c", "acb", "ac\n"]),
        ("'a_c'", ["abc", "a\nc", "a_c"], ["ac", "abbc"]),
        ("'%_'", ["a", "ab"], [""]),
        ("'a%%%b'", ["ab", "aXb"], ["a", "b"]),
        ("'%ab%ba%'", ["abba", "xabxbax"], ["aba", "baab"]),
        ("'a%ab'", ["aab", "aXab"], ["ab"]),
        ("'_%_'", ["ab", "abc"], ["a", ""]),
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
    for value in matching:
        assert truth(f"x LIKE {pattern}", message(x=value)) is True, value
        assert truth(f"x NOT LIKE {pattern}", message(x=value)) is False, value
    for value in others:
        assert truth(f"x LIKE {pattern}", message(x=value)) is False, value
        assert truth(f"x NOT LIKE {pattern}", message(x=value)) is True, value


def test_a_text_that_almost_fits_a_pattern_of_many_wildcards_is_answered() -> None:
    """A search that tries all combinations would not end before the limit of a test."""
    pattern = "a%" * 40 + "_b"
    assert compile_selector(f"x LIKE '{pattern}'").matches(message(x="a" * 5000)) is False
    assert compile_selector(f"x LIKE '%{'_%' * 500}!'").matches(message(x="a" * 5000)) is False


def test_headers_are_seen() -> None:
    subject = Message(
        message_id="ID:7",
        timestamp=1763690000000,
        correlation_id="c1",
        type="car",
        priority=7,
        delivery_count=3,
    )
    for text in (
        "JMSMessageID = 'ID:7'",
        "JMSTimestamp > 1763689999999",
        "JMSCorrelationID LIKE 'c_'",
        "JMSType IN ('car', 'bike')",
        "JMSPriority BETWEEN 5 AND 9",
        "JMSPriority + 1 = 8",
        "JMSXDeliveryCount >= 3",
    ):
        assert truth(text, subject) is True, text


@rows("mode, name", [(PERSISTENT, "PERSISTENT"), (NON_PERSISTENT, "NON_PERSISTENT")])
def test_the_delivery_mode_is_a_string(mode: int, name: str) -> None:
    subject = Message(delivery_mode=mode)
    assert truth(f"JMSDeliveryMode = '{name}'", subject) is True
    assert truth(f"JMSDeliveryMode = {mode}", subject) is False


def test_properties_of_the_specification_and_of_a_provider_are_seen() -> None:
    subject = message(JMSXGroupID="g1", JMSXGroupSeq=4, JMS_vendor_flag=True)
    assert truth("JMSXGroupID = 'g1' AND JMSXGroupSeq = 4 AND JMS_vendor_flag", subject) is True


def test_a_property_named_like_a_header_in_another_case_is_a_property() -> None:
    assert truth("jmspriority = 9", message(jmspriority=9)) is True


def test_values_of_subclasses_count_as_what_they_are() -> None:
    class Rank(enum.IntEnum):
        HIGH = 9

    class Region(enum.StrEnum):
        EU = "EU"

    subject = message(rank=Rank.HIGH, region=Region.EU)
    for text in ("rank > 8", "rank + 1 = 10", "rank / 2 = 4", "region <> 'US'", "region LIKE 'E%'"):
        assert truth(text, subject) is True, text


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
    "step, size",
    [
        ("({})", 1),
        ("NOT {}", 1),
        ("(f OR t AND {})", 1),
        ("(t AND ({} OR f))", 2),
        ("NOT (f OR t AND {})", 2),
        ("t = (f OR t AND f = ({}))", 2),
        ("t = ({} AND t)", 1),
        ("(f OR t AND t = {})", 1),
    ],
)
def test_conditions_may_be_nested_to_the_limit(step: str, size: int) -> None:
    text = "t"
    for _ in range(64 // size):
        text = step.format(text)
    assert compile_selector(text).matches(SAMPLE) is True


@rows("step, size", [("-{}", 1), ("1 - ({})", 1), ("1 + 1 * -({})", 2), ("({}) * 1 * 1 * 1 + 1 - 1 - 1", 1)])
def test_arithmetic_may_be_nested_to_the_limit(step: str, size: int) -> None:
    text = "one"
    for _ in range(64 // size):
        text = step.format(text)
    assert compile_selector(f"{text} BETWEEN -100 AND 100").matches(SAMPLE) is True
