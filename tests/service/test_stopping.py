"""A stop has an end, whatever it waits for: work in flight, reads, and the call of a first signal."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from connector.cli import run
from connector.config.loading import load
from connector.errors import ProviderError
from connector.service import shared_reads, stopping
from connector.service.adapter import Adapter
from connector.service.shared_reads import SharedReads
from connector.service.stopping import StopRequest
from tests.forked_command import PipedProcess
from tests.tables import rows
from tests.waiting import beside, wait_for


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """An event for which something waits until the end of the test."""
    event = threading.Event()
    yield event
    event.set()


@rows("timeout", [0.0, 0.01, 3600.0])
def test_work_is_aborted_again_and_again_until_it_has_ended(
    timeout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work that begins at the moment of an abort does not notice it. An abort may fail, too."""
    aborts: list[int] = []

    def abort() -> None:
        aborts.append(len(aborts))
        raise ProviderError("the provider is away")

    monkeypatch.setattr("connector.service.stopping._AGAIN_SECONDS", 0.01)
    stop = StopRequest(timeout, abort)
    stop.make()
    for _ in range(2):
        stop.start_timer()
    if timeout < 1:
        wait_for(lambda: len(aborts) > 2)
    stop.cancel_timer()
    wait_for(lambda: not [one for one in threading.enumerate() if one.name == "connector-stop"])
    assert (aborts == []) is (timeout > 1), "work that ends in time is not aborted"


def test_a_look_that_hangs_is_an_error_and_its_result_comes_later(
    never: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_reads, "_PATIENCE", 0.05)
    reads = SharedReads()
    for _ in range(2):
        with pytest.raises(ProviderError, match="has not answered for"):
            reads.get("queues", lambda: never.wait() and 7)
    never.set()

    def found() -> Any:
        with suppress(ProviderError):
            return reads.get("queues", lambda: 0)

    assert wait_for(found) == 7


def test_a_second_signal_ends_the_process_although_the_first_one_hangs(
    never: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[int] = []
    monkeypatch.setattr(os, "_exit", ends.append)
    stopped = threading.Event()
    beside(run._take_signal, signal.SIGTERM, stopped, lambda _: never.wait()).result(60)
    assert (stopped.is_set(), ends) == (True, [])
    run._take_signal(signal.SIGHUP, stopped, lambda _: None)
    assert not ends
    run._take_signal(signal.SIGINT, stopped, lambda _: None)
    assert ends == [128 + signal.SIGINT]


REQUESTS_ONLY = """\
provider: {type: dropbox, root: ./data, create: true}
connector: {ApplicationName: asking, DataHandlerMimeType: application/json, stop_timeout: 0s}
metaobjects: ./metaobjects
"""
WITH_A_THREAD = """
import threading
from connector.cli.__main__ import main
from connector.service import stopping

stopping._HANGS = 0.1
threading.Thread(target=threading.Event().wait, name="never").start()
main()
"""


@pytest.fixture
def requests_only(tmp_path: Path) -> Path:
    """The directory of a deployment without inputs."""
    (tmp_path / "metaobjects").mkdir()
    (tmp_path / "adapter.yaml").write_text(REQUESTS_ONLY)
    return tmp_path


@pytest.mark.parametrize(
    "call",
    [
        lambda adapter: adapter.request_stop(),
        lambda adapter: adapter.finish(),
        lambda adapter: adapter.start(),
        run._stop,
    ],
    ids=["signal", "end of a service", "failed start", "end of a run"],
)
def test_each_stop_that_hangs_is_noticed(
    requests_only: Path,
    never: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[Adapter], object],
) -> None:
    hangs = threading.Event()
    adapter = Adapter(load(requests_only / "adapter.yaml"), on_hang=hangs.set)

    def fail() -> None:
        raise ProviderError("the provider is away")

    monkeypatch.setattr(stopping, "_HANGS", 0.01)
    monkeypatch.setattr(adapter._connection, "start", fail)
    for name in ("request_stop", "stop"):
        monkeypatch.setattr(adapter._connection, name, never.wait)
    assert not hangs.is_set()
    beside(call, adapter)
    assert hangs.wait(60)


@pytest.mark.process
@pytest.mark.parametrize("option", [None, "--once"])
def test_a_process_whose_threads_do_not_end_after_a_stop_ends_a_while_later(
    requests_only: Path, option: str | None
) -> None:
    """The while is a minute as a rule."""
    arguments = filter(None, ("run", option))
    with PipedProcess(*arguments, script=WITH_A_THREAD, cwd=requests_only) as process:
        assert "starting" in process.stderr.readline()
        if option is None:  # with an option it stops by itself
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
        assert "the stop hangs, so the process ends at once" in errors
        assert re.search(r"'never': '[^']*threading\.py:\d+ wait < ", errors)
        assert process.wait() == 1
