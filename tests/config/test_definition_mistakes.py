"""Definitions of business objects, and what rules and dynamic meta-objects say of requests: mistakes in them."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import re
import shutil
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from connector.businessobjects.definition import Definitions
from connector.businessobjects.facets import Facets
from connector.businessobjects.instance import BusinessObject, finish
from connector.errors import MalformedData, Problem
from tests.config.mistakes import Edit, Mistake, O, R, case
from tests.tables import rows, texts

if TYPE_CHECKING:
    from tests.config.conftest import Sample

ROOT = Path(__file__).resolve().parents[2]
THING = """\
business_object: Thing
verbs: {Create: }
attributes:
  Id: {type: String, key: true}
"""


def found(deployment: Sample, attributes: str, more: str = "") -> list[Problem]:
    """The problems of a deployment with one more business object, a Thing with the key Id."""
    lines = "".join(f"  {line}\n" for line in attributes.splitlines())
    deployment.write("metaobjects/thing.yaml", f"{THING}{lines}{more}")
    return deployment.check()


def definitions(deployment: Sample) -> Definitions:
    return deployment.load().metaobjects.definitions


def test_a_definition_of_the_source_is_read_with_all_it_says(deployment: Sample) -> None:
    attributes = (
        "Part: {Type: Part, Cardinality: N, Relationship: Containment, ContainedObjectVersion: 2.0.0}\n"
        "Name: {Type: String, IsRequired: true, IsRequiredServerBound: true, MaxLength: 9}\n"
        "Pin: {Type: Ciphertext, IsForeignKey: false, MaxLength: 4}"
    )
    more = "---\nbusiness_object: Part\nVersion: 2.0.0\nattributes: {Id: {Type: String, IsKey: true}}\n"
    assert found(deployment, attributes, more) == []
    thing = definitions(deployment)["Thing"].attributes
    assert (thing["Part"].relationship, thing["Part"].contained_object_version) == ("Containment", "2.0.0")
    assert thing["Name"].is_required_server_bound
    assert (thing["Name"].is_child, thing["Pin"].is_child) == (False, False)
    assert thing["Pin"].type == "Ciphertext"
    short = attributes.replace("Relationship", "relationship")
    short = short.replace("ContainedObjectVersion", "contained_object_version")
    short = short.replace("IsRequiredServerBound", "required_server_bound")
    assert found(deployment, short, more) == []
    assert definitions(deployment)["Thing"].attributes == thing
    unversioned = more.replace("Version: 2.0.0\n", "")
    assert found(deployment, "Part: {type: Part, contained_object_version: 7.0.0}", unversioned) == []


PART = "---\nbusiness_object: Part\nversion: 2.0.0\nattributes: {Id: {type: String, key: true}}\n"


def thing(attribute: str, path: str, words: str, *, warning: bool = True) -> Mistake:
    """Returns a mistake in an attribute of a new object, Thing."""
    edits = [("metaobjects/thing.yaml", "", f"{THING}  {attribute}\n{PART}")]
    return Mistake(attribute, edits, f"Thing.attributes.{path}", (words,), warning=warning)


PIN: Edit = (O, "  Name: String\n", "  Name: String\n  Pin: Ciphertext\n")
MISTAKES = [
    thing("Part: {type: Part, ContainedObjectVersion: §1.0.0}", "Part.ContainedObjectVersion", "version 1.0.0 of Part, which is defined as version 2.0.0"),
    thing("Name: {type: String, Relationship: §Containment}", "Name.Relationship", "only a child"),
    thing("Part: {type: Part, Relationship: §Reference}", "Part.Relationship", "Containment", warning=False),
    thing("Name: {type: String, IsRequiredServerBound: §1}", "Name.IsRequiredServerBound", "true or", warning=False),
    thing("Limit: {type: Double, default: §0}", "Limit.default", "a default of an attribute that is not required is never used, expected required: true too"),
    thing("Limit: {type: Double, DefaultValue: §CxBlank}", "Limit.DefaultValue", "is never used"),
    thing("Part: {type: Part, MaxLength: §9}", "Part.MaxLength", "max_length of a child means nothing, expected it left out"),
    thing("Limit: {type: Double, required: true, default: §cxblank}", "Limit.default", "'cxblank'", warning=False),
    thing('Name: {type: Date, app_specific_info: §"date_format=%d.%m"}', "Name.app_specific_info", "expected %d, %m and one of %Y and %y", warning=False),
    thing('Name: {type: Date, app_specific_info: §"date_format=%Q"}', "Name.app_specific_info", "date_format: found %Q, expected one of", warning=False),
    thing('Name: {type: String, app_specific_info: §"name=a;Name=b"}', "Name.app_specific_info", "two values of the tag name, expected one of them", warning=False),
    *(
        Mistake(attributes, [("metaobjects/thing.yaml", "", f"{THING}{attributes}")], "Thing.attributes", tuple(words))
        for attributes, *words in (
            ('  A: {type: String, app_specific_info: "name=Id"}\n', "Id and A are both 'Id' in JSON"),
            ('  A: {type: String, app_specific_info: "name=x"}\n  B: {type: Double, app_specific_info: "NAME= x"}\n', "A and B are both 'x'"),
            ('  A: {type: String, app_specific_info: "elem_name=Id"}\n', "two attributes are the element Id"),
            ('  A: {type: String, app_specific_info: "elem_name=x;ns=urn:a"}\n  B: {type: String, app_specific_info: "elem_name=x;ns=urn:a"}\n', "the element {urn:a}x"),
            ('  A: {type: String, app_specific_info: "attr_name=x;type=attribute"}\n  x: {type: String, app_specific_info: "type=attribute"}\n', "two attributes are the XML attribute x"),
        )
    ),
    Mistake("object without a key", [("metaobjects/part.yaml", "", "business_object: §Part\nattributes: {Id: String}\n")], "Part.business_object", ("Part has no key, expected key: true at the attributes that tell one Part from",), warning=True),
    case("default in a meta-object", O, "MessageID: String", "MessageID: {type: String, required: true, default: §x}", "CustomerMeta.attributes.MessageID.default", "a default in a meta-object is never used", warning=True),
    case("facet in a meta-object", O, "MessageID: String", "MessageID: §{type: String, min_length: 2}", "CustomerMeta.attributes.MessageID", "facets in a meta-object are never checked, expected no facets", warning=True),
    # a ciphertext where its value would be seen
    case("selector", O, "  Update:\n", "  Update: {app_specific_info: \"response_selector=JMSType = '{1}':Pin\"}\n", "Customer.verbs.Update.app_specific_info", "Pin is a Ciphertext: the provider would see its value", more=(PIN,)),
    case("format", O, "MessageID: String", "OutputFormat: Ciphertext", "CustomerMeta.attributes.OutputFormat", "a Ciphertext as OutputFormat, which logs and errors show, expected a String", more=(PIN,)),
    case("property", O, '{type: String, app_specific_info: "name=region;type=String"}', '{type: Ciphertext, app_specific_info: "name=region;type=Int"}', "CustomerProperties.attributes.Region", "a Ciphertext for a property that is of type int", more=(PIN,)),
]  # fmt: skip


@rows("mistake", MISTAKES)
def test_a_mistake_in_a_definition_is_found_where_it_stands(deployment: Sample, mistake: Mistake) -> None:
    mistake.assert_alone(deployment)


def test_a_key_that_is_a_mistake_is_a_key_all_the_same(deployment: Sample) -> None:
    (problem,) = found(
        deployment, "", "---\nbusiness_object: Part\nattributes: {Id: {type: String, key: on}}\n"
    )
    assert problem.path == "Part.attributes.Id.key"


def test_a_meta_object_needs_no_key_unless_it_is_more_than_that(deployment: Sample) -> None:
    """CustomerMeta and CustomerProperties of the deployment have none."""
    assert found(deployment, "") == []
    (problem,) = found(deployment, "Inside: CustomerMeta")
    assert problem.path == "CustomerMeta.business_object"
    line = "business_object: CustomerProperties\n"
    deployment.replace(O, line, f"{line}verbs: {{Create: }}\n")
    assert [problem.path for problem in found(deployment, "")] == ["CustomerProperties.business_object"]


@rows(
    "attribute, key, words",
    [
        (
            "{type: Decimal, minimum: 5, maximum: 4.5}",
            "minimum",
            "5 over the maximum 4.5, expected at most that",
        ),
        ("{type: String, min_length: 5, max_length: 4}", "min_length", "5 over the max_length 4"),
        ('{type: String, pattern: "(a"}', "pattern", "unclosed group, expected a regular expression"),
        ('{type: String, pattern: "(?=a)"}', "pattern", "look-around"),
        ('{type: String, pattern: "a)(b"}', "pattern", "unopened group"),
        ("{type: Integer, values: [1, x]}", "values", "the text 'x', expected an integer"),
        ("{type: Integer, values: [1, 9], maximum: 5}", "values", "the number 9, expected at most 5"),
        (
            "{type: Boolean, minimum: 0}",
            "minimum",
            "minimum of a Boolean, expected it left out; only a number or a Date has it",
        ),
        ("{type: Date, minimum: 5}", "minimum", "found the text '5', expected an ISO 8601 date"),
        (
            "{type: Date, minimum: 2024-05-31, maximum: 20240530}",
            "minimum",
            "2024-05-31 over the maximum 20240530",
        ),
        (
            "{type: Date, minimum: 2024-05-30Z, maximum: 2024-05-31}",
            "minimum",
            "beside the maximum 2024-05-31, expected both with a zone, or both without",
        ),
        ("{type: Integer, pattern: x}", "pattern", "pattern of a Integer"),
        ("{type: Boolean, values: [true]}", "values", "values of a Boolean"),
        ("{type: Part, min_length: 1}", "min_length", "min_length of a Part"),
        (
            "{type: String, required: true, values: [EU, US], default: XX}",
            "default",
            "the text 'XX', expected one of EU, US",
        ),
    ],
)
def test_facets_that_contradict_are_found_where_they_stand(
    deployment: Sample, attribute: str, key: str, words: str
) -> None:
    (problem,) = found(deployment, f"Cell: {attribute}", PART)
    assert problem.path == f"Thing.attributes.Cell.{key}"
    assert words in f"{problem.found}, expected {problem.expected}"


def test_facets_are_read_by_the_type_of_their_attribute(deployment: Sample) -> None:
    cells = "Cell: {type: String, values: [no, 0710], blank: true}\nSize: {type: Decimal, minimum: 0, maximum: 1e2}"
    assert found(deployment, cells) == []
    thing = definitions(deployment)["Thing"].attributes
    assert thing["Cell"].facets == Facets(values=("no", "0710"))
    assert thing["Cell"].may_be_blank
    assert thing["Size"].facets == Facets(minimum=Decimal(0), maximum=Decimal(100))


def test_the_default_cxblank_is_an_empty_text_and_cxignore_is_none(deployment: Sample) -> None:
    attributes = [
        f"{name}: {{type: Integer, required: true, default: {name}}}" for name in ("CxBlank", "CxIgnore")
    ]
    assert found(deployment, "\n".join(attributes)) == []
    bo = BusinessObject(definitions(deployment), "Thing", "Create")
    with pytest.raises(MalformedData, match="CxIgnore: required, but not set"):
        finish(bo, use_defaults=True)
    assert bo.is_blank("CxBlank")


def test_no_default_of_a_ciphertext_is_shown(deployment: Sample) -> None:
    assert found(deployment, "Pin: {type: Ciphertext, required: true, max_length: 2, default: s3}") == []
    (problem,) = found(deployment, "Pin: {type: Ciphertext, required: true, max_length: 2, default: hush}")
    assert "hush" not in str(problem)
    found(deployment, "Pin: {type: Ciphertext, required: true, default: hush}")
    assert "hush" not in repr(definitions(deployment)["Thing"])


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHIPPED = [*ROOT.glob("metaobjects/*.yaml"), *ROOT.glob("examples/*/metaobjects/*.yaml")]


@rows("source", [*PAGES, *SHIPPED])
def test_every_definition_that_is_shown_or_shipped_has_a_key_and_no_dead_default(
    deployment: Sample, source: Path
) -> None:
    text = source.read_text("utf-8")
    blocks = re.findall(r"^ *```yaml.*?\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    parts = [text] if source.suffix == ".yaml" else blocks
    for part in (part for part in parts if re.search("^business_object:", part, re.MULTILINE)):
        shutil.rmtree(deployment.directory / "metaobjects")
        deployment.write("metaobjects/shown.yaml", part)
        warnings = [str(problem) for problem in deployment.check() if problem.warning]
        assert [one for one in warnings if "has no key" in one or "is never used" in one] == []


def test_a_child_of_another_object_needs_no_key(deployment: Sample) -> None:
    parts = (
        "business_object: Parcel\nverbs: {Create: }\nattributes: {Id: {type: String, key: true}, Items: Items}",
        "business_object: Items\nattributes: {Item: {type: Item, cardinality: n}}",
        "business_object: Item\nattributes: {Name: String}",
        "business_object: Alone\nattributes: {Name: String}",
        "business_object: Ring\nattributes: {Ring: Ring}",
        "business_object: Inner\nverbs: {Create: }\nattributes: {Name: String}",
        "business_object: Outer\nattributes: {Id: {type: String, key: true}, Inner: Inner}",
    )
    deployment.write("metaobjects/parcel.yaml", "\n---\n".join(parts))
    warnings = [str(one) for one in deployment.check() if "has no key" in str(one)]
    assert [one.partition(" has no key")[0].rpartition(" ")[2] for one in warnings] == [
        "Alone",
        "Ring",
        "Inner",
    ]


# --- what requests are told -------------------------------------------------------------------

SAID = [
    ("DeliveryMode: §durable", "'durable', expected Persistent (2) or NonPersistent (1)"),
    ("ResponseTimeout: §30s", "'30s', expected a whole number of milliseconds, at most 2147483647; -1"),
    ("ResponseTimeout: §2147483648", "at most 2147483647"),
    ("TimeToLive: §-1", "'-1', expected a whole number of milliseconds from 0"),
    ("TimeToLive: §1h", "'1h', expected a whole number of milliseconds from 0"),
    ("TimeToLive: §9223372036854775807", "expected a whole number of milliseconds from 0"),
    ("TimeoutFatal: §maybe", "expected true or false"),
    ("Priority: §10", "expected a whole number from 0 to 9"),
    ("ReplyToDestination: §topic://replies", "a topic: a reply that nobody subscribes to is lost"),
    ("ReplyToDestination: §orders~EXPIRED", "a view of a queue: nothing can be sent there"),
    ("OutputDestination: §orders~EXPIRED", "a view of a queue: nothing can be sent there"),
    ("OutputFormat: §''", "an empty text"),
]
META = "MessageID: String"
REGION = 'Region: {type: String, app_specific_info: "name=region;type=String"}'
OF_META = "CustomerMeta.attributes"
OF_REGION = "CustomerProperties.attributes"
SAID_MISTAKES = [
    *(
        case(f"{said} of {level}", R, old, new.format(said), f"MO_Config.{level}.{said.partition(':')[0]}", words)
        for said, words in SAID
        for level, old, new in (
            ("Default", "Default:\n", "Default:\n  {}\n"),
            ("rules.Order_Create", "{InputDestination: queue://orders", "{{{}, InputDestination: queue://orders"),
        )
    ),
    # attributes of a dynamic meta-object that cannot be read
    case("date as a number", O, META, "§Priority: Date", f"{OF_META}.Priority", "a Date as Priority, expected String or LongText or Integer or Float or Double"),
    case("number as a destination", O, META, "§OutputDestination: Integer", f"{OF_META}.OutputDestination", "an Integer as OutputDestination, expected String or LongText"),
    case("number as a boolean", O, META, "§TimeoutFatal: Integer", f"{OF_META}.TimeoutFatal", "an Integer as TimeoutFatal, expected String or LongText or Boolean"),
    case("child as a text", O, META, "§MessageID: Address", f"{OF_META}.MessageID", "an Address as MessageID, expected"),
    case("number as a time", O, META, "§TimeStamp: Integer", f"{OF_META}.TimeStamp", "an Integer as TimeStamp, expected String or LongText or Float or Double or Date"),
    case("child as a format", O, META, "§OutputFormat: Address", f"{OF_META}.OutputFormat", "an Address as OutputFormat, expected a simple type"),
    case("date for a number", O, REGION, '§Region: {type: Date, app_specific_info: "name=region;type=Int"}', f"{OF_REGION}.Region", "a Date for a property that is of type int, expected String or LongText or Integer"),
    # what events may read, and no request can say
    case("no header", O, META, "§OutputDestinaton: String", f"{OF_META}.OutputDestinaton", "no header and no property of requests, did you mean 'OutputDestination'?", warning=True),
    case("name that no property can have", O, REGION, '§Region: {type: String, app_specific_info: "name=region.code"}', f"{OF_REGION}.Region", "no request can send it: no property can be called 'region.code'", warning=True),
    case("property of two attributes", O, REGION, f'{REGION}\n  §Other: {{type: String, app_specific_info: "name=region"}}', f"{OF_REGION}.Other", "the property 'region' is that of Region, too", warning=True),
]  # fmt: skip


@rows("mistake", SAID_MISTAKES)
def test_a_mistake_in_what_requests_are_told_is_found_where_it_stands(
    deployment: Sample, mistake: Mistake
) -> None:
    mistake.assert_alone(deployment)


RIGHT = """
    DeliveryMode: Persistent   DeliveryMode: NonPersistent   DeliveryMode: non-persistent
    DeliveryMode: NON_PERSISTENT   DeliveryMode: 1   DeliveryMode: 2   ResponseTimeout: -1
    ResponseTimeout: -5   ResponseTimeout: 0   TimeToLive: 0   TimeToLive: 3600000   TimeToLive: ' +5 '
    OutputDestination: topic://prices
