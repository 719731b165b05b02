"""One message with many records: whatever is killed, each record has its effects as often as promised."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment
from tests.crash.test_transactions import BOOK, Shop

JAVA = False

RECORDS = 20
MESSAGES = 4
HANDLERS = """\
datahandler_metaobject: MO_DataHandler_Default
handlers:
  application/jsonl: {split: true}
"""


def make(deploy: Deploy, **settings: Any) -> CrashDeployment:
    deployment = deploy(connector={"DataHandlerMimeType": "application/jsonl", "PollQuantity": 1}, **settings)
    (deployment.directory / "metaobjects/handlers.yaml").write_text(HANDLERS)
    return deployment


def fill(deployment: CrashDeployment) -> list[str]:
    """Returns the ids of the events of all records."""
    ids = []
    for number in range(1, MESSAGES + 1):
        lines = [json.dumps({"CustomerId": f"{number}-{record}"}) for record in range(1, RECORDS + 1)]
        deployment.drop("in", "\n".join(lines), f"4.{number}.T")
        ids += [f"ID:{number}#{record}" for record in range(1, RECORDS + 1)]
    return ids


@pytest.mark.parametrize(
    "fault", ["begin:2", "deliver:7", "done:2", "claim:2", "settle.record:1", "settle.committing:2"]
)
def test_records_are_in_doubt_only_with_the_message_that_was_at_work(deploy: Deploy, fault: str) -> None:
    deployment = make(deploy)
    ids = fill(deployment)
    run = deployment.start("--drain", fault=f"{fault}=pause")
    run.await_pause(fault.partition(":")[0])
    run.kill_everything()
    deployment.drain()
    begun = deployment.begun()
    assert set(begun) == set(ids)
    again = {identity.partition("#")[0] for identity, count in begun.items() if count > 1}
    assert len(again) <= 1  # at most one message of the only worker was in doubt
    assert max(begun.values()) <= 2
    assert deployment.ids("archive") == {f"ID:{number}": 1 for number in range(1, MESSAGES + 1)}
    assert deployment.leftovers() == []


@pytest.mark.parametrize(
    "fault", ["transaction.returned:7", "transaction.committed:33", "done:2", "settle.committing:1"]
)
def test_each_record_has_its_row_once(deploy: Deploy, quick_path: Path, fault: str) -> None:
    shop = Shop(f"sqlite:///{quick_path}/shop.db")
    deployment = make(deploy, shop=shop.url, only=[BOOK])
    ids = fill(deployment)
    run = deployment.start("--drain", fault=f"{fault}=pause")
    run.await_pause(fault.partition(":")[0])
    run.kill_everything()
    deployment.drain()
    assert shop.bookings() == Counter(ids)
    assert deployment.ids("archive") == {f"ID:{number}": 1 for number in range(1, MESSAGES + 1)}
