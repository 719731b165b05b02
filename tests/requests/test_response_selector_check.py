"""``check`` finds mistakes in response selectors before a request does, where they stand."""

from __future__ import annotations

from pathlib import Path

from connector.config.loading import check
from connector.errors import Problem
from tests.tables import rows

ADAPTER = """\
provider: {type: dropbox, root: ./data, create: true}
connector: {ApplicationName: shop, ReplyToDestination: queue://replies}
metaobjects: ./objects.yaml
"""
OBJECTS = """\
business_object: Customer
app_specific_info: cw_mo_conn=Meta
verbs:
  Retrieve:
    app_specific_info: INFO
attributes:
  PrimaryID: {type: String, key: true}
  Age: Integer
  Note: {type: String, cardinality: n}
  Address: {type: Address, cardinality: n}
  Meta: Meta
---
business_object: Address
attributes: {AddressID: {type: String, key: true}, City: City, Next: Address}
---
business_object: City
attributes: {Name: {type: String, key: true}, Since: Date}
---
business_object: Meta
attributes: {CorrelationID: String}
"""


def problems(directory: Path, info: str) -> list[Problem]:
    """What is said about the verb, apart from the warning that nothing is polled."""
    (directory / "objects.yaml").write_text(OBJECTS.replace("INFO", info), "utf-8")
    (directory / "adapter.yaml").write_text(ADAPTER, "utf-8")
    return [problem for problem in check(directory / "adapter.yaml") if "objects.yaml" in problem.file]


# § marks the place that the problem must name.
CASES = {
    "index too large": ("a = '§{2}':PrimaryID", "{2}, but 1 attribute listed", None),
    "index 0": ("a = '{1}' OR a = '§{0}':PrimaryID", "the first attribute is number 1", None),
    "no list": ("a = '§{1}'", "no attributes listed", None),
    "comma at the end": ("a = '{1}':PrimaryID,§", "no attribute, expected the path of one", None),
    "unknown attribute": ("a = '{1}':§PrimaryId", "Customer has no attribute 'PrimaryId'", "PrimaryID"),
    "unknown attribute of a child": ("a = '{1}':Meta.§CorelationID", "Meta has no", "CorrelationID"),
    "unknown attribute of a grandchild": (
        "a = '{1}' AND b = '{2}':PrimaryID,Address[4].City.§Nme",
        "City has no attribute 'Nme'",
        "Name",
    ),
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
    "escape before a value": (r"§a LIKE '\{1}' ESCAPE '\':PrimaryID", "escape character stands before", None),
    "both": ("a = 1;§response_selector_template=a = 1", "response_selector and response_selector_", None),
    "twice": ("a = 1;§Response_Selector=a = 2", "response_selector twice", None),
}  # fmt: skip


@rows("marked, words, near", CASES.values())
def test_a_mistake_is_the_only_error_and_named_with_its_place(
    tmp_path: Path, marked: str, words: str, near: str | None
) -> None:
    info = f"response_selector={marked}"
    errors = [each for each in problems(tmp_path, info.replace("§", "")) if not each.warning]
    assert len(errors) == 1, [str(error) for error in errors]
    (error,) = errors
    column = len("    app_specific_info: ") + info.index("§") + 1
    assert (error.line, error.column) == (5, column)
    assert error.path == "Customer.verbs.Retrieve.app_specific_info"
    assert words in str(error)
    assert error.nearest == near


def test_an_empty_selector_is_an_error_at_its_name(tmp_path: Path) -> None:
    (error,) = problems(tmp_path, "a=b; response_selector=")
    assert (error.line, error.column) == (5, len("    app_specific_info: a=b; ") + 1)
    assert "response_selector is empty" in str(error)


