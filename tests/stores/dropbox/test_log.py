"""The transaction log: the text that the directory protocol has, in any order of options."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.errors import ProviderError
from connector.stores.dropbox.files import rename_new, rename_to_free_name
from connector.stores.dropbox.layout import RootLayout
from connector.stores.dropbox.transaction_log import (
    Copies,
    FileMove,
    format_record,
    parse_record,
    published_keys,
    roll_forward,
)
from tests.tables import rows

HEAD = "dropboxmq --creator-version 1.1 --type "

paths = st.lists(
    st.binary(min_size=1, max_size=20)
    .map(lambda raw: os.fsdecode(raw.replace(b"/", b"_").replace(b"\0", b"_")))
    .filter(lambda part: part not in (".", "..")),
    min_size=1,
    max_size=3,
).map("/".join)
keys = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"), min_size=1)
moves = st.builds(
    FileMove,
    st.sampled_from(["sent", "received"]),
    paths,
    st.none() | paths,
    st.none() | paths,
    st.none() | keys,
)


def unchanged(name: str, file: str) -> str:
    return name


def test_a_record_is_written_as_the_protocol_has_it() -> None:
    record = format_record(
        [
            FileMove("sent", "q/incoming/working/x~@c-0-0", "q/incoming/target/4.1-2.T"),
            FileMove(
                "received",
                "q/incoming/processing/4.1-2.T~@c-1-0",
                "archive/incoming/target/4.1-2.T",
                "q/incoming/target/4.1-2.T",
                "queue://q|ID:1-2",
            ),
            FileMove("received", "dropboxmq/headers/c-1", None),
        ]
    )
    assert record.decode().splitlines() == [
        HEAD + "sent --message-file q/incoming/working/x~@c-0-0 --commit-file q/incoming/target/4.1-2.T",
        HEAD + "received --message-file q/incoming/processing/4.1-2.T~@c-1-0"
        " --commit-file archive/incoming/target/4.1-2.T --rollback-file q/incoming/target/4.1-2.T"
        " --published queue://q|ID:1-2",
        HEAD + "received --message-file dropboxmq/headers/c-1",
    ]


def test_white_space_and_bytes_that_are_no_unicode_are_percent_encoded() -> None:
    record = format_record(
        [FileMove("sent", "q/a b\n--type x", os.fsdecode(b"q/caf\xe9"), None, "k --published é")]
    )
    assert record == (
        b"dropboxmq --creator-version 1.1 --type sent --encoding percent"
        b" --message-file q/a%20b%0A--type%20x --commit-file q/caf%E9 --published k%20--published%20%C3%A9\n"
    )


@given(st.lists(moves, max_size=5))
def test_what_was_written_reads_back(record: list[FileMove]) -> None:
    data = format_record(record)
    assert parse_record(data) == record
    assert published_keys(data) == [move.published for move in record if move.published]


@given(st.lists(st.tuples(paths, paths, paths, paths), max_size=5), st.booleans())
def test_copies_are_written_as_their_moves(rows: list[tuple[str, str, str, str]], has_keys: bool) -> None:
    copies = Copies(*(list(column) for column in zip(*rows, strict=True)))
    if not has_keys:
        copies.published = []
    moves = copies.moves()
    assert [move.published is not None for move in moves] == [has_keys] * len(rows)
    sent = FileMove("sent", "a", "b")
    assert format_record([sent], [copies, copies]) == format_record([sent, *moves, *moves])


@given(st.permutations(["--type received", "--message-file a b", "--commit-file c", "--creator-version 1.0"]))
def test_options_come_in_any_order_and_values_may_have_blanks(options: list[str]) -> None:
    assert parse_record(f"dropboxmq {' '.join(options)}\n".encode()) == [FileMove("received", "a b", "c")]


def test_empty_lines_and_options_that_are_not_known_mean_nothing() -> None:
    line = f"{HEAD}sent --message-file a --commit-file b --colour red"
    assert parse_record(f"\n{line}\n\n".encode()) == [FileMove("sent", "a", "b")]


@rows(
    "line, reason",
    [
        ("nonsense", "does not begin with 'dropboxmq'"),
        (f"{HEAD}sent", "no type or no message file"),
        ("dropboxmq --message-file a", "no type or no message file"),
        (f"{HEAD}stolen --message-file a", "no type or no message file"),
        (f"{HEAD}sent --message-file /etc/passwd", "leaves the root"),
        (f"{HEAD}sent --message-file a --commit-file ../x", "leaves the root"),
        (f"{HEAD}sent --message-file a --commit-file b/../../x", "leaves the root"),
        (f"{HEAD}sent --message-file a --rollback-file ..", "leaves the root"),
        (f"{HEAD}sent --encoding percent --message-file %2E%2E/x", "leaves the root"),
        (f"{HEAD}sent --encoding percent --message-file a%00b", "no file name"),
        (f"{HEAD}sent --message-file a --commit-file ", "no file name"),
        (f"{HEAD}sent --message-file a --commit-file b/", "no file name"),
    ],
)
def test_a_line_that_must_not_be_followed_is_refused_with_its_number(line: str, reason: str) -> None:
    good = f"{HEAD}sent --message-file a --commit-file b"
    with pytest.raises(ProviderError, match=f"line 2 .*{reason}"):
        parse_record(f"{good}\n{line}\n".encode())


def test_a_record_can_be_finished_any_number_of_times(root: Path) -> None:
    for name in ("a", "b", "c"):
        (root / name).write_text(name)
    (root / "q").mkdir()
    os.link(root / "a", root / "q/a")  # half made
    record = [("a", "q/a"), ("b", "q/b"), ("c", None)]
    RootLayout(root).prepare()
    for _ in range(3):
        assert roll_forward(RootLayout(root), record, unchanged) == {f"{root}/q", f"{root}/"}
        assert sorted(os.listdir(root)) == ["dropboxmq", "q"]
        assert {path.name: path.read_text() for path in (root / "q").iterdir()} == {"a": "a", "b": "b"}


@rows("rename", [rename_new, lambda s, t: rename_to_free_name(s, t, unchanged)])
def test_an_existing_name_is_never_replaced(root: Path, rename: Callable[[str, str], object]) -> None:
    (root / "4.1.T").write_text("new")
    (root / "x").mkdir()
    (root / "x/4.1.T").write_text("old")
    try:
        rename(str(root / "4.1.T"), str(root / "x/4.1.T"))
    except FileExistsError:
        assert (root / "4.1.T").read_text() == "new"
    assert (root / "x/4.1.T").read_text() == "old"
    assert sorted(path.read_text() for path in root.rglob("4.*")) == ["new", "old"]


def test_many_moves_are_made_whatever_stands_in_the_way(root: Path) -> None:
    layout = RootLayout(root)
    layout.prepare()
    (root / "q").mkdir()
    record: list[tuple[str, str | None]] = []
    for number in range(30):
        (root / f"4.{number}.T").write_text(str(number))
        record.append((f"4.{number}.T", f"{'new' if number % 3 else 'q'}/4.{number}.T"))
    (root / "q/4.3.T").write_text("taken")
    os.link(root / "4.6.T", root / "q/4.6.T")  # half made
    os.rename(root / "4.9.T", root / "q/4.9.T")  # made
    record[12] = ("4.12.T", None)
    for _ in range(2):
        assert roll_forward(layout, record, unchanged) == {f"{root}/q", f"{root}/new", f"{root}/"}
        found = {path.name: path.read_text() for folder in ("q", "new") for path in (root / folder).iterdir()}
        expected = {f"4.{n}.T": str(n) for n in range(30) if n != 12}
        assert found == expected | {"4.3.T": "taken", "4.3.T.....JMS_dropboxmq_copyI=2": "3"}
        assert not list(root.glob("4.*"))


@rows("number", [1, 20])
def test_a_record_may_move_files_into_the_root_itself(root: Path, number: int) -> None:
    RootLayout(root).prepare()
    (root / "q").mkdir()
    for name in range(number):
        (root / f"q/{name}").write_text("")
    (folder,) = roll_forward(
        RootLayout(root), [(f"q/{name}", str(name)) for name in range(number)], unchanged
    )
    assert os.path.samefile(folder, root)
    assert not os.listdir(root / "q")


def test_more_folders_than_are_opened_at_once(root: Path) -> None:
    RootLayout(root).prepare()
    record: list[tuple[str, str | None]] = []
    for number in range(100):
        (root / f"from{number}").mkdir()
        (root / f"from{number}/4.1.T").write_text("")
        record.append((f"from{number}/4.1.T", f"to{number}/4.1.T"))
    before = len(os.listdir("/proc/self/fd"))
    assert len(roll_forward(RootLayout(root), record, unchanged)) == 100
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(list(root.glob("to*/4.1.T"))) == 100
