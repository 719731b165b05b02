"""Lists of values of a simple type (cardinality n) in every format."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.businessobjects.definition import Attribute, Definitions
from connector.businessobjects.instance import BusinessObject, finish
from connector.errors import MalformedData
from connector.formats.datahandler import Hint
from tests.datahandlers.definitions import SAMPLES, define, kind_of, known, make, refusal
from tests.tables import rows

ARTICLE: Final = Hint("Article", "Create")


def article(values: dict[str, Any]) -> BusinessObject:
    return BusinessObject(SAMPLES, "Article", "Create", values)


def one_list(type_name: str, info: str = "", **more: Any) -> Definitions:
    """Returns the definition of a T with a list A."""
    return known(define("T", A=Attribute("A", type_name, cardinality="n", app_specific_info=info, **more)))


# --- every format ------------------------------------------------------------------------------


@rows(
    "name, body, place",
    [
        ("Json", b'{"Size": [1, "x"]}', "Size[1]: found the text 'x', expected an integer"),
        ("Json", b'{"Size": 1}', "Size: found the number 1, expected a list of values (Integer)"),
        ("Json", b'{"Size": "1 2"}', "Size: found the text '1 2', expected a list of values (Integer)"),
        ("Json", b'{"Size": [null]}', "Size[0]: found null, expected an integer"),
        ("Json", b'{"Size": [[1]]}', "Size[0]: found a list, expected an integer"),
        ("Json", b'{"Size": [7.5]}', "Size[0]: found the number 7.5, expected an integer"),
        ("Json", b'{"Sold": ["2024-02-29", "2023-02-29"]}', "Sold[1]: found the text '2023-02-29'"),
        ("Json", b'{"Tag": ["' + b"x" * 31 + b'"]}', "Tag[0]: found a text of 31 characters, expected at most 30"),
        ("Json", b'{"Part": [{"Size": [true]}]}', "Part[0].Size[0]: found true, expected an integer"),
        ("JsonLines", b'{"Size": [1, "x"]}\n', "Size[1]: found the text 'x'"),
        ("Xml", b"<Article><Size>1</Size><Size>x</Size></Article>", "Size[1]: found the text 'x', expected an integer: line 1"),
        ("Xml", b"<Article><Size>1 2</Size></Article>", "Size[0]: found the text '1 2'"),
        ("Xml", b"<Article><Size><a/></Size></Article>", "Size: found the element 'a'"),
        ("Xml", b'<Article xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><Size>1</Size><Size i:nil="1"/></Article>', "Size[1]: xsi:nil is true, but each value of a list has to be set"),
        ("NameValue", b"BusinessObject=Article\nVerb=\nSize=2\nSize=1\nSize=x\n", "line 5: Article: Size[1]: found the text 'x'"),
        ("NameValue", b"BusinessObject=Article\nSize=2\nSize=1\n", "line 4: found the end of the body, expected Size= with value 2 of 2 of Size of Article"),
        ("NameValue", b"BusinessObject=Article\nSize=1\nSize=\n", "line 3: Article: Size[0]: found a value that is not set"),
        ("NameValue", b"BusinessObject=Article\nSize=one\n", "Size: found 'one', expected a number of values"),
        ("Delimited", b"Article~~A~~999999999~1", "the body ends, expected value 2 of 999999999 of Size of Article"),
    ],
)  # fmt: skip
def test_a_wrong_value_of_a_list_is_named_with_its_number(name: str, body: bytes, place: str) -> None:
    assert place in refusal(make(kind_of(name)).to_business_object, body, ARTICLE)


@rows(
    "name, values, reason",
    [
        ("NameValue", {"Tag": ["a", "CxIgnore"]}, "Tag[1] is the text of a special value"),
        ("NameValue", {"Tag": ["a\nb"]}, "Tag[0] contains a line break"),
        ("FixedWidth", {"Tag": ["  "]}, "Tag[0] has only pad characters"),
        ("FixedWidth", {"Size": [1] * 1000}, "the number of Size has 4 characters, expected at most 3"),
    ],
)
def test_what_a_record_cannot_hold_is_refused_with_its_number(
    name: str, values: dict[str, Any], reason: str
) -> None:
    assert reason in refusal(make(kind_of(name)).to_body, article(values))


def test_records_hold_a_list_as_its_number_and_its_values() -> None:
    bo = article({"ArticleId": "A", "Size": [1, 2], "Name": "n"})
    assert make(kind_of("NameValue"), SkipCxIgnore=True).to_body(bo) == (
        b"BusinessObject=Article\nVerb=Create\nArticleId=A\nSize=2\nSize=1\nSize=2\nName=n\nObjectEventId=\n"
    )
    delimited = make(kind_of("Delimited"), CxIgnore="-", OmitObjectEventId=True)
    assert delimited.to_body(bo) == b"Article~Create~A~-~2~1~2~-~-~-~-~-~-~n"
    fixed = make(kind_of("FixedWidth"), BONameSize=7, BOVerbSize=6, BOCountSize=1, PadCharacter=".")
    numbers = b"021..........2..........000"
    assert fixed.to_body(bo) == b"ArticleCreateA%b%b%b00n%b" % (b"." * 19, numbers, b"." * 30, b"." * 29)


def test_csv_refuses_a_list_that_is_set() -> None:
    handler = make(kind_of("Csv"))
    assert handler.to_body(article({"ArticleId": "A"})) == b"ArticleId,Price,Name\r\nA,,\r\n"
    reason = refusal(handler.to_body, article({"Tag": ["a"]}))
    assert "Tag: found a list of values (String), which CSV cannot hold" in reason
    reason = refusal(handler.to_business_object, b"ArticleId,Tag\r\nA,a\r\n", ARTICLE)
    assert "Tag is a list of values (String), which CSV cannot hold" in reason


@rows("kind", ["Text", "Binary"])
def test_a_body_of_one_attribute_is_no_list(kind: str) -> None:
    handler = make(kind_of(kind), attribute="Tag")
    assert "Tag is a list of values" in refusal(handler.to_business_object, b"YQ==", ARTICLE)
    assert "Tag is a list of values" in refusal(handler.to_body, article({"Tag": ["YQ=="]}))


def test_a_template_sees_a_list_and_the_digits_of_decimals() -> None:
    text = (
        "{% for one in Rebate %}[{{ one }}]{% endfor %}{{ Size|join('+') }}{{ Part[0].Size[0] }} {{ Price }}"
    )
    values = {"Rebate": ["1.50", "1e-9"], "Size": [1, 2], "Part": [{"Size": [7]}], "Price": "1e3"}
    assert make(kind_of("Template"), text=text).to_body(article(values)) == b"[1.50][0.000000001]1+27 1000"


# --- XML ---------------------------------------------------------------------------------------


def test_elements_of_a_list_may_stand_between_others() -> None:
    body = b"<Article><Size>1</Size><Name>n</Name><Size> 2 </Size><!-- x --><Size/></Article>"
    bo = make(kind_of("Xml")).to_business_object(body, ARTICLE)
    assert bo.as_dict() == {"Size": [1, 2, ""], "Name": "n"}


@rows(
    "info, body, values",
    [
        ("elem_name=size", b"<T><size>1</size><size>2</size></T>", [1, 2]),
        ("type=cdata", b"<T><A><![CDATA[1]]></A><A>2</A></T>", [1, 2]),
        ("ns=urn:x", b'<T xmlns:x="urn:x"><x:A>1</x:A><x:A>2</x:A></T>', [1, 2]),
        ("type=attribute", b'<T A="1 2"/>', [1, 2]),
        ("type=attribute;attr_name=a", b'<T a="\n 1\t2 "/>', [1, 2]),
        ("type=attribute", b'<T A=""/>', []),
        ("type=pcdata;notag", b"<T> 1 <!-- x --> 2\n</T>", [1, 2]),
        ("type=pcdata;notag", b"<T/>", []),
    ],
)
def test_tags_say_where_the_values_of_a_list_stand(info: str, body: bytes, values: list[int]) -> None:
    definitions = one_list("Integer", info)
    handler = make(kind_of("Xml"), definitions)
    bo = handler.to_business_object(body, Hint("T", "Create"))
    assert bo["A"] == values
    again = handler.to_business_object(handler.to_body(bo), Hint("T", "Create"))
    assert (again["A"] or []) == values


@settings(max_examples=200, deadline=None, database=None)
@given(
    values=st.lists(st.text(max_size=5), max_size=4),
    info=st.sampled_from(["type=attribute", "type=pcdata;notag", "", "type=cdata"]),
)
def test_any_list_of_texts_reads_back_or_cannot_be_written(values: list[str], info: str) -> None:
    definitions = one_list("String", info)
    handler = make(kind_of("Xml"), definitions)
    bo = BusinessObject(definitions, "T", "Create", {"A": values})
    try:
        body = handler.to_body(bo)
    except MalformedData:
        assert any(not one or not one.isprintable() or " " in one or one.isspace() for one in values)
        return
    assert (handler.to_business_object(body, Hint("T", "Create"))["A"] or []) == values


@rows("text", ["a b", "", "a\tb"])
def test_a_value_with_white_space_cannot_be_one_of_an_xml_attribute(text: str) -> None:
    definitions = one_list("String", "type=attribute")
    with pytest.raises(MalformedData, match=r"T: A\[1\] .*white space separates the values"):
        make(kind_of("Xml"), definitions).to_body(
            BusinessObject(definitions, "T", "Create", {"A": ["x", text]})
        )


@rows("kind", ["comment", "pi", "doctype", "xsischemalocation", "xsinonslocation"])
def test_no_list_is_a_comment_or_an_instruction(kind: str) -> None:
    definitions = one_list("String", f"type={kind}")
    with pytest.raises(MalformedData, match=f"T: A: a list of values cannot be a {kind}"):
        make(kind_of("Xml"), definitions).to_business_object(b"<T/>", Hint("T", "Create"))


# --- the object --------------------------------------------------------------------------------


def test_a_list_is_a_list_of_values_or_none() -> None:
    bo = article({"Size": (1, 2)})
    assert (bo["Size"], bo["Tag"]) == ([1, 2], None)
    bo["Tag"] = ["a"]
    assert bo.as_dict() == {"Tag": ["a"], "Size": [1, 2]}
    assert bo == article({"Tag": ["a"], "Size": [1, 2]})
    assert bo != article({"Tag": ["a"], "Size": [2, 1]})
    bo["Tag"] = None
    assert "Tag" not in bo
    bo.as_dict()["Size"].append("x")  # a list of its own
    assert bo["Size"] == [1, 2]


@rows("value", ["a", 7, True, {"a": 1}, b"a"])
def test_only_a_list_can_be_set(value: object) -> None:
    with pytest.raises(MalformedData, match=r"Article: Tag: found .*, expected a list of values \(String\)"):
        article({})["Tag"] = value
    bo = article({})
    for work, found in ((lambda: bo.set_text("Tag", "a"), "text"), (lambda: bo.add("Tag"), "child")):
        assert f"found a {found}, expected a list of values (String)" in refusal(work)


def test_an_error_never_shows_a_ciphertext_of_a_list() -> None:
    definitions = one_list("Ciphertext", max_length=3)
    for value in ("secret", ["secret"], ["a", 4711], {"secret": 1}):
        reason = refusal(BusinessObject, definitions, "T", "Create", {"A": value})
        assert "secret" not in reason
        assert "4711" not in reason


@rows("value", [None, []])
def test_a_required_list_needs_a_value(value: object) -> None:
    definitions = one_list("String", is_required=True)
    bo = BusinessObject(definitions, "T", "Create", {"A": value})
    with pytest.raises(MalformedData, match="T: A: required, but not set"):
        finish(bo)
    bo["A"] = [""]
    finish(bo)
