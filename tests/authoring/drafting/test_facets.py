"""Drafts take the facets of schemas."""

from __future__ import annotations

import pytest

from connector.authoring.drafting.facets import facet_entries
from connector.authoring.drafting.json_schema import _facets, _whole


def test_facets_of_json_schema_become_those_of_the_attribute() -> None:
    region = {"enum": ["EU", "a, b"], "minLength": 2}
    assert _facets("String", region) == {"values": '[EU, "a, b"]'}
    assert _facets("String", {"pattern": r"^O-\d+$", "minLength": 3}) == {
        "pattern": "O-[0-9]+",
        "min_length": "3",
    }
    assert _facets("Decimal", {"minimum": 0, "maximum": 9.5}) == {"minimum": "0", "maximum": "9.5"}
    assert _facets("Decimal", {"minimum": 0, "exclusiveMinimum": True}) == {}
    assert _facets("Boolean", {"enum": [True]}) == {}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("^a$", "a"), ("a", "(?s:.*)a(?s:.*)"), ("^(a|b)$", "(a|b)"), ("^a|b$", ""), (r"\bx", ""), ("^é$", "")],
)
def test_a_pattern_that_finds_a_part_becomes_one_of_the_whole(pattern: str, expected: str) -> None:
    assert _whole(pattern) == expected


def test_what_no_attribute_can_have_is_left_out() -> None:
    assert facet_entries("Double", {"minimum": "INF"}, ["1", "NaN"]) == {}
    assert facet_entries("String", {}, pattern="(?=a)") == {}


def test_a_date_of_a_schema_has_bounds() -> None:
    bounds = {"minimum": "2024-05-31", "maximum": "--05"}
    assert facet_entries("Date", bounds, ["2024-05-31"]) == {
        "values": "[2024-05-31]",
        "minimum": "2024-05-31",
    }
