"""A message at a broker goes where its object says, also when its worker ends in between."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import deploy, ids, running, seen, send


def test_each_message_goes_where_its_object_says_and_once(tmp_path: Path, provider: LentProvider) -> None:
    deployment = deploy(tmp_path)
    document = yaml.safe_load((tmp_path / "adapter.yaml").read_text())
    document["subscriptions"][1] |= {
        "destination": "queue://crm-{Wish}",
        "destinations": ["queue://crm-*"],
        "properties": {"of": "{Id}"},
    }
    deployment.write("adapter.yaml", yaml.safe_dump(document))
    sent = send(provider, "end", "a/b", "", "x")
    with running(deployment, provider) as adapter:
        adapter.drain()
    found = {wish: [one.properties["of"] for one in seen(provider, f"crm-{wish}")] for wish in ("end", "x")}
    assert found == {"end": ["0"], "x": ["3"]}
    assert sorted(map(str, ids(provider, "error"))) == sorted(sent[1:3])
