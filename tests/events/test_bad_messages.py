"""Bad input among the messages: each kind has an outcome, and none reaches a process or stops the others."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connector.errors import PipelineError
from connector.status import ReturnCode
from tests.privileges import stuck

Bench = Any
Outcomes = Callable[..., dict[str, tuple[str, str]]]
CopyOf = Callable[..., Any]

ORDER = '{"BusinessObject": "Order", "Id": "1"}'
NESTED = '{"BusinessObject": "Order", "Id": ' + "[" * 300 + "]" * 300 + "}"

BAD: list[Any] = [
    pytest.param("orders", "4.x.T", "{", "failed", "no JSON", id="malformed"),
    pytest.param("orders", "4.x.T", ORDER + "x", "failed", "no JSON", id="something after the end"),
    pytest.param("orders", "4.x.T", "", "failed", "empty", id="empty"),
    pytest.param("orders", "4.x.M", "", "failed", "empty", id="class M has no body"),
    pytest.param("orders", "4.x.T", b"\xff\xff\x00", "failed", "UTF-8", id="undecodable"),
    pytest.param("orders", "4.x.T", NESTED, "failed", "200", id="deeply nested"),
    pytest.param("orders", "4.x.T", "[" * 100_000, "failed", "", id="very deeply nested"),
    pytest.param("orders", "4.x.T", '{"a":' * 100_000, "failed", "", id="very deep objects"),
    pytest.param("orders", "4.x.T", '{"Id": "1"}', "unsubscribed", "", id="nobody names an object"),
    pytest.param(
        "orders", "4.x.T", '{"BusinessObject": "Ordre"}', "unsubscribed", "Ordre", id="unknown object"
    ),
    pytest.param(
        "orders", "4.x.T", '{"BusinessObject": "Order", "Verb": "Eat"}', "failed", "Cancel", id="unknown verb"
    ),
    pytest.param(
        "orders", "4.x.T", '{"BusinessObject": "Order", "Ids": "1"}', "failed", "Ids", id="unknown attribute"
    ),
    pytest.param("customers", "4.x.T", '{"CustomerId": 7}', "failed", "CustomerId", id="number for a String"),
    pytest.param(
        "customers", "4.x.T", '{"CustomerId": "7", "Age": "7"}', "failed", "Age", id="text for an Integer"
    ),
    pytest.param(
        "customers",
        "4.x.T",
        '{"CustomerId": "7", "Address": [{"City": "Ulm"}, {"City": 5}]}',
        "failed",
        "Address[1].City",
        id="wrong type deep inside",
    ),
    pytest.param(
        "customers", "4.x.T", '{"Name": "x"}', "failed", "CustomerId", id="required attribute missing"
    ),
    pytest.param("orders", "4.x.T", '{"Id": "1", "Id": "2"}', "failed", "Id", id="duplicate key"),
    pytest.param("orders", "4.x.O", ORDER, "failed", "never deserialised", id="object message"),
    pytest.param("orders", "4.x.T.soon", ORDER, "failed", "expiration", id="expiration is no number"),
    pytest.param("orders", "4.x.T.....nS", ORDER, "failed", "property", id="property without a value"),
    pytest.param("orders", "4.x.T.....nI=many", ORDER, "failed", "many", id="property of the wrong type"),
    pytest.param("orders", "4.x.T.....nZ=1", ORDER, "failed", "nZ", id="property of no type"),
    pytest.param(
        "orders",
        "4.x.T.....JMS_dropboxmq_hdrS=gone",
        ORDER,
        "failed",
        "headers of the message are missing",
        id="sidecar missing",
    ),
    pytest.param(
        "customers",
        "4.x.T.....regionI=5&regionB=1",
        '{"CustomerId": "1"}',
        "failed",
        "region",
        id="property that cannot be",
    ),
]


@pytest.mark.parametrize(("queue", "name", "body", "kind", "words"), BAD)
def test_a_bad_message_has_its_outcome_and_its_neighbours_theirs(
    bench: Bench, outcomes: Outcomes, queue: str, name: str, body: str | bytes, kind: str, words: str
) -> None:
    deployment = bench.deploy(subscriptions=[{"object": "*", "process": "processes:a", "name": "a"}])
    deployment.drop("orders", ORDER, "4.before.T")
    deployment.drop(queue, body, name)
    deployment.drop("orders", ORDER, "4.later.T")
    found = outcomes(deployment)
    assert found["ID:before"] == found["ID:later"] == ("published", "")
    assert found["ID:x"][0] == kind
    assert words in found["ID:x"][1]
    assert found["ID:x"][1]
    assert sorted(bench.called()) == ["ID:before", "ID:later"]
    # it is kept, with its body, and nothing is left behind
    where = "error" if kind == "failed" else "unsubscribed"
    (copy,) = deployment.names(where)
    content = (Path(deployment.folders(where).target) / copy).read_bytes()
    assert content == (body if isinstance(body, bytes) else body.encode())
    assert deployment.names(queue, "processing") == []


@pytest.mark.parametrize("name", ["4.x.T.soon", "4.x.T.....nI=many", "4.x.T.....nS", "4.x.T", "a bare name"])
def test_the_copy_says_why_also_where_the_headers_of_the_message_cannot_be_read(
    bench: Bench, outcomes: Outcomes, copy_of: CopyOf, name: str
) -> None:
    deployment = bench.deploy()
    deployment.drop("orders", "{", name)
    outcomes(deployment)
    (copy,) = deployment.messages("error")
    assert copy.properties["connector_outcome"] == "failed"
    assert copy.properties["connector_reason"]
    assert copy.properties["connector_origin_destination"] == "queue://orders"
    assert copy.message_id == ("ID:x" if name.startswith("4.") else name)


def test_a_body_above_max_body_is_not_read(bench: Bench, outcomes: Outcomes) -> None:
    deployment = bench.deploy(max_body="1KiB")
    padded = ORDER + " " * (1024 - len(ORDER))
    deployment.drop("orders", padded, "4.fits.T")
    deployment.drop("orders", padded + " ", "4.big.T")
    sparse = Path(deployment.folders("orders").working) / "4.huge.T"
    with sparse.open("wb") as file:
        file.truncate(1 << 40)  # a terabyte of nothing: reading it would not end
    sparse.rename(Path(deployment.folders("orders").target) / sparse.name)
    found = outcomes(deployment)
    assert found["ID:fits"] == ("published", "")
    assert found["ID:big"] == ("failed", "the body has 1025 bytes, more than max_body (1024 bytes)")
    assert found["ID:huge"][0] == "failed"
    assert str(1 << 40) in found["ID:huge"][1]


def test_a_message_class_that_the_protocol_keeps_for_json_is_read_as_that(
    bench: Bench, outcomes: Outcomes
) -> None:
    deployment = bench.deploy()
    deployment.drop("orders", ORDER, "4.map.P")
    deployment.drop("orders", ORDER, "4.stream.S")
    deployment.drop("orders", "", "4.empty.M....NOTE")
    found = outcomes(deployment)
    assert {kind for kind, _ in found.values()} == {"published"}


def swap(path: Path, kind: str, elsewhere: Path) -> None:
    path.unlink()
    if kind == "symlink":
        elsewhere.write_text(ORDER)
        path.symlink_to(elsewhere)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()


@pytest.mark.parametrize("kind", ["symlink", "fifo", "directory"])
def test_what_is_swapped_for_a_message_after_the_listing_is_never_read(
    bench: Bench, kind: str, tmp_path: Path
) -> None:
    deployment = bench.deploy(PollQuantity=1)
    for name in ("4.1.T", "4.2.T", "4.3.T"):
        deployment.drop("orders", ORDER, name)
    with deployment.running() as adapter:
        adapter.poll()  # lists all three, takes the first
        swap(Path(deployment.folders("orders").target) / "4.2.T", kind, tmp_path / "secret")
        adapter.poll()
        report = adapter.drain()
    assert report.code is ReturnCode.SUCCEED
    events = {e["id"]: (e["outcome"], e["reason"]) for e in adapter.summary.as_dict()["events"]}
    assert events["ID:1"][0] == events["ID:3"][0] == "published"
    # whoever lists again sees that it is no message, whoever does not finds out when it is opened
    assert "ID:2" not in events or events["ID:2"] == ("failed", "the message is not a regular file")
    assert bench.called() == ["ID:1", "ID:3"]


@pytest.mark.parametrize("kind", ["symlink", "fifo", "directory", "gone"])
def test_what_is_done_to_a_claimed_file_fails_that_event_alone(
    bench: Bench, kind: str, tmp_path: Path
) -> None:
    """The first event's process changes the file of the second, which is claimed already."""
    processes = f"""\
import os, glob
from pathlib import Path

def a(bo, event):
    if event.id == "ID:1":
        (path,) = map(Path, glob.glob({str(bench.root)!r} + "/orders/incoming/processing/4.2.T~*"))
        path.unlink()
        if {kind!r} == "symlink":
            path.symlink_to("/etc/passwd")
        elif {kind!r} == "fifo":
            os.mkfifo(path)
        elif {kind!r} == "directory":
            path.mkdir()
"""
    deployment = bench.deploy(processes=processes)
    for name in ("4.1.T", "4.2.T", "4.3.T"):
        deployment.drop("orders", ORDER, name)
    with deployment.running() as adapter:
        report = adapter.poll()
    assert (report.code, report.claimed, report.settled) == (ReturnCode.SUCCEED, 3, 3)
    events = {e["id"]: (e["outcome"], e["reason"]) for e in adapter.summary.as_dict()["events"]}
    assert events["ID:1"][0] == events["ID:3"][0] == "published"
    assert events["ID:2"][0] == "failed"
    assert ("vanished" if kind == "gone" else "not a regular file") in events["ID:2"][1]
    assert deployment.names("orders", "processing") == []


