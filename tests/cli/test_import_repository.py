"""``connector import-repository``: what is carried over, what is left out, and that the result is right."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from connector.config.loading import check, load
from tests.cli.in_process import Answer, Commands
from tests.tables import rows

SAMPLES = Path(__file__).parent / "samples"

ADAPTER = """\
provider: {type: dropbox, root: ./data, create: true}
connector:
  ApplicationName: crm
  InputDestination: queue://customers
metaobjects: ./metaobjects
"""


def section(name: str, *lines: str) -> str:
    return "\n".join([f"[{name}]", *lines, "[End]"])


def attribute(name: str, type_name: str = "String", *lines: str) -> str:
    return section("Attribute", f"Name = {name}", f"Type = {type_name}", *lines)


def definition(name: str, *parts: str) -> str:
    return section("BusinessObjectDefinition", f"Name = {name}", *parts)


KEY = attribute("Id", "String", "IsKey = true")
CREATE = section("Verb", "Name = Create")


@pytest.fixture
def shop(tmp_path: Path) -> Commands:
    (tmp_path / "adapter.yaml").write_text(ADAPTER)
    return Commands(tmp_path)


def run(shop: Commands, text: str, *arguments: str, file: str = "in.repository") -> Answer:
    shop.write(file, text)
    return shop("import-repository", file, "--into", "metaobjects", *arguments)


def test_the_sample_of_the_manual_becomes_a_definition(shop: Commands) -> None:
    shutil.copy(SAMPLES / "sample.repository", shop.directory)
    done = shop("import-repository", "sample.repository", "--into", "metaobjects")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "wrote 1 file to metaobjects: 1 business object; no warnings\n"
        "For adapter.yaml:\n  metaobjects: metaobjects\n"
    )
    assert (
        shop.read("metaobjects/Sample.yaml")
        == """\
# Imported from sample.repository, line 5.
business_object: Sample
version: 1.0.0
app_specific_info: table=SAMPLE
verbs:
  Create: {app_specific_info: mode=insert}
attributes:
  Id: {type: String, key: true, required: true, max_length: 255, default: 1001, app_specific_info: column=ID}
