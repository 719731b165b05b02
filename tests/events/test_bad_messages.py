"""Bad input among the messages: each kind has an outcome, and none reaches a process or stops the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from connector.errors import PipelineError
from connector.status import ReturnCode
from tests.events.conftest import ORDER, Bench, outcomes_of
from tests.privileges import stuck
from tests.tables import Table, rows

NESTED = '{"BusinessObject": "Order", "Id": ' + "[" * 300 + "]" * 300 + "}"

BAD: dict[str, tuple[str, str, str | bytes, str, str]] = {
    "malformed": ("orders", "T", "{", "failed", "no JSON"),
    "something after the end": ("orders", "T", ORDER + "x", "failed", "no JSON"),
    "empty": ("orders", "T", "", "failed", "empty"),
    "class M has no body": ("orders", "M", "", "failed", "empty"),
    "undecodable": ("orders", "T", b"\xff\xff\x00", "failed", "UTF-8"),
    "deeply nested": ("orders", "T", NESTED, "failed", "200"),
    "very deeply nested": ("orders", "T", "[" * 100_000, "failed", ""),
    "very deep objects": ("orders", "T", '{"a":' * 100_000, "failed", ""),
    "nobody names an object": ("orders", "T", '{"Id": "1"}', "unsubscribed", ""),
    "unknown object": ("orders", "T", '{"BusinessObject": "Ordre"}', "unsubscribed", "Ordre"),
    "unknown verb": ("orders", "T", '{"BusinessObject": "Order", "Verb": "Eat"}', "failed", "Cancel"),
    "unknown attribute": ("orders", "T", '{"BusinessObject": "Order", "Ids": "1"}', "failed", "Ids"),
    "number for a String": ("customers", "T", '{"CustomerId": 7}', "failed", "CustomerId"),
    "text for an Integer": ("customers", "T", '{"CustomerId": "7", "Age": "7"}', "failed", "Age"),
    "wrong type deep inside": (
        "customers",
        "T",
        '{"CustomerId": "7", "Address": [{"City": "Ulm"}, {"City": 5}]}',
        "failed",
        "Address[1].City",
    ),
    "required attribute missing": ("customers", "T", '{"Name": "x"}', "failed", "CustomerId"),
    "duplicate key": ("orders", "T", '{"Id": "1", "Id": "2"}', "failed", "Id"),
    "object message": ("orders", "O", ORDER, "failed", "never deserialised"),
    "expiration is no number": ("orders", "T.soon", ORDER, "failed", "expiration"),
    "property without a value": ("orders", "T.....nS", ORDER, "failed", "property"),
    "property of the wrong type": ("orders", "T.....nI=many", ORDER, "failed", "many"),
    "property of no type": ("orders", "T.....nZ=1", ORDER, "failed", "nZ"),
    "sidecar missing": (
        "orders",
        "T.....JMS_dropboxmq_hdrS=gone",
        ORDER,
        "failed",
        "headers of the message are missing",
    ),
    "property that cannot be": (
        "customers",
        "T.....regionI=5&regionB=1",
        '{"CustomerId": "1"}',
        "failed",
        "region",
    ),
}
"""By what is wrong: queue, end of the file's name, body, outcome, and words of the reason."""


def test_bad_messages_have_their_outcomes_and_their_neighbours_theirs(bench: Bench) -> None:
    deployment = bench.deploy()
    for number, (queue, end, body, _, _) in enumerate(BAD.values()):
        deployment.drop(queue, body, f"4.x{number:02}.{end}")
        deployment.drop("orders", ORDER, f"4.x{number:02}-good.T")
    deployment.drop("orders", "{", "a bare name")
    found = deployment.outcomes()
    good = sorted(f"ID:x{number:02}-good" for number in range(len(BAD)))
    with Table() as table:
        for identity in good:
            with table.row(identity):
                assert found.pop(identity) == ("published", "")
        bare = ("orders", "", "{", "failed", "no JSON")
        ids = [f"ID:x{number:02}" for number in range(len(BAD))] + ["a bare name"]
        for identity, (what, row) in zip(ids, {**BAD, "a bare name": bare}.items(), strict=True):
            queue, _, sent, kind, words = row
            with table.row(what):
                outcome, reason = found.pop(identity)
                assert outcome == kind
                assert reason
                assert words in reason
                # it is kept, with its body, and says why although its headers may not be readable
                copy = deployment.copy("error" if kind == "failed" else "unsubscribed", identity)
                assert copy.body == (sent if isinstance(sent, bytes) else sent.encode())
                assert copy.properties["connector_outcome"] == kind
                assert copy.properties["connector_reason"] == reason
                assert copy.properties["connector_origin_destination"] == f"queue://{queue}"
    assert found == {}
    assert sorted(bench.called()) == good
    for queue in ("orders", "customers"):
        assert deployment.names(queue) == deployment.names(queue, "processing") == []


