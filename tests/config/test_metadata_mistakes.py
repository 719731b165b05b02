"""Mistakes in what requests are told by rules and dynamic meta-objects are found where they stand."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

from typing import TYPE_CHECKING

from connector.errors import Problem
from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample

OBJECTS = "metaobjects/objects.yaml"
RULES = "metaobjects/rules.yaml"


@rows(
    "said, words",
    [
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
    ],
)
@rows("level", ["Default", "rules.Order_Create"])
def test_a_property_of_a_rule_that_no_request_can_have_is_found_with_its_place(
    deployment: Sample, level: str, said: str, words: str
) -> None:
    name = said.partition(":")[0]
    if level == "Default":
        deployment.replace(RULES, "Default:\n", f"Default:\n  {said}\n")
    else:
        deployment.replace(
            RULES, "{InputDestination: queue://orders", f"{{{said}, InputDestination: queue://orders"
        )
    text = deployment.read(RULES)
    before = text[: text.index("§")]
    deployment.write(RULES, text.replace("§", ""))
    (problem,) = deployment.check()
    assert (problem.file, problem.line) == (RULES, before.count("\n") + 1)
    assert problem.column == len(before) - before.rfind("\n")
    assert problem.path == f"MO_Config.{level}.{name}"
    assert words in str(problem)


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
    deployment.replace(RULES, "Default:\n", f"Default:\n  {said}\n")
    assert deployment.check() == []


META = "MessageID: String"
REGION = 'Region: {type: String, app_specific_info: "name=region;type=String"}'


@rows(
    "old, new, path, words",
    [
        (META, "§Priority: Date", "CustomerMeta.attributes.Priority", "a Date as Priority, expected String or LongText or Integer or Float or Double"),
        (META, "§OutputDestination: Integer", "CustomerMeta.attributes.OutputDestination", "an Integer as OutputDestination, expected String or LongText"),
        (META, "§TimeoutFatal: Integer", "CustomerMeta.attributes.TimeoutFatal", "an Integer as TimeoutFatal, expected String or LongText or Boolean"),
        (META, "§MessageID: Address", "CustomerMeta.attributes.MessageID", "an Address as MessageID, expected"),
        (META, "§TimeStamp: Integer", "CustomerMeta.attributes.TimeStamp", "an Integer as TimeStamp, expected String or LongText or Float or Double or Date"),
        (META, "§OutputFormat: Address", "CustomerMeta.attributes.OutputFormat", "an Address as OutputFormat, expected a simple type"),
        (
            REGION,
            '§Region: {type: Date, app_specific_info: "name=region;type=Int"}',
            "CustomerProperties.attributes.Region",
            "a Date for a property that is of type int, expected String or LongText or Integer",
        ),
    ],
)  # fmt: skip
def test_an_attribute_of_a_dynamic_meta_object_that_cannot_be_read_is_a_mistake(
    deployment: Sample, old: str, new: str, path: str, words: str
) -> None:
    (problem,) = _checked(deployment, old, new)
    assert problem.path == path
    assert words in str(problem)
    assert not problem.warning


@rows(
    "old, new, path, words",
    [
        (
            META,
            "§OutputDestinaton: String",
            "CustomerMeta.attributes.OutputDestinaton",
            "no header and no property of requests, did you mean 'OutputDestination'?",
        ),
        (
            REGION,
            '§Region: {type: String, app_specific_info: "name=region.code"}',
            "CustomerProperties.attributes.Region",
            "no request can send it: no property can be called 'region.code'",
        ),
        (
            REGION,
            f'{REGION}\n  §Other: {{type: String, app_specific_info: "name=region"}}',
            "CustomerProperties.attributes.Other",
            "the property 'region' is that of Region, too",
        ),
    ],
)
def test_what_events_may_read_but_no_request_can_say_is_a_warning(
    deployment: Sample, old: str, new: str, path: str, words: str
) -> None:
    (problem,) = _checked(deployment, old, new)
    assert problem.path == path
    assert words in str(problem)
    assert problem.warning


@rows("said", ["Mine: String", "ResponseTimeout: Integer", "Priority: String", "TimeoutFatal: Boolean"])
def test_attributes_that_can_be_read_are_no_mistake(deployment: Sample, said: str) -> None:
    deployment.replace(OBJECTS, META, said)
    assert deployment.check() == []


def test_a_property_that_only_providers_set_may_be_read(deployment: Sample) -> None:
    deployment.replace(
        OBJECTS, REGION, "Count: {type: Integer, app_specific_info: name=JMSXDeliveryCount;type=Int}"
    )
    assert deployment.check() == []


def test_a_dynamic_meta_object_of_two_objects_has_its_mistakes_once(deployment: Sample) -> None:
    deployment.replace(OBJECTS, META, "Priority: Boolean")
    deployment.replace(
        OBJECTS,
        "business_object: Order\n",
        "business_object: Order\napp_specific_info: cw_mo_conn=Meta\n",
    )
    key = "  Id: {type: String, key: true}"
    deployment.replace(OBJECTS, key, f"{key}\n  Meta: CustomerMeta")
    assert [problem.path for problem in deployment.check()] == ["CustomerMeta.attributes.Priority"]


def _checked(deployment: Sample, old: str, new: str) -> list[Problem]:
    """What ``check`` finds, at the place of the ``§``."""
    deployment.replace(OBJECTS, old, new)
    text = deployment.read(OBJECTS)
    before = text[: text.index("§")]
    deployment.write(OBJECTS, text.replace("§", ""))
    problems = deployment.check()
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    assert [(p.file, p.line, p.column) for p in problems] == [(OBJECTS, line, column)]
    return problems
