"""Serving requests: what a business process returns answers whoever sent the message."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pytest

from connector.messaging.message import NON_PERSISTENT, Message
from connector.sinks.replying import ERROR_STATUSES, MAX_TEXT
from connector.status import ReturnCode
from tests.events.conftest import Bench, EventDeployment, customer, logged, placeless
from tests.tables import Table, rows

PROCESSES = """\
import os
from connector import NotActive, Reply, TemporaryFailure, Unsubscribed

HERE = os.path.dirname(os.path.abspath(__file__))

class Mute(Exception):
    def __str__(self):
        raise RuntimeError("not even this")

def refilled(customer):
    customer["Name"] = "Ada"
    return customer

def another(customer):
    address = customer.add("Address")
    address["City"] = "Rome"
    return address

def fail(error):
    raise error

def serve(customer, event):
    return eval(customer["Name"] or "None")

def calls(event, who):
    with open(os.path.join(HERE, "calls"), "a") as file:
        file.write(f"{who} {event.id} {event.delivery_count}\\n")

def counted(customer, event):
    calls(event, "counted")
    return {"CustomerId": str(event.delivery_count)}

def other(customer, event):
    calls(event, "other")
    if os.path.exists(os.path.join(HERE, "inactive")):
        raise NotActive("asleep")
    if os.path.exists(os.path.join(HERE, "broken")):
        raise ValueError("broken")

def failing(customer, event):
    calls(event, "failing")
    raise ValueError("no stock")

def meddle(event):
    event.message.reply_to, event.message.message_id = "queue://elsewhere", "ID:x"
    event.message.priority, event.message.type = 0, "NOTE"
"""
TYPE = '"BusinessObject":"Customer","Verb":"Create"'
SERVE = {"object": "Customer", "process": "processes:serve", "name": "serve", "reply": True}


def deploy(bench: Bench, *subscriptions: Mapping[str, Any], **settings: Any) -> EventDeployment:
    """Deploys processes that answer; by default the one that does what the customer's name says."""
    return bench.deploy(subscriptions=subscriptions or (SERVE,), processes=PROCESSES, **settings)


def calls(bench: Bench) -> list[str]:
    path = bench.directory / "calls"
    return path.read_text().splitlines() if path.exists() else []


def ask(deployment: EventDeployment, body: str = "", to: str = "customers", **headers: Any) -> str:
    """Sends a request; returns its id."""
    return deployment.send(to, body or customer(), **{"reply_to": "queue://replies", **headers})


def replies(deployment: EventDeployment) -> list[Message]:
    return deployment.messages("replies")


def the_reply(deployment: EventDeployment) -> Message:
    (reply,) = replies(deployment)
    return reply


def answer_to(deployment: EventDeployment, identity: str) -> tuple[object, str]:
    """Status and body of the one reply to a request."""
    (reply,) = (one for one in replies(deployment) if one.correlation_id == identity)
    return status(reply), reply.body.decode()


def status(reply: Message) -> object:
    return reply.properties["ResponseResult"]


LONG = "fail(ValueError('é' * 9000))"
CHANGED = f'{{{TYPE},"CustomerId":"1","Name":"Ada"}}'
GOOD = {
    "None": ("SUCCESS", ""),
    "refilled(customer)": ("VALCHANGE", CHANGED),
    "another(customer)": ("VALCHANGE", '{"BusinessObject":"Address","City":"Rome"}'),
    "{'CustomerId': '8', 'Age': 36}": ("VALCHANGE", f'{{{TYPE},"CustomerId":"8","Age":36}}'),
    "Reply('SUCCESS')": ("SUCCESS", ""),
    "Reply('SUCCESS', refilled(customer))": ("SUCCESS", CHANGED),
    "Reply('MULTIPLE_HITS', {'CustomerId': '9'})": ("MULTIPLE_HITS", f'{{{TYPE},"CustomerId":"9"}}'),
    "Reply('VALCHANGE')": ("VALCHANGE", ""),
    **{f"Reply('{one}', 'because')": (one, "because") for one in ERROR_STATUSES},
    "Reply('BO_DOES_NOT_EXIST')": ("BO_DOES_NOT_EXIST", ""),
    "meddle(event)": ("SUCCESS", ""),  # what it does to its event does not lead the reply astray
}
"""Status and body of the reply, by what the process returns."""

