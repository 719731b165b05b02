"""An adapter that can claim nothing says so, and why, until it can again."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from connector.service.observer import Observer
from connector.service.status_document import StatusReader
from connector.testing.deployment import InProcessAdapter
from tests.cli.in_process import Commands
from tests.events.conftest import ORDER, Bench, bench
from tests.stores.dropbox.steps import closed
from tests.tables import rows
from tests.waiting import wait_for

__all__ = ["bench"]

Breakage = Callable[[Path], AbstractContextManager[object]]


def _failing(number: int, *functions: str) -> Breakage:
    """Lets calls of functions fail for the messages that wait."""

    @contextmanager
    def broken(root: Path) -> Iterator[None]:
        def failing(call: Callable[..., object]) -> Callable[..., object]:
            def fail(path: object, *arguments: object, **named: object) -> object:
                if str(path).startswith(f"{root}/orders/incoming/target"):
                    raise OSError(number, os.strerror(number), str(path))
                return call(path, *arguments, **named)

            return fail

        with pytest.MonkeyPatch.context() as patch:
            for name in functions:
                patch.setattr(os, name, failing(getattr(os, name)))
            yield

    return broken


@contextmanager
def _read_only(root: Path) -> Iterator[None]:
    real = os.statvfs

    def statvfs(path: str) -> os.statvfs_result:
        found = list(real(path))
        found[8] |= os.ST_RDONLY
        return os.statvfs_result(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "statvfs", statvfs)
        yield


BREAKAGES: dict[str, tuple[Breakage, str]] = {
    "no descriptors": (_failing(errno.EMFILE, "listdir", "scandir"), "Too many open files"),
    "no descriptors in the system": (_failing(errno.ENFILE, "listdir", "scandir"), "Too many open files in"),
    "not to be read": (_failing(errno.EACCES, "listdir", "scandir"), "Permission denied"),
    "no answer": (_failing(errno.EIO, "listdir", "scandir"), "Input/output error"),
    "no memory": (_failing(errno.ENOMEM, "listdir", "scandir"), "Cannot allocate memory"),
    "no room": (_failing(errno.ENOSPC, "rename"), "No space left on device"),
    "no quota": (_failing(errno.EDQUOT, "rename"), "Disk quota exceeded"),
    "read-only since": (_failing(errno.EROFS, "rename"), "Read-only file system"),
    "read-only": (_read_only, "is read-only"),
    "not to be written": (lambda root: closed(root / "orders/incoming/target"), "Permission denied"),
    "no claims": (lambda root: closed(root / "orders/incoming/processing"), "Permission denied"),
}


def _turn(adapter: InProcessAdapter, times: int) -> None:
    """Does what the loop of a service does in so many polls."""
    for _ in range(times):
        adapter.look()
        adapter.serve()
        adapter.settle_ended()


@rows("what", BREAKAGES)
def test_what_keeps_an_adapter_from_claiming_is_told_until_it_is_over(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    breaks, words = BREAKAGES[what]
    deployment = bench.deploy(InputDestination="queue://orders", PollQuantity=1)
    caplog.clear()
    with caplog.at_level("INFO"), deployment.running() as adapter:
        monkeypatch.setattr("connector.service.stopping.StopRequest.wait", lambda self, seconds: None)
        monkeypatch.setattr("connector.stores.dropbox.left_files._FIRST_RETRY", 0.05)
        monkeypatch.setattr("connector.events.claim.free_disk._INTERVAL", 0.0)
        monkeypatch.setattr("connector.service.instance_notes._INTERVAL", 0.0)
        _turn(adapter, 1)
        observer = Observer(adapter, deployment.provider)
        reader = StatusReader(deployment.configuration, deployment.provider)
        assert (observer.not_ready(), observer.status()["reasons"], reader.read()["reasons"]) == ("", [], [])
        deployment.send("orders", ORDER)
        with breaks(bench.root):
            _turn(adapter, 6)
            observer.look_again()
            assert words in observer.not_ready()
            assert words in str(observer.status()["reasons"])
            assert [words in one.text for one in reader.read()["reasons"]] == [True], "told once"
            assert words in Commands(deployment.directory)("status").stdout
        assert len([one for one in caplog.records if words in str(vars(one).get("reason"))]) <= 3
        assert deployment.ids("archive") == []

        def is_archived() -> bool:
            _turn(adapter, 1)
            return len(deployment.ids("archive")) == 1

        wait_for(is_archived, 30)
        _turn(adapter, 1)
        observer.look_again()
        assert (observer.not_ready(), observer.status()["reasons"], reader.read()["reasons"]) == ("", [], [])


def test_two_inputs_of_a_queue_that_give_nothing_are_told_apart(bench: Bench) -> None:
    inputs = [{"destination": "queue://orders", "selector": f"region = '{name}'"} for name in ("EU", "US")]
    deployment = bench.deploy(InputDestination=inputs, PollQuantity=1)
    with deployment.running() as adapter:
        _turn(adapter, 1)
        for region in ("EU", "US"):
            deployment.send("orders", ORDER, properties={"region": region})
        with closed(bench.root / "orders/incoming/processing"):
            _turn(adapter, 3)
            assert adapter.obstacle.startswith("nothing can be claimed: Permission denied")
            inbound = adapter._connection.inbound
            assert inbound is not None
            assert list(inbound.closed) == [
                f"queue://orders (selector {one['selector']!r})" for one in inputs
            ]


def test_a_failure_that_a_new_connection_ends_leaves_nothing_behind(bench: Bench) -> None:
    deployment = bench.deploy(InputDestination="queue://orders", PollQuantity=1)
    with deployment.running() as adapter:
        _turn(adapter, 1)
        with _failing(errno.EIO, "listdir", "scandir")(bench.root):
            deployment.send("orders", ORDER)
            _turn(adapter, 1)
        assert adapter.obstacle == ""
