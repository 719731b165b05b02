"""Handlers that only read or only write pass the suite, on definitions of one's own."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.errors import ConfigurationError, MalformedData, UnknownBusinessObject
from connector.formats.datahandler import Hint
from connector.sinks.contract import write_body
from connector.testing.datahandlers import DataHandlerSuite, Sample, definitions_of

OBJECTS = """\
business_object: Stock
verbs: [Create]
attributes:
  Sku: {type: String, key: true}
---
business_object: Label
verbs: [Create]
attributes:
  Text: {type: String, key: true}
"""


class Reads:
    """Reads the number of an article, and writes nothing."""

    mime_types = ("text/x-reads",)
    options = ()

    def __init__(self, options: Any, definitions: Definitions) -> None:
        self._definitions = definitions

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        if hint is None:
            raise UnknownBusinessObject("no rule names the object")
        text = body if isinstance(body, str) else body.decode("latin-1")
        if not text.startswith("SKU "):
            raise MalformedData("byte 0: expected SKU")
        bo = BusinessObject(self._definitions, hint.object, hint.verb)
        bo.set_text("Sku", text[4:])
        return bo

    def to_body(self, bo: BusinessObject) -> bytes:
        raise MalformedData("a list of stock is only read")


class Writes:
    """Writes a label, and reads nothing."""

    mime_types = ("text/x-writes",)
    options = ()

    def __init__(self, options: Any, definitions: Definitions) -> None:
        """Needs nothing."""

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        raise MalformedData("a label is only written")

    def to_body(self, bo: BusinessObject) -> str:
        return f"[{bo['Text']}]"


@pytest.fixture
def definitions(tmp_path: Path) -> Definitions:
    (tmp_path / "objects.yaml").write_text(OBJECTS)
    return definitions_of(tmp_path / "objects.yaml")


class TestReads(DataHandlerSuite):
    writes = False

    @pytest.fixture
    def handler(self, definitions: Definitions) -> Any:
        return Reads({}, definitions)

    @pytest.fixture
    def samples(self) -> list[Sample]:
        return [Sample(b"SKU 1", Hint("Stock", "Create"), {"Sku": "1"})]

    @pytest.fixture
    def malformed(self) -> list[bytes]:
        return [b"", b"1"]


class TestWrites(DataHandlerSuite):
    reads = False

    @pytest.fixture
    def handler(self, definitions: Definitions) -> Any:
        return Writes({}, definitions)

    @pytest.fixture
    def objects(self, definitions: Definitions) -> list[BusinessObject]:
        return [BusinessObject(definitions, "Label", "Create", {"Text": "a"})]


@pytest.mark.parametrize(
    ("suite", "lacks", "has"), [(TestReads, "objects", "samples"), (TestWrites, "samples", "objects")]
)
def test_the_suite_has_only_the_tests_for_what_the_handler_does(
    suite: type[DataHandlerSuite], lacks: str, has: str
) -> None:
    tests = [test for name in dir(suite) if name.startswith("test_") and (test := getattr(suite, name))]
    needed = {name for test in tests for name in inspect.signature(test).parameters}
    assert lacks not in needed
    assert has in needed
    assert "test_what_was_written_reads_back_as_it_was" not in {test.__name__ for test in tests}


def test_definitions_with_a_mistake_are_told_with_their_place(tmp_path: Path) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(OBJECTS.replace("type: String, key", "type: Text, key", 1))
    with pytest.raises(ConfigurationError, match=r"objects\.yaml:4:\d+: Stock\.attributes\.Sku"):
        definitions_of(tmp_path)


def test_what_is_no_body_is_told_in_words_of_the_contract(definitions: Definitions) -> None:
    class Seven(Writes):
        def to_body(self, bo: BusinessObject) -> Any:
            return 7

    label = BusinessObject(definitions, "Label", "Create", {"Text": "a"})
    said = "the data handler Seven returned int from to_body, expected bytes or str"
    with pytest.raises(MalformedData, match=said):
        write_body(Seven({}, definitions).to_body, label)
