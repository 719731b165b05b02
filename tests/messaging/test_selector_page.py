"""The reference page of selectors says what selectors do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from connector.errors import SelectorError
from connector.messaging.message import Message, PropertyValue
from connector.messaging.selector import compile_selector
from connector.messaging.selectors.identifiers import HEADERS, KEYWORDS
from connector.messaging.selectors.syntax import MAX_NESTING
from tests.tables import rows

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/selectors.md").read_text("utf-8")

PROPERTIES: dict[str, PropertyValue] = {
    "region": "EU",
    "quantity": 12,
    "price": 2.5,
    "code": "10%_x",
    "number": "5",
    "urgent": True,
}
"""Those of the message that the page shows."""


def block(name: str) -> list[str]:
    found = re.search(rf"^```text {name}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found.group(1).splitlines()


@rows("line", block("examples"))
def test_an_example_has_the_truth_value_that_stands_beside_it(line: str) -> None:
    message = Message(type="ORDER", priority=7)
    for name, value in PROPERTIES.items():
        message.set_property(name, value)
    text, expected = line.rsplit(maxsplit=1)
    yes = compile_selector(text).matches(message)
    no = compile_selector(f"NOT ({text})").matches(message)
    assert (yes, no) == {"true": (True, False), "false": (False, True), "unknown": (False, False)}[expected]


@rows("text, said", list(zip(block("mistakes")[::2], block("mistakes")[1::2], strict=True)))
def test_a_mistake_gives_the_error_that_stands_below_it(text: str, said: str) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_selector(text)
    assert str(caught.value) == said.strip()


def test_every_header_that_a_selector_sees_is_named() -> None:
    table = PAGE.partition("| identifier | value |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(JMS\w+)`", table)) == set(HEADERS)


def test_every_keyword_is_named() -> None:
    line = re.search(r"^\| keyword \|.*`([A-Z ]+)`", PAGE, re.MULTILINE)
    assert line is not None
    assert set(line.group(1).split()) == KEYWORDS


def test_the_limit_of_nesting_is_the_one_there_is() -> None:
    assert f"up to {MAX_NESTING} deep" in PAGE
