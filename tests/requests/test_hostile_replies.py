"""A reply that makes its data handler hang, end its process or raise anything fails its own request only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connector.formats.handlers import HandlerSpec
from connector.messaging.client import ReceivedMessage
from connector.requests.result import RequestResult
from tests.requests.world import Replying, World, body_of, customer, done

HANDLER = """
import json, os, re, time
from connector.businessobjects.instance import BusinessObject


class OwnError(BaseException):
    pass


class Handler:
    mime_types = ("application/x-own",)
    options = ()

    def __init__(self, options, definitions):
        self.definitions = definitions

    def to_business_object(self, body, hint):
        values = json.loads(body)
        what = values.get("Name")
        if what == "hang":
            re.match("^([a-z]+)+$", "a" * 64 + "1")
        if what == "sleep":
            time.sleep(600)
        if what == "exit":
            os._exit(3)
        if what == "kill":
            os.kill(os.getpid(), 9)
        if what == "memory":
            bytes(1 << 40)
        if what == "fork":
            os.fork()
        raised = (ValueError, SystemExit, GeneratorExit, KeyboardInterrupt, OwnError)
        kinds = {one.__name__: one for one in raised}
        if what in kinds:
            raise kinds[what](what)
        return BusinessObject(self.definitions, hint.object, hint.verb, values)

    def to_body(self, bo):
        return json.dumps({name: bo[name] for name in ("CustomerId", "Name")})
"""

WORDS = {
    "hang": "data handler Handler: did not end within 10 s (convert_timeout)",
    "sleep": "data handler Handler: did not end within 10 s (convert_timeout)",
    "exit": "the conversion ended with status 3",
    "kill": "the conversion was ended by SIGKILL",
    "memory": "MemoryError: there is no more within worker_memory",
    "ValueError": "ValueError: ValueError",
    "SystemExit": "SystemExit: SystemExit",
    "GeneratorExit": "GeneratorExit: GeneratorExit",
    "KeyboardInterrupt": "KeyboardInterrupt: KeyboardInterrupt",
    "OwnError": "OwnError: OwnError",
}


def echo(request: ReceivedMessage, replying: Replying) -> None:
    replying.reply(request, body_of(request))


@pytest.fixture
def own(tmp_path: Path) -> dict[str, Any]:
    """Settings with a data handler of the deployment."""
    path = tmp_path / "own.py"
    path.write_text(HANDLER)
    return {
        "handlers": (HandlerSpec("application/x-own", "Handler", path=str(path)),),
        "default_handler": "application/x-own",
        "convert_timeout": 10.0,  # a process begins late on a busy machine
    }


def named(name: str) -> dict[str, Any]:
    return {**customer(1), "Name": name}


def test_each_reply_costs_its_own_request_only(world: World, own: dict[str, Any]) -> None:
    world.application(echo)
    client = world.client(**own)
    names = [name for what in WORDS for name in (what, f"good beside {what}")]
    calls = [client.request_async("Customer.Retrieve", named(name), timeout=60_000) for name in names]
    results = done(calls)
    for name, result in zip(names, results, strict=True):
        if name in WORDS:
            assert result.status.name == "FAIL"
            assert "cannot be read: " in (result.message or "")
            assert WORDS[name] in (result.message or "")
        else:
            found = (result.status.name, result.object["Name"], result.message)
            assert found == ("VALCHANGE", name, None)


def test_a_reply_is_converted_within_the_time_of_its_request(world: World, own: dict[str, Any]) -> None:
    world.application(echo)
    client = world.client(**{**own, "convert_timeout": 600.0})
    result: RequestResult = client.request("Customer.Retrieve", named("sleep"), timeout=1500)
    assert result.status.name == "FAIL"
    assert "(ResponseTimeout)" in (result.message or "")


def test_a_handler_that_forks_gives_one_result(world: World, own: dict[str, Any]) -> None:
    world.application(echo)
    result = world.client(**own).request("Customer.Retrieve", named("fork"))
    assert (result.status.name, result.object["Name"]) == ("VALCHANGE", "fork")


def test_what_a_data_handler_of_the_connector_reads_needs_no_other_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connector.requests.conversion.call_limited", None)
    world.application(echo)
    assert world.client().request("Customer.Retrieve", named("good")).object["Name"] == "good"
