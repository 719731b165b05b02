"""Names of destinations become directories, so each is validated wherever it comes from."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.errors import DestinationError
from connector.messaging.destination import Destination, parse_destination
from tests.tables import rows


@rows(
    "text, kind, name",
    [
        ("queue://orders", "queue", "orders"),
        ("topic://prices", "topic", "prices"),
        ("orders", "queue", "orders"),
        ("queue://a b.c-d", "queue", "a b.c-d"),
        ("queue://Zürich", "queue", "Zürich"),
        ("queue://ID:a:1", "queue", "ID:a:1"),
    ],
)
def test_kind_and_name_are_read_and_a_bare_name_is_a_queue(text: str, kind: str, name: str) -> None:
    assert parse_destination(text) == Destination(kind, name)


REFUSED = {
    "empty": ("", "queue://", "queue://~EXPIRED"),
    "no '/'": ("queue://../x",),
    r"no '\.\.'": ("queue://a..b", "queue://..", "topic://a..b"),
    "begin with a dot": ("queue://.hidden",),
    "does not end with a dot": ("topic://prices.",),
    "no ": ("queue://a\\b",),
    "no ';'": ("queue://a;b",),
    "white space": ("queue:// a", "queue://a\n"),
    "control character": ("queue://a\x07b",),
    "reserved": ("queue://topic-root", "queue://DropboxMQ"),
    "PROCESSING": ("queue://orders~DONE",),
    "only queues": ("topic://prices~EXPIRED",),
    "longer than 200 bytes": ("queue://" + "x" * 201,),
    "not valid Unicode": ("queue://\ud800",),
    "neither 'queue' nor 'topic'": ("mail://x",),
    "a bare name has no ':', .* did you mean 'queue://orders'": ("queue:orders",),
    "did you mean 'topic://prices'": ("Topic:/prices",),
    "a bare name has no ':', the form is queue://NAME$": ("a:b",),
}


@rows("text, reason", [(text, reason) for reason, names in REFUSED.items() for text in names])
def test_what_is_no_destination_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(DestinationError, match=reason):
        parse_destination(text)


@given(st.text())
def test_an_accepted_name_is_one_directory_below_the_root_and_reads_back(name: str) -> None:
    try:
        destination = parse_destination(f"queue://{name}")
    except DestinationError:
        return
    assert os.path.normpath(f"/base/{destination.name}") == f"/base/{destination.name}"
    assert os.path.dirname(f"/base/{destination.name}") == "/base"
    assert parse_destination(str(destination)) == destination


@given(st.lists(st.text("ab.~/ ", max_size=5), min_size=1).map(".".join))
def test_each_part_of_an_accepted_topic_is_one_directory(name: str) -> None:
    try:
        topic = parse_destination(f"topic://{name}")
    except DestinationError:
        return
    path = os.path.join("/base", *topic.name.split("."))
    assert os.path.normpath(path) == path
    assert path.count("/") == name.count(".") + 2


def test_a_virtual_destination_shows_a_part_of_its_queue() -> None:
    expired = parse_destination("orders~EXPIRED")
    assert (expired.view, str(expired)) == ("EXPIRED", "queue://orders~EXPIRED")
    assert expired.base == parse_destination("orders")
    plain = parse_destination("topic://prices")
    assert (plain.view, plain.base) == ("", plain)
