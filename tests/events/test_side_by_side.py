"""Events side by side: ``parallel``, in threads of one process or in its event loop."""

from __future__ import annotations

import http.server
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine, text

from tests.events.conftest import PROCESSES, Bench, EventDeployment, handler, serving
from tests.tables import rows
from tests.waiting import wait_for

pytestmark = pytest.mark.process

MEET = f"""{PROCESSES}
import asyncio

_together = threading.Barrier(8)
_awaited = asyncio.Barrier(8)

def meet(bo, event):
    record("meet", bo, event)
    _together.wait(240)

async def meet_async(bo, event):
    record(f"loop {{id(asyncio.get_running_loop())}}", bo, event)
    await asyncio.wait_for(_awaited.wait(), 240)

async def cancelled(bo, event):
    record("cancelled", bo, event)
    if bo["Name"] == "hang":
        try:
            await asyncio.sleep(1000)
        finally:
            record("end", bo, event)

async def answers_late(bo, event):
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            return

def forgets_to_wait(bo, event):
    return cancelled(bo, event)
"""


def one(process: str, **more: Any) -> list[dict[str, Any]]:
    """The only subscription."""
    return [{"object": "*", "process": f"processes:{process}", "name": "a", **more}]


def deploy(bench: Bench, **settings: Any) -> EventDeployment:
    how: Mapping[str, Any] = {"order": "none", "parallel": 8, "processes": MEET}
    return bench.deploy(**{**how, **settings})


def fill(deployment: EventDeployment, number: int) -> None:
    deployment.drop_customers(**{f"c{one}": "" for one in range(number)})


@rows("process", ["meet", "meet_async"])
def test_as_many_events_as_configured_are_delivered_at_the_same_time(bench: Bench, process: str) -> None:
    deployment = deploy(bench, subscriptions=one(process))
    fill(deployment, 24)
    found = deployment.outcomes(isolated=True)
    assert Counter(kind for kind, _ in found.values()) == {"published": 24}
    calls = bench.calls()
    assert len({call["id"] for call in calls}) == len(calls) == 24
    assert len({call["pid"] for call in calls}) == len({call["who"] for call in calls}) == 1


def test_an_input_may_have_its_own_and_the_others_go_one_after_the_other(bench: Bench) -> None:
    inputs = ["queue://customers", {"destination": "queue://quick", "parallel": 8}]
    processes = MEET + (
        "\n_alone = threading.Lock()\n"
        "def either(bo, event):\n"
        "    if event.input_destination == 'queue://quick':\n"
        "        return meet(bo, event)\n"
        "    record('alone', bo, event)\n"
        "    assert _alone.acquire(blocking=False)\n"
        "    time.sleep(0.01)\n"
        "    _alone.release()\n"
    )
    deployment = deploy(
        bench, subscriptions=one("either"), InputDestination=inputs, parallel=1, processes=processes
    )
    fill(deployment, 8)
    for number in range(8):
        deployment.drop("quick", '{"BusinessObject": "Customer", "CustomerId": "1"}', f"4.q{number}.T")
    found = deployment.outcomes(isolated=True)
    assert Counter(kind for kind, _ in found.values()) == {"published": 16}
    assert Counter(call["who"] for call in bench.calls()) == {"alone": 8, "meet": 8}
    assert len({call["pid"] for call in bench.calls()}) == 2


def test_a_group_is_one_line_and_groups_run_side_by_side(bench: Bench) -> None:
    processes = MEET.replace("Barrier(8)", "Barrier(4)")
    deployment = deploy(bench, subscriptions=one("meet"), order="group", processes=processes)
    body = '{"BusinessObject": "Customer", "CustomerId": "1"}'
    for number in range(4):
        for group in "wxyz":
            deployment.drop("customers", body, f"4.{group}{number}.T.....JMSXGroupIDS={group}")
    found = deployment.outcomes(isolated=True)
    assert Counter(kind for kind, _ in found.values()) == {"published": 16}
    called = bench.called("meet")
    for group in "wxyz":
        assert [one for one in called if one.startswith(f"ID:{group}")] == [
            f"ID:{group}{number}" for number in range(4)
        ]


