"""script/demo, as a newcomer runs it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.forked import Forks

pytestmark = pytest.mark.process
REPOSITORY = Path(__file__).resolve().parents[2]


class Clone:
    """What ``script/demo`` needs of a repository, with the environment that runs the tests."""

    def __init__(self, directory: Path, forks: Forks) -> None:
        self.directory = directory
        self._forks = forks
        for name in ("adapter.yaml", "processes.py"):
            shutil.copy(REPOSITORY / name, directory)
        for name in ("metaobjects", "examples"):
            shutil.copytree(REPOSITORY / name, directory / name)
        (directory / "script").mkdir()
        shutil.copy(REPOSITORY / "script/demo", directory / "script")
        self._script("script/bootstrap", "exit 0")
        self._script(".venv/bin/python", f'PYTHONPATH="{REPOSITORY}" exec "{sys.executable}" "$@"')

    def _script(self, name: str, command: str) -> None:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{command}\n", "utf-8")
        path.chmod(0o755)

    def demo(self, cwd: Path = Path("/"), *, spark: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs the demo. The test forks its commands, but for a run with Spark."""
        run = f'[ "$1" != run ] || exec "{sys.executable}" -m connector.cli.app "$@"\n' if spark else ""
        command = f'export PYTHONPATH="{REPOSITORY}"\n{run}exec {self._forks.command} "$@"'
        self._script(".venv/bin/connector", command)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            [self.directory / "script/demo"],
            cwd=cwd,
            env={**inherited, "CONNECTOR_CONFIG": "/nowhere/adapter.yaml", "CDPATH": "/"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def files(self) -> set[str]:
        """Everything but ``data/`` and byte code."""
        found = (path.relative_to(self.directory) for path in self.directory.rglob("*") if path.is_file())
        return {str(path) for path in found if path.parts[0] != "data" and "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(dir=memory, prefix="demo of the adapter ") as directory,
        Forks(tmp_path_factory.mktemp("forks")) as forks,
    ):
        yield Clone(Path(directory), forks)


@pytest.fixture(scope="module")
def wrong(clone: Clone) -> str:
    """What the first demo of ``clone`` prints, in which a process fails. Spark has no part in that."""
    processes = clone.directory / "processes.py"
    text = processes.read_text("utf-8")
    broken = text.replace('    _append("notes", note, event)', '    raise ValueError("no more paper")')
    assert broken != text
    processes.write_text(broken, "utf-8")
    result = clone.demo(spark=False)
    processes.write_text(text, "utf-8")
    assert result.returncode == 1, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def output(clone: Clone, wrong: str) -> str:
    """What the second demo prints. It ends well from anywhere, and makes no file beside its data."""
    assert "WRONG" in wrong
    before = clone.files()
    result = clone.demo(clone.directory / "metaobjects")
    assert result.returncode == 0, result.stdout + result.stderr
    assert clone.files() == before
    return result.stdout


def test_the_demo_fails_and_says_why_when_a_count_is_wrong(wrong: str) -> None:
    assert "WRONG: queue://notes published: 0, expected 100" in wrong
    assert "100 x queue://notes: Note processes:keep_note: ValueError: no more paper" in wrong


def test_the_demo_shows_a_table_a_malformed_message_and_an_unsubscribed_one_and_leaves_nothing(
    clone: Clone, output: str
) -> None:
    assert "nothing is left in the inputs" in output
    assert "All right" in output
    data = clone.directory / "data/demo"
    assert list((data / "dropboxmq/clients").iterdir()) == []
    assert [path.name for path in data.iterdir() if path.name.startswith("temporary")] == []
    rows = dict(re.findall(r"^(queue://\w+|all) +([\d ]+)$", output, re.MULTILINE))
    # claimed, published, archived, in error, unsubscribed, duplicate, expired
    expected = {
        "queue://orders": "203 200 200 3 0 0 0",
        "queue://customers": "204 200 201 1 2 1 0",
        "queue://notes": "101 100 100 1 0 0 1",
        "all": "508 500 501 5 2 1 1",
    }
    assert {name: " ".join(rows[name].split()) for name in expected} == expected
    assert "connector_reason (string): the body is no JSON" in output
    assert "connector_reason (string): no subscription wants Customer.Delete" in output


def test_what_the_processes_received_has_headers_and_text_as_they_were_sent(
    clone: Clone, output: str
) -> None:
    assert "All right" in output
    received = clone.directory / "data/demo/received"
    customers = [json.loads(line) for line in (received / "customers.jsonl").read_text("utf-8").splitlines()]
    created = next(record for record in customers if record["CustomerId"] == "C-1")
    found = [created[name] for name in ("Name", "region", "verb", "Address")]
    assert found == ["Ærø & Søn 1", "EU", "Create", [{"City": "København"}]]
    updated = next(record for record in customers if record["CustomerId"] == "C-4")
    assert updated["event"].startswith("ID:"), "made when the file was claimed"
    assert updated["verb"] == "Update"
    sent = sorted((clone.directory / "data/demo/erp-orders/incoming/target").iterdir())
    order = json.loads(sent[0].read_bytes())
    assert order["BusinessObject"] == "Order"
    assert {path.name.split(".")[6] for path in sent} == {"ORDER_V2"}


def test_a_second_deployment_asks_and_gets_the_answers_of_the_process(clone: Clone, output: str) -> None:
    answers = dict(re.findall(r"^  (C-\d+): (\{.*\})$", output, re.MULTILINE))
    found = json.loads(answers["C-199"])
    assert (found["status"], found["object"]["Name"]) == ("VALCHANGE", "Ærø & Søn 199")
    assert found["object"]["Address"] == [{"City": "København"}]
    missing = json.loads(answers["C-999"])
    assert (missing["status"], missing["message"]) == ("BO_DOES_NOT_EXIST", "there is no customer C-999")
    assert "both answers are those of find_customer" in output
