"""Messages that were not published, where no destination is configured for their copies."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from connector.config.loading import check
from connector.testing.deployment import Deployment
from tests.cli.in_process import Commands
from tests.tables import rows

OBJECTS = """\
business_object: Order
verbs: {Create: }
attributes: {Id: {type: String, key: true}}
"""
PROCESSES = "def store(order, event):\n    raise ValueError('no shelf')\n"
FAILED, UNWANTED = '{"BusinessObject": "Order", "Verb": "Create", "Id": "7"}', '{"BusinessObject": "X"}'
NAMES = ("ErrorDestination", "UnsubscribedDestination")
DROPBOX = "{type: dropbox, root: ./data, create: true}"
SQLITE = "{type: sql, url: 'sqlite:///./messages.db'}"


def adapter(provider: str, *given: str) -> str:
    destinations = "".join(f"  {name}: queue://{name.lower()}\n" for name in given)
    return f"""\
provider: {provider}
connector:
  ApplicationName: shop
  InputDestination: queue://orders
  DataHandlerMimeType: application/json
{destinations}subscriptions:
  - {{object: Order, process: "processes:store"}}
metaobjects: ./metaobjects
"""


@rows("given", [(), NAMES[:1], NAMES[1:], NAMES])
def test_check_warns_of_each_that_is_missing(tmp_path: Path, given: tuple[str, ...]) -> None:
    deployment = Deployment(tmp_path, adapter=adapter(DROPBOX, *given), metaobjects=OBJECTS)
    found = check(deployment.directory / "adapter.yaml")
    told = [one for one in found if "is settled without a copy" in one.found]
    assert [one.path.removeprefix("connector.") for one in told] == [one for one in NAMES if one not in given]
    assert all(one.warning and one.line == 2 for one in told)


def test_an_adapter_for_requests_needs_neither(tmp_path: Path) -> None:
    text = adapter(DROPBOX).replace("  InputDestination: queue://orders\n", "")
    deployment = Deployment(tmp_path, adapter=text, metaobjects=OBJECTS)
    assert "copy" not in str(check(deployment.directory / "adapter.yaml"))


@rows("provider", [DROPBOX, SQLITE])
@rows("body, key", [("no JSON", NAMES[0]), (FAILED, NAMES[0]), (UNWANTED, NAMES[1])])
def test_log_and_commands_say_what_became_of_the_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, provider: str, body: str, key: str
) -> None:
    deployment = Deployment(
        tmp_path / "d", adapter=adapter(provider), metaobjects=OBJECTS, processes=PROCESSES
    )
    caplog.clear()
    with caplog.at_level(logging.WARNING), deployment.running() as running:
        identity = deployment.send("queue://orders", body)
        running.drain()
    (line,) = [one for one in caplog.records if one.getMessage() == "an event was not published"]
    assert vars(line)["copy"] == f"none: there is no {key}"
    call = Commands(deployment.directory)
    gone = f"there was no {key}, so it was settled without a copy"
    assert f"  now: in no queue: {gone}\n" in call("history", identity).stdout
    assert call("history", identity, "--json").document["why_gone"] == gone
    refused = call("errors").refusal()
    assert "the configuration has no ErrorDestination" in refused
    assert "connector history --since 7d shows which have failed" in refused


def test_a_copy_needs_no_such_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    deployment = Deployment(
        tmp_path, adapter=adapter(DROPBOX, *NAMES), metaobjects=OBJECTS, processes=PROCESSES
    )
    with caplog.at_level(logging.WARNING), deployment.running() as running:
        identity = deployment.send("queue://orders", FAILED)
        running.drain()
    (line,) = [one for one in caplog.records if one.getMessage() == "an event was not published"]
    assert "copy" not in vars(line)
    call = Commands(deployment.directory)
    assert "now: waiting in queue://errordestination" in call("history", identity).stdout
    call("receive", "errordestination")
    assert "  now: in no queue\n" in call("history", identity).stdout
