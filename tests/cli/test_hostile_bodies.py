"""Commands that convert survive every body, name it, and go on with the next.

What else a body can do is tested below the commands (``tests/events/test_conversion_limits.py``).
"""

from __future__ import annotations

import json

import pytest
import yaml

from tests.cli.in_process import Commands
from tests.events.conftest import OBJECTS, Bench, EventDeployment, bench, handler
from tests.tables import Table

__all__ = ["bench"]

HEAD = """
import os, signal, threading
from connector.businessobjects.instance import BusinessObject


class OwnError(BaseException):
    pass


def throw():
    raise OwnError("no")


ACTIONS = {
    "sleep": threading.Event().wait,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "OwnError": throw,
    "fork": os.fork,
}


def obey(place, text):
    if text.startswith(place):
        ACTIONS.get(text.removeprefix(place), str)()


def name(body):
    obey("name ", body.decode())
    return "Order"
"""
READS = """\
obey("", body.decode())
return BusinessObject(self.definitions, "Order", "Create", {"Id": body.decode()})
"""
HANDLER = handler(
    "application/x-own", head=HEAD, reads=READS, writes="obey('later ', bo['Id'])\nreturn bo['Id']"
)
WORDS = {
    "sleep": "did not end within 1.5 s (convert_timeout)",
    "kill": "was ended by SIGKILL",
    "OwnError": "OwnError: no",
}


@pytest.fixture
def deployment(bench: Bench) -> EventDeployment:
    made = bench.deploy(
        subscriptions=[{"object": "*", "destination": "queue://out", "name": "out"}],
        objects=f"{OBJECTS}  application/x-own: {{NameHandlerClass: 'names:name'}}\n",
        more={"datahandlers": "./handlers"},
        InputDestination="queue://orders",
        DataHandlerMimeType="application/x-own",
        convert_timeout="1500ms",
    )
    made.write("handlers/own.py", HANDLER)
    made.write("names.py", HANDLER)
    return made


@pytest.fixture
def call(deployment: EventDeployment) -> Commands:
    return Commands(deployment.directory)


@pytest.mark.parametrize("where", ["", "name ", "later "])
def test_convert_and_explain_name_what_a_body_has_done(call: Commands, where: str) -> None:
    options = ("--to", "application/x-own") if where == "later " else ()
    with Table() as table:
        for what, words in WORDS.items():
            with table.row(what):
                call.write("body", where + what)
                explained = call("explain", "body", "--json")
                document = explained.document
                found = (explained.returncode, document["outcome"], document["settled"])
                assert found == (1, "failed", "queue://error")
                sent = (one for bo in document["objects"] for one in bo["subscriptions"])
                reasons = (document["reason"], *(one["reason"] for one in sent))
                assert any(words in reason for reason in reasons)
                failure = call("convert", *options, "body").failure()
                assert failure.startswith("connector: body: ")
                assert words in failure
                if what == "sleep":
                    who = "name handler names:name" if where == "name " else "data handler Own"
                    assert who in failure


def test_a_body_that_forks_is_answered_once(call: Commands) -> None:
    call.write("body", "fork")
    done = call("convert", "--json", "body")
    answer = '{"BusinessObject": "Order", "Verb": "Create", "Id": "fork"}\n'
    assert (done.returncode, done.stdout) == (0, answer)


def test_the_cases_behind_a_hostile_one_run(call: Commands) -> None:
    cases = [
        {"name": f"{what}{more}", "message": {"body": body}, "expect": expected}
        for what, words in WORDS.items()
        for more, body, expected in (
            (" is expected", what, {"outcome": "failed", "reason": words}),
            (" is a surprise", what, {"object": "Order"}),
            (" is behind", "good", {"object": "Order"}),
        )
    ]
    call.write("all.test.yaml", yaml.safe_dump_all(cases))
    done = call("test", "--json")
    assert done.returncode == 1
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["case"] for one in results] == [one["name"] for one in cases]
    for one in results:
        surprise = one["case"].endswith("is a surprise")
        assert one["passed"] is not surprise, one
        if surprise:
            assert WORDS[one["case"].removesuffix(" is a surprise")] in one["mismatches"][0]


def test_browse_shows_every_body(deployment: EventDeployment, call: Commands) -> None:
    bodies = [*WORDS, "\x1b[2J", "\ud800", "[" * 100_000, "x" * 5_000_000, "\0"]
    for number, body in enumerate(bodies):
        deployment.drop("orders", body.encode("utf-8", "surrogatepass"), f"4.{number}.T")
    for options in ([], ["--json"]):
        done = call("browse", "orders", *options)
        assert (done.returncode, done.stdout.count("ID:")) == (0, len(bodies))
        assert "\x1b" not in done.stdout
    assert all("JMSMessageID" in json.loads(line) for line in done.stdout.splitlines())
