"""The check of response selectors finds mistakes before a request does, and where they stand."""

from __future__ import annotations

from pathlib import Path

from connector.businessobjects.definition import Definitions
from connector.config.loading import check
from connector.errors import Problem
from connector.requests.response_selector import ResponseSelector, misspellings
from connector.requests.selector_values import Mistake
from tests.requests.samples import defined
from tests.tables import rows

CUSTOMER = defined(
    "Customer",
    "cw_mo_conn=Meta",
    PrimaryID="String",
    Age="Integer",
    Note="String[]",
    Address="Address[]",
    Meta="Meta",
)
ADDRESS = defined("Address", AddressID="String", City="City", Next="Address")
CITY = defined("City", Name="String", Since="Date")
DEFINITIONS = Definitions(
    {one.name: one for one in (CUSTOMER, ADDRESS, CITY, defined("Meta", CorrelationID="String"))}
)


def mistakes(info: str) -> list[Mistake]:
    """What is said about a verb with this application-specific information."""
    selector = ResponseSelector.parse(info, "quoted")
    return [*misspellings(info), *(selector.problems(CUSTOMER, DEFINITIONS) if selector else ())]


# § marks the place that the mistake must name.
CASES = {
    "index too large": ("a = '§{2}':PrimaryID", "{2}, but 1 attribute listed", None),
    "index 0": ("a = '{1}' OR a = '§{0}':PrimaryID", "the first attribute is number 1", None),
    "no list": ("a = '§{1}'", "no attributes listed", None),
    "comma at the end": ("a = '{1}':PrimaryID,§", "no attribute, expected the path of one", None),
    "unknown attribute": ("a = '{1}':§PrimaryId", "Customer has no attribute 'PrimaryId'", "PrimaryID"),
    "unknown attribute of a child": ("a = '{1}':Meta.§CorelationID", "Meta has no", "CorrelationID"),
    "of a grandchild": ("a = '{1}':Address[4].City.§Nme", "City has no attribute 'Nme'", "Name"),
    "list without index": ("a = '{1}':Address.§AddressID", "expected Address[0].AddressID", None),
    "list as a value": ("a = '{1}':§Address", "Address is a list", None),
    "list of values": ("a = '{1}':§Note", "Note is a list of values (String), expected one of", None),
    "step behind a list of values": ("a = '{1}':Note.§x", "Note is a list, expected Note[0]", None),
    "step behind a value of a list": ("a = '{1}':Note[0].§x", "Note is a String", None),
    "second index": ("a = '{1}':Note[0][§1]", "Note is no list", None),
    "text of a list outside quotes": ("a = §{1}:Note[0]", "Note is a String, expected '{1}'", None),
    "child as a value": ("a = '{1}':Address[0].§City", "a business object (City)", None),
    "index of a single child": ("a = '{1}':Meta[§0].CorrelationID", "Meta is no list", None),
    "attribute of a text": ("a = '{1}':PrimaryID.§x", "PrimaryID is a String", None),
    "syntax of a path": ("a = '{1}':Meta.§.CorrelationID", "no path of an attribute", None),
    "single brace": ("a = '§{x}':PrimaryID", "{{ for a literal {", None),
    "quote that stays open": ("a = §'x", "not closed", None),
    "text outside quotes": ("a = §{1}:PrimaryID", "PrimaryID is a String, expected '{1}'", None),
    "date outside quotes": ("a > §{1}:Address[0].City.Since", "Since is a Date", None),
    "both": ("a = 1;§response_selector_template=a = 1", "response_selector and response_selector_", None),
    "twice": ("a = 1;§Response_Selector=a = 2", "response_selector twice", None),
}  # fmt: skip


@rows("marked, words, near", CASES.values())
def test_a_mistake_is_the_only_error_and_named_with_its_place(
    marked: str, words: str, near: str | None
) -> None:
    info = f"response_selector={marked}"
    (error,) = (one for one in mistakes(info.replace("§", "")) if not one.warning)
    assert error.offset == info.index("§")
    assert words in str(error)
    assert near is None or near in error.among


@rows("info, words", [
        (r"response_selector=a LIKE '\{1}' ESCAPE '\':PrimaryID", ["escape character stands before"]),
        ("a=b; response_selector=", ["response_selector is empty"]),
        (
            "response_selector=a = '{3}' AND b = '{x' AND c = {1}:PrimaryID,Addres[0].AddressID",
            ["{3}, but 2", "a single {", "no attribute 'Addres'", "PrimaryID is a String"],
        ),
        *(
            (f"response_selector_template={template}", [word])
            for template, word in (
                ("a = '{{ Idd }}'", "Customer has no attribute 'Idd'"),
                ("a = '{{ Meta.key }}'", "Meta has no attribute 'key'"),
                ("a = '{{ Address.AddressID }}'", "Address is a list, expected Address[0].AddressID"),
                ("a = '{{ Meta }}'", "Meta is a business object (Meta)"),
                ("a = '{{ PrimaryID.x }}'", "PrimaryID is a String"),
                ("{% if Idd %}a = 1{% else %}a = 2{% endif %}", "Customer has no attribute 'Idd'"),
                ("a = '{{ PrimaryID'", "no template"),
                ("a = '{{ PrimaryID | uper }}'", "no filter 'uper'"),
                ("a = '{% if PrimaryID is sting %}{% endif %}'", "no test 'sting'"),
                ("a = '{{ f(PrimaryID) }}'", "a call in a template"),
            )
        ),
    ])  # fmt: skip
