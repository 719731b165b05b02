"""``connector import-repository``: what is carried over, what is left out, and that the result is right."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from connector.config.loading import check, load
from connector.config.metaobjects import MetaObjects
from tests.authoring.conftest import BARE
from tests.cli.in_process import Answer, Commands
from tests.tables import rows

SAMPLES = Path(__file__).parent / "samples"
ADAPTER = BARE.replace("orders", "customers")


def section(name: str, *lines: str) -> str:
    return "\n".join([f"[{name}]", *lines, "[End]"])


def attribute(name: str, type_name: str = "String", *lines: str) -> str:
    return section("Attribute", f"Name = {name}", f"Type = {type_name}", *lines)


def rule(name: str, info: str) -> str:
    return attribute(name, "String", f"AppSpecificInfo = {info}")


def definition(name: str, *parts: str) -> str:
    return section("BusinessObjectDefinition", f"Name = {name}", *parts)


def rules(*attributes: str) -> str:
    """A business object and the static meta-object with its rules."""
    return "\n".join((definition("Order", KEY, CREATE, UPDATE), definition("MO_Rules", *attributes)))


KEY = attribute("Id", "String", "IsKey = true")
CREATE = section("Verb", "Name = Create")
UPDATE = section("Verb", "Name = Update")
ORDER = definition("Order", KEY)


@pytest.fixture
def shop(tmp_path: Path) -> Commands:
    (tmp_path / "adapter.yaml").write_text(ADAPTER)
    return Commands(tmp_path)


def imported(shop: Commands, *arguments: str) -> Answer:
    return shop("import-repository", *arguments, "--into", "metaobjects")


def run(shop: Commands, text: str, *arguments: str, file: str = "in.repository") -> Answer:
    shop.write(file, text)
    return imported(shop, file, *arguments)


def loaded(shop: Commands) -> MetaObjects:
    """What the deployment has, which must be right."""
    assert check(shop.directory / "adapter.yaml", {}) == []
    return load(shop.directory / "adapter.yaml", {}).metaobjects


def written(shop: Commands) -> list[str]:
    return sorted(os.listdir(shop.directory / "metaobjects"))


def test_a_whole_repository_is_carried_over_and_loads_without_a_warning(shop: Commands) -> None:
    shutil.copy(SAMPLES / "crm.repository", shop.directory)
    done = imported(shop, "crm.repository")
    assert (done.returncode, done.stderr) == (0, "")
    keys = "  ConfigurationMetaObject: MO_JMS_Config\n  DataHandlerConfigMO: MO_DataHandler_Default\n"
    assert done.stdout.endswith(f"\n  metaobjects: metaobjects\n{keys}")
    names = "Customer Customer_Address MO_Customer_Dynamic MO_Customer_Properties MO_DataHandler_Default"
    assert written(shop) == [f"{name}.yaml" for name in [*names.split(), "MO_JMS_Config"]]
    shop.write("adapter.yaml", ADAPTER.replace("metaobjects:", f"{keys}metaobjects:"))
    found = loaded(shop)
    customer = found.definitions["Customer"]
    assert (customer.version, customer.dynamic_metaobject) == ("2.1.0", "Meta")
    assert list(customer.attributes) == ["CustomerId", "Name", "Rating", "Group", "Address", "Meta"]
    key, group, address = (customer.attributes[name] for name in ("CustomerId", "Group", "Address"))
    assert key.is_key
    assert key.is_required
    assert key.is_required_server_bound
    assert (key.max_length, customer.attributes["Rating"].default) == (20, 3)
    assert group.app_specific_info == "elem_name=customer-group;note=a = b"
    assert group.is_foreign_key
    assert (address.type, address.is_many) == ("Customer_Address", True)
    assert address.contained_object_version == "1.0.0"
    assert list(customer.verbs) == ["Create", "Retrieve"]
    info = "response_selector=JMSCorrelationID = '{1}':CustomerId"
    assert customer.verbs["Retrieve"].app_specific_info == info
    named = {rule.name: rule for rule in found.static["MO_JMS_Config"].rules}
    create = named["Customer_Create"]
    assert (create.input_format, str(create.input_destination)) == ("CUST_IN", "queue://customers")
    assert create.handler["DataHandlerMimeType"] == "text/xml"
    assert found.static["MO_JMS_Config"].properties("Customer", "Retrieve") == {
        "OutputDestination": "queue://crm",
        "ResponseTimeout": "5000",
        "OutputFormat": "CUST_ASK",
        "TimeoutFatal": "false",
    }
    options = {"BOPrefix": "XMLTEST", "IgnoreUndefinedAttributes": "true"}
    assert found.handler_options == {"MO_DataHandler_Default": {"text/xml": options}}


SELECTOR = "AppSpecificInfo = response_selector=JMSType = '{1}':Nobody"


@rows(
    "part, line, warning",
    [
        (attribute("A", "String", "Colour = red"), 11, "Colour of [Attribute] has no counterpart "),
        (attribute("A", "String", "MaxLenght = 3"), 11, "MaxLenght of [Attribute] has no counterpart "),
        (section("Map", "Name = a", section("Attribute", "x y z"), "b"), 8, "the section [Map] in [Business"),
        (attribute("A", "Xyzzy"), 10, "Order.attributes.A: left out: there is no type 'Xyzzy' "),
        (attribute("A", "Double", "DefaultValue = much"), 11, "Order.attributes.A.default: left out: found "),
        (attribute("A", "String", "IsRequired = perhaps"), 11, "Order.attributes.A.required: left out: "),
        (section("Verb", "Name = Ask", SELECTOR), 10, "Order.verbs.Ask.app_specific_info: left out: "),
    ],
)
def test_what_has_no_counterpart_is_left_out_with_its_line(
    shop: Commands, part: str, line: int, warning: str
) -> None:
    done = run(shop, definition("Order", KEY, part))
    assert done.returncode == 0
    (told,) = done.stderr.splitlines()
    assert told.startswith(f"in.repository:{line}: {warning}")
    assert told.endswith(" (warning)")
    assert ("did you mean 'MaxLength'?" in told) == ("MaxLenght" in told)
    assert done.stdout.startswith("wrote 1 file to metaobjects: 1 business object; 1 warning\n")
    assert check(shop.directory / "adapter.yaml", {}) == []
    if "left out: " in warning:
        assert shop.read("metaobjects/Order.yaml").splitlines()[2].startswith("#   line ")


def test_a_type_of_any_case_is_a_simple_type_unless_an_object_has_the_name(shop: Commands) -> None:
    types = (attribute(name, name) for name in ("STRING", "date", "double"))
    assert run(shop, "\n".join((definition("Order", KEY, *types), definition("double", KEY)))).stderr == ""
    attributes = loaded(shop).definitions["Order"].attributes
    assert [one.type for one in attributes.values()] == ["String", "String", "Date", "double"]


def test_a_child_may_be_defined_in_another_file_or_in_the_deployment(shop: Commands) -> None:
    shop.write("metaobjects/old.yaml", "business_object: Old\nattributes: {Id: {type: String, key: true}}")
    shop.write("line.repository", definition("Line", KEY))
    text = definition("Order", KEY, attribute("Line", "Line", "Cardinality = n"), attribute("Old", "Old"))
    done = run(shop, text, "line.repository")
    assert (done.returncode, done.stderr) == (0, "")
    assert check(shop.directory / "adapter.yaml", {}) == []
    lost = run(shop, definition("Other", KEY, attribute("Gone", "Gone")), file="two.repository")
    assert "two.repository:10: Other.attributes.Gone: left out" in lost.stderr


def test_a_rule_that_cannot_be_kept_whole_is_left_out_only_where_it_would_match_more(shop: Commands) -> None:
    text = rules(
        rule("Order_Create", "InputFormat=A;InputDestination=queue://a/b;OutputFormat=O"),
        rule("Order_Update", "InputFormat=B;CollaborationMode=X;Priority=12;loose;InputFormat=C"),
        rule("Nobody_Create", "InputFormat=N"),
        attribute("Dummy", "String", "IsKey = true"),
    )
    done = run(shop, text)
    assert done.returncode == 0
    update = ("", ".InputFormat", ".CollaborationMode", ".Priority")
    left_out = ["Order_Create", *(f"Order_Update{key}" for key in update), "Nobody_Create"]
    assert [line.split(": ")[1:3] for line in done.stderr.splitlines()] == [
        [f"MO_Rules.rules.{name}", "left out"] for name in left_out
    ]
    text = shop.read("metaobjects/MO_Rules.yaml")
    assert text.endswith("rules:\n  Order_Update: {InputFormat: B}\n")
    assert check(shop.directory / "adapter.yaml", {}) == []


def test_properties_of_websphere_mq_become_those_of_jms_and_no_match_key_is_a_default(shop: Commands) -> None:
    info = "inputformat=A;InputQueue=queue://in;OutputQueue=queue://out"
    default = rule("Default", "InputFormat=A;OutputDestination=queue://crm")
    (left_out,) = run(shop, rules(default, rule("Order_Create", info))).stderr.splitlines()
    assert "MO_Rules.Default.InputFormat: left out: a match key under Default" in left_out
    found = loaded(shop).static["MO_Rules"]
    assert found.defaults == {"OutputDestination": "queue://crm"}
    (one,) = found.rules
    assert (one.input_format, str(one.input_destination)) == ("A", "queue://in")
    assert found.properties(one.object, one.verb) == {"OutputDestination": "queue://out"}


def test_a_static_meta_object_without_rules_has_to_be_named(shop: Commands) -> None:
    text = rules(attribute("Dummy", "String", "IsKey = true"), attribute("Order_Create"))
    run(shop, text)
    assert shop.read("metaobjects/MO_Rules.yaml").splitlines()[1] == "business_object: MO_Rules"
    assert run(shop, text, "--static", "MO_Rules", "--force").returncode == 0
    found = shop.read("metaobjects/MO_Rules.yaml").splitlines()[1:]
    assert found == ["static_metaobject: MO_Rules", "rules:", "  Order_Create:"]
    assert loaded(shop).static["MO_Rules"].rules[0].verb == "Create"
    refusal = run(shop, text, "--static", "MO_Rule").refusal()
    assert refusal == "--static: no 'MO_Rule' in the file, did you mean 'MO_Rules'?\n"


def test_options_of_data_handlers_that_do_not_exist_are_left_out(shop: Commands) -> None:
    values = {"ClassName": " com.acme.MyXml", "XSLPath": " /xsl", "BOPrefix": " P", "Empty": ""}
    options = (attribute(name, "String", f"DefaultValue ={value}") for name, value in values.items())
    types = {"text_xml": "MO_Xml", "text_edifact": "MO_Xml", "application_json": "MO_Gone"}
    handlers = (attribute(name, kind) for name, kind in types.items())
    text = "\n".join((definition("MO_Xml", *options), definition("MO_Handlers", *handlers)))
    done = run(shop, text, "--datahandlers", "MO_Handlers")
    assert done.returncode == 0
    assert sorted({line.split(": ")[1] for line in done.stderr.splitlines()}) == [
        f"MO_Handlers.handlers.{name}"
        for name in (
            *("application/json", "text/edifact", "text/edifact.ClassName"),
            *("text/xml.ClassName", "text/xml.XSLPath"),
        )
    ]
    assert written(shop) == ["MO_Handlers.yaml"]
    assert loaded(shop).handler_options == {"MO_Handlers": {"text/xml": {"BOPrefix": "P"}}}


def test_options_that_no_meta_object_refers_to_are_a_business_object_with_a_warning(shop: Commands) -> None:
    done = run(shop, definition("MO_Lost", KEY, attribute("ClassName")))
    assert done.returncode == 0
    assert "in.repository:2: MO_Lost: looks like the options of a data handler" in done.stderr
    assert list(loaded(shop).definitions) == ["MO_Lost"]


def test_the_answer_in_json_names_files_and_warnings(shop: Commands) -> None:
    done = run(shop, rules(rule("Order_Create", "InputFormat=A;B=1")), "--json")
    text = "left out: unknown key, expected a key of this section"
    place = {"file": "in.repository", "line": 20, "path": "MO_Rules.rules.Order_Create.B"}
    assert done.document == {
        "directory": str(shop.directory / "metaobjects"),
        "files": [
            {"file": "Order.yaml", "kind": "business_object", "name": "Order"},
            {"file": "MO_Rules.yaml", "kind": "static_metaobject", "name": "MO_Rules"},
        ],
        "warnings": [{**place, "text": text}],
    }
    assert done.stderr.count("\n") == 1


def test_nothing_is_overwritten_without_force_and_nothing_written_beside(shop: Commands) -> None:
    shop.write("metaobjects/Order.yaml", "mine")
    text = "\n".join((definition("Line", KEY), ORDER))
    refusal = run(shop, text).refusal()
    assert refusal == "connector: metaobjects: there is Order.yaml already; nothing was written\n"
    assert written(shop) == ["Order.yaml"]
    assert run(shop, text, "--force").returncode == 0
    assert written(shop) == ["Line.yaml", "Order.yaml"]
    assert check(shop.directory / "adapter.yaml", {}) == []


def test_a_definition_that_another_file_has_is_an_error(shop: Commands) -> None:
    shop.write("metaobjects/all.yaml", "business_object: Order\n")
    assert run(shop, ORDER, "--force").refusal() == (
        "in.repository:2: Order: defined already, in metaobjects/all.yaml, expected one definition\n"
    )
    assert written(shop) == ["all.yaml"]
    shop.write("other.repository", ORDER)
    assert run(shop, ORDER, "other.repository").refusal() == (
        "other.repository:2: Order: a second time, first in in.repository:2, expected it once\n"
    )


@rows(
    "text, error",
    [
        (definition("Or.der", KEY), "2: the business object 'Or.der', expected a name of at most 80"),
        (definition("Order", attribute("a-b")), "4: the attribute 'a-b', expected a name of at most"),
        (definition("Order", section("Verb", "Name = a b")), "4: the verb 'a b', expected a name"),
        (definition("Date", KEY), "2: Date.business_object: 'Date' is a simple type, expected another name"),
        ("", " there is no [BusinessObjectDefinition]"),
    ],
)
def test_what_cannot_be_an_import_is_an_error_with_its_line(shop: Commands, text: str, error: str) -> None:
    refusal = run(shop, text).refusal().removeprefix("connector: ")
    assert refusal.startswith(f"in.repository:{error}")
    assert not (shop.directory / "metaobjects").exists()


def test_another_character_set_has_to_be_named(shop: Commands) -> None:
    text = definition("Order", KEY, rule("Name", "label=Größe"))
    shop.write("latin.repository", text.encode("latin-1"))
    assert imported(shop, "latin.repository").refusal() == (
        f"latin.repository:11: is not utf-8: byte {text.index('ö')} is 0xF6, "
        "expected UTF-8, or --charset with the name of another\n"
    )
    assert imported(shop, "latin.repository", "--charset", "iso-8859-1").returncode == 0
    attributes = loaded(shop).definitions["Order"].attributes
    assert attributes["Name"].app_specific_info == "label=Größe"
    wrong = imported(shop, "latin.repository", "--charset", "base64").refusal()
    assert "--charset base64: expected the name of a character set" in wrong


def test_a_file_or_directory_that_cannot_be_used_is_an_error(shop: Commands) -> None:
    assert imported(shop, "gone").refusal() == (
        "gone: cannot be read: No such file or directory, expected a repository file\n"
    )
    assert "cannot write" in run(shop, ORDER, file="metaobjects").refusal()


def test_a_configuration_with_a_mistake_does_not_keep_from_importing(shop: Commands) -> None:
    shop.write("adapter.yaml", "connector: {}\nmetaobjects: [./gone, ./metaobjects]\nodd: 1\n")
    assert run(shop, ORDER).returncode == 0
    shop.write("adapter.yaml", "{")
    assert run(shop, definition("Other", KEY)).refusal().startswith("adapter.yaml:")
