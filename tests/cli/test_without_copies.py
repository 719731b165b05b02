"""Messages that were not published, where no destination is configured for their copies."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from connector.config.loading import check
from tests.cli.in_process import Commands
from tests.events.conftest import Bench, EventDeployment, bench, customer, logged
from tests.tables import rows

__all__ = ["bench"]

FAILED, UNWANTED = customer("a: fail"), '{"BusinessObject": "X"}'
NAMES = ("ErrorDestination", "UnsubscribedDestination")


def deploy(bench: Bench, *given: str, **more: Any) -> EventDeployment:
    """A deployment with some of the destinations of copies."""
    copies: dict[str, Any] = {name: f"queue://{name.lower()}" if name in given else None for name in NAMES}
    return bench.deploy(**{**copies, "ArchiveDestination": None, **more})


@rows("given", [(), NAMES[:1], NAMES[1:], NAMES])
def test_check_warns_of_each_that_is_missing(bench: Bench, given: tuple[str, ...]) -> None:
    file = deploy(bench, *given).directory / "adapter.yaml"
    told = [one for one in check(file) if "is settled without a copy" in one.found]
    assert [one.path.removeprefix("connector.") for one in told] == [one for one in NAMES if one not in given]
    place = file.read_text().splitlines().index("connector:") + 1
    assert all(one.warning and one.line == place for one in told)


def test_an_adapter_for_requests_needs_neither(bench: Bench) -> None:
    deployment = deploy(bench, InputDestination=None)
    assert "copy" not in str(check(deployment.directory / "adapter.yaml"))


@rows("provider", [{}, {"type": "sql", "url": "sqlite:///./messages.db"}])
@rows("body, key", [("no JSON", NAMES[0]), (FAILED, NAMES[0]), (UNWANTED, NAMES[1])])
def test_log_and_commands_say_what_became_of_the_message(
    bench: Bench, caplog: pytest.LogCaptureFixture, provider: dict[str, str], body: str, key: str
) -> None:
    deployment = deploy(bench, provider=provider)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        identity = deployment.send("orders", body)
        deployment.drain()
    (line,) = logged(caplog, "an event was not published")
    assert line["copy"] == f"none: there is no {key}"
    call = Commands(deployment.directory)
    gone = f"there was no {key}, so it was settled without a copy"
    assert f"  now: in no queue: {gone}\n" in call("history", identity).stdout
    assert call("history", identity, "--json").document["why_gone"] == gone
    refused = call("errors").refusal()
    assert "the configuration has no ErrorDestination" in refused
    assert "connector history --since 7d shows which have failed" in refused


def test_a_copy_needs_no_such_word(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    deployment = deploy(bench, *NAMES)
    with caplog.at_level(logging.WARNING):
        identity = deployment.send("orders", FAILED)
        deployment.drain()
    (line,) = logged(caplog, "an event was not published")
    assert "copy" not in line
    call = Commands(deployment.directory)
    assert "now: waiting in queue://errordestination" in call("history", identity).stdout
    call("receive", "errordestination")
    assert "  now: in no queue\n" in call("history", identity).stdout
