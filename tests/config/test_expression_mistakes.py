"""Mistakes in expressions, each with its place: `when` of a subscription, and `jmespath` of a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.config.mistakes import A, P, R
from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample


def put(deployment: Sample, when: str, *, name: str = "Customer") -> None:
    deployment.replace(A, "  - object: Customer\n", f'  - object: "{name}"\n')
    deployment.replace(A, P, f'{P}\n    when: "{when}"')


@rows(
    "when, words",
    [
        ("Limt > `5`", "Customer has no attribute 'Limt', expected one of CustomerId, Name"),
        ("Limt > `5`", "did you mean 'Limit'?"),
        ("Address[?Ciy == 'x']", "did you mean 'City'?"),
        ("Meta.JMSProperties.Regio == 'x'", "did you mean 'Region'?"),
        ("Limit > '5'", "Limit, which is a Double, beside '5', which is a text"),
        ("uper(Name) == 'X'", "no JMESPath expression: there is no function uper(), did you mean 'upper'?"),
        ("Name ==", "no JMESPath expression"),
        ("lookup('none.csv', Name) == 'x'", "none.csv: No such file or directory, expected a CSV file"),
        ("lookup(Name, Name) == 'x'", "lookup() needs the name of a CSV file in quotes"),
    ],
)
def test_a_mistake_in_when_has_its_place(deployment: Sample, when: str, words: str) -> None:
    put(deployment, when)
    problem = deployment.problem()
    assert (problem.path, problem.line) == ("subscriptions[0].when", 23)
    assert words in str(problem)


@rows(
    "pattern, when, problems",
    [
        ("*", "Limit > `5`", 0),
        ("Cust*", "Address[?City == 'x']", 0),
        ("*", "Limt > `5`", 1),
        ("Customer", "Meta.JMSProperties.Region == 'x' && length(Address) > `1`", 0),
    ],
)
def test_an_attribute_of_one_of_the_objects_is_no_mistake(
    deployment: Sample, pattern: str, when: str, problems: int
) -> None:
    put(deployment, when, name=pattern)
    assert len([one for one in deployment.check() if not one.warning]) == problems


def test_a_rule_whose_file_is_missing_has_its_place(
    deployment: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = "jmespath: \"lookup('none.csv', a) == 'x'\""
    deployment.write(R, f"static_metaobject: MO_Config\nrules:\n  Order_Create: {{{rule}}}\n")
    problem = deployment.problem()
    assert (problem.path, problem.found) == (
        "MO_Config.rules.Order_Create.jmespath",
        "none.csv: No such file or directory",
    )
    deployment.write("metaobjects/none.csv", "a,b\n")
    assert deployment.check() == []
