"""The description of the server: it is true of every call, and of every answer."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CheckFunction
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import negative_data_rejection

from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.facets import Facets
from connector.businessobjects.instance import BusinessObject, finish
from connector.errors import MalformedData
from connector.http import tokens
from connector.http.openapi import describe_requests
from connector.http.schemas import object_schemas, sample
from connector.http.server import Server
from connector.requests.result import RequestResult
from connector.status import ReturnCode
from connector.text.json_text import to_json
from tests.http.world import DEFINITIONS, TOKEN, Script, client, serving

DOCUMENT = json.loads(to_json(describe_requests(DEFINITIONS, True, 300_000)))
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = [found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok)]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """A server with a token, whose answers take turns."""
    script = Script()
    codes = [ReturnCode.VALCHANGE, ReturnCode.SUCCEED, ReturnCode.MULTIPLE_HITS]

    def answer(bo: BusinessObject) -> RequestResult:
        return RequestResult(codes[len(script.calls) % len(codes)], bo)

    script.answer = answer
    with pytest.MonkeyPatch.context() as patch, serving(script, tokens=(TOKEN,)) as server:
        patch.setattr(tokens, "_FREE", 1 << 30)  # each call is made with a wrong token, too
        yield server


def check_call(server: Server, case: schemathesis.Case[Any]) -> None:
    """Makes one call, and every check of Schemathesis on its answer.

    That a key belongs to one call is nothing that a schema can say: one that fits is made the only one.
    """
    assert case.meta is not None
    if case.meta.generation.mode.is_positive and "Idempotency-Key" in (case.headers or {}):
        case.headers["Idempotency-Key"] += f"-{uuid.uuid4()}"
        case.headers["Idempotency-Key"] = case.headers["Idempotency-Key"][-255:]
    excluded: list[CheckFunction] = []
    body = case.meta.components.get(ParameterLocation.BODY)
    if body is None or body.mode.is_positive:
        excluded.append(negative_data_rejection)  # a parameter that is an empty list is not even sent
    case.call_and_validate(
        base_url=server.url, headers={"Authorization": f"Bearer {TOKEN}"}, excluded_checks=excluded
    )


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=str)
def test_what_fits_the_description_is_taken_and_what_does_not_is_refused(
    guarded: Server, operation: Any, mode: GenerationMode
) -> None:
    @effort(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
    @given(operation.as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case[Any]) -> None:
        check_call(guarded, case)

    check()


def test_the_document_is_openapi_and_has_every_verb_of_every_business_object_and_nothing_else() -> None:
    SCHEMA.validate()
    assert DOCUMENT["openapi"] == "3.1.0"
    paths = ("Customer/Create", "Customer/Retrieve", "Order/Create")
    assert list(DOCUMENT["paths"]) == [f"/requests/{path}" for path in paths]
    expected = "Customer Address CustomerMeta Order Line Customer.answer Order.answer http.Problem"
    assert list(DOCUMENT["components"]["schemas"]) == expected.split()


def test_an_attribute_is_described_as_it_is_defined() -> None:
    customer = object_schemas(DEFINITIONS)["Customer"]["properties"]
    identity = {"type": ["string", "null"], "maxLength": 20, "description": "Key.", "minLength": 1}
    assert customer["CustomerId"] == identity
    assert customer["Limit"]["default"] == 0.0
    assert "never part of a message's body" in customer["Meta"]["description"]


def test_a_default_satisfies_what_is_required_where_defaults_are_used() -> None:
    order = object_schemas(DEFINITIONS, use_defaults=True)["Order"]
    assert order["required"] == ["OrderId", "Express", "Weight", "Line", "To"]
    assert order["properties"]["Currency"]["type"] == ["string", "null"]


def test_a_request_needs_nothing_of_its_meta_object_whose_numbers_are_bounded() -> None:
    assert DEFINITIONS["CustomerMeta"].attributes["CorrelationID"].is_required
    assert "required" not in object_schemas(DEFINITIONS)["CustomerMeta"]
    properties = object_schemas(DEFINITIONS, 60_000)["CustomerMeta"]["properties"]
    for name, bounds in {"Priority": (0, 9), "ResponseTimeout": (-(2**31), 60_000)}.items():
        number = properties[name]["anyOf"][0]
        assert (number["minimum"], number["maximum"]) == bounds


@pytest.mark.parametrize("name", ["Customer", "Order"])
def test_the_example_fits(name: str) -> None:
    made = BusinessObject(DEFINITIONS, name, "Create", sample(DEFINITIONS, name))
    finish(made)
    assert set(made) == set(DEFINITIONS[name].attributes) - {"Code", "Meta", "Parent", "ObjectEventId"}


DATES = """
    2024-05-31 20240531 2024-02-29 2000-02-29 2023-02-29 1900-02-29 2024-04-31 0000-01-01 2024-0531
    2024-05-31T08:00:00Z 2024-05-31T24:00 2024-05-31T24:01 2024-05-31T23:59:60,5+02:00