def test_a_body_above_max_body_is_not_read(bench: Bench) -> None:
    deployment = bench.deploy(max_body="1KiB")
    padded = ORDER + " " * (1024 - len(ORDER))
    deployment.drop("orders", padded, "4.fits.T")
    deployment.drop("orders", padded + " ", "4.big.T")
    sparse = Path(deployment.folders("orders").working) / "4.huge.T"
    with sparse.open("wb") as file:
        file.truncate(1 << 40)  # a terabyte of nothing: reading it would not end
    sparse.rename(Path(deployment.folders("orders").target) / sparse.name)
    found = deployment.outcomes()
    assert found["ID:fits"] == ("published", "")
    assert found["ID:big"] == ("failed", "the body has 1025 bytes, more than max_body (1024 bytes)")
    assert found["ID:huge"][0] == "failed"
    assert str(1 << 40) in found["ID:huge"][1]


def test_a_message_class_that_the_protocol_keeps_for_json_is_read_as_that(bench: Bench) -> None:
    deployment = bench.deploy()
    deployment.drop("orders", ORDER, "4.map.P")
    deployment.drop("orders", ORDER, "4.stream.S")
    deployment.drop("orders", "", "4.empty.M....NOTE")
    assert deployment.outcomes() == dict.fromkeys(["ID:map", "ID:stream", "ID:empty"], ("published", ""))


KINDS = ("symlink", "fifo", "directory", "gone")


def swap(path: Path, kind: str, elsewhere: Path) -> None:
    path.unlink()
    if kind == "symlink":
        elsewhere.write_text(ORDER)
        path.symlink_to(elsewhere)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()


def test_what_is_swapped_for_a_message_after_the_listing_is_never_read(bench: Bench, tmp_path: Path) -> None:
    deployment = bench.deploy(PollQuantity=1)
    names = ["1", *KINDS, "z"]
    for name in names:
        deployment.drop("orders", ORDER, f"4.{name}.T")
    with deployment.running() as adapter:
        adapter.poll()  # lists all, takes the first
        for kind in KINDS:
            swap(Path(deployment.folders("orders").target) / f"4.{kind}.T", kind, tmp_path / "secret")
        adapter.poll()
        assert adapter.drain().code is ReturnCode.SUCCEED
    found = outcomes_of(adapter)
    assert found.pop("ID:1") == found.pop("ID:z") == ("published", "")
    # whoever lists again sees that it is no message, whoever does not finds out when it is opened
    assert set(found.values()) <= {("failed", "the message is not a regular file")}
    assert bench.called() == ["ID:1", "ID:z"]


