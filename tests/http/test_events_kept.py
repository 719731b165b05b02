"""A key of ``POST /events`` holds: over restarts, over instances, and when a process is killed."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

import httpx
import pytest

from tests.forked_command import ForkedProcess
from tests.http.shop import OBJECTS, service
from tests.http.test_events import EVENTS, ORDER, SUE, TOKENS, shop
from tests.http.world import PATIENCE, client
from tests.tables import rows
from tests.waiting import wait_for


def test_a_key_holds_over_a_restart(tmp_path: Path, on_provider: str) -> None:
    with shop(tmp_path, on_provider) as here:
        first = here.post(key="k-1")
        plain = here.post()
    assert (first.status_code, plain.status_code) == (202, 202)
    with shop(tmp_path, on_provider) as here:
        again = here.post(key="k-1")
        assert (again.status_code, again.json()) == (200, first.json())
        assert here.post(b"{}", key="k-1").status_code == 422
        assert [one.message_id for one in here.messages()] == [first.json()["id"], plain.json()["id"]]


def test_of_many_calls_with_one_key_at_two_instances_one_makes_a_message(
    tmp_path: Path, on_provider: str
) -> None:
    calls, rounds = 8, 3
    together = Barrier(calls)
    with (
        shop(tmp_path, on_provider) as one,
        shop(tmp_path, on_provider) as other,
        ThreadPoolExecutor(calls) as threads,
    ):

        def call(number: int) -> list[httpx.Response]:
            answers = []
            for turn in range(rounds):
                together.wait(PATIENCE)
                answers.append((one, other)[number % 2].post(key=f"k-{turn}"))
            return answers

        by_call = list(threads.map(call, range(calls)))
        for answers in zip(*by_call, strict=True):
            assert sorted(one.status_code for one in answers) == [200] * (calls - 1) + [202]
            assert len({one.json()["id"] for one in answers}) == 1
        assert len(one.messages()) == rounds


@contextmanager
def running(directory: Path, provider: str, fault: str) -> Iterator[tuple[ForkedProcess, str]]:
    """``connector run`` without an input, and the URL of its server."""
    (directory / "adapter.yaml").write_text(
        f"{provider}\nconnector: {{ApplicationName: shop, ConfigurationMetaObject: MO_Config}}\n"
        f"metaobjects: ./objects.yaml\n"
        f"http: {{listen: '127.0.0.1:0', tokens: ['{SUE}'], events: [queue://orders]}}\n"
    )
    (directory / "objects.yaml").write_text(OBJECTS)
    said = directory / "said"
    with open(said, "wb") as output:
        process = ForkedProcess(
            ["run"],
            cwd=directory,
            env={**os.environ, "CONNECTOR_FAULT": fault},
            stdout=output.fileno(),
            stderr=output.fileno(),
        )
    try:
        pattern = r"the HTTP server accepts requests .*url=(http://[0-9.:]+)"
        wait_for(lambda: re.search(pattern, said.read_text()), what="the server listens")
        yield process, re.findall(pattern, said.read_text())[0]
    finally:
        process.kill()
        process.wait()


def post(url: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {SUE}", "Content-Type": "application/json", "Idempotency-Key": "k-1"}
    with httpx.Client(timeout=PATIENCE, trust_env=False, headers=headers) as http:
        return http.post(f"{url}/events/orders", content=ORDER)


@pytest.mark.process
@rows("fault, status", [("once.noted=kill,once.uncommitted=kill", 202), ("once.committed=kill", 200)])
def test_who_gets_no_answer_because_of_a_kill_repeats_the_call(
    tmp_path: Path, on_provider: str, fault: str, status: int
) -> None:
    provider = on_provider.partition("\n")[0]
    with running(tmp_path, provider, fault) as (process, url):
        with pytest.raises(httpx.TransportError):
            post(url)
        assert process.wait(PATIENCE) == -9
    with running(tmp_path, provider, "") as (_, url):
        answer = post(url)
        assert answer.status_code == status
        assert post(url).json() == answer.json()
    with shop(tmp_path, on_provider) as here:
        assert [one.message_id for one in here.messages()] == [answer.json()["id"]]


BODIES = {
    "application/json": b'{"Id": "json"}',
    "text/xml": b"<Order><Id>xml</Id></Order>",
    "text/csv; charset=utf-8": b"Id\ncsv\n",
}


def test_the_content_type_chooses_the_data_handler(tmp_path: Path, on_provider: str) -> None:
    text = on_provider.replace("processes:store", "taken:store")
    (tmp_path / "taken.py").write_text(TAKEN)
    with (
        service(tmp_path, text, tokens=TOKENS, events=EVENTS) as (deployment, _, server),
        client(server, SUE) as http,
    ):
        for type, body in BODIES.items():
            headers = {"Content-Type": type, "X-Connector-Property-Region": "EU"}
            assert http.post("/events/orders", content=body, headers=headers).status_code == 202
            packed = gzip.compress(body)
            headers |= {"Content-Encoding": "gzip", "Idempotency-Key": f"k-{len(body)}"}
            assert http.post("/events/orders", content=packed, headers=headers).status_code == 202
        wait_for(lambda: len(taken(tmp_path)) == 6 or deployment.messages("error"), what="all are processed")
        assert deployment.messages("error") == []
        assert sorted(taken(tmp_path)) == [["csv", "EU"]] * 2 + [["json", "EU"]] * 2 + [["xml", "EU"]] * 2


TAKEN = """\
import json, os


def store(order, event):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "taken"), "a") as file:
        file.write(json.dumps([order["Id"], event.message.properties["region"]]) + "\\n")
"""


def taken(directory: Path) -> list[list[str]]:
    """The orders that the process was called with."""
    path = directory / "taken"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
