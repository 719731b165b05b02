"""The decoder that data handlers may use: what it decodes, and what it leaves to them."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

from connector.businessobjects.instance import BusinessObject
from connector.formats.json_decoder import MAX_LEVELS, JsonDecoder
from connector.formats.json_plan import JsonPlans
from connector.testing.datahandlers import sample_definitions
from tests.datahandlers.definitions import define, known
from tests.tables import rows

DEFINITIONS = sample_definitions()


def decoder(*keys: str) -> JsonDecoder:
    return JsonDecoder(JsonPlans(DEFINITIONS), keys)


@rows(
    "body, values",
    [
        (b"{}", {}),
        (b' {"Name" : "a"}\n', {"Name": "a"}),
        (
            b'{"N\\u0061me": "caf\\u00e9", "Notes": "caf\xc3\xa9"}',
            {"Name": "caf\u00e9", "Notes": "caf\u00e9"},
        ),
        (b'{"Name": null, "Home": null, "Address": null}', {}),
        (b'{"Active": "", "Rating": "", "Discount": "", "Limit": "", "Since": "", "Name": ""}', None),
        (b'{"Active": true, "Rating": -2147483648, "Discount": 1, "Limit": 1e300}', None),
        (b'{"Since": "2024-02-29T23:59:60Z", "Notes": "a \\"{: b"}', None),
        (b'{"Home": {"City": "a", "Before": {"City": null}}, "Address": []}', None),
        (b'{"Address": [{"City": "a"}, {"AddressID": 1, "Before": {}}]}', None),
    ],
)
def test_it_decodes_what_is_right(body: bytes, values: dict[str, Any] | None) -> None:
    decoded = decoder().decode("Customer", body)
    assert decoded is not None
    bo, said = decoded
    if values is None:
        values = json.loads(body)
    assert bo == BusinessObject(DEFINITIONS, "Customer", values=values)
    assert said == {}


@rows(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"{} {}",
        b'\xef\xbb\xbf{"Name": "a"}',
        '{"Name": "a"}'.encode("utf-16"),
        b'{"Name": "\xff"}',
        b'{"Name": "\\ud800"}',
        b'{"Nmae": "a"}',
        b'{"Meta": {}}',
        b'{"Name": "a", "Name": "a"}',
        b'{"Name": "a", "N\\u0061me": ":"}',
        b'{"Home": {"City": "a", "x": 1}}',
        b'{"Name": 1}',
        b'{"CustomerId": "123456789012345678901"}',
        b'{"Rating": 1.0}',
        b'{"Rating": 2147483648}',
        b'{"Discount": 3.5e38}',
        b'{"Limit": NaN}',
        b'{"Limit": 1e999}',
        b'{"Limit": "1"}',
        b'{"Since": "2023-02-29"}',
        b'{"Home": [{}]}',
        b'{"Address": {}}',
        b'{"Address": [null]}',
        b'{"Verb": 1}',
        b'{"Home":' + b'{"Before":' * MAX_LEVELS + b"{}" + b"}" * MAX_LEVELS + b"}",
        b'{"Home":' + b'{"Before":' * 100_000,
    ],
)
def test_it_leaves_what_is_wrong_or_odd_to_its_caller(body: bytes) -> None:
    assert decoder("Verb").decode("Customer", body) is None


def test_what_stands_beside_the_attributes_of_the_outermost_object_comes_beside_it() -> None:
    decoded = decoder("Verb", "Trace").decode("Customer", b'{"Trace": null, "Verb": "Update", "Home": {}}')
    assert decoded is not None
    bo, said = decoded
    assert said == {"Verb": "Update", "Trace": None}
    assert (bo.verb, bo.as_dict()) == (None, {"Home": {}})
    assert decoder("Verb").decode("Customer", b'{"Home": {"Verb": "Update"}}') is None


def test_an_object_with_an_attribute_of_that_name_is_left_to_the_caller() -> None:
    assert decoder("Name").decode("Customer", b'{"Name": "a"}') is None
    assert decoder("Name").decode("Note", b'{"Name": "a"}') is not None


def test_an_object_that_is_not_defined_is_left_to_the_caller() -> None:
    half = known(define("A", b="Missing"))
    assert decoder().decode("Nobody", b"{}") is None
    assert JsonDecoder(JsonPlans(half)).decode("A", b"{}") is None


def test_definitions_may_be_nested_deeply() -> None:
    count = 5000
    chain = [define(f"N{n}", c=f"N{n + 1}", x="String") for n in range(count)]
    deep = JsonDecoder(JsonPlans(known(*chain, define(f"N{count}", x="String"))))
    for name in ("N0", f"N{count - 5}"):
        decoded = deep.decode(name, b'{"c": {"x": "a"}}')
        if decoded is not None:
            assert decoded[0].as_dict() == {"c": {"x": "a"}}
    assert decoded is not None


def test_what_is_decoded_can_be_changed_and_pickled() -> None:
    one = decoder()
    first, _ = one.decode("Customer", b'{"Address": [{"City": "a"}]}')  # type: ignore[misc]
    first["Address"][0]["City"] = "b"
    first.add("Address")
    assert pickle.loads(pickle.dumps(first)) == copy.deepcopy(first) == first
    second, _ = one.decode("Customer", b'{"Address": [{"City": "a"}]}')  # type: ignore[misc]
    assert second.as_dict() == {"Address": [{"City": "a"}]}
