"""``connector init``, with a first run of what it writes."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest

from connector.cli.hints import command_line
from connector.cli.summary import print_next
from connector.config.loading import load
from connector.events.outcome import Outcome
from connector.events.summary import Summary
from connector.status import OutcomeKind
from tests import forked_command
from tests.cli.in_process import call
from tests.tables import rows


@pytest.mark.process
def test_what_is_written_runs_by_the_commands_that_are_named(tmp_path: Path) -> None:
    """The run uses no Spark. The pages of the tutorial and of installation run the same with Spark."""
    written = call(tmp_path, "init", "a shop")
    assert written.returncode == 0, written.stderr
    first, *commands = re.findall(r"^  (.*)$", written.stdout, re.MULTILINE)
    assert first == "cd 'a shop'"
    shop = tmp_path / "a shop"
    done = []
    for command in commands:
        name, *arguments = command.split()
        assert Path(name).name == "connector"
        done.append(forked_command.run(arguments, cwd=shop))
        assert done[-1].returncode == 0, (command, done[-1].stderr)
    check, send, run, browse = done
    assert check.stderr == "adapter.yaml: no mistakes, no warnings\n"
    assert send.stderr == ""
    assert "1 published" in run.stderr
    assert send.stdout.strip() in browse.stdout
    assert (shop / "booked.txt").read_text() == "O-1 12.50\n"
    made = {path.name for path in shop.iterdir()} - {"__pycache__", ".connector", "data", "booked.txt"}
    assert made == {".gitignore", "adapter.yaml", "metaobjects", "order.json", "processes.py"}
    ignored = (shop / ".gitignore").read_text().split()
    assert ignored == ["/data/", "/.connector/", "/booked.txt", "__pycache__/"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "metaobjects").mkdir()
    (tmp_path / "processes.py").write_text("mine")
    (tmp_path / "metaobjects/order.yaml").symlink_to("nowhere")
    before = sorted(tmp_path.rglob("*"))
    assert call(tmp_path, "init", ".").refusal() == (
        "connector: .: there is metaobjects/order.yaml, processes.py already; nothing was written\n"
    )
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "processes.py").read_text() == "mine"
    assert "Not a directory" in call(tmp_path, "init", "processes.py/shop").refusal()


@pytest.mark.process
def test_a_command_that_is_not_found_by_its_name_is_named_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    written = call(tmp_path, "init", "shop")
    first, *commands = re.findall(r"^  (.*)$", written.stdout, re.MULTILINE)
    assert first == "cd shop"
    program = Path(sys.executable).with_name("connector")
    assert commands[0] == f"{program} check"
    done = subprocess.run(commands[0], shell=True, cwd=tmp_path / "shop", capture_output=True, text=True)
    assert done.stderr == "adapter.yaml: no mistakes, no warnings\n"


@pytest.mark.process
def test_at_a_terminal_a_command_names_the_next_one(tmp_path: Path) -> None:
    assert call(tmp_path, "init", "shop").returncode == 0
    command = ["send", "orders", "--body", "shop/order.json", "-c", "shop/adapter.yaml"]
    ours, terminal = pty.openpty()
    with tempfile.TemporaryFile() as errors:
        sent = forked_command.ForkedProcess(
            command, cwd=tmp_path, env=os.environ, stdout=terminal, stderr=errors.fileno()
        )
        assert os.read(ours, 4096).startswith(b"ID:")
        sent.wait(120)
        errors.seek(0)
        said = errors.read().decode()
    os.close(terminal)
    os.close(ours)
    assert said == f"no adapter runs; next: {command_line('run --drain')} -c shop/adapter.yaml\n"
    assert call(tmp_path, *command).stderr == ""


@rows(
    "outcomes, command",
    [
        ([], "queues"),
        (["published"], "browse archive"),
        (["published", "unsubscribed"], "browse unsubscribed"),
        (["published", "unsubscribed", "failed"], "browse error"),
        (["duplicate"], None),
    ],
)
def test_after_a_run_the_next_command_shows_what_went_wrong_first(
    tmp_path: Path, outcomes: list[str], command: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path, "init", "shop").returncode == 0
    summary = Summary()
    for number, kind in enumerate(outcomes):
        outcome = Outcome(OutcomeKind(kind), reason=kind)
        summary.count_outcome("queue://orders", f"ID:{number}", outcome, discarded=False)
    file = str(tmp_path / "shop/adapter.yaml")
    print_next(summary, load(file).connector.copies, file)
    expected = "" if command is None else f"next: {command_line(command, file)}\n"
    assert capsys.readouterr().err == expected


def test_the_help_names_the_first_command(tmp_path: Path) -> None:
    assert re.search(r"Begin with: \S*connector init shop", " ".join(call(tmp_path).stderr.split()))
    assert re.search(r"Begin with: \S*connector init shop", " ".join(call(tmp_path, "-h").stdout.split()))
    assert "connector init DIR writes one" in call(tmp_path, "check").stdout
    assert call(tmp_path, "--version").stdout == f"connector {version('event-connector')}\n"
