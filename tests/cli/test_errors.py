"""``connector errors``: the groups of the messages in an error queue."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from connector.messaging.destination import parse_destination
from connector.messaging.message import Message, PropertyValue
from connector.operate.errors import error_groups, group_of
from connector.stores.dropbox.provider import DropboxProvider
from tests.cli.in_process import Commands

ERROR = "queue://error"


def copy(reason: str, properties: Mapping[str, PropertyValue] = {}, day: int = 1) -> Message:
    """A copy as an adapter makes it, with more properties."""
    message = Message(b"body")
    given = {"origin_destination": "queue://orders", "outcome": "failed", "reason": reason, **properties}
    for name, value in {**given, "time": f"2026-11-{day:02}T10:00:00Z"}.items():
        message.set_property(f"connector_{name}", value)
    return message


REFUSED: dict[str, PropertyValue] = {
    "kind": "refused",
    "object": "Order",
    "verb": "Create",
    "subscription": "store",
    "place": "processes.py:7",
}


def fill(call: Commands, *messages: Message, queue: str = ERROR) -> list[str]:
    with contextlib.closing(DropboxProvider(call.directory / "data", create=True).connect()) as connection:
        return connection.send(parse_destination(queue), messages)


def groups(call: Commands) -> list[dict[str, Any]]:
    return call("errors", "--json").documents


def test_alike_reasons_are_one_group(call: Commands) -> None:
    ids = fill(
        call,
        copy("store: no account for 'S-1'", REFUSED, 3),
        copy("store: no account for 'S-2'", {**REFUSED, "origin_destination": "queue://more"}, 2),
        copy("Order: Total: found 'x', expected a number", {"kind": "malformed", "object": "Order"}),
    )
    many, one = groups(call)
    assert len(many.pop("group")) == 10
    assert many == {
        "kind": "refused",
        "text": "store: no account for '...'",
        "place": "processes.py:7",
        "subscription": "store",
        "objects": ["Order"],
        "origins": ["queue://more", "queue://orders"],
        "count": 2,
        "first": "2026-11-02T10:00:00Z",
        "last": "2026-11-03T10:00:00Z",
        "sample": ids[0],
    }
    assert (one["kind"], one["count"], one["place"], one["sample"]) == ("malformed", 1, None, ids[2])


def test_one_text_of_two_kinds_places_or_subscriptions_is_two_groups() -> None:
    for name in ("kind", "place", "subscription"):
        assert group_of(copy("text", REFUSED)) != group_of(copy("text", {**REFUSED, name: "other"})), name
    assert group_of(copy("text 1", REFUSED)) == group_of(copy("text 2", REFUSED))


def test_copies_without_a_kind_are_grouped_by_their_text(call: Commands) -> None:
    strange = Message(b"")
    for name in ("connector_kind", "connector_time", "connector_reason"):
        strange.set_property(name, 7)
    earlier = (copy("failed at 1"), copy("failed at 2"), copy("no process"))
    fill(call, *earlier, Message(b""), strange)
    found = {one["text"]: (one["kind"], one["count"], one["first"]) for one in groups(call)}
    time = "2026-11-01T10:00:00Z"
    assert found == {"failed at #": (None, 2, time), "no process": (None, 1, time), "": (None, 2, None)}


def test_a_queue_is_named_and_the_table_says_the_same(call: Commands) -> None:
    fill(call, copy("wrong \x1b[1m", REFUSED), queue="queue://other")
    done = call("errors", "other")
    titles, line = done.stdout.splitlines()
    assert titles.split() == ["group", "count", "kind", "last", "objects", "reason"]
    assert line.split()[1:5] == ["1", "refused", "2026-11-01T10:00:00Z", "Order"]
    assert line.endswith(r"wrong \x1b[#")
    assert done.stderr == "1 message in queue://other\n"


def test_an_error_queue_that_is_not_there_yet_is_empty_and_another_queue_is_a_mistake(call: Commands) -> None:
    fill(call, Message(b""), queue="queue://orders")
    assert groups(call) == []
    assert "no-such-queue" in call("errors", "no-such-queue").failure()
    assert "topic://prices" in call("errors", "topic://prices").refusal()


def test_a_message_that_cannot_be_read_is_named(call: Commands) -> None:
    fill(call, copy("wrong", REFUSED))
    (file,) = (call.directory / "data/error/incoming/target").iterdir()
    file.rename(f"{file}&badI=xyz")
    done = call("errors", "--json")
    assert (done.returncode, done.document["count"]) == (1, 1)
    assert "cannot be read" in done.stderr


def test_a_sender_decides_neither_the_number_of_groups_nor_their_size() -> None:
    def hostile() -> Iterator[Message]:
        for number in range(10_050):
            letters = "".join(chr(97 + int(digit)) for digit in str(number))
            yield copy(f"{letters}{'x' * 600}", {"object": letters * 200, "kind": "refused"})
            yield copy("same", {"object": letters, "origin_destination": letters})

    found = error_groups(hostile())
    assert len(found) == 10_001
    assert sum(one.count for one in found) == 20_100
    by_text = {one.text: one for one in found}
    assert by_text["further reasons"].count == 51
    same = by_text["same"]
    assert (same.count, len(same.objects), len(same.origins)) == (10_050, 20, 20)
    assert max(len(one.text) for one in found) == 500
    assert max(len(name) for one in found for name in one.objects) == 200
