"""Mistakes in what requests are told by rules and dynamic meta-objects are found where they stand."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.config.mistakes import Mistake, O, R, case
from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample


SAID = [
    ("DeliveryMode: §durable", "'durable', expected Persistent (2) or NonPersistent (1)"),
    ("DeliveryMode: §0", "'0', expected Persistent (2)"),
    ("ResponseTimeout: §30s", "'30s', expected a whole number of milliseconds, at most 2147483647; -1"),
    ("ResponseTimeout: §2147483648", "at most 2147483647"),
    ("TimeToLive: §1h", "'1h', expected a whole number of milliseconds from 0"),
    ("TimeToLive: §-1", "'-1', expected a whole number of milliseconds from 0"),
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
MISTAKES = [
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


@rows("mistake", MISTAKES)
def test_a_mistake_in_what_requests_are_told_is_found_where_it_stands(
    deployment: Sample, mistake: Mistake
) -> None:
    mistake.assert_alone(deployment)


@rows(
    "said",
    [
        "DeliveryMode: Persistent",
        "DeliveryMode: NonPersistent",
        "DeliveryMode: non-persistent",
        "DeliveryMode: NON_PERSISTENT",
        "DeliveryMode: 1",
        "DeliveryMode: 2",
        "ResponseTimeout: -1",
        "ResponseTimeout: -5",
        "ResponseTimeout: 0",
        "TimeToLive: 0",
        "TimeToLive: 3600000",
        "TimeToLive: ' +5 '",
        "OutputDestination: topic://prices",
    ],
)
def test_every_usual_spelling_of_a_property_is_none(deployment: Sample, said: str) -> None:
    deployment.replace(R, "Default:\n", f"Default:\n  {said}\n")
    assert deployment.check() == []


@rows("said", ["Mine: String", "ResponseTimeout: Integer", "Priority: String", "TimeoutFatal: Boolean"])
def test_attributes_that_can_be_read_are_no_mistake(deployment: Sample, said: str) -> None:
    deployment.replace(O, META, said)
    assert deployment.check() == []


def test_a_property_that_only_providers_set_may_be_read(deployment: Sample) -> None:
    deployment.replace(
        O, REGION, "Count: {type: Integer, app_specific_info: name=JMSXDeliveryCount;type=Int}"
    )
    assert deployment.check() == []


def test_a_dynamic_meta_object_of_two_objects_has_its_mistakes_once(deployment: Sample) -> None:
    deployment.replace(O, META, "Priority: Boolean")
    deployment.replace(
        O,
        "business_object: Order\n",
        "business_object: Order\napp_specific_info: cw_mo_conn=Meta\n",
    )
    key = "  Id: {type: String, key: true}"
    deployment.replace(O, key, f"{key}\n  Meta: CustomerMeta")
    assert [problem.path for problem in deployment.check()] == ["CustomerMeta.attributes.Priority"]