def test_who_is_at_work_when_the_process_ends_comes_again_alone(bench: Bench) -> None:
    processes = MEET + (
        "\ndef dies(bo, event):\n"
        "    record('dies', bo, event)\n"
        "    if event.delivery_count == 1 and bo['Name']:\n"
        "        if _together.wait(240) == 0:\n"
        "            os._exit(3)\n"
        "        time.sleep(1000)\n"
    )
    deployment = deploy(bench, subscriptions=one("dies"), processes=processes, ArchiveDestination=None)
    deployment.drop_customers(**{f"m{number}": "meets" for number in range(8)})
    deployment.drop_customers(**{f"z{number}": "" for number in range(8)})
    found = deployment.outcomes(isolated=True)
    assert Counter(kind for kind, _ in found.values()) == {"published": 16}
    at_work = [call["id"] for call in bench.calls() if call["count"] == 2]
    assert sorted(at_work) == [f"ID:m{number}" for number in range(8)]
    assert Counter(bench.called("dies")) == {
        **dict.fromkeys(at_work, 2),
        **{f"ID:z{number}": 1 for number in range(8)},
    }


def test_a_call_that_takes_too_long_puts_nobody_else_in_doubt(bench: Bench) -> None:
    """Its runner gets no further event. It is ended when the other events have ended."""
    subscriptions = [
        {"object": "Customer", "process": "processes:a", "name": "a", "timeout": "1s"},
        {"object": "Customer", "process": "processes:b", "name": "b"},
    ]
    deployment = deploy(bench, subscriptions=subscriptions, parallel=3, max_attempts=1)
    go = deployment.directory / "go"

    def pids() -> set[int]:
        return {call["pid"] for call in bench.calls()}

    with deployment.running(isolated=True) as adapter:
        deployment.drop_customers(x="a: hang", y="b: wait-for go")
        with serving(adapter):
            wait_for((deployment.directory / "waiting").exists)
            number = 0
            while len(pids()) == 1:  # until another runner takes an event
                deployment.drop_customers(**{f"z{number}": ""})
                wait_for(lambda name=f"ID:z{number}": name in bench.called("b"))  # type: ignore[misc]
                number += 1
            go.touch()
            wait_for(lambda: deployment.names("error"))
        events = {event["id"]: event for event in adapter.summary.as_dict()["events"]}
    assert events["ID:x"]["outcome"] == "failed"
    assert "did not return from a in time" in events["ID:x"]["reason"]
    assert {event["outcome"] for name, event in events.items() if name != "ID:x"} == {"published"}
    assert set(Counter((call["id"], call["who"]) for call in bench.calls()).values()) == {1}
    assert set(bench.counts().values()) == {1}


def test_a_coroutine_that_takes_too_long_is_cancelled_and_ends_no_process(bench: Bench) -> None:
    deployment = deploy(bench, subscriptions=one("cancelled", timeout="2s"), max_attempts=1)
    deployment.drop_customers(h="hang", **{f"c{number}": "" for number in range(4)})
    found = deployment.outcomes(isolated=True)
    assert found.pop("ID:h") == (
        "failed",
        "its worker did not return from a in time and was ended; it was tried once (max_attempts)",
    )
    assert Counter(kind for kind, _ in found.values()) == {"published": 4}
    assert [call["count"] for call in bench.calls() if call["who"] == "end"] == [1]
    assert len({call["pid"] for call in bench.calls()}) == 1, "the process goes on"


