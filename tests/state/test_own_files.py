"""Files and directories that the connector makes are for its user and group, less the umask."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from connector import own_files
from connector.config.loading import check
from connector.messaging.message import Message
from connector.operate.lives import note_action
from tests.cli.in_process import Commands
from tests.events.conftest import ORDER, Bench, EventDeployment, bench
from tests.tables import rows

__all__ = ["bench"]

PROCESSES = """\
def a(order, event):
    event.transaction.execute("INSERT INTO booking VALUES (:id)", {"id": order["Id"]})
"""
DROPBOX = {"root": "./new/data"}
SQLITE = {"type": "sql", "url": "sqlite:///./new/messages.db"}


def deploy(bench: Bench, provider: dict[str, str]) -> EventDeployment:
    return bench.deploy(
        provider=provider,
        subscriptions=[{"object": "Order", "process": "processes:a", "transaction": "shop"}],
        processes=PROCESSES,
        more={"databases": {"shop": {"url": "sqlite:///./shop.db"}}},
        DuplicateEventElimination=True,
    )


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(directory: Path) -> dict[str, int]:
    """The modes of all files and directories below a directory, but of sockets."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        if not stat.S_ISSOCK(status.st_mode):
            found[str(path.relative_to(directory))] = stat.S_IMODE(status.st_mode)
    return found


def _run(deployment: EventDeployment) -> None:
    with closing(sqlite3.connect(deployment.directory / "shop.db")) as database:
        database.execute("CREATE TABLE booking (id TEXT)")
        database.commit()
    os.chmod(deployment.directory / "shop.db", 0o600)
    subscribe = ("subscribe", "topic://news", "--subscription", "all", "--client-id", "reader")
    assert Commands(deployment.directory)(*subscribe).returncode == 0
    with deployment.running() as running:
        deployment.send("topic://news", Message(b"news", type="t" * 300))
        deployment.send("orders", ORDER)
        deployment.send("orders", ORDER, type="t" * 300)
        deployment.send("orders", "no JSON")
        deployment.send("later", ORDER, delivery_time=1 << 50)
        running.drain()
        assert len(deployment.ids("archive")) >= 1
        note_action(deployment.provider.state("test").history(), "moved", ["ID:1"], by="me")


@rows("mask", [0, 0o027])
@rows("provider", [DROPBOX, SQLITE])
def test_what_a_run_makes_is_for_user_and_group_less_the_umask(
    bench: Bench, provider: dict[str, str], mask: int
) -> None:
    deployment = deploy(bench, provider)
    before = set(modes(deployment.directory)) | {"shop.db"}
    with umask(mask):
        _run(deployment)
    found = modes(deployment.directory)
    made = {name: found[name] for name in found.keys() - before if "__pycache__" not in name}
    assert len(made) > 10, made
    for name, mode in made.items():
        most = own_files.DIRECTORY if (deployment.directory / name).is_dir() else own_files.FILE
        assert mode == most & ~mask, f"{name} has {mode:04o}"


def test_what_commands_write_is_for_user_and_group(tmp_path: Path) -> None:
    call = Commands(tmp_path)
    with umask(0):
        assert call("init", "shop").returncode == 0
        assert Commands(tmp_path / "shop")("new", "datahandler", "bank").returncode == 0
    assert set(modes(tmp_path).values()) == {own_files.FILE, own_files.DIRECTORY}


@rows(
    "provider, mode, mended",
    [
        *((DROPBOX, mode, "chmod -R o-rwx") for mode in (0o755, 0o2775, 0o771)),
        *((DROPBOX, mode, "") for mode in (0o770, 0o2770)),
        (SQLITE, 0o644, "messages.db*"),
        (SQLITE, 0o660, ""),
    ],
)
def test_check_warns_of_what_others_may_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, provider: dict[str, str], mode: int, mended: str
) -> None:
    deployment = deploy(bench, provider)
    path = deployment.directory / "new" / ("data" if provider is DROPBOX else "messages.db")
    path.parent.mkdir()
    path.touch() if path.suffix else path.mkdir()
    path.chmod(mode)
    found = check(deployment.directory / "adapter.yaml")
    assert [one for one in found if "every user" in one.found] == [], "nobody else comes as far as there"
    monkeypatch.setattr(own_files, "_MAY_PASS", 0o700)  # as if the directories above let others pass
    told = [one for one in check(deployment.directory / "adapter.yaml") if "every user" in one.found]
    assert [one.warning for one in told] == [True] * bool(mended)
    for one in told:
        assert f"{mode & 0o777:04o}" in one.found
        assert mended in one.expected