"""


@given(
    st.sampled_from(["", *DATES.split()])
    | st.dates().map(str)
    | st.datetimes().map(lambda it: it.isoformat())
)
def test_the_pattern_of_dates_takes_what_the_type_takes(text: str) -> None:
    pattern = object_schemas(DEFINITIONS)["Customer"]["properties"]["Since"]["pattern"]
    try:
        BusinessObject(DEFINITIONS, "Customer", "Create", {"Since": text})
    except MalformedData:
        assert re.search(pattern, text) is None
    else:
        assert re.search(pattern, text) is not None


def test_it_says_which_answers_there_are_and_who_may_call() -> None:
    operation = DOCUMENT["paths"]["/requests/Customer/Create"]["post"]
    assert operation["security"] == [{"token": []}]
    expected = "200 400 401 403 404 405 408 409 413 415 421 422 429 500 502 503 504"
    assert list(operation["responses"]) == expected.split()
    without = describe_requests(DEFINITIONS, False)
    assert "securitySchemes" not in without["components"]
    assert "401" not in without["paths"]["/requests/Customer/Create"]["post"]["responses"]


def test_the_description_needs_no_token(guarded: Server) -> None:
    with client(guarded) as http:
        answer = http.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == DOCUMENT


def test_facets_are_those_of_json_schema_and_what_it_cannot_say_is_told() -> None:
    cells = {
        "Region": Attribute("Region", "String", facets=Facets(values=("EU", "US")), may_be_blank=True),
        "Name": Attribute("Name", "String", facets=Facets(min_length=9, pattern="[a-z]+")),
        "Word": Attribute("Word", "String", facets=Facets(pattern=r"\p{Lu}.*")),
        "Grade": Attribute("Grade", "Integer", is_required=True, facets=Facets(minimum=1, maximum=5)),
        "Total": Attribute("Total", "Decimal", facets=Facets(values=(Decimal(3), Decimal(4)))),
        "Since": Attribute("Since", "Date", facets=Facets(minimum="2024-06-01")),
    }
    of = Definitions({"Thing": Definition("Thing", attributes=cells, verbs={"Create": Verb("Create")})})
    found = object_schemas(of)["Thing"]["properties"]
    assert found["Region"] == {"type": ["string", "null"], "enum": ["EU", "US", "", None]}
    assert (found["Name"]["minLength"], found["Name"]["pattern"]) == (9, "^(?:[a-z]+)$")
    assert "pattern" not in found["Word"]
    assert found["Word"]["description"] == r"The whole text is of the pattern \p{Lu}.*"
    assert found["Grade"]["anyOf"][0] == {"type": "integer", "minimum": 1, "maximum": 5}
    assert found["Total"]["anyOf"][0] == {"type": "number", "enum": [3, 4]}
    assert found["Total"]["description"].endswith("is one, too, within the same bounds.")
    assert found["Since"]["description"].startswith("At least 2024-06-01. Date or")
    assert sample(of, "Thing") == {"Region": "EU", "Grade": 1, "Total": Decimal(3), "Since": "2024-06-01"}


def test_a_ciphertext_is_a_password_whose_default_nobody_sees() -> None:
    pin = Attribute("Pin", "Ciphertext", is_required=True, default="hush")
    card = Definition("Card", attributes={"Pin": pin}, verbs={"Use": Verb("Use")})
    document = str(describe_requests(Definitions({"Card": card}), True, 300_000))
    assert "'format': 'password'" in document
    assert "hush" not in document
