"""The reference pages name what there is, all of it, and nothing else."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from connector.businessobjects.metadata import READERS
from connector.cli.app import VERBS
from connector.formats.catalogue import discover
from connector.formats.plan import MAX_DEPTH
from connector.http import connections, throttled_log
from connector.http.actions import ACTIONS
from connector.http.answers import STATUS
from connector.http.calls import ServerLimits
from connector.http.idempotency import KeptAnswers
from connector.http.openapi import describe_requests
from connector.messaging.history import EVENT_ID
from connector.messaging.settlement import HISTORY
from connector.requests.replies import RESULTS
from connector.requests.result import GOOD
from connector.status import ReturnCode
from connector.stores.dropbox import codec
from connector.stores.dropbox.claims import split_tag
from connector.stores.dropbox.layout import FOLDERS, RootLayout
from connector.stores.dropbox.transaction_log import format_record, parse_record
from tests.docs.reader import options_of
from tests.http.world import DEFINITIONS
from tests.tables import rows

REFERENCE = Path(__file__).resolve().parents[2] / "docs/reference"
COMMON = {"--config", "-c", "--json", "--help", "-h"}


def page(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text("utf-8")


def section(text: str, heading: str) -> str:
    """The part of a page under one heading."""
    _, found, rest = text.partition(f"\n{heading}\n")
    assert found, heading
    level = heading.split()[0]
    return re.split(rf"^{level} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


@rows("verb", VERBS)
def test_the_page_of_commands_names_every_option_of_a_verb_and_no_other(verb: str) -> None:
    described = set(
        re.findall(r"^\| `(--[a-z-]+)", section(page("commands"), f"## `connector {verb}`"), re.MULTILINE)
    )
    options = {name for name in options_of(verb) if name.startswith("--")}
    assert described == options - COMMON


def test_the_page_of_commands_has_every_verb() -> None:
    assert set(re.findall(r"^## `connector (\S+)`$", page("commands"), re.MULTILINE)) == set(VERBS)


def test_every_file_name_in_the_examples_is_structured_and_survives_a_round_trip() -> None:
    examples = re.findall(r"^```text name\n(.*?)^```$", page("file-names"), re.MULTILINE | re.DOTALL)
    names = [line for example in examples for line in example.splitlines()]
    assert len(names) >= 3
    for name in names:
        assert codec.split(name) is not None, name
        assert codec.encode(codec.decode(name)[0]) == name


def test_the_names_that_are_called_bare_are() -> None:
    sentence = re.search(r"Any other name is \*bare\*: (.*?)\. ", page("file-names"), re.DOTALL)
    assert sentence is not None
    names = re.findall(r"`([^`]+)`", sentence.group(1))
    assert names
    assert [name for name in names if codec.split(name) is not None] == []


def test_the_example_of_a_claim_names_client_cycle_and_number() -> None:
    claimed = re.search(r"^\S+~@\S+$", section(page("file-names"), "## Claims"), re.MULTILINE)
    assert claimed is not None
    name, tag = split_tag(claimed.group())
    assert codec.split(name) is not None
    assert tag is not None
    assert (tag.owner.cycle, tag.owner.sequence) == (100, 51)


def test_the_letters_of_property_types_are_those_of_the_codec() -> None:
    line = re.search(r"^Type letters: (.*)$", page("file-names"), re.MULTILINE)
    assert line is not None
    described = {kind: letter for letter, kind in re.findall(r"`(\w)` (\w+)", line.group(1))}
    assert described == codec.TYPE_LETTERS


def test_the_properties_of_copies_are_those_that_a_settlement_gives() -> None:
    table = section(page("file-names"), "## Properties of copies")
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == HISTORY


def test_the_page_of_names_has_the_property_of_what_is_sent() -> None:
    assert f"| `{EVENT_ID}` |" in section(page("file-names"), "## Headers of what a subscription sends")


def test_the_example_of_a_commit_record_is_one() -> None:
    example = re.search(r"^```text record\n(.*?)^```$", page("files"), re.MULTILINE | re.DOTALL)
    assert example is not None
    moves = parse_record(example.group(1).encode())
    assert [move.kind for move in moves] == ["sent", "received"]
    assert moves[1].published == "queue://orders|ID:o1"
    assert format_record(moves).decode() == example.group(1)


def test_the_tree_of_files_names_every_folder_that_a_root_has(tmp_path: Path) -> None:
    layout = RootLayout(tmp_path)
    layout.prepare()
    made = {path.name for path in (tmp_path / "dropboxmq").rglob("*") if path.is_dir()} | set(FOLDERS)
    tree = re.search(r"^```text\n(<root>/.*?)^```$", page("files"), re.MULTILINE | re.DOTALL)
    assert tree is not None
    assert {folder for folder in made if f"{folder}/" not in tree.group(1)} == set()


def test_the_page_of_formats_has_every_option_of_every_shipped_handler_with_its_default(
    tmp_path: Path,
) -> None:
    text = page("data-formats")
    for handler in discover(tmp_path).handlers:
        heading = next(
            line
            for line in text.splitlines()
            if line.startswith("## ") and f"`{handler.mime_types[0]}`" in line
        )
        described = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", section(text, heading), re.MULTILINE))
        described = {name: default.strip("`") for name, default in described.items()}
        assert described == {option.name: _shown(option.default) for option in handler.options or ()}, heading


def _shown(default: object) -> str:
    if default in (" ", "\r\n"):
        return {" ": "a space", "\r\n": "CR LF"}[str(default)]
    return str(default).lower() if isinstance(default, bool) else str(default) or "empty"


# -- requests -----------------------------------------------------------------------------------------


def cells(heading: str, pattern: str) -> list[tuple[str, str]]:
    """The cells of two columns of the page of requests, under a heading."""
    part = re.split(r"^#+ ", page("requests").partition(f"\n{heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[
        0
    ]
    return re.findall(rf"^\| {pattern} \|", part, re.MULTILINE)


def test_the_table_of_properties_of_requests_is_that_of_the_readers() -> None:
    assert sorted(name for name, _ in cells("## Properties", r"`(\w+)`()")) == sorted(READERS)


def test_the_table_of_replies_is_that_of_the_results() -> None:
    described = cells("## Replies", r"`(\w+)` \| `(\w+)`")
    assert described == [(name, code.name) for name, code in RESULTS.items()]


def test_the_numbers_of_return_codes_are_those_that_requests_answer() -> None:
    described = dict(cells("## Return codes", r"`(\w+)` \| (-?\d+)"))
    assert described == {code.name: str(code.value) for code in RESULTS.values()}


def test_what_is_not_negative_went_well_but_valdupes() -> None:
    well = {code for code in RESULTS.values() if code.value >= 0} - {ReturnCode.VALDUPES}
    assert well == GOOD


# -- the HTTP server ----------------------------------------------------------------------------------


HTTP = page("http")


def test_the_table_of_return_codes_is_that_of_the_server() -> None:
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| (\d+) \|", HTTP, re.MULTILINE))
    assert rows == {code.name: str(status.value) for code, status in STATUS.items()}


def test_the_page_has_every_call_of_operators() -> None:
    rows = set(re.findall(r"^\| `([A-Z]+ /control/[^?`]+)[^|]*\|", HTTP, re.MULTILINE))
    assert rows == {f"{one.method} {one.path.replace(':path', '')}" for one in ACTIONS}


def test_every_status_that_is_described_has_its_row() -> None:
    operation = describe_requests(DEFINITIONS, True)["paths"]["/requests/Order/Create"]["post"]
    rows = set(re.findall(r"^\| (\d{3}) \|", HTTP, re.MULTILINE)) | {
        str(status.value) for status in STATUS.values()
    }
    assert rows == set(operation["responses"])


def test_the_limits_are_those_of_the_server() -> None:
    assert f"and {ServerLimits().body_seconds:g} s |" in HTTP
    assert f"and {ServerLimits().head_seconds:g} s |" in HTTP
    assert f"| idle connection | {connections.KEEP_ALIVE_SECONDS} s |" in HTTP
    assert f"| head | {connections.HEAD_BYTES >> 10} KiB, and" in HTTP
    assert f"every {throttled_log.SECONDS:g} s at most" in HTTP
    kept = inspect.signature(KeptAnswers).parameters["most_bytes"].default
    assert f"{kept >> 20} MiB" in HTTP
    assert f"nesting beyond {MAX_DEPTH})" in HTTP