def test_what_is_done_to_a_claimed_file_fails_that_event_alone(bench: Bench) -> None:
    """The first event's process changes the files of the next, which are claimed already."""
    processes = f"""\
import os, glob
from pathlib import Path

def a(bo, event):
    for kind in {KINDS!r} if event.id == "ID:1" else ():
        (path,) = map(Path, glob.glob({str(bench.root)!r} + f"/orders/incoming/processing/4.{{kind}}.T~*"))
        path.unlink()
        if kind == "symlink":
            path.symlink_to("/etc/passwd")
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "directory":
            path.mkdir()
"""
    deployment = bench.deploy(processes=processes)
    for name in ("1", *KINDS, "z"):
        deployment.drop("orders", ORDER, f"4.{name}.T")
    with deployment.running() as adapter:
        report = adapter.poll()
    assert (report.code, report.claimed, report.settled) == (ReturnCode.SUCCEED, 6, 6)
    found = outcomes_of(adapter)
    assert found.pop("ID:1") == found.pop("ID:z") == ("published", "")
    with Table() as table:
        for kind in KINDS:
            with table.row(kind):
                outcome, reason = found[f"ID:{kind}"]
                assert outcome == "failed"
                assert ("vanished" if kind == "gone" else "not a regular file") in reason
    assert deployment.names("orders", "processing") == []


def test_other_things_in_target_are_no_messages_and_stay(bench: Bench, tmp_path: Path) -> None:
    deployment = bench.deploy()
    target = Path(deployment.folders("orders").target)
    deployment.drop("orders", ORDER, "4.1.T")
    os.mkfifo(target / "4.fifo.T")
    (target / "4.directory.T").mkdir()
    (target / "4.link.T").symlink_to("/etc/passwd")
    (target / ".4.hidden.T").write_text(ORDER)
    (target.parent / "working" / "4.unfinished.T").write_text(ORDER)
    assert deployment.outcomes() == {"ID:1": ("published", "")}
    assert deployment.names("orders") == [".4.hidden.T", "4.directory.T", "4.fifo.T", "4.link.T"]
    assert deployment.names("orders", "working") == ["4.unfinished.T"]


def test_a_name_that_is_no_utf_8_is_a_message_like_any_other(bench: Bench) -> None:
    deployment = bench.deploy()
    target = os.fsencode(deployment.folders("orders").target)
    with open(target + b"/caf\xe9 1", "wb") as file:
        file.write(ORDER.encode())
    with open(target + b"/4.\xe9.T.....nS=\xff", "wb") as file:
        file.write(b"{")
    found = deployment.outcomes()
    assert sorted(kind for kind, _ in found.values()) == ["failed", "published"]
    assert [call["object"] for call in bench.calls()] == ["Order"]
    assert len(deployment.names("archive")) == len(deployment.names("error")) == 1


@pytest.mark.process
@rows("isolated", [True, False])
def test_a_process_module_that_cannot_be_imported_is_an_error_at_start_that_names_it(
    bench: Bench, isolated: bool
) -> None:
    deployment = bench.deploy(processes="def a(bo, event): ...\nraise SystemExit(3)")
    deployment.drop("orders", ORDER, "4.1.T")
    with pytest.raises(PipelineError) as raised, deployment.running(isolated=isolated):
        pass
    for words in ("process processes:a", "SystemExit: 3", "this process"):
        assert words in str(raised.value)
    assert deployment.names("orders") == ["4.1.T"]


@pytest.mark.process
def test_a_process_module_that_ends_its_interpreter_at_import_is_an_error_at_start(bench: Bench) -> None:
    deployment = bench.deploy(processes="import os\ndef a(bo, event): ...\nos._exit(7)\n")
    with (
        pytest.raises(PipelineError, match="ended with status 7 while it loaded"),
        deployment.running(isolated=True),
    ):
        pass


def test_a_file_that_cannot_be_renamed_holds_up_no_other_message_and_no_other_input(bench: Bench) -> None:
    deployment = bench.deploy()
    deployment.drop("customers", '{"CustomerId": "7"}', "4.a-stuck.T")
    for number in range(3):
        deployment.drop("customers", '{"CustomerId": "7"}', f"4.customer-{number}.T")
        deployment.drop("orders", ORDER, f"4.order-{number}.T")
    path = Path(deployment.folders("customers").target) / "4.a-stuck.T"
    with deployment.running() as adapter:
        with stuck(path):
            assert adapter.drain().code is ReturnCode.SUCCEED
        assert len(bench.called()) == 6
        assert "ID:a-stuck" not in bench.called()
    with deployment.running() as adapter:
        assert adapter.drain().code is ReturnCode.SUCCEED
    assert "ID:a-stuck" in bench.called()