@rows("isolated", [True, False])
def test_a_coroutine_may_come_again_later_or_end_all_the_same(bench: Bench, isolated: bool) -> None:
    later = one("cancelled", timeout="0.2s", retry_later={"first": "1h", "attempts": 2})
    deployment = deploy(bench, subscriptions=later)
    deployment.drop_customers(h="hang")
    with deployment.running(isolated=isolated) as adapter:
        adapter.poll()
    assert adapter.summary.as_dict()["later"] == 1
    ends = deploy(bench.again(), subscriptions=one("answers_late", timeout="0.2s"))
    fill(ends, 1)
    assert ends.outcomes(isolated=isolated) == {"ID:c0": ("published", "")}


def test_a_coroutine_that_nobody_awaits_has_failed(bench: Bench) -> None:
    deployment = deploy(bench, subscriptions=one("forgets_to_wait"), parallel=1)
    fill(deployment, 1)
    ((kind, reason),) = deployment.outcomes().values()
    assert kind == "failed"
    assert "the process returned a coroutine, which nobody awaits; write async def" in reason


def test_transactions_have_a_connection_each(bench: Bench, database: str) -> None:
    processes = MEET.replace("Barrier(8)", "Barrier(4)") + (
        "\ndef book(bo, event):\n"
        "    meet(bo, event)\n"
        "    event.transaction.execute('insert into booked values (%s)', (event.id,))\n"
        "async def book_async(bo, event):\n"
        "    await asyncio.wait_for(_awaited.wait(), 240)\n"
        "    event.transaction.execute('insert into booked values (%s)', (event.id,))\n"
    )
    engine = create_engine(database, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("create table booked (id text)"))
    for process in ("book", "book_async"):
        deployment = deploy(
            bench.again(),
            subscriptions=one(process, transaction="shop"),
            parallel=4,
            processes=processes,
            more={"databases": {"shop": {"url": database}}},
        )
        fill(deployment, 8)
        found = deployment.outcomes(isolated=True)
        assert Counter(kind for kind, _ in found.values()) == {"published": 8}
    with engine.connect() as connection:
        rows_of_shop = connection.execute(text("select id, count(*) from booked group by id")).all()
    assert sorted(tuple(row) for row in rows_of_shop) == [(f"ID:c{number}", 2) for number in range(8)]


def test_lines_of_the_log_keep_events_apart(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    processes = MEET + (
        "\nimport logging\n"
        "def say(bo, event):\n"
        "    _together.wait(240)\n"
        "    print('printed by', event.id)\n"
        "    logging.getLogger('shop').warning('logged by %s', event.id)\n"
        "async def say_async(bo, event):\n"
        "    await asyncio.wait_for(_awaited.wait(), 240)\n"
        "    logging.getLogger('shop').warning('logged by %s', event.id)\n"
    )
    for process, number in (("say", 32), ("say_async", 16)):
        deployment = deploy(
            bench.again(),
            subscriptions=one(process),
            processes=processes,
            more={"logging": {"format": "json"}},
        )
        fill(deployment, 16)
        deployment.drain(isolated=True)
        lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if "by ID:" in line]
        assert len(lines) == number
        for line in lines:
            assert (line.get("text") or line["event"]).endswith(f"by {line['message_id']}")


def test_a_conversion_that_takes_too_long_puts_nobody_else_in_doubt(bench: Bench) -> None:
    reads = (
        "if b'hang' in bytes(body):\n"
        "    threading.Event().wait()\n"
        "return BusinessObject(self.definitions, 'Customer', 'Create', {'CustomerId': '1'})"
    )
    head = "import threading\nfrom connector.businessobjects.instance import BusinessObject"
    deployment = deploy(
        bench,
        parallel=4,
        convert_timeout="1s",
        DataHandlerMimeType="application/own",
        more={"datahandlers": "./handlers"},
    )
    (deployment.directory / "handlers").mkdir()
    own = handler("application/own", reads=reads, head=head)
    (deployment.directory / "handlers" / "own.py").write_text(own)
    deployment.drop_customers(h="hang", **{f"c{number}": "" for number in range(12)})
    found = deployment.outcomes(isolated=True)
    kind, reason = found.pop("ID:h")
    assert kind == "failed"
    assert reason.startswith("data handler Own: did not end within 1 s (convert_timeout)")
    assert Counter(kind for kind, _ in found.values()) == {"published": 12}
    assert set(bench.deliveries()) == {(f"ID:c{number}", 1) for number in range(12)}
    assert len(bench.calls()) == 12


