"""Documents in the structure of public standards: drafted from a schema or a sample, and converted.

The schemas and documents are our own. They have the structure of pain.001 (transfer), camt.053 (statement),
a UBL invoice with its directories (invoice) and a FHIR patient in XML and JSON (health).
"""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from pathlib import Path

import pytest
from lxml import etree

from tests.cli.in_process import call
from tests.events.conftest import Bench

STANDARDS = Path(__file__).parent / "standards"
XML = {
    "transfer": ("transfer.xsd", "transfer.xml", "Document"),
    "statement": ("statement.xsd", "statement.xml", "Document"),
    "invoice": ("invoice/main/Bill.xsd", "invoice/bill.xml", "Bill"),
    "health": ("health/person.xsd", "health/person.xml", "Person"),
}


def deployment(directory: Path, mime_type: str, options: str) -> Path:
    """Makes a deployment with the schemas, and returns its directory."""
    shutil.copytree(STANDARDS, directory / "schemas")
    Bench(directory, directory / "data").deploy(
        subscriptions=[{"object": "*", "destination": "queue://out"}],
        objects=f"datahandler_metaobject: MO_Formats\nhandlers:\n  {mime_type}: {{{options}}}\n",
        ConfigurationMetaObject=None,
        DataHandlerMimeType=mime_type,
        DataHandlerConfigMO="MO_Formats",
    )
    return directory


def output(directory: Path, *arguments: str, data: str = "") -> str:
    """Runs a command that succeeds, and returns what it prints."""
    done = call(directory, *arguments, data=data)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def draft(directory: Path, name: str, sample: str) -> None:
    """Drafts a business object from a file of the schemas, from which nothing is left out."""
    drafted = output(directory, "new", "businessobject", name, "--from-sample", f"schemas/{sample}", "--json")
    assert json.loads(drafted)["left_out"] == []
    output(directory, "check")


def canonical(text: bytes, *, exclusive: bool = False) -> bytes:
    """Returns canonical XML, or exclusive canonical XML, without the white space between elements."""
    root = etree.fromstring(text, etree.XMLParser(remove_blank_text=True))
    return etree.tostring(root, method="c14n", exclusive=exclusive)


@pytest.mark.parametrize(
    ("standard", "renamed"), [*((standard, False) for standard in XML), ("transfer", True), ("invoice", True)]
)
def test_a_document_comes_back_as_it_was_by_the_draft_of_its_schema(
    tmp_path: Path, standard: str, renamed: bool
) -> None:
    schema, body, name = XML[standard]
    name = "Mine" if renamed else name
    place = deployment(tmp_path, "text/xml", f"Validation: true, schema: schemas/{schema}")
    draft(place, name, schema)
    bo = json.loads(output(place, "convert", f"schemas/{body}"))
    assert (bo["BusinessObject"], bo["Verb"]) == (name, "Create")
    back = output(place, "convert", f"schemas/{body}", "--to", "text/xml").encode()
    original = (STANDARDS / body).read_bytes()
    assert canonical(back) == canonical(original)
    through_json = output(place, "convert", f"schemas/{body}", "--to", "application/json")
    again = output(place, "convert", "--from", "application/json", "--to", "text/xml", data=through_json)
    assert canonical(again.encode()) == canonical(original)
    # the schema of the data handler is asked on the way in and on the way out
    broken = original.replace(b"</", b"<strange/></", 1)
    refused = call(place, "convert", data=broken.decode())
    assert (refused.returncode, "the body is not valid" in refused.stderr) == (1, True)


@pytest.mark.parametrize("standard", XML)
def test_a_document_comes_back_as_it_was_by_the_draft_of_itself(tmp_path: Path, standard: str) -> None:
    _, body, name = XML[standard]
    place = deployment(tmp_path, "text/xml", "")
    draft(place, name, body)
    back = output(place, "convert", f"schemas/{body}", "--to", "text/xml").encode()
    exclusive = [canonical(one, exclusive=True) for one in (back, (STANDARDS / body).read_bytes())]
    assert exclusive[0] == exclusive[1]  # a sample does not say where a namespace is declared


def test_a_schema_outside_of_the_deployment_may_have_its_files_beside_its_directory(tmp_path: Path) -> None:
    shutil.copytree(STANDARDS / "invoice", tmp_path / "standard/invoice")
    (tmp_path / "mine").mkdir()
    sample = ("--from-sample", "../standard/invoice/main/Bill.xsd")
    draft_again = ("new", "businessobject", "Bill", "--force", *sample)
    output(tmp_path / "mine", *draft_again)
    for directory, status in (("../standard/invoice/main", 2), ("../standard", 0), ("missing", 2)):
        done = call(tmp_path / "mine", *draft_again, "--schema-directory", directory)
        assert done.returncode == status, done.stderr
    shutil.move(tmp_path / "standard/invoice/common", tmp_path / "common")
    main = tmp_path / "standard/invoice/main/Bill.xsd"
    main.write_text(main.read_text().replace("../common", "../../../common"))
    refusal = call(tmp_path / "mine", *draft_again).refusal()
    assert "'../../../common/Aggregates.xsd' is not in the directory of the schemas" in refusal


@pytest.mark.parametrize("sample", ["health/health.schema.json", "health/person.json"])
def test_a_json_document_comes_back_as_it_was_by_a_draft(tmp_path: Path, sample: str) -> None:
    is_schema = "schema" in sample
    schema = f"schema: schemas/{sample}, " if is_schema else ""
    place = deployment(tmp_path, "application/json", f"{schema}write_type: false")
    draft(place, "Person", sample)
    convert = ("convert", "--object", "Person")
    back = output(place, *convert, "schemas/health/person.json", "--to", "application/json")
    original = (STANDARDS / "health/person.json").read_text()
    assert json.loads(back, parse_float=Decimal) == json.loads(original, parse_float=Decimal)
    refused = call(place, *convert, data=original.replace('"active": true', '"active": 1'))
    assert (refused.returncode, "breaks the schema" in refused.stderr) == (1, is_schema)