NO_REPLY = "MalformedData: what the process returned is no reply: found"
MALFORMED = "MalformedData: Customer: "
BAD = {
    "fail(ValueError('no stock'))": "ValueError: no stock",
    "fail(TemporaryFailure('locked'))": "TemporaryFailure: locked",
    "fail(SystemExit(3))": "SystemExit: 3",
    "fail(Mute())": "Mute",
    "42": f"{NO_REPLY} int, expected None, a business object, a mapping or connector.Reply",
    "'done'": f"{NO_REPLY} str, expected",
    "True": f"{NO_REPLY} bool, expected",
    "{}": f"{MALFORMED}CustomerId: required, but not set",
    "{'CustomerId': '8', 'Age': 'old'}": f"{MALFORMED}Age: found the text 'old', expected an integer",
    "{'CustomerId': '8', 'Nmae': ''}": f"{MALFORMED}Nmae: no such attribute in Customer, did you mean 'Name'",
    "Reply('SUCCEED')": "ValueError: 'SUCCEED' is no status of a reply; there are SUCCESS, VALCHANGE",
    "Reply('VALCHANGE', 'x')": "TypeError: a reply with the status VALCHANGE carries an object or a map",
    LONG: "ValueError: ééé",
}
"""Start of the reply's text, by what the process does."""


def test_each_request_gets_what_its_process_returned_or_why_it_failed(bench: Bench) -> None:
    deployment = deploy(bench, order="none")
    headers: dict[str, Any] = {"priority": 7, "delivery_mode": NON_PERSISTENT, "correlation_id": "c"}
    ids = {name: ask(deployment, customer(name), **headers) for name in (*GOOD, *BAD)}
    outcomes = deployment.outcomes(parallelism=2)
    with Table() as table:
        for name, wanted in GOOD.items():
            with table.row(name):
                assert outcomes[ids[name]] == ("published", "")
                assert answer_to(deployment, ids[name]) == wanted
        for name, start in BAD.items():
            with table.row(name):
                kind, reason = outcomes[ids[name]]
                assert (kind, reason.startswith(f"serve: {start}")) == ("failed", True)
                assert "connector_delivered" not in deployment.properties("error", ids[name])
                status, text = answer_to(deployment, ids[name])
                assert (status, text.startswith(start), ".py:" in text) == ("FAIL", True, False)
    found = [(one.priority, one.delivery_mode, one.reply_to) for one in replies(deployment)]
    assert found == [(7, NON_PERSISTENT, None)] * len(ids)
    assert {one.type for one in replies(deployment)} == {"CUST_OUT", None}, "an address has no format"
    _, text = answer_to(deployment, ids[LONG])
    assert MAX_TEXT - 2 <= len(text.encode()) <= MAX_TEXT
    assert text.endswith("éé...")


ANSWERS = {"reply": "answers"}
BY_ID = {"MessageFormatProperty": "JMSCorrelationID"}
OUT = "CUST_REPLY"


@rows(
    "settings, said",
    [
        ({"MessageFormatProperty": "kind"}, (None, "ID", {"kind": OUT})),
        # the format takes the place of neither the request nor the status
        (BY_ID, (None, "ID", {})),
        ({**BY_ID, "reply_matching": ANSWERS}, (None, OUT, {"answers": "ID"})),
        ({"MessageFormatProperty": "answers", "reply_matching": ANSWERS}, (None, None, {"answers": "ID"})),
        ({"MessageFormatProperty": "ResponseResult"}, (None, "ID", {})),
        ({"MessageResponseResultProperty": "result"}, (OUT, "ID", {})),
        ({"reply_matching": {"request": "JMSCorrelationID"}}, (OUT, "c-1", {})),
        ({"reply_matching": {"request": "ticket"}}, (OUT, "17", {})),
        ({"reply_matching": {"request": "ticket", **ANSWERS}}, (OUT, None, {"answers": 17})),
        ({"reply_matching": {"request": "JMSMessageID", **ANSWERS}}, (OUT, None, {"answers": "ID"})),
        ({"reply_matching": {"request": "urgent"}}, (OUT, "true", {})),
        ({"reply_matching": {"request": "missing"}}, (OUT, "ID", {})),
    ],
)
def test_a_reply_says_its_format_its_request_and_its_status_where_the_configuration_wants_them(
    bench: Bench, settings: dict[str, Any], said: tuple[str | None, str | None, dict[str, object]]
) -> None:
    deployment = deploy(bench, {**SERVE, "format": "CUST_REPLY"}, **settings)
    statuses = {"refilled(customer)": "VALCHANGE", "fail(ValueError('no stock'))": "FAIL"}
    ids = []
    for name in statuses:
        request = Message(customer(name).encode(), correlation_id="c-1", reply_to="queue://replies")
        request.set_property("ticket", 17, "long")
        request.set_property("urgent", True)
        ids.append(deployment.send("customers", request))
    deployment.drain()
    kind, correlation, properties = said
    for identity, found, reply in zip(ids, statuses.values(), replies(deployment), strict=True):
        assert (reply.type, reply.correlation_id) == (kind, identity if correlation == "ID" else correlation)
        expected = {name: identity if value == "ID" else value for name, value in properties.items()}
        expected[settings.get("MessageResponseResultProperty", "ResponseResult")] = found
        assert reply.properties == expected
        types = {name: "long" if value == 17 else "string" for name, value in expected.items()}
        assert reply.property_types == types


