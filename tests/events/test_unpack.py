"""Packed bodies: what says so is unpacked within ``max_body``, and nothing else is."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Mapping
from typing import Any

import pytest

from connector.config.loading import load
from connector.errors import BodyTooLarge, ConfigurationError, MalformedData
from connector.operate.lives import read_life
from connector.text.gzip_body import packed_limit, unpack
from tests.events.conftest import ORDER, Bench, EventDeployment
from tests.tables import rows

PACKED = gzip.compress(ORDER.encode())
ALL = {"destination": "queue://packed", "unpack": "gzip"}
GZIP = {"content_encoding": "gzip"}


def deploy(bench: Bench, section: Mapping[str, Any] | None = None, **connector: Any) -> EventDeployment:
    inputs = ["queue://orders", {**ALL, "max_body": "1KiB"}]
    return bench.deploy(provider=section, InputDestination=inputs, **connector)


def test_what_says_that_it_is_packed_is_unpacked_and_copies_stay_as_they_came(
    bench: Bench, section: Mapping[str, str]
) -> None:
    deployment = deploy(bench, section)
    sent = [
        deployment.send("queue://packed", PACKED),
        deployment.send("queue://packed", PACKED, properties=GZIP),
        deployment.send("queue://orders", PACKED, properties=GZIP),
        deployment.send("queue://orders", PACKED, properties={"content_encoding": " GZip "}),
        deployment.send("queue://orders", ORDER, properties={"content_encoding": "identity"}),
        deployment.send("queue://orders", ORDER),
    ]
    deployment.drain()
    assert sorted(bench.called()) == sorted(sent)
    bodies = {one.message_id: one.body for one in deployment.messages("archive")}
    assert [bodies[identity] for identity in sent] == [PACKED] * 4 + [ORDER.encode()] * 2


@rows(
    "body, properties, queue, kind, words",
    [
        (gzip.compress(b"{}" * 1000), {}, "packed", "too_large", "more than max_body (1024 bytes)"),
        (gzip.compress(bytes(20 << 20)), GZIP, "orders", "too_large", "more than max_body"),
        (PACKED[:-3], {}, "packed", "malformed", "ends too early"),
        (PACKED[:20] + b"xxxx" + PACKED[24:], GZIP, "orders", "malformed", "is damaged"),
        (PACKED[:-8] + b"\0" * 8, {}, "packed", "malformed", "is damaged"),
        (PACKED + b"x", {}, "packed", "malformed", "is damaged"),
        (ORDER.encode(), {}, "packed", "malformed", "no gzip, although unpack of the input says so"),
        (ORDER.encode(), GZIP, "orders", "malformed", "although the property content_encoding says so"),
        (zlib.compress(ORDER.encode()), {}, "packed", "malformed", "no gzip"),
        (PACKED, {}, "orders", "malformed", "`unpack: gzip` of the input or content_encoding=gzip"),
    ],
)
def test_a_bomb_and_a_broken_body_fail(
    bench: Bench, body: bytes, properties: Mapping[str, str], queue: str, kind: str, words: str
) -> None:
    deployment = deploy(bench)
    identity = deployment.send(f"queue://{queue}", body, properties=dict(properties))
    deployment.drain()
    (copy,) = deployment.messages("error")
    assert (copy.message_id, copy.body) == (identity, body)
    assert words in str(copy.properties["connector_reason"])
    assert copy.properties["connector_kind"] == kind
    (event,) = read_life(deployment.provider.existing_state("test").history(), identity).events
    assert (event.row.what, event.row.kind) == ("failed", kind)


def test_max_body_counts_unpacked_bytes() -> None:
    body = bytes(range(256)) * 40
    assert unpack(gzip.compress(body, 0), len(body), "x") == body
    assert len(gzip.compress(body, 0)) <= packed_limit(len(body))
    with pytest.raises(BodyTooLarge):
        unpack(gzip.compress(body), len(body) - 1, "x")


def test_members_are_joined_and_many_of_them_take_no_long_time() -> None:
    assert unpack(gzip.compress(b"a") + gzip.compress(b"") + gzip.compress(b"b"), 10, "x") == b"ab"
    assert unpack(PACKED + b"\0" * 512, 1000, "x") == ORDER.encode()
    began = time.monotonic()
    assert unpack(gzip.compress(b"") * 50_000, 10, "x") == b""
    assert time.monotonic() - began < 5
    with pytest.raises(MalformedData):
        unpack(b"", 10, "x")


def test_the_connector_unpacks_for_all_inputs_and_an_input_says_otherwise(bench: Bench) -> None:
    inputs = ["queue://orders", {"destination": "queue://plain", "unpack": "none"}]
    deployment = bench.deploy(InputDestination=inputs, unpack="gzip")
    sent = [deployment.send("queue://orders", PACKED), deployment.send("queue://plain", ORDER)]
    deployment.drain()
    assert sorted(bench.called()) == sorted(sent)


def test_another_way_to_pack_is_a_mistake(bench: Bench) -> None:
    deployment = bench.deploy(InputDestination=[{**ALL, "unpack": "zip"}])
    with pytest.raises(ConfigurationError, match="did you mean 'gzip'"):
        load(deployment.directory / "adapter.yaml")
