"""A reply that makes its data handler hang, end its process or raise anything fails its own request only."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from connector.formats.handlers import HandlerSpec
from connector.messaging.client import ReceivedMessage
from connector.messaging.message import Message
from connector.requests.conversion import RequestConverter
from connector.requests.pending import Call
from tests.events.conftest import handler
from tests.requests.world import Replying, World, body_of, customer, done, settings
from tests.tables import Table

pytestmark = pytest.mark.process

HEAD = """
import json, os, re, threading
from connector.businessobjects.instance import BusinessObject


class OwnError(BaseException):
    pass


ACTIONS = {
    "hang": lambda: re.match("^([a-z]+)+$", "a" * 64 + "1"),
    "wait": lambda: threading.Event().wait(),
    "exit": lambda: os._exit(3),
    "kill": lambda: os.kill(os.getpid(), 9),
    "memory": lambda: bytes(1 << 40),
    "fork": os.fork,
}
"""
READS = """
values = json.loads(body)
what = values.get("Name")
if what in ACTIONS:
    ACTIONS[what]()
for kind in (ValueError, SystemExit, GeneratorExit, KeyboardInterrupt, OwnError):
    if what == kind.__name__:
        raise kind(what)
return BusinessObject(self.definitions, hint.object, hint.verb, values)
"""
WRITES = "return json.dumps({name: bo[name] for name in ('CustomerId', 'Name')})"
RAISED = ("ValueError", "SystemExit", "GeneratorExit", "KeyboardInterrupt", "OwnError")
WORDS = {
    "exit": "the conversion ended with status 3",
    "kill": "the conversion was ended by SIGKILL",
    "memory": "MemoryError: there is no more within worker_memory",
    **{name: f"{name}: {name}" for name in RAISED},
}


def echo(request: ReceivedMessage, replying: Replying) -> None:
    replying.reply(request, body_of(request))


@pytest.fixture
def own(tmp_path: Path) -> dict[str, Any]:
    """Settings with a data handler of the deployment."""
    path = tmp_path / "own.py"
    path.write_text(handler("application/x-own", head=HEAD, reads=READS, writes=WRITES))
    return {
        "handlers": (HandlerSpec("application/x-own", "Own", path=str(path)),),
        "default_handler": "application/x-own",
        "convert_timeout": 600.0,
    }


def named(name: str) -> dict[str, Any]:
    return {**customer(1), "Name": name}


def test_each_reply_costs_its_own_request_only(dropbox: World, own: dict[str, Any]) -> None:
    dropbox.application(echo)
    client = dropbox.client(**own)
    names = [name for what in WORDS for name in (what, f"good beside {what}")]
    names.append("fork")  # gives one result
    results = done([client.request_async("Customer.Retrieve", named(name)) for name in names])
    with Table() as table:
        for name, result in zip(names, results, strict=True):
            with table.row(name):
                if name in WORDS:
                    assert result.status.name == "FAIL"
                    assert re.search(f"cannot be read: .*{re.escape(WORDS[name])}", result.message or "")
                else:
                    found = (result.status.name, result.object["Name"], result.message)
                    assert found == ("VALCHANGE", name, None)


@pytest.mark.parametrize("world", ["dropbox", "broker"], indirect=True)
def test_a_reply_that_is_not_read_in_time_fails_its_request(world: World, own: dict[str, Any]) -> None:
    world.application(echo)
    client = world.client(**{**own, "convert_timeout": 0.5})
    other = world.client(**own)
    data = {**named("wait"), "Meta": {"TimeToLive": "600000"}}
    late = other.request_async("Customer.Retrieve", data, timeout=1500)
    hanging = [client.request_async("Customer.Retrieve", named(what)) for what in ("hang", "wait")]
    words = "data handler Own: did not end within 0.5 s (convert_timeout)"
    for result, said in zip(done([*hanging, late]), (words, words, "(ResponseTimeout)"), strict=True):
        assert (result.status.name, said in (result.message or "")) == ("FAIL", True), result.message


def test_a_reply_that_overtakes_the_wait_is_converted_within_the_time_of_its_request(
    tmp_path: Path, own: dict[str, Any]
) -> None:
    converter = RequestConverter(settings(**{**own, "convert_timeout": 5.0}), str(tmp_path))
    call = converter.call("Customer.Retrieve", named("wait"), timeout=300)
    assert isinstance(call, Call)
    answer = Message(json.dumps(named("wait")).encode(), message_id="ID:reply")
    answer.set_property("ResponseResult", "VALCHANGE")
    result = converter.result(call, answer)  # before the call has a deadline
    assert result.status.name == "FAIL"
    assert "did not end within 0.5 s (ResponseTimeout)" in (result.message or "")


def test_what_a_data_handler_of_the_connector_reads_needs_no_other_process(
    dropbox: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connector.requests.conversion.call_limited", None)
    dropbox.application(echo)
    assert dropbox.client().request("Customer.Retrieve", named("good")).object["Name"] == "good"
