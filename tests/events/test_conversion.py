"""From a message to a business object: what a process sees, and what becomes of a message that is bad."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from connector.errors import PipelineError
from tests.events.conftest import ORDER, Bench, handler
from tests.tables import Table, rows

CUSTOMER = '{"CustomerId": "7", "Age": 40, "Address": [{"City": "Ulm"}]}'
NAMED = '{"BusinessObject": "Order", "Verb": "Cancel", "Id": "Käse"}'
UPDATE = '{"BusinessObject": "Customer", "Verb": "Update", "CustomerId": "7"}'


def test_rule_or_body_name_object_and_verb(bench: Bench) -> None:
    messages = {
        "one rule, by destination": ("customers", "T", CUSTOMER, ("Customer", "Create")),
        "one rule, by format": ("orders", "T....NOTE", "hello", ("Note", "Create")),
        "no rule: the body names both": ("orders", "T", NAMED, ("Order", "Cancel")),
        "bytes, which the handler decodes": ("orders", "B", NAMED, ("Order", "Cancel")),
        "no verb: DefaultVerb": ("orders", "T", '{"BusinessObject": "Order"}', ("Order", "Create")),
        "rule and body name a verb: the rule's": ("customers", "T", UPDATE, ("Customer", "Create")),
        "two rules match: the body decides": ("customers", "T....NOTE", NAMED, ("Order", "Cancel")),
        "a class kept for JSON is read as that": ("orders", "P", ORDER, ("Order", "Create")),
        "another one": ("orders", "S", ORDER, ("Order", "Create")),
        "no body": ("orders", "M....NOTE", "", ("Note", "Create")),
    }
    deployment = bench.deploy()
    for number, (queue, end, body, _) in enumerate(messages.values()):
        deployment.drop(queue, body, f"4.{number}.{end}")
    assert set(deployment.outcomes().values()) == {("published", "")}
    found = {call["id"]: (call["object"], call["verb"]) for call in bench.calls()}
    assert found == {f"ID:{number}": row[-1] for number, row in enumerate(messages.values())}
    assert [call["values"]["Id"] for call in bench.calls() if call["verb"] == "Cancel"] == ["Käse"] * 3


def test_event_and_object_tell_of_their_message(bench: Bench) -> None:
    deployment = bench.deploy()
    headers = "regionS=south&otherI=3&JMSXDeliveryCountI=3"
    deployment.drop("customers", CUSTOMER, f"7.42.T..corr%2E1..CUST.{headers}")
    deployment.drop("orders", NAMED, "a bare name")
    deployment.drain()
    customer, order = bench.calls()
    assert [customer[name] for name in ("id", "from", "count")] == ["ID:42", "queue://customers", 3]
    assert customer["values"]["Meta"] == {
        "MessageID": "ID:42",
        "CorrelationID": "corr.1",
        "Priority": 7,
        "Destination": "queue://customers",
        "DeliveryCount": 3,
        "Redelivered": True,
        "InputFormat": "CUST",
        "InputDestination": "queue://customers",
        "JMSProperties": {"Region": "south"},
    }
    (message,) = deployment.messages("archive")[1:]
    assert [order[name] for name in ("id", "from", "count")] == [message.message_id, "queue://orders", 1]
    assert order["values"]["ObjectEventId"] == message.message_id
    assert message.properties["connector_file_name"] == "a bare name"


def test_another_property_may_hold_the_format(bench: Bench) -> None:
    deployment = bench.deploy(MessageFormatProperty="kind")
    deployment.drop("orders", "hello", "4.1.T.....kindS=NOTE")
    deployment.drop("orders", "hello", "4.2.T....NOTE")
    found = deployment.outcomes()
    assert found["ID:1"] == ("published", "")
    assert found["ID:2"][0] == "failed"  # its type is no format now, and plain text is no JSON


@rows("has_defaults, outcome", [(True, "published"), (False, "failed")])
def test_a_required_attribute_may_take_its_default(bench: Bench, has_defaults: bool, outcome: str) -> None:
    objects = (
        "business_object: Order\nverbs: {Create: }\n"
        "attributes:\n  Id: {type: String, required: true, default: x}\n"
    )
    deployment = bench.deploy(objects=objects, ConfigurationMetaObject=None, UseDefaults=has_defaults)
    deployment.drop("orders", '{"BusinessObject": "Order"}', "4.1.T")
    assert deployment.outcomes()["ID:1"][0] == outcome
    assert [call["values"] for call in bench.calls()] == [{"Id": "x"}] * has_defaults


# -- what is bad ---------------------------------------------------------------------------------------


def test_a_bug_of_a_data_handler_fails_the_one_event(bench: Bench) -> None:
    """What a handler raises: test_conversion_limits.py."""
    reads = """\