STOCK = """\
import asyncio
import logging
import urllib.request

log = logging.getLogger("shop")


def ask(sku):
    with urllib.request.urlopen(f"SERVICE/{sku}", timeout=60) as answer:
        return answer.read().decode()


async def look_up(order, event):
    if event.input_destination == "queue://strict":
        return  # the partner has looked
    stock = await asyncio.to_thread(ask, order.Sku)
    log.info("asked", extra={"sku": order.Sku, "stock": stock})


def book(order, event):
    with open("ledger", "a") as ledger:
        ledger.write(f"{order.OrderId} {order.Quantity}\\n")
"""
ORDERS = """\
business_object: Order
verbs: {Create: }
attributes:
  OrderId: {type: String, key: true, required: true, pattern: "O-[0-9]+"}
  Sku: String
  Quantity: {type: Integer, minimum: 1}
---
static_metaobject: MO_Config
rules:
  Order_Create:
    - {InputDestination: queue://strict, DataHandlerMimeType: application/json}
    - {InputDestination: queue://csv, DataHandlerMimeType: text/csv}
    - {InputDestination: queue://xml, DataHandlerMimeType: text/xml}
"""


@contextmanager
def stock_service(together: int) -> Iterator[str]:
    """An HTTP server whose answers wait until so many callers are there. Yields its URL."""
    barrier = threading.Barrier(together)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            barrier.wait(240)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.path.encode())

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_one_strict_and_two_parallel_inputs_of_three_formats(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    """What a new user writes: it logs, waits for a service, and keeps the order where that matters."""
    both: Mapping[str, Any] = {"order": "none", "parallel": 4}
    with stock_service(together=4) as url:
        deployment = bench.deploy(
            InputDestination=[
                "queue://strict",
                {"destination": "queue://csv", **both},
                {"destination": "queue://xml", **both},
            ],
            subscriptions=[
                {"object": "Order", "process": "processes:look_up", "name": "ask"},
                {"object": "Order", "process": "processes:book", "name": "book"},
            ],
            processes=STOCK.replace("SERVICE", url),
            objects=ORDERS,
            more={"logging": {"format": "json"}},
        )
        for number in range(8):
            deployment.drop("csv", f"OrderId,Sku,Quantity\nO-{number},c{number},1\n", f"4.c{number}.T")
            xml = f"<Order><OrderId>O-{number}</OrderId><Sku>x{number}</Sku><Quantity>1</Quantity></Order>"
            deployment.drop("xml", xml, f"4.x{number}.T")
            deployment.drop(
                "strict", f'{{"OrderId": "O-1{number}", "Sku": "s", "Quantity": 2}}', f"4.s{number}.T"
            )
        deployment.drop("csv", "OrderId,Sku,Quantity\nX-9,c,1\n", "4.bad.T")
        found = deployment.outcomes(isolated=True)
    kind, reason = found.pop("ID:bad")
    assert (kind, "OrderId" in reason) == ("failed", True)
    assert Counter(kind for kind, _ in found.values()) == {"published": 24}
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if '"asked"' in line]
    assert sorted(line["sku"] for line in lines) == sorted(f"{of}{n}" for of in "cx" for n in range(8))
    booked = (deployment.directory / "ledger").read_text().splitlines()
    assert len(booked) == 24
    assert [line for line in booked if line.endswith(" 2")] == [f"O-1{number} 2" for number in range(8)]