"""
    )
    assert check(shop.directory / "adapter.yaml", {}) == []


def test_a_whole_repository_is_carried_over_and_loads_without_a_warning(shop: Commands) -> None:
    shutil.copy(SAMPLES / "crm.repository", shop.directory)
    done = shop("import-repository", "crm.repository", "--into", "metaobjects")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[2:] == [
        "  metaobjects: metaobjects",
        "  ConfigurationMetaObject: MO_JMS_Config",
        "  DataHandlerConfigMO: MO_DataHandler_Default",
    ]
    assert sorted(os.listdir(shop.directory / "metaobjects")) == [
        "Customer.yaml",
        "Customer_Address.yaml",
        "MO_Customer_Dynamic.yaml",
        "MO_Customer_Properties.yaml",
        "MO_DataHandler_Default.yaml",
        "MO_JMS_Config.yaml",
    ]
    keys = "  ConfigurationMetaObject: MO_JMS_Config\n  DataHandlerConfigMO: MO_DataHandler_Default\n"
    shop.write("adapter.yaml", ADAPTER.replace("metaobjects:", f"{keys}metaobjects:"))
    assert check(shop.directory / "adapter.yaml", {}) == []
    loaded = load(shop.directory / "adapter.yaml", {}).metaobjects
    customer = loaded.definitions["Customer"]
    assert (customer.version, customer.dynamic_metaobject) == ("2.1.0", "Meta")
    assert list(customer.attributes) == ["CustomerId", "Name", "Rating", "Group", "Address", "Meta"]
    key = customer.attributes["CustomerId"]
    assert (key.is_key, key.is_required, key.max_length, key.is_required_server_bound) == (
        True,
        True,
        20,
        True,
    )
    assert customer.attributes["Rating"].default == 3
    assert customer.attributes["Group"].app_specific_info == "elem_name=customer-group;note=a = b"
    assert customer.attributes["Group"].is_foreign_key
    address = customer.attributes["Address"]
    assert (address.type, address.is_many, address.contained_object_version) == (
        "Customer_Address",
        True,
        "1.0.0",
    )
    assert list(customer.verbs) == ["Create", "Retrieve"]
    assert customer.verbs["Retrieve"].app_specific_info == (
        "response_selector=JMSCorrelationID = '{1}':CustomerId"
    )
    rules = {rule.name: rule for rule in loaded.static["MO_JMS_Config"].rules}
    assert rules["Customer_Create"].input_format == "CUST_IN"
    assert str(rules["Customer_Create"].input_destination) == "queue://customers"
    assert rules["Customer_Create"].properties["DataHandlerMimeType"] == "text/xml"
    assert rules["Customer_Retrieve"].properties == {
        "OutputDestination": "queue://crm",
        "ResponseTimeout": "5000",
        "OutputFormat": "CUST_ASK",
        "TimeoutFatal": "false",
    }
    assert loaded.handler_options == {
        "MO_DataHandler_Default": {"text/xml": {"BOPrefix": "XMLTEST", "IgnoreUndefinedAttributes": "true"}}
    }


@rows(
    "part, warning",
    [
        (
            attribute("A", "String", "Colour = red"),
            "11: Colour of [Attribute] has no counterpart and is left out (warning)",
        ),
        (
            attribute("A", "String", "MaxLenght = 3"),
            "11: MaxLenght of [Attribute] has no counterpart and is left out, "
            "did you mean 'MaxLength'? (warning)",
        ),
        (
            section("Map", "Name = a", section("Attribute", "x y z"), "anything"),
            "8: the section [Map] in [BusinessObjectDefinition] has no counterpart and is left out (warning)",
        ),
        (attribute("A", "Xyzzy"), "10: Order.attributes.A: left out: there is no type 'Xyzzy' (warning)"),
        (
            attribute("A", "Double", "DefaultValue = much"),
            "11: Order.attributes.A.default: left out: found the text 'much', expected a number (warning)",
        ),
        (
            attribute("A", "String", "IsRequired = perhaps"),
            "11: Order.attributes.A.required: left out: 'perhaps', expected true or false (warning)",
        ),
        (
            section("Verb", "Name = Ask", "AppSpecificInfo = response_selector=JMSType = '{1}':Nobody"),
            "10: Order.verbs.Ask.app_specific_info: left out: ",
        ),
    ],
)
def test_what_has_no_counterpart_is_left_out_with_its_line(shop: Commands, part: str, warning: str) -> None:
    done = run(shop, definition("Order", KEY, part))
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"in.repository:{warning}")
    assert done.stdout.startswith("wrote 1 file to metaobjects: 1 business object; 1 warning\n")
    assert check(shop.directory / "adapter.yaml", {}) == []
    if "left out: " in warning:
        comment = shop.read("metaobjects/Order.yaml").splitlines()[2]
        assert comment.startswith("#   line ")


def test_a_type_of_any_case_is_a_simple_type_unless_an_object_has_the_name(shop: Commands) -> None:
    text = definition(
        "Order", KEY, attribute("A", "STRING"), attribute("B", "date"), attribute("C", "double")
    )
    done = run(shop, "\n".join((text, definition("double", KEY))))
    assert done.stderr == ""
    attributes = load(shop.directory / "adapter.yaml", {}).metaobjects.definitions["Order"].attributes
    assert [one.type for one in attributes.values()] == ["String", "String", "Date", "double"]


def test_a_child_may_be_defined_in_another_file_or_in_the_deployment(shop: Commands) -> None:
    shop.write("metaobjects/old.yaml", "business_object: Old\nattributes: {Id: {type: String, key: true}}")
    shop.write("line.repository", definition("Line", KEY))
    text = definition("Order", KEY, attribute("Line", "Line", "Cardinality = n"), attribute("Old", "Old"))
    shop.write("order.repository", text)
    done = shop("import-repository", "order.repository", "line.repository", "--into", "metaobjects")
    assert (done.returncode, done.stderr) == (0, "")
    assert check(shop.directory / "adapter.yaml", {}) == []
    shop.write("two.repository", definition("Other", KEY, attribute("Gone", "Gone")))
    lost = shop("import-repository", "two.repository", "--into", "metaobjects")
    assert "two.repository:10: Other.attributes.Gone: left out" in lost.stderr


# --- meta-objects ----------------------------------------------------------------------------


def rules(*attributes: str, name: str = "MO_Rules") -> str:
    return "\n".join((definition("Order", KEY, CREATE), definition(name, *attributes)))


def test_a_rule_that_cannot_be_kept_whole_is_left_out_only_where_it_would_match_more(shop: Commands) -> None:
    info = "AppSpecificInfo = InputFormat=A;InputDestination=queue://a/b;OutputFormat=O"
    kept = "AppSpecificInfo = InputFormat=B;CollaborationMode=X;Priority=12;loose;InputFormat=C"
    update = section("Verb", "Name = Update")
    text = "\n".join(
        (
            definition("Order", KEY, CREATE, update),
            definition(
                "MO_Rules",
                attribute("Order_Create", "String", info),
                attribute("Order_Update", "String", kept),
                attribute("Nobody_Create", "String", "AppSpecificInfo = InputFormat=N"),
                attribute("Dummy", "String", "IsKey = true"),
            ),
        )
    )
    done = run(shop, text)
    assert done.returncode == 0
    found = [line.split(": ")[1:3] for line in done.stderr.splitlines()]
    assert found == [
        ["MO_Rules.rules.Order_Create", "left out"],
        ["MO_Rules.rules.Order_Update", "left out"],
        ["MO_Rules.rules.Order_Update.InputFormat", "left out"],
        ["MO_Rules.rules.Order_Update.CollaborationMode", "left out"],
        ["MO_Rules.rules.Order_Update.Priority", "left out"],
        ["MO_Rules.rules.Nobody_Create", "left out"],
    ]
    text = shop.read("metaobjects/MO_Rules.yaml")
    assert text.endswith("rules:\n  Order_Update: {InputFormat: B}\n")
    assert check(shop.directory / "adapter.yaml", {}) == []


def test_properties_of_the_adapters_for_websphere_mq_become_those_of_jms(shop: Commands) -> None:
    info = "AppSpecificInfo = inputformat=A;InputQueue=queue://in;OutputQueue=queue://out"
    assert run(shop, rules(attribute("Order_Create", "String", info))).stderr == ""
    rule = load(shop.directory / "adapter.yaml", {}).metaobjects.static["MO_Rules"].rules[0]
    assert (rule.input_format, str(rule.input_destination)) == ("A", "queue://in")
    assert rule.properties == {"OutputDestination": "queue://out"}


def test_match_keys_under_default_are_left_out(shop: Commands) -> None:
    info = "AppSpecificInfo = InputFormat=A;OutputDestination=queue://out"
    done = run(shop, rules(attribute("Default", "String", info)))
    assert "MO_Rules.Default.InputFormat: left out: a match key under Default" in done.stderr
    assert load(shop.directory / "adapter.yaml", {}).metaobjects.static["MO_Rules"].defaults == {
        "OutputDestination": "queue://out"
    }


def test_a_static_meta_object_without_rules_has_to_be_named(shop: Commands) -> None:
    text = rules(attribute("Dummy", "String", "IsKey = true"), attribute("Order_Create"))
    run(shop, text)
    assert shop.read("metaobjects/MO_Rules.yaml").splitlines()[1] == "business_object: MO_Rules"
    done = run(shop, text, "--static", "MO_Rules", "--force")
    assert done.returncode == 0
    written = shop.read("metaobjects/MO_Rules.yaml").splitlines()[1:]
    assert written == ["static_metaobject: MO_Rules", "rules:", "  Order_Create:"]
    assert load(shop.directory / "adapter.yaml", {}).metaobjects.static["MO_Rules"].rules[0].verb == "Create"
    assert run(shop, text, "--static", "MO_Rule").refusal() == (
        "--static: no 'MO_Rule' in the file, did you mean 'MO_Rules'?\n"
    )


def test_options_of_data_handlers_that_do_not_exist_are_left_out(shop: Commands) -> None:
    options = definition(
        "MO_Xml",
        attribute("ClassName", "String", "DefaultValue = com.acme.MyXml"),
        attribute("XSLPath", "String", "DefaultValue = /xsl"),
        attribute("BOPrefix", "String", "DefaultValue = P"),
        attribute("Empty", "String", "DefaultValue ="),
    )
    handlers = definition(
        "MO_Handlers",
        attribute("text_xml", "MO_Xml"),
        attribute("text_edifact", "MO_Xml"),
        attribute("application_json", "MO_Gone"),
    )
    done = run(shop, "\n".join((options, handlers)), "--datahandlers", "MO_Handlers")
    assert done.returncode == 0
    assert sorted({line.split(": ")[1] for line in done.stderr.splitlines()}) == [
        "MO_Handlers.handlers.application/json",
        "MO_Handlers.handlers.text/edifact",
        "MO_Handlers.handlers.text/edifact.ClassName",
        "MO_Handlers.handlers.text/xml.ClassName",
        "MO_Handlers.handlers.text/xml.XSLPath",
    ]
    assert os.listdir(shop.directory / "metaobjects") == ["MO_Handlers.yaml"]
    assert load(shop.directory / "adapter.yaml", {}).metaobjects.handler_options == {
        "MO_Handlers": {"text/xml": {"BOPrefix": "P"}}
    }


def test_options_that_no_meta_object_refers_to_are_a_business_object_with_a_warning(shop: Commands) -> None:
    done = run(shop, definition("MO_Lost", KEY, attribute("ClassName")))
    assert done.returncode == 0
    assert "in.repository:2: MO_Lost: looks like the options of a data handler" in done.stderr
    assert check(shop.directory / "adapter.yaml", {}) == []


# --- the answer ------------------------------------------------------------------------------


def test_the_answer_in_json_names_files_and_warnings(shop: Commands) -> None:
    done = run(
        shop, rules(attribute("Order_Create", "String", "AppSpecificInfo = InputFormat=A;B=1")), "--json"
    )
    assert done.document == {
        "directory": str(shop.directory / "metaobjects"),
        "files": [
            {"file": "Order.yaml", "kind": "business_object", "name": "Order"},
            {"file": "MO_Rules.yaml", "kind": "static_metaobject", "name": "MO_Rules"},
        ],
        "warnings": [
            {
                "file": "in.repository",
                "line": 17,
                "path": "MO_Rules.rules.Order_Create.B",
                "text": "left out: unknown key, expected a key of this section",
            }
        ],
    }
    assert done.stderr.count("\n") == 1


def test_nothing_is_overwritten_without_force_and_nothing_written_beside(shop: Commands) -> None:
    shop.write("metaobjects/Order.yaml", "mine")
    text = "\n".join((definition("Line", KEY), definition("Order", KEY)))
    assert run(shop, text).refusal() == (
        "connector: metaobjects: there is Order.yaml already; nothing was written\n"
    )
    assert os.listdir(shop.directory / "metaobjects") == ["Order.yaml"]
    assert run(shop, text, "--force").returncode == 0
    assert sorted(os.listdir(shop.directory / "metaobjects")) == ["Line.yaml", "Order.yaml"]
    assert check(shop.directory / "adapter.yaml", {}) == []


def test_a_definition_that_another_file_has_is_an_error(shop: Commands) -> None:
    shop.write("metaobjects/all.yaml", "business_object: Order\n")
    assert run(shop, definition("Order", KEY), "--force").refusal() == (
        "in.repository:2: Order: defined already, in metaobjects/all.yaml, expected one definition\n"
    )
    assert os.listdir(shop.directory / "metaobjects") == ["all.yaml"]


def test_a_definition_in_two_files_is_an_error(shop: Commands) -> None:
    shop.write("other.repository", definition("Order", KEY))
    assert run(shop, definition("Order", KEY), "other.repository").refusal() == (
        "other.repository:2: Order: a second time, first in in.repository:2, expected it once\n"
    )


@rows(
    "text, error",
    [
        (
            definition("Or.der", KEY),
            "in.repository:2: the business object 'Or.der', expected a name of at most 80",
        ),
        (
            definition("Order", attribute("a-b")),
            "in.repository:4: the attribute 'a-b', expected a name of at most",
        ),
        (
            definition("Order", section("Verb", "Name = a b")),
            "in.repository:4: the verb 'a b', expected a name",
        ),
        (
            definition("Date", KEY),
            "in.repository:2: Date.business_object: 'Date' is a simple type, expected another name",
        ),
        ("", "connector: in.repository: there is no [BusinessObjectDefinition]"),
    ],
)
def test_what_cannot_be_an_import_is_an_error_with_its_line(shop: Commands, text: str, error: str) -> None:
    assert run(shop, text).refusal().startswith(error)
    assert not (shop.directory / "metaobjects").exists()


def test_another_character_set_has_to_be_named(shop: Commands) -> None:
    text = definition("Order", KEY, attribute("Name", "String", "AppSpecificInfo = label=Größe"))
    shop.write("latin.repository", text.encode("latin-1"))
    arguments = ("import-repository", "latin.repository", "--into", "metaobjects")
    assert shop(*arguments).refusal() == (
        f"latin.repository:11: is not utf-8: byte {text.index('ö')} is 0xF6, "
        "expected UTF-8, or --charset with the name of another\n"
    )
    assert shop(*arguments, "--charset", "iso-8859-1").returncode == 0
    attributes = load(shop.directory / "adapter.yaml", {}).metaobjects.definitions["Order"].attributes
    assert attributes["Name"].app_specific_info == "label=Größe"
    assert (
        "--charset base64: expected the name of a character set"
        in shop(*arguments, "--charset", "base64").refusal()
    )


def test_a_file_or_directory_that_cannot_be_used_is_an_error(shop: Commands) -> None:
    assert shop("import-repository", "gone", "--into", "metaobjects").refusal() == (
        "gone: cannot be read: No such file or directory, expected a repository file\n"
    )
    assert "cannot write" in run(shop, definition("Order", KEY), file="metaobjects").refusal()


def test_a_configuration_with_a_mistake_does_not_keep_from_importing(shop: Commands) -> None:
    file = shop.directory / "adapter.yaml"
    file.write_text("connector: {}\nmetaobjects: [./gone, ./metaobjects]\nodd: 1\n")
    assert run(shop, definition("Order", KEY)).returncode == 0
    file.write_text("{")
    assert run(shop, definition("Other", KEY)).refusal().startswith("adapter.yaml:")
