"""The documentation is true: its links, its configurations, its commands, and what they print."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from connector.brokers.jms.section import QPID_PACKAGES
from connector.cli.verbs import find_verbs
from connector.config.loading import check
from connector.config.model import AdapterFile
from tests.docs.forked import Forks
from tests.docs.reader import Terminal, blocks, options_of, without_blocks
from tests.tables import rows

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").rglob("*.md"))]
IN_THE_CLONE = {
    "docs/how-to/read-flat-files.md",
    "docs/reference/commands.md",
    "docs/tutorial/order-to-invoice.md",
    "docs/tutorial/tour-of-the-demo.md",
}
"""Pages whose reader stands in a clone of the repository; any other begins in an empty directory."""
NOT_RUN = {
    ("CONTRIBUTING.md", "own-tests"): 2,  # scripts of this repository, and parts of these tests
    ("PACKAGE.md", "needs-packages"): 1,  # test_installation.py compares it with the page that it follows
    ("README.md", "own-tests"): 1,  # script/demo is run by tests/demo, script/test runs all tests
    ("README.md", "needs-packages"): 1,  # test_installation.py follows it
    ("docs/how-to/install.md", "needs-packages"): 5,  # test_installation.py follows this page
    ("docs/how-to/install.md", "needs-uv"): 1,
    ("docs/how-to/install.md", "needs-pipx"): 1,
    ("docs/how-to/jms-broker.md", "needs-packages"): 1,
    ("docs/how-to/jms-broker.md", "needs-broker"): 3,  # tests/servers/test_example.py follows this page
    ("docs/questions/jms-from-python.md", "needs-broker"): 1,  # likewise
    # tests/lake/test_events_source.py runs queries
    ("docs/how-to/read-events-with-spark.md", "needs-spark"): 1,
    ("docs/how-to/read-events-with-spark.md", "needs-a-cluster"): 1,  # the page says so
    ("docs/how-to/run-as-a-service.md", "needs-root"): 2,
    # test_container.py runs the commands of the Dockerfile that make the wheel, and checks the example
    ("docs/how-to/run-in-a-container.md", "needs-docker"): 3,
    # tests/servers/spark runs a cluster (test_cluster.py) and spark-submit (test_sessions.py)
    ("docs/how-to/run-on-a-cluster.md", "needs-several-hosts"): 2,
}
"""Page and reason -> number of blocks whose commands are not run here."""

_OUTSIDE = re.compile(
    r"(?:^|[\s=>])/(?:etc|mnt|opt|srv|usr|var)/|\b(?:sudo|systemctl|groupadd|useradd|usermod)\b"
)
"""What changes the machine of whoever runs the tests: as root, it would."""


def name(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


EXECUTED = [page for page in PAGES if any(block.commands() and not block.not_run for block in blocks(page))]


@pytest.fixture
def memory() -> Iterator[Path]:
    """An empty directory in memory, where nothing waits for a disk."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory, prefix="reader-") as directory:
        yield Path(directory)


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    with Forks(tmp_path_factory.mktemp("forks")) as forks:
        yield forks


@pytest.fixture
def environment(tmp_path: Path, memory: Path, forks: Forks) -> dict[str, str]:
    """The reader's environment: ``connector`` and ``python`` are those under test.

    The test forks each command, without Spark, whose part is the same on all pages, and each program of
    Python that is a file, or pytest. test_installation.py follows pages with Spark.
    """
    forked = f'exec {forks.python} "$@"'
    python = f'case $1 in *.py) {forked} ;; -m) [ "$2" != pytest ] || {forked} ;; esac\n'
    python += f'exec "{sys.executable}" "$@"\n'
    for command, script in (("connector", f'exec {forks.command} "$@"\n'), ("python", python)):
        path = tmp_path / command
        path.write_text(f"#!/bin/sh\n{script}", "utf-8")
        path.chmod(0o755)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CONNECTOR"))},
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "TMPDIR": str(memory),
        "PYTEST_ADDOPTS": "-p no:schemathesis -p no:anyio "  # slow plug-ins that no reader has
        "-W ignore::pytest.PytestAssertRewriteWarning",  # the process that forks pytest has imported anyio
    }


@rows("page", PAGES)
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    text = without_blocks(page)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), f"{name(page)}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", found.read_text("utf-8"), re.MULTILINE)
            anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
            assert anchor in anchors, f"{name(page)}: {target}: there are {anchors}"


@rows("page", PAGES)
def test_every_part_of_a_shipped_file_stands_there_word_for_word(page: Path) -> None:
    for block in blocks(page):
        if block.part:
            file = (REPOSITORY / block.file).read_text("utf-8")
            inner = [textwrap.indent(block.text, " " * width) for width in (2, 4)]  # an entry, a method
            assert any(one in file for one in (block.text, *inner)), f"{name(page)}: {block.file}"