"""
COUNT = "Count: {type: Integer, app_specific_info: name=JMSXDeliveryCount;type=Int}"
READABLE = ("Mine: String", "ResponseTimeout: Integer", "Priority: String", "TimeoutFatal: Boolean")


@rows(
    "file, old, new",
    [
        *((R, "Default:\n", f"Default:\n  {said}\n") for said in texts(RIGHT)),
        *((O, META, said) for said in READABLE),
        (O, REGION, COUNT),  # a property that only providers set may be read
        (O, "Region: {type: String,", "Region: {type: Ciphertext,"),
    ],
)
def test_every_usual_spelling_and_every_attribute_that_can_be_read_is_no_mistake(
    deployment: Sample, file: str, old: str, new: str
) -> None:
    deployment.replace(file, old, new)
    assert deployment.check() == []


def test_a_dynamic_meta_object_of_two_objects_has_its_mistakes_once(deployment: Sample) -> None:
    deployment.replace(O, META, "Priority: Boolean")
    order = "business_object: Order\n"
    deployment.replace(O, order, f"{order}app_specific_info: cw_mo_conn=Meta\n")
    key = "  Id: {type: String, key: true}"
    deployment.replace(O, key, f"{key}\n  Meta: CustomerMeta")
    assert deployment.problem().path == "CustomerMeta.attributes.Priority"