def test_all_mistakes_of_a_selector_are_found_at_once(tmp_path: Path) -> None:
    info = "response_selector=a = '{3}' AND b = '{x' AND c = {1}:PrimaryID,Addres[0].AddressID"
    found = [error for error in problems(tmp_path, info) if not error.warning]
    words = ["{3}, but 2", "a single {", "PrimaryID is a String", "no attribute 'Addres'"]
    assert len(found) == len(words)
    for error, word in zip(found, words, strict=True):
        assert word in str(error)


@rows(
    "info, words",
    [
        ("response_selector=PrimaryID LIKE {{1}", "no selector of JMS, 'PrimaryID LIKE {1}'"),
        ("response_selector=a = '{1}' AND:PrimaryID", "no selector of JMS"),
        ("response_selector=JMSCorrelation = '{1}':PrimaryID", "JMSCorrelationID"),
        ("response_selector=a = '{1}':PrimaryID,Age", "attribute 2, Age, is not used"),
        ("response_selector_template=a = '{{ PrimaryID }}' AND", "no selector of JMS"),
    ],
)
def test_what_a_provider_may_know_better_is_a_warning(tmp_path: Path, info: str, words: str) -> None:
    (warning,) = problems(tmp_path, info)
    assert warning.warning
    assert words in str(warning)


@rows(
    "name",
    ["reponse_selector", "response-selector", "responseselector", "response_selector_", "response selector"],
)
def test_a_name_that_is_almost_that_of_a_response_selector_is_a_warning(tmp_path: Path, name: str) -> None:
    (warning,) = problems(tmp_path, f"a=b; {name}=JMSType = 'x'")
    assert warning.warning
    assert warning.nearest == "response_selector"
    assert (warning.line, warning.column) == (5, len("    app_specific_info: a=b; ") + 1)


@rows("name", ["selector", "response", "response_timeout", "request_selector_x", "cw_mo_x"])
def test_any_other_name_beside_it_is_nobody_s_business(tmp_path: Path, name: str) -> None:
    assert problems(tmp_path, f"{name}=JMSType = 'x'") == []


@rows(
    "info",
    [
        "response_selector=JMSType = 'xmlResponse'",
        "response_selector=JMSCorrelationID LIKE '{1}':Meta.CorrelationID",
        "response_selector=Name LIKE '{1}'AND Zip LIKE '{2}':PrimaryID,Address[4].AddressID",
        "response_selector=a = {1} AND b = '{1}':Age",
        "response_selector=a = {1}:max_by(Address, &AddressID).Anything",
        "response_selector=a = {1}:not_null(PrimaryID, Age)",
        "response_selector=a = '{1}':Address[0].Next.Next.Next.AddressID",
        "response_selector_template=a = '{{ PrimaryID }}'",
    ],
)
def test_the_check_finds_nothing_wrong_with_a_good_selector(tmp_path: Path, info: str) -> None:
    assert problems(tmp_path, info) == []


@rows(
    "written, line, column",
    [
        ("'response_selector=a = ''x'' AND b = ''{1}'':Idd'", 5, 69),
        ("\"response_selector=a = 'x' AND b = '{1}':Idd\"", 5, 65),
        (">-\n      response_selector=a = 'x'\n      AND b = '{1}':Idd", 5, 24),
    ],
)
def test_the_place_is_told_however_it_is_written_in_yaml(
    tmp_path: Path, written: str, line: int, column: int
) -> None:
    (error,) = problems(tmp_path, written)
    assert "no attribute 'Idd'" in str(error)
    assert (error.line, error.column) == (line, column)


def test_a_selector_of_the_source_s_key_is_checked_too(tmp_path: Path) -> None:
    (tmp_path / "objects.yaml").write_text(
        OBJECTS.replace("app_specific_info: INFO", "AppSpecificInfo: response_selector=a = '{1}':Idd"),
        "utf-8",
    )
    (tmp_path / "adapter.yaml").write_text(ADAPTER, "utf-8")
    errors = [each for each in check(tmp_path / "adapter.yaml") if "'Idd'" in each.found]
    assert [error.path for error in errors] == ["Customer.verbs.Retrieve.AppSpecificInfo"]