if body == b"nothing":
    return None
if body == b"asleep":
    raise NotActive("a handler has no say in this")
bo = BusinessObject(self.definitions, "Order", "Create", {"Id": "1"})
if body == b"verbs":
    bo.verb = ["Create"]
return bo"""
    head = "from connector import NotActive\nfrom connector.businessobjects.instance import BusinessObject"
    deployment = bench.deploy(DataHandlerMimeType="text/x-odd", more={"datahandlers": "./handlers"})
    deployment.write("handlers/odd.py", handler("text/x-odd", head=head, reads=reads))
    bugs = {
        "nothing": "returned NoneType, no BusinessObject",
        "asleep": "NotActive: a handler has no say in this",
        "verbs": "TypeError",
    }
    for body in bugs:
        deployment.drop("orders", body, f"4.{body}.T")
        deployment.drop("orders", "good", f"4.{body}-good.T")
    found = deployment.outcomes()
    with Table() as table:
        for body, words in bugs.items():
            with table.row(body):
                assert found[f"ID:{body}-good"] == ("published", "")
                outcome, reason = found[f"ID:{body}"]
                assert (outcome, words in reason, "Own" in reason) == ("failed", True, True)


NESTED = '{"BusinessObject": "Order", "Id": ' + "[" * 300 + "]" * 300 + "}"
CITIES = '{"CustomerId": "7", "Address": [{"City": "Ulm"}, {"City": 5}]}'
FORGED = '{"CustomerId": "7", "Meta": {"MessageID": "forged"}}'

BAD: dict[str, tuple[str, str, str | bytes, str, str]] = {
    "malformed": ("orders", "T", "{", "failed", "no JSON"),
    "something after the end": ("orders", "T", ORDER + "x", "failed", "no JSON"),
    "empty": ("orders", "T", "", "failed", "empty"),
    "class M has no body": ("orders", "M", "", "failed", "empty"),
    "undecodable": ("orders", "T", b"\xff\xff\x00", "failed", "UTF-8"),
    "deeply nested": ("orders", "T", NESTED, "failed", "200"),
    "very deeply nested": ("orders", "T", "[" * 100_000, "failed", ""),
    "very deep objects": ("orders", "T", '{"a":' * 100_000, "failed", ""),
    "nobody names an object": ("orders", "T", '{"Id": "1"}', "unsubscribed", ""),
    "unknown object": ("orders", "T", '{"BusinessObject": "Ordre"}', "unsubscribed", "Ordre"),
    "unknown verb": ("orders", "T", '{"BusinessObject": "Order", "Verb": "Eat"}', "failed", "Cancel"),
    "unknown attribute": ("orders", "T", '{"BusinessObject": "Order", "Ids": "1"}', "failed", "Ids"),
    "a dynamic meta-object of its own": ("customers", "T", FORGED, "failed", "Meta"),
    "wrong type deep inside": ("customers", "T", CITIES, "failed", "Address[1].City"),
    "required attribute missing": ("customers", "T", '{"Name": "x"}', "failed", "CustomerId"),
    "object message": ("orders", "O", ORDER, "failed", "never deserialised"),
    "expiration is no number": ("orders", "T.soon", ORDER, "failed", "expiration"),
    "property without a value": ("orders", "T.....nS", ORDER, "failed", "property"),
    "property of the wrong type": ("orders", "T.....nI=many", ORDER, "failed", "many"),
    "property of no type": ("orders", "T.....nZ=1", ORDER, "failed", "nZ"),
    "sidecar missing": ("orders", "T.....JMS_dropboxmq_hdrS=gone", ORDER, "failed", "headers of the message"),
    "property that cannot be": ("customers", "T.....regionI=5&regionB=1", CUSTOMER, "failed", "region"),
}
"""By what is wrong: queue, end of the file's name, body, outcome, and words of the reason."""