def test_the_front_page_fits_on_two_screens_and_shows_each_file_of_the_first_deployment() -> None:
    page = REPOSITORY / "README.md"
    assert len(page.read_text("utf-8").splitlines()) <= 110
    template = REPOSITORY / "connector/template"
    shown = {block.file for block in blocks(page) if block.part}
    assert shown == {
        str(file.relative_to(REPOSITORY))
        for pattern in ("*.yaml", "*.py", "metaobjects/*")
        for file in template.glob(pattern)
    }


def test_the_example_from_orders_to_invoices_is_as_short_as_its_page_says() -> None:
    example = REPOSITORY / "examples/order-to-invoice"
    lines = {
        suffix: sum(len(file.read_text("utf-8").splitlines()) for file in files)
        for suffix, files in {
            "yaml": [example / "adapter.yaml", *(example / "metaobjects").glob("*.yaml")],
            "py": example.rglob("*.py"),
        }.items()
    }
    assert lines["yaml"] <= 90
    assert lines["py"] <= 30


def test_the_page_of_contents_has_each_page_of_the_site_once_and_in_the_same_order() -> None:
    """The site has a navigation of its own. A reader of the repository has this page."""
    contents = re.findall(r"\]\(([a-z-]+/[\w.-]+\.md)\)", without_blocks(REPOSITORY / "docs/contents.md"))
    navigation = (REPOSITORY / "website/mkdocs.yml").read_text("utf-8")
    listed = re.findall(r"^ +- ([a-z-]+/[\w.-]+\.md)", navigation, re.MULTILINE)
    assert contents == listed, "give docs/contents.md a line for each page of website/mkdocs.yml"


_SECTIONS = {field.alias or key for key, field in AdapterFile.model_fields.items()}
_REST: dict[str, Any] = {
    "provider": {"type": "dropbox", "root": "./data"},
    "connector": {
        "ApplicationName": "shop",
        "InputDestination": "queue://in",
        "ArchiveDestination": "queue://archive",
        "ErrorDestination": "queue://error",
        "UnsubscribedDestination": "queue://unsubscribed",
        "DataHandlerMimeType": "application/json",
    },
    "databases": {"shop": {"url": "sqlite:///./shop.db"}},
    "metaobjects": "./metaobjects",
}
"""What a part of an ``adapter.yaml`` needs beside it."""
_CLIENT: dict[str, Any] = {
    "type": "jms",
    "factory": "org.apache.qpid.jms.JmsConnectionFactory",
    "url": "amqp://127.0.0.1:5672",
    "packages": ["org.apache.qpid:qpid-jms-client:2.10.0"],
}
"""The provider of a part that names none: a page on brokers."""
_OBJECT = """
business_object: {name}
verbs: [Create, Update, Delete]
attributes:
  {name}Id: {{type: String, key: true}}
  Country: String
"""


