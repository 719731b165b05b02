"""Processes with a transaction: the rows of a business database equal the messages, whatever is killed.

The table has no key, so a second run would leave a second row.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment
from tests.databases.conftest import Shop
from tests.postgres import PostgresServer
from tests.runs import customer
from tests.waiting import wait_for

BOOK = {"object": "Customer", "name": "book", "process": "processes:book", "transaction": "shop"}
IN_A_TASK = {"transaction.returned": 5, "transaction.committed": 9, "done": 4}
PAIRS = [("dropbox", "sqlite"), ("postgresql", "postgresql")]
"""Of messages and business data. The others are those of tests/crashing."""


def make_shop(url: str) -> Shop:
    """A business database with the table `booking`."""
    shop = Shop(url)
    shop.execute("CREATE TABLE booking (event VARCHAR(200))")
    return shop


def bookings(shop: Shop) -> Counter[str]:
    return Counter(event for (event,) in shop.execute("SELECT event FROM booking"))


@pytest.fixture
def shop_type() -> str:
    return "sqlite"


@pytest.fixture
def shop(tmp_path: Path, request: pytest.FixtureRequest, shop_type: str) -> Shop:
    if shop_type == "sqlite":
        return make_shop(f"sqlite:///{tmp_path}/shop.db")
    return make_shop(request.getfixturevalue("database"))


def assert_booked_once(deployment: CrashDeployment, shop: Shop, ids: list[str]) -> None:
    assert bookings(shop) == dict.fromkeys(ids, 1)
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.leftovers() == []


@pytest.mark.parametrize(("provider_type", "shop_type"), PAIRS)
def test_whatever_worker_is_killed_the_rows_equal_the_messages(deploy: Deploy, shop: Shop) -> None:
    """A driver that is killed: tests/crashing. The whole group: below."""
    deployment = deploy(shop=shop.settings.url, only=[BOOK], inputs=("a", "b"))
    ids = [i for queue in ("a", "b") for i in deployment.fill(queue, [""] * 15)]
    for place, nth in IN_A_TASK.items():
        run = deployment.start("--drain", fault=f"{place}:{nth}=kill")
        assert run.wait() == 0, run.errors
        ids += deployment.fill("a", [""] * 15)
    deployment.drain()
    assert_booked_once(deployment, shop, ids)
    assert shop.outcomes() == [], "the rows of settled events are removed"


def test_a_worker_that_dies_in_each_transaction_is_no_conversion_that_died(
    deploy: Deploy, shop: Shop
) -> None:
    """No `begun` precedes a transaction, and its deaths count up to max_attempts all the same."""
    deployment = deploy(shop=shop.settings.url, only=[BOOK], connector={"max_attempts": 4})
    ids = deployment.fill("in", [""])
    run = deployment.start("--drain", fault="transaction.returned:1=kill")
    assert run.wait() == 0, run.errors
    assert deployment.ids("error") == dict.fromkeys(ids, 1)
    assert "it was tried 4 times (max_attempts)" in run.errors
    assert bookings(shop) == {}


def test_an_event_of_transactions_alone_is_never_in_doubt(deploy: Deploy, shop: Shop) -> None:
    in_progress = {"InProgressDestination": "queue://in-progress", "InDoubtEvents": "FailOnStartup"}
    deployment = deploy(shop=shop.settings.url, only=[BOOK], connector=in_progress)
    ids = deployment.fill("in", [""] * 30)
    for place, nth in IN_A_TASK.items():
        deployment.kill_while_paused_at(f"{place}:{nth}")
    summary = deployment.drain().summary
    assert summary["in_doubt"] == 0
    assert_booked_once(deployment, shop, ids)


def test_a_copy_that_somebody_moves_back_is_booked_again(deploy: Deploy, shop: Shop) -> None:
    """Also if the rows of its first run are still there."""
    deployment = deploy(shop=shop.settings.url, only=[BOOK])
    (identity,) = deployment.fill("in", [""])
    deployment.kill_driver_at("settle.finished")
    assert len(shop.outcomes()) == 1
    deployment.drain()
    deployment.move_back("archive", "in", identity)
    deployment.drain()
    assert bookings(shop) == {identity: 2}


def test_a_copy_that_comes_before_the_one_whose_rows_are_committed_is_the_same_event(
    deploy: Deploy, shop: Shop
) -> None:
    """With DuplicateEventElimination. The copies are files of one id, and the second is more urgent."""
    deployment = deploy(shop=shop.settings.url, only=[BOOK], connector={"DuplicateEventElimination": True})
    (identity,) = deployment.fill("in", [""])
    deployment.kill_while_paused_at("transaction.committed:1")
    deployment.drop("in", json.dumps(customer(1)), f"9.{identity.removeprefix('ID:')}.T")
    deployment.drain()
    assert bookings(shop) == {identity: 1}
    assert deployment.ids("archive") == {identity: 2}
    assert shop.outcomes() == []


@pytest.mark.parametrize("shop_type", ["postgresql"])
def test_a_worker_that_is_stopped_in_its_transaction_books_once(deploy: Deploy, shop: Shop) -> None:
    """Its adapter is killed, and another one waits for its transaction, which commits in the end."""
    deployment = deploy(shop=shop.settings.url, only=[BOOK], connector={"stop_timeout": "60s"})
    (first,) = deployment.fill("in", [""], second="gate:1")
    ids = [first, *deployment.fill("in", [""] * 10)]
    hung = deployment.start()
    (worker,) = deployment.await_gate(hung, "1", 1)
    hung.signal_one(worker, signal.SIGSTOP)
    hung.signal_driver(signal.SIGKILL)
    other = deployment.start()
    wait_for(lambda: list(deployment.root.rglob("*.closed")), 120, "the takeover waits for the journal")
    deployment.open("1")
    hung.signal_one(worker, signal.SIGCONT)
    deployment.await_archived(ids)
    other.stop()
    hung.await_gone()
    assert_booked_once(deployment, shop, ids)


def test_a_database_server_that_is_killed_loses_and_doubles_nothing(
    deploy: Deploy, own_postgres: PostgresServer
) -> None:
    """In the middle of the process, between its return and the commit, and after the commit."""
    shop = make_shop(own_postgres.url())
    deployment = deploy(
        shop=shop.settings.url, only=[BOOK], connector={"PollQuantity": 10, "PollFrequency": 50}
    )
    ids = deployment.fill("in", [""] * 60)
    (gated,) = deployment.fill("in", [""], second="gate:1")
    places = {"transaction.returned": 4, "transaction.committed": 11}
    run = deployment.start(fault=",".join(f"{place}:{nth}=pause" for place, nth in places.items()))
    left = set(places) | {"gate"}

    def is_done() -> bool:
        assert run.process.poll() is None, run.errors
        marks = list(run.faults.iterdir())  # one that comes later waits for the next look
        stands = {mark.stem for mark in marks}
        stands |= {"gate"} if deployment.reached("1") else set()
        for place in stands & left:
            left.remove(place)
            own_postgres.kill()
            own_postgres.start()
        for mark in marks:
            mark.unlink()
        if "gate" in stands:
            deployment.open("1")
        return not left and deployment.count("archive") == len(ids) + 1

    wait_for(is_done, 120, "settled")
    run.stop()
    assert_booked_once(deployment, shop, [*ids, gated])


def test_without_its_database_an_event_waits_and_other_destinations_go_on(
    deploy: Deploy, own_postgres: PostgresServer
) -> None:
    shop = make_shop(own_postgres.url())
    polling = {"PollFrequency": 300, "PollQuantity": 10}
    entries = [{**BOOK, "verbs": ["Create"]}, {"object": "Note", "process": "processes:noted"}]
    deployment = deploy(shop=shop.settings.url, only=entries, inputs=("a", "b"), connector=polling)
    with (deployment.directory / "metaobjects" / "objects.yaml").open("a") as objects:
        objects.write("---\nbusiness_object: Note\nverbs: {Create: }\nattributes: {Id: String}\n")
    with (deployment.directory / "processes.py").open("a") as processes:
        processes.write("\ndef noted(note, event): pass\n")
    run = deployment.start()
    run.await_start()
    own_postgres.kill()
    ids = deployment.fill("a", [""] * 20)
    note = '{"BusinessObject": "Note", "Verb": "Create", "Id": "1"}'
    deployment.drop("b", note, "4.1700000000000000-t-n.T")
    wait_for(lambda: "cannot be used" in run.errors, 120, "the reason in the log")
    wait_for(lambda: deployment.count("archive") == 1, 120, "the other destination goes on")
    batches: set[str] = set()
    began = time.monotonic()

    def are_tried_again() -> bool:
        """A file that is claimed has the number of its batch in its name."""
        claimed = deployment.names("a", "processing")
        batches.update(name.rpartition("@")[2].split("-")[1] for name in claimed)
        return len(batches) >= 10

    wait_for(are_tried_again, 120, "ten batches")
    polls = (time.monotonic() - began) / 0.3 + 2
    assert len(batches) <= 2 * polls, "the service does not spin: two batches a poll"
    assert deployment.count("error") == 0
    assert own_postgres.password not in run.errors
    own_postgres.start()
    wait_for(lambda: deployment.count("archive") == len(ids) + 1, 120, run.errors)
    run.stop()
    assert bookings(shop) == dict.fromkeys(ids, 1)


@pytest.mark.parametrize("shop_type", ["postgresql"])
def test_a_deadlock_of_two_processes_is_repeated(deploy: Deploy, shop: Shop) -> None:
    accounts = "CREATE TABLE account (id INTEGER PRIMARY KEY, amount INTEGER)"
    shop.execute(accounts, "INSERT INTO account VALUES (1, 0), (2, 0)")
    deployment = deploy(
        shop=shop.settings.url, only=[{**BOOK, "process": "transfers:move"}], connector={"order": "none"}
    )
    (deployment.directory / "transfers.py").write_text(
        "import time\n"
        "def move(customer, event):\n"
        "    accounts = (1, 2) if int(customer['CustomerId']) % 2 else (2, 1)\n"
        "    for account in accounts:\n"
        "        event.transaction.execute(\n"
        "            'UPDATE account SET amount = amount + 1 WHERE id = %s', (account,))\n"
        "        time.sleep(0.05)  # so that two processes meet\n"
    )
    ids = deployment.fill("in", [""] * 6)
    deployment.drain()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert shop.execute("SELECT amount FROM account ORDER BY id") == [(6,), (6,)]


@pytest.mark.parametrize("provider_type", ["sqlite"])
def test_a_managed_event_in_the_database_of_the_messages_is_rolled_back_with_its_rows(deploy: Deploy) -> None:
    deployment = deploy(only=[BOOK], connector={"ContainerManagedEvents": "JMS", "max_attempts": 3})
    assert deployment.queues is not None
    deployment.root.mkdir(exist_ok=True)
    shop = make_shop(deployment.queues.url)
    deployment.shop = shop.settings.url
    deployment.configure()
    good = deployment.fill("in", [""] * 5)
    (bad,) = deployment.fill("in", [""], second="flag:up")
    (deployment.directory / "up").touch()
    deployment.drain()
    assert bookings(shop) == dict.fromkeys(good, 1)
    assert deployment.ids("error") == {bad: 1}
    assert [one.count for one in deployment.deliveries() if one.id == bad] == [1, 2, 3]
    ids = good + deployment.fill("in", [""] * 20)
    for place, nth in IN_A_TASK.items():
        deployment.kill_while_paused_at(f"{place}:{nth}")
    deployment.drain()
    assert bookings(shop) == dict.fromkeys(ids, 1)
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