def test_all_mistakes_of_a_selector_are_found_at_once(info: str, words: list[str]) -> None:
    found = [str(one) for one in mistakes(info) if not one.warning]
    assert len(found) == len(words), found
    assert all(any(word in one for one in found) for word in words), found


@rows("info, words", [
        ("response_selector=PrimaryID LIKE {{1}", "no selector of JMS, 'PrimaryID LIKE {1}'"),
        ("response_selector=a = '{1}' AND:PrimaryID", "no selector of JMS"),
        ("response_selector=JMSCorrelation = '{1}':PrimaryID", "JMSCorrelationID"),
        ("response_selector=a = '{1}':PrimaryID,Age", "attribute 2, Age, is not used"),
        ("response_selector_template=a = '{{ PrimaryID }}' AND", "sample values it is no selector of JMS"),
        ("response_selector_template=a = {{ PrimaryID }}", "with sample values: PrimaryID is a text"),
        *(
            (f"a=b; {name}=JMSType = 'x'", "means nothing")
            for name in (
                *("reponse_selector", "response-selector", "responseselector", "response_selector_"),
                "response selector",
            )
        ),
    ])  # fmt: skip
def test_what_a_provider_may_know_better_or_is_almost_a_name_is_a_warning(info: str, words: str) -> None:
    (warning,) = mistakes(info)
    assert warning.warning
    assert words in str(warning)


@rows("info", [
        *("selector=a = 1", "response=a = 1", "response_timeout=a = 1", "request_selector_x=a", "cw_mo_x=a"),
        "response_selector=JMSType = 'xmlResponse'",
        "response_selector=JMSCorrelationID LIKE '{1}':Meta.CorrelationID",
        "response_selector=Name LIKE '{1}'AND Zip LIKE '{2}':PrimaryID,Address[4].AddressID",
        "response_selector=a = {1} AND b = '{1}':Age",
        "response_selector=a = {1}:max_by(Address, &AddressID).Anything",
        "response_selector=a = {1}:not_null(PrimaryID, Age)",
        "response_selector=a = '{1}':Address[0].Next.Next.Next.AddressID",
        "response_selector_template=a = '{{ PrimaryID }}' AND n = {{ Age }}",
        "response_selector_template=a = '{{ Address[4].City.Name }}'",
        "response_selector_template={% for one in Address %}a = '{{ one.AddressID }}'"
        "{% if not loop.last %} OR {% endif %}{% endfor %}",
        "response_selector_template={% if Meta and Address %}a = {{ Age }}{% endif %}",
        "response_selector_template={% set x = Address | first %}"
        "n = '{{ x.AddressID }}' AND s = {{ Address | length }}",
    ])  # fmt: skip
def test_the_check_finds_nothing_wrong_with_a_good_selector_or_any_other_name(info: str) -> None:
    assert mistakes(info) == []


# --- what `connector check` makes of it -----------------------------------------------------------

ADAPTER = """\
provider: {type: dropbox, root: ./data, create: true}
connector: {ApplicationName: shop, ReplyToDestination: queue://replies}
metaobjects: ./objects.yaml
"""
OBJECTS = """\
business_object: Customer
attributes: {PrimaryID: {type: String, key: true}}
verbs:
  Retrieve:
    INFO
"""


def problems(directory: Path, info: str) -> list[Problem]:
    """What is said about the verb, apart from the warning that nothing is polled."""
    (directory / "objects.yaml").write_text(OBJECTS.replace("INFO", info), "utf-8")
    (directory / "adapter.yaml").write_text(ADAPTER, "utf-8")
    return [problem for problem in check(directory / "adapter.yaml") if "objects.yaml" in problem.file]


@rows("written, column", [
        ("response_selector=a = '{1}':Idd", 52),
        ("'response_selector=a = ''x'' AND b = ''{1}'':Idd'", 69),
        ("\"response_selector=a = 'x' AND b = '{1}':Idd\"", 65),
        (">-\n      response_selector=a = 'x'\n      AND b = '{1}':Idd", 24),
    ])  # fmt: skip
def test_the_place_is_told_however_it_is_written_in_yaml(tmp_path: Path, written: str, column: int) -> None:
    for key in ("app_specific_info", "AppSpecificInfo"):  # the second one is the source's
        (error,) = problems(tmp_path, f"{key}: {written}")
        assert "no attribute 'Idd'" in str(error)
        assert error.path == f"Customer.verbs.Retrieve.{key}"
        if key == "app_specific_info":
            assert (error.line, error.column) == (5, column)


def test_the_right_name_is_told_and_a_warning_stays_one(tmp_path: Path) -> None:
    (error,) = problems(tmp_path, "app_specific_info: \"response_selector=a = '{1}':PrimaryId\"")
    (warning,) = problems(tmp_path, "app_specific_info: a=b; reponse_selector=JMSType = 'x'")
    assert (error.nearest, error.warning) == ("PrimaryID", False)
    assert error.mistake.endswith("did you mean 'PrimaryID'?")
    assert (warning.nearest, warning.warning) == ("response_selector", True)
    assert (warning.line, warning.column) == (5, len("    app_specific_info: a=b; ") + 1)