def test_other_things_in_target_are_no_messages_and_stay(
    bench: Bench, outcomes: Outcomes, tmp_path: Path
) -> None:
    deployment = bench.deploy()
    target = Path(deployment.folders("orders").target)
    deployment.drop("orders", ORDER, "4.1.T")
    os.mkfifo(target / "4.fifo.T")
    (target / "4.directory.T").mkdir()
    (target / "4.link.T").symlink_to("/etc/passwd")
    (target / ".4.hidden.T").write_text(ORDER)
    (target.parent / "working" / "4.unfinished.T").write_text(ORDER)
    assert outcomes(deployment) == {"ID:1": ("published", "")}
    assert deployment.names("orders") == [".4.hidden.T", "4.directory.T", "4.fifo.T", "4.link.T"]
    assert deployment.names("orders", "working") == ["4.unfinished.T"]


def test_a_name_that_is_no_utf_8_is_a_message_like_any_other(bench: Bench, outcomes: Outcomes) -> None:
    deployment = bench.deploy()
    target = os.fsencode(deployment.folders("orders").target)
    with open(target + b"/caf\xe9 1", "wb") as file:
        file.write(ORDER.encode())
    with open(target + b"/4.\xe9.T.....nS=\xff", "wb") as file:
        file.write(b"{")
    found = outcomes(deployment)
    assert sorted(kind for kind, _ in found.values()) == ["failed", "published"]
    assert [call["object"] for call in bench.calls()] == ["Order"]
    assert len(deployment.names("archive")) == len(deployment.names("error")) == 1


@pytest.mark.parametrize(
    ("processes", "words"),
    [
        pytest.param(
            "raise RuntimeError('no database')\ndef a(bo, event): ...",
            "RuntimeError: no database",
            id="error",
        ),
        pytest.param("def a(bo, event): ...\nraise SystemExit(3)", "SystemExit: 3", id="exit"),
        pytest.param("import no_such_library\ndef a(bo, event): ...", "no_such_library", id="import"),
    ],
)
@pytest.mark.parametrize("isolated", [True, False])
def test_a_process_module_that_cannot_be_imported_is_an_error_at_start_that_names_it(
    bench: Bench, processes: str, words: str, isolated: bool
) -> None:
    deployment = bench.deploy(processes=processes)
    deployment.drop("orders", ORDER, "4.1.T")
    with pytest.raises(PipelineError) as raised, deployment.running(isolated=isolated):
        pass
    assert "process processes:a" in str(raised.value)
    assert words in str(raised.value)
    assert "this process" in str(raised.value)
    assert deployment.names("orders") == ["4.1.T"]


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
