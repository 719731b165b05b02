"""Commands that convert survive every body, name it, and go on with the next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from connector.testing.deployment import Deployment
from tests.cli.in_process import call
from tests.tables import Table

HANDLER = """
import os, re, threading
from connector.businessobjects.instance import BusinessObject


class OwnError(BaseException):
    pass


class Mute(Exception):
    def __str__(self):
        raise OwnError("not even this")


def recurse():
    recurse()


def obey(text):
    if text == "hang":
        re.match("^([a-z]+)+$", "a" * 64 + "1")
    if text == "sleep":
        threading.Event().wait()
    if text == "exit":
        os._exit(3)
    if text == "exit 0":
        os._exit(0)
    if text == "kill":
        os.kill(os.getpid(), 9)
    if text == "segv":
        os.kill(os.getpid(), 11)
    if text == "memory":
        bytes(1 << 40)
    if text == "recurse":
        recurse()
    if text == "fork":
        os.fork()
    kinds = {one.__name__: one for one in (
        ValueError, KeyError, OSError, SystemExit, KeyboardInterrupt, GeneratorExit, OwnError, Mute)}
    if text in kinds:
        raise kinds[text](text)


class Handler:
    mime_types = ("application/x-own",)
    options = ()

    def __init__(self, options, definitions):
        self.definitions = definitions

    def to_business_object(self, body, hint):
        text = body.decode()
        obey(text)
        return BusinessObject(self.definitions, "Work", "Create", {"Id": text.removeprefix("write ")})

    def to_body(self, bo):
        if bo["Id"].startswith("later "):
            obey(bo["Id"].removeprefix("later "))
        return bo["Id"]


def name(body):
    text = body.decode()
    if text.startswith("name "):
        obey(text.removeprefix("name "))
    return "Work"
"""

WORDS = {
    "hang": "did not end within 1.5 s (convert_timeout)",
    "sleep": "did not end within 1.5 s (convert_timeout)",
    "exit": "ended with status 3",
    "exit 0": "ended with status 0",
    "kill": "was ended by SIGKILL",
    "segv": "was ended by SIGSEGV",
    "memory": "MemoryError: there is no more within worker_memory",
    "recurse": "RecursionError",
    "ValueError": "ValueError: ValueError",
    "KeyError": "KeyError",
    "OSError": "OSError",
    "SystemExit": "SystemExit: SystemExit",
    "KeyboardInterrupt": "KeyboardInterrupt: KeyboardInterrupt",
    "GeneratorExit": "GeneratorExit: GeneratorExit",
    "OwnError": "OwnError: OwnError",
    "Mute": "Mute",
}


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    document = {
        "provider": {"type": "dropbox", "root": "./data", "create": True, "durability": "none"},
        "connector": {
            "ApplicationName": "test",
            "InputDestination": "queue://in",
            "ErrorDestination": "queue://error",
            "DataHandlerMimeType": "application/x-own",
            "convert_timeout": "1500ms",
        },
        "subscriptions": [{"object": "*", "destination": "queue://out", "name": "out"}],
        "metaobjects": "./metaobjects",
        "datahandlers": "./handlers",
    }
    deployment = Deployment(
        tmp_path,
        adapter=yaml.safe_dump(document),
        metaobjects="""\
business_object: Work
verbs: {Create: }
attributes: {Id: {type: String, key: true}}
---
datahandler_metaobject: MO_DataHandler_Default
handlers: {application/x-own: {NameHandlerClass: "names:name"}}
""",
        processes="",
    )
    deployment.write("handlers/own.py", HANDLER)
    deployment.write("names.py", HANDLER)
    return deployment


@pytest.mark.parametrize("where", ["", "name ", "later "])
def test_convert_and_explain_name_what_a_body_has_done(deployment: Deployment, where: str) -> None:
    options = ("--to", "application/x-own") if where == "later " else ()
    with Table() as table:
        for what, words in WORDS.items():
            with table.row(what):
                deployment.write("body", where + what)
                explained = call(deployment.directory, "explain", "body", "--json")
                document = explained.document
                found = (explained.returncode, document["outcome"], document["settled"])
                assert found == (1, "failed", "queue://error")
                sent = (one for bo in document["objects"] for one in bo["subscriptions"])
                assert any(
                    words in reason for reason in (document["reason"], *(one["reason"] for one in sent))
                )
                failure = call(deployment.directory, "convert", *options, "body").failure()
                assert failure.startswith("connector: body: ")
                assert words in failure
                if what in ("hang", "sleep"):
                    handler = "name handler names:name" if where == "name " else "data handler Handler"
                    assert handler in failure


def test_people_read_what_a_body_has_done(deployment: Deployment) -> None:
    deployment.write("body", "kill")
    shown = call(deployment.directory, "explain", "body")
    assert (shown.returncode, WORDS["kill"] in shown.stdout) == (1, True)


def test_a_body_that_forks_is_answered_once(deployment: Deployment) -> None:
    deployment.write("body", "fork")
    done = call(deployment.directory, "convert", "--json", "body")
    assert (done.returncode, done.stdout) == (
        0,
        '{"BusinessObject": "Work", "Verb": "Create", "Id": "fork"}\n',
    )


def case(name: str, body: str, **expected: str) -> dict[str, Any]:
    return {"name": name, "message": {"body": body}, "expect": expected}


def test_the_cases_behind_a_hostile_one_run(deployment: Deployment) -> None:
    cases = []
    for what, words in WORDS.items():
        cases += [
            case(f"{what} is expected", what, outcome="failed", reason=words),
            case(f"{what} is a surprise", what, object="Work"),
            case(f"behind {what}", "good", object="Work"),
        ]
    deployment.write("all.test.yaml", "---\n".join(yaml.safe_dump(one) for one in cases))
    done = call(deployment.directory, "test", "--json")
    assert done.returncode == 1
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["case"] for one in results] == [one["name"] for one in cases]
    for one in results:
        assert one["passed"] is not one["case"].endswith("is a surprise"), one
    for what, words in WORDS.items():
        (surprise,) = [one for one in results if one["case"] == f"{what} is a surprise"]
        assert words in surprise["mismatches"][0]


def test_browse_shows_every_body(deployment: Deployment) -> None:
    bodies = [*WORDS, "\x1b[2J", "\ud800", "[" * 100_000, "x" * 5_000_000, "\0"]
    for number, body in enumerate(bodies):
        deployment.drop("in", body.encode("utf-8", "surrogatepass"), f"4.{number}.T")
    for options in ([], ["--json"]):
        done = call(deployment.directory, "browse", "in", *options)
        assert (done.returncode, done.stdout.count("ID:")) == (0, len(bodies))
        assert "\x1b" not in done.stdout
    assert all("JMSMessageID" in json.loads(line) for line in done.stdout.splitlines())