def _merged(whole: dict[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(whole)
    for key, value in part.items():
        both = isinstance(value, dict) and isinstance(whole.get(key), dict)
        merged[key] = _merged(whole[key], value) if both else value
    return merged


def _write_around(directory: Path, part: dict[str, Any]) -> None:
    """Writes a deployment with a part that a page shows, and the files that the part names."""
    given = part.get("provider", {})
    rest = _REST if "type" not in given else _REST | {"provider": {}}
    document = _merged(rest if not given or "type" in given else _REST | {"provider": _CLIENT}, part)
    (directory / "adapter.yaml").write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")
    packages = document["provider"].get("packages", QPID_PACKAGES)
    lock = "".join(f"# package: {one}\n" for one in packages)
    (directory / "connector-jars.lock").write_text(lock, "utf-8")
    for path in ("lib/client.jar", "trust.p12", "client.p12"):
        (directory / path).parent.mkdir(exist_ok=True)
        (directory / path).touch()
    (directory / "metaobjects").mkdir(exist_ok=True)
    for entry in document.get("subscriptions", ()):
        shown = _OBJECT.format(name=entry["object"])
        (directory / f"metaobjects/{entry['object']}.yaml").write_text(shown, "utf-8")
        module, _, function = entry.get("process", entry.get("load", "")).partition(":")
        if module:
            (directory / f"{module}.py").write_text(f"def {function}(first, second): pass\n", "utf-8")


def _fragments() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in blocks(page):
            if block.language == "yaml" and not block.file:
                documents = list(yaml.load_all(block.text, yaml.BaseLoader))
                if len(documents) == 1 and set(documents[0]) <= _SECTIONS:
                    yield name(page), block.text


@rows("page, text", _fragments())
def test_every_part_of_a_configuration_is_one_that_the_check_takes(
    tmp_path: Path, page: str, text: str
) -> None:
    part = yaml.load(text.replace("/etc/adapter/", f"{tmp_path}/"), yaml.BaseLoader)
    _write_around(tmp_path, part)
    environment = {one: f"the-secret-{one}" for one in re.findall(r"\$\{(\w+)}", text)}
    problems = check(tmp_path / "adapter.yaml", environment)
    assert [str(one) for one in problems if not one.warning] == [], page


@rows("page", PAGES)
def test_every_command_in_a_shell_block_is_a_verb_with_options_that_it_has(page: Path) -> None:
    text = "".join(block.text for block in blocks(page) if block.language in ("sh", "console"))
    for verb, rest in re.findall(r"(?:^|[ /])connector ([a-z-]+)([^\n|#>&]*)", text, re.MULTILINE):
        assert verb in find_verbs(), f"{name(page)}: connector {verb}"
        options = set(re.findall(r"(?<= )--?[a-z][a-z-]*", rest))
        assert options <= options_of(verb), f"{name(page)}: connector {verb}{rest}"
    for script in re.findall(r"(?:^|\s)(script/\w+)", text):
        assert os.access(REPOSITORY / script, os.X_OK), f"{name(page)}: {script}"


@pytest.mark.timeout(1200)
@pytest.mark.process
@pytest.mark.parametrize("page", EXECUTED, ids=name)
def test_a_page_followed_step_by_step_shows_what_it_says(
    page: Path, memory: Path, environment: dict[str, str]
) -> None:
    """Every command ends with status 0, unless the page shows another one with ``echo $?`` behind it."""
    workplace = memory / "work"
    workplace.mkdir()
    if name(page) in IN_THE_CLONE:
        _clone(workplace, environment)
    terminal = Terminal(workplace, environment)
    try:
        shown = ""  # the command before, where its status is not 0
        for block in blocks(page):
            if block.file and not block.part:
                path = workplace / block.file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, "utf-8")
            for command, expected in block.commands() if block.runs_here else []:
                assert not shown or command == "echo $?", f"{name(page)}: {shown}"
                assert not _OUTSIDE.search(command), f"{name(page)}: mark this not-run=REASON: {command}"
                if block.terminal:
                    terminal.run_beside(command)
                    continue
                status, found = terminal.run(command)
                if expected is not None:
                    assert _as_pattern(expected).fullmatch(found), f"{name(page)}: {command}\n{found}"
                shown = f"{command}: status {status}\n{found}" if status else ""
        assert not shown, f"{name(page)}: {shown}"
        assert terminal.close() == [], name(page)
    finally:
        terminal.kill()


def test_the_commands_that_are_not_run_everywhere_are_few_and_known() -> None:
    needed = Counter((name(page), block.program) for page in PAGES for block in blocks(page) if block.program)
    assert needed == {("docs/how-to/request-over-http.md", "curl"): 1}
    marks = Counter((name(page), block.not_run) for page in PAGES for block in blocks(page) if block.not_run)
    assert marks == NOT_RUN


def _clone(directory: Path, environment: dict[str, str]) -> None:
    """The shipped deployments, with the command where ``script/bootstrap`` puts it."""
    for part in ("adapter.yaml", "processes.py", "metaobjects", "datahandlers", "examples"):
        source = REPOSITORY / part
        (shutil.copytree if source.is_dir() else shutil.copy)(source, directory / part)
    (directory / ".venv/bin").mkdir(parents=True)
    for command in ("connector", "python"):
        found = shutil.which(command, path=environment["PATH"])
        assert found is not None
        (directory / ".venv/bin" / command).symlink_to(found)


def _as_pattern(expected: str) -> re.Pattern[str]:
    """A line ``...`` stands for any lines, ``...`` within a line for anything in it."""
    lines = []
    for line in expected.splitlines():
        if line == "...":
            lines.append(r"(?:[^\n]*\n)*?")
        else:
            lines.append(r"[^\n]*".join(re.escape(part) for part in line.split("...")) + r"\n")
    return re.compile("".join(lines))


@pytest.mark.process
def test_the_shipped_deployment_has_no_mistake(environment: dict[str, str], tmp_path: Path) -> None:
    environment["CONNECTOR_DATA"] = str(tmp_path / "data")
    terminal = Terminal(REPOSITORY, environment)
    try:
        assert terminal.run("connector check") == (0, "adapter.yaml: no mistakes, no warnings\n")
    finally:
        terminal.kill()