def test_bad_messages_have_their_outcomes_and_their_neighbours_theirs(bench: Bench) -> None:
    deployment = bench.deploy()
    for number, (queue, end, body, _, _) in enumerate(BAD.values()):
        deployment.drop(queue, body, f"4.x{number:02}.{end}")
        deployment.drop("orders", ORDER, f"4.x{number:02}-good.T")
    deployment.drop("orders", "{", "a bare name")
    found = deployment.outcomes()
    good = sorted(f"ID:x{number:02}-good" for number in range(len(BAD)))
    assert {identity: found.pop(identity) for identity in good} == dict.fromkeys(good, ("published", ""))
    bare = ("orders", "", "{", "failed", "no JSON")
    ids = [f"ID:x{number:02}" for number in range(len(BAD))]
    ids += [one for one in found if one.endswith("-file1")]
    with Table() as table:
        for identity, (what, row) in zip(ids, {**BAD, "a bare name": bare}.items(), strict=True):
            queue, _, sent, kind, words = row
            with table.row(what):
                outcome, reason = found.pop(identity)
                assert (outcome, bool(reason), words in reason) == (kind, True, True)
                # it is kept, with its body, and says why although its headers may not be readable
                copy = deployment.copy("error" if kind == "failed" else "unsubscribed", identity)
                assert copy.body == (sent if isinstance(sent, bytes) else sent.encode())
                expected = {"outcome": kind, "reason": reason, "origin_destination": f"queue://{queue}"}
                assert {name: copy.properties[f"connector_{name}"] for name in expected} == expected
    assert (found, sorted(bench.called())) == ({}, good)
    for queue in ("orders", "customers"):
        assert deployment.names(queue) == deployment.names(queue, "processing") == []


def test_a_body_above_max_body_is_not_read(bench: Bench) -> None:
    deployment = bench.deploy(max_body="1KiB")
    padded = ORDER + " " * (1024 - len(ORDER))
    deployment.drop("orders", padded, "4.fits.T")
    deployment.drop("orders", padded + " ", "4.big.T")
    sparse = Path(deployment.folders("orders").working) / "4.huge.T"
    with sparse.open("wb") as file:
        file.truncate(1 << 40)  # a terabyte of nothing: reading it would not end
    sparse.rename(Path(deployment.folders("orders").target) / sparse.name)
    too_large = "the body has {} bytes, more than max_body (1024 bytes)"
    assert deployment.outcomes() == {
        "ID:fits": ("published", ""),
        "ID:big": ("failed", too_large.format(1025)),
        "ID:huge": ("failed", too_large.format(1 << 40)),
    }


def test_what_is_done_to_a_claimed_file_fails_that_event_alone(bench: Bench) -> None:
    """The first event's process changes the files of the next, which are claimed already."""
    processes = f"""\
import os
from pathlib import Path

def a(bo, event):
    for kind in ("fifo", "gone") if event.id == "ID:1" else ():
        (path,) = Path({str(bench.root)!r}, "orders/incoming/processing").glob(f"4.{{kind}}.T~*")
        path.unlink()
        if kind == "fifo":
            os.mkfifo(path)
"""
    deployment = bench.deploy(processes=processes)
    for name in ("1", "fifo", "gone", "z"):
        deployment.drop("orders", ORDER, f"4.{name}.T")
    found = deployment.outcomes()
    assert found["ID:1"] == found["ID:z"] == ("published", "")
    assert found["ID:fifo"] == ("failed", "the message is not a regular file")
    assert (found["ID:gone"][0], "vanished" in found["ID:gone"][1]) == ("failed", True)
    assert deployment.names("orders", "processing") == []


def test_a_name_that_is_no_utf_8_is_a_message_like_any_other(bench: Bench) -> None:
    deployment = bench.deploy()
    target = os.fsencode(deployment.folders("orders").target)
    for name, body in ((b"/caf\xe9 1", ORDER), (b"/4.\xe9.T.....nS=\xff", "{")):
        with open(target + name, "wb") as file:
            file.write(body.encode())
    found = deployment.outcomes()
    assert sorted(kind for kind, _ in found.values()) == ["failed", "published"]
    assert [call["object"] for call in bench.calls()] == ["Order"]
    assert len(deployment.names("archive")) == len(deployment.names("error")) == 1


# -- a module of processes -----------------------------------------------------------------------------


@pytest.mark.process
@rows(
    "at_import, words",
    [
        ("raise SystemExit(3)", ("process processes:a", "SystemExit: 3", "this process")),
        ("import os; os._exit(7)", ("ended with status 7 while it loaded",)),
    ],
)
def test_a_module_that_cannot_be_imported_is_an_error_at_start_that_names_it(
    bench: Bench, at_import: str, words: tuple[str, ...]
) -> None:
    deployment = bench.deploy(processes=f"def a(bo, event): ...\n{at_import}\n")
    deployment.drop("orders", ORDER, "4.1.T")
    with pytest.raises(PipelineError) as raised, deployment.running(isolated=True):
        pass
    assert [word for word in words if word not in str(raised.value)] == []
    assert deployment.names("orders") == ["4.1.T"]