@rows(
    "mime_type, body",
    [
        (None, "itself"),
        ("application/json", '{"BusinessObject":"Note","Verb":"Create","Text":"itself"}'),
        ("text/xml", '<Note verb="Create"><Text>itself</Text></Note>'),
    ],
)
def test_a_reply_is_written_by_the_handler_of_request_or_entry(
    bench: Bench, mime_type: str | None, body: str
) -> None:
    entry = {"object": "Note", "process": "notes:echo", "reply": True}
    deployment = deploy(bench, {**entry, "mime_type": mime_type} if mime_type else entry)
    deployment.write("notes.py", "def echo(note, event):\n    return note\n")
    deployment.send("orders", "itself", type="NOTE", reply_to="queue://replies")
    deployment.outcomes()
    assert the_reply(deployment).body.decode().endswith(body)


def test_a_message_without_a_place_for_its_reply_is_an_event(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = deploy(bench)
    with pytest.MonkeyPatch.context() as foreign:  # no program that uses this package sends such a message
        foreign.setattr(Message, "check", lambda message: None)
        ids = [
            ask(deployment, customer("refilled(customer)"), reply_to=reply_to)
            for reply_to in ("queue://a/b", "exchange://x", "queue://orders~EXPIRED", "..")
        ]
    silent = [ask(deployment, customer(name), reply_to=None) for name in ("refilled(customer)", "42")]
    assert deployment.outcomes() == dict.fromkeys([*ids, *silent], ("published", ""))
    said = logged(caplog, "a request gets no reply")
    assert [one["message_id"] for one in said] == ids
    assert replies(deployment) == []
    assert all(one["reason"] for one in said)


@rows("provider", ["dropbox", "memory"])
def test_a_requester_that_no_longer_awaits_its_reply_holds_up_nothing(bench: Bench, provider: str) -> None:
    deployment = deploy(bench, provider={"type": provider})
    with closing(deployment.provider.connect()) as requester:
        queue = requester.temporary("queue")
        identity = ask(deployment, customer("refilled(customer)"), reply_to=str(queue))
    assert deployment.outcomes() == {identity: ("published", "")}


TWO = (
    {"object": "Customer", "process": "processes:counted", "name": "counted", "reply": True},
    {"object": "Customer", "process": "processes:other", "name": "other"},
)


def test_a_reply_is_sent_though_another_subscriber_has_failed(bench: Bench) -> None:
    deployment = deploy(bench, *TWO, {"object": "*", "destination": "queue://crm"})
    broken = deployment.write("broken", "")
    identity = ask(deployment)
    kind, reason = deployment.outcomes()[identity]
    assert (kind, placeless(reason)) == ("failed", "other: ValueError: broken")
    assert status(the_reply(deployment)) == "VALCHANGE"
    assert deployment.messages("crm") == []
    copy = deployment.copy("error", identity)
    assert copy.properties["connector_delivered"] == "counted"
    broken.unlink()
    deployment.send("customers", copy)  # repaired: who has confirmed, and replied, is not asked again
    deployment.outcomes()
    assert len(replies(deployment)) == len(deployment.messages("crm")) == 1
    assert [line.split()[0] for line in calls(bench)] == ["counted", "other", "other"]


def test_a_reply_is_sent_though_the_event_is_given_back_and_only_once(bench: Bench) -> None:
    deployment = deploy(bench, *TWO)
    asleep = deployment.write("inactive", "")
    identity = ask(deployment)
    with deployment.running() as adapter:
        assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
        assert adapter.summary.total.claimed == 0, "given back is no outcome"
        assert the_reply(deployment).correlation_id == identity
        assert deployment.deliveries("customers") == [(identity, 1)]
        assert deployment.properties("customers", identity)["connector_delivered"] == "counted"
        assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
        asleep.unlink()
        assert adapter.poll().code is ReturnCode.SUCCEED
    assert len(replies(deployment)) == 1
    assert [line.split()[0] for line in calls(bench)] == ["counted", "other", "other", "other"]


def test_a_failure_that_will_be_tried_again_is_not_answered_yet(bench: Bench) -> None:
    deployment = deploy(bench, {**TWO[0], "process": "processes:failing"}, TWO[1])
    asleep = deployment.write("inactive", "")
    ask(deployment)
    with deployment.running() as adapter:
        adapter.poll()
        assert replies(deployment) == []
        asleep.unlink()
        adapter.poll()
    assert status(the_reply(deployment)) == "FAIL"
    assert deployment.names("replies", "working") == []


def test_a_request_that_nobody_serves_is_answered_fail_with_the_reason(bench: Bench) -> None:
    entry = {**SERVE, "verbs": ["Create"]}
    deployment = deploy(bench, entry, max_body="1KiB", max_attempts=3, provider={"durability": "batch"})
    bodies = {
        customer("fail(Unsubscribed('too small'))"): ("unsubscribed", "serve: Unsubscribed: too small"),
        f'{{{TYPE.replace("Create", "Update")},"CustomerId":"1"}}': ("unsubscribed", "wants Customer.Update"),
        f'{{{TYPE},"CustomerId":1}}': ("failed", "found the number 1, expected a text"),
        '{"BusinessObject": "Ordre"}': ("unsubscribed", "Ordre"),
        customer("x" * 2000): ("failed", "max_body"),
        "{": ("failed", "JSON"),
    }
    bad = {ask(deployment, body, to="orders", priority=9): told for body, told in bodies.items()}
    bad["ID:often"] = ("failed", "max_attempts")  # its delivery never came to an end
    deployment.drop("customers", customer(), "9.often.T...replies..JMSXDeliveryCountI=4")
    outcomes = deployment.outcomes()
    for identity, (kind, words) in bad.items():
        outcome, reason = outcomes[identity]
        assert (outcome, words in reason) == (kind, True), reason
        assert answer_to(deployment, identity) == ("FAIL", reason)
    assert [reply.priority for reply in replies(deployment)] == [9] * len(bad)


@rows(
    "entry, reply_to",
    [
        ({**SERVE, "reply": False}, "queue://replies"),  # no process of this adapter answers
        (SERVE, None),  # nobody awaits an answer
    ],
)
def test_what_cannot_be_converted_is_answered_to_nobody(
    bench: Bench, entry: Any, reply_to: str | None
) -> None:
    deployment = deploy(bench, entry, max_body="1KiB")
    for body in ("{", customer("x" * 2000)):
        ask(deployment, body, reply_to=reply_to)
    assert {kind for kind, _ in deployment.outcomes().values()} == {"failed"}
    assert replies(deployment) == []


def test_a_reply_that_cannot_be_made_keeps_the_event_which_is_served_again_and_says_so(bench: Bench) -> None:
    deployment = deploy(bench, TWO[0])
    identity = ask(deployment)
    deployment.folders("replies")
    working = bench.root / "replies" / "incoming" / "working"
    os.rmdir(working)
    working.touch()  # nothing can be written there
    with deployment.running() as adapter:
        report = adapter.poll()
        assert report.code is ReturnCode.APPRESPONSETIMEOUT
        assert report.reason.startswith("counted: its reply: cannot write a message for queue://replies: ")
        assert report.provider_failed
        (message,) = deployment.messages("customers")
        assert (message.delivery_count, message.properties) == (2, {})
        working.unlink()
        assert adapter.poll().code is ReturnCode.SUCCEED
    assert the_reply(deployment).body == f'{{{TYPE},"CustomerId":"2"}}'.encode()
    assert calls(bench) == [f"counted {identity} 1", f"counted {identity} 2"]


@pytest.mark.process
def test_a_request_that_ends_its_worker_too_often_is_answered_fail(bench: Bench) -> None:
    deployment = deploy(bench, {**SERVE, "process": "deadly:end"}, max_attempts=2)
    deployment.write("deadly.py", "import os\ndef end(customer, event):\n    os._exit(3)\n")
    identity = ask(deployment)
    # whoever asked this has been answered before
    before = {"connector_outcome": "failed", "connector_delivered": "another", "connector_attempts": 1}
    before["connector_application"] = "test"
    confirmed = ask(deployment, properties=before)
    reason = "its worker ended with status 3; it was tried 2 times (max_attempts)"
    assert deployment.outcomes(isolated=True) == dict.fromkeys([identity, confirmed], ("failed", reason))
    assert sorted(deployment.ids("error")) == sorted([identity, confirmed])
    properties = deployment.properties("error", confirmed)
    assert (properties["connector_delivered"], properties["connector_attempts"]) == ("another", 3)
    assert answer_to(deployment, identity) == ("FAIL", reason)
    assert len(replies(deployment)) == 1


def test_the_history_says_why_a_request_gets_no_reply(bench: Bench) -> None:
    deployment = deploy(bench)
    with pytest.MonkeyPatch.context() as foreign:
        foreign.setattr(Message, "check", lambda message: None)
        identity = ask(deployment, customer("refilled(customer)"), reply_to="queue://a/b")
    deployment.outcomes()
    settings = deployment.configuration.connector
    history = deployment.provider.state(settings.application_name).history()
    (row,) = [one for one in history.find([identity]) if one.what == "published"]
    assert "the request gets no reply: its JMSReplyTo: 'a/b'" in row.reason
