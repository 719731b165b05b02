"""Listeners: one thread a session, and what becomes of a message whose listener raises."""

from __future__ import annotations

import threading

import pytest

from connector.core.connection import CoreConnection
from connector.errors import SessionStateError
from connector.messaging import AcknowledgeMode, ReceivedMessage
from tests.core.conftest import Connect, fill, next_of, shown
from tests.waiting import beside, wait_for

AUTO, DUPS_OK, CLIENT, INDIVIDUAL, TRANSACTED = AcknowledgeMode


def fail(message: ReceivedMessage) -> None:
    raise ValueError("the reason")


@pytest.mark.parametrize("mode", [AUTO, DUPS_OK])
def test_auto_acknowledges_after_the_listener_not_before(
    connection: CoreConnection, mode: AcknowledgeMode
) -> None:
    """So does DUPS_OK, until the session is closed."""
    there: list[tuple[str, bool]] = []

    def look(message: ReceivedMessage) -> None:
        there.append((message.value, message.value in shown(connection)))

    session = connection.session(mode)
    session.consumer("orders").listen(look)
    fill(connection, "1", "2", "3")
    wait_for(lambda: len(there) == 3)
    session.close()
    assert (there, shown(connection)) == ([("1", True), ("2", True), ("3", True)], [])


@pytest.mark.parametrize("mode", [AUTO, DUPS_OK, CLIENT, INDIVIDUAL])
def test_a_message_whose_listener_raises_comes_again_with_its_count_one_more(
    connection: CoreConnection, mode: AcknowledgeMode
) -> None:
    fill(connection, "1")
    counts: list[int] = []

    def fail_twice(message: ReceivedMessage) -> None:
        counts.append(message.delivery_count)
        if len(counts) < 3:
            fail(message)
        message.acknowledge()

    errors: list[Exception] = []
    connection.exception_listener = errors.append
    session = connection.session(mode)
    session.consumer("orders").listen(fail_twice)
    wait_for(lambda: len(counts) == 3)
    session.close()
    assert (counts, list(map(str, errors)), shown(connection)) == ([1, 2, 3], ["the reason"] * 2, [])


def test_a_listener_that_raises_rolls_its_transaction_back(connection: CoreConnection) -> None:
    fill(connection, "1")
    connection.exception_listener = lambda error: None
    session = connection.session(TRANSACTED)
    counts: list[int] = []

    def relay(message: ReceivedMessage) -> None:
        counts.append(message.delivery_count)
        session.send("bills", f"bill {len(counts)}")
        if len(counts) == 1:
            fail(message)
        session.commit()

    session.consumer("orders").listen(relay)
    wait_for(lambda: len(counts) == 2)
    session.close()
    assert shown(connection, "bills") == ["bill 2"]


def test_the_listeners_of_a_session_run_one_at_a_time(connection: CoreConnection) -> None:
    running: list[str] = []
    overlaps: list[bool] = []
    elsewhere, go_on = threading.Event(), threading.Event()

    def listener(message: ReceivedMessage) -> None:
        running.append(message.value)
        assert go_on.wait(120)
        overlaps.append(len(running) > 1)
        running.remove(message.value)

    session = connection.session()
    for queue in ("a", "b"):
        session.consumer(queue).listen(listener)
    connection.session().consumer("c").listen(lambda message: elsewhere.set())
    for queue in ("a", "b"):
        fill(connection, *(f"{queue}{number}" for number in range(5)), to=queue)
    wait_for(lambda: running != [])
    fill(connection, "another session has a thread of its own", to="c")
    assert elsewhere.wait(120)
    assert len(running) == 1
    go_on.set()
    wait_for(lambda: len(overlaps) == 10)
    assert not any(overlaps)


def test_close_waits_for_the_listener_that_runs_which_ends_its_work(connection: CoreConnection) -> None:
    fill(connection, "1")
    begun = threading.Event()
    session = connection.session(TRANSACTED)

    def relay(message: ReceivedMessage) -> None:
        begun.set()
        wait_for(lambda: session.closing)
        session.send("bills", "bill")
        session.commit()

    session.consumer("orders").listen(relay)
    assert begun.wait(120)
    session.close()
    assert (shown(connection), shown(connection, "bills")) == ([], ["bill"])


def test_after_close_no_listener_is_called(connection: CoreConnection) -> None:
    seen: list[str] = []
    session = connection.session()
    session.consumer("orders").listen(lambda message: seen.append(message.value))
    session.close()
    others: list[str] = []
    connection.session().consumer("orders").listen(lambda message: others.append(message.value))
    numbers = [str(number) for number in range(20)]
    fill(connection, *numbers)
    wait_for(lambda: others == numbers)
    assert seen == []


def test_a_listener_may_close_its_own_consumer_but_not_its_session_or_connection(
    connection: CoreConnection,
) -> None:
    fill(connection, "1", "2")
    refused: list[Exception] = []
    seen: list[str] = []
    session = connection.session()
    consumer = session.consumer("orders")

    def once(message: ReceivedMessage) -> None:
        for end in (session.close, connection.close, connection.stop):
            try:
                end()
            except SessionStateError as error:
                refused.append(error)
        seen.append(message.value)
        consumer.close()

    consumer.listen(once)
    wait_for(lambda: seen != [])
    with connection.session() as other:
        seen.append(next_of(other.consumer("orders")).value)
    session.close()
    assert (len(refused), seen) == (3, ["1", "2"])


def test_a_consumer_receives_only_while_it_has_no_listener(connection: CoreConnection) -> None:
    consumer = connection.session().consumer("orders")
    consumer.listen(lambda message: None)
    with pytest.raises(SessionStateError, match="listener"):
        consumer.receive_nowait()
    consumer.listen(None)
    fill(connection, "1")
    assert next_of(consumer).value == "1"


def test_stop_waits_for_the_listener_that_runs_and_start_goes_on(
    connection: CoreConnection, connect: Connect
) -> None:
    fill(connection, "1", "2")
    seen: list[str] = []
    begun, go_on, elsewhere = threading.Event(), threading.Event(), threading.Event()

    def slow(message: ReceivedMessage) -> None:
        begun.set()
        assert go_on.wait(120)
        seen.append(message.value)

    def stop() -> list[str]:
        connection.stop()
        return list(seen)

    connection.session().consumer("orders").listen(slow)
    assert begun.wait(120)
    stopping = beside(stop)
    wait_for(lambda: not connection.started)
    go_on.set()
    assert stopping.result(120) == ["1"]
    other = connect().session()
    other.consumer("other").listen(lambda message: elsewhere.set())
    other.send("other", "a listener of another connection is called meanwhile")
    assert elsewhere.wait(120)
    assert seen == ["1"]
    connection.start()
    wait_for(lambda: seen == ["1", "2"])


def test_the_error_of_a_listener_is_logged_and_keeps_no_other_listener_from_its_messages(
    connection: CoreConnection, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []
    session = connection.session()
    session.consumer("bad").listen(fail)
    session.consumer("good").listen(lambda message: seen.append(message.value))
    session.send("bad", "1")
    session.send_many("good", ["1", "2", "3"])
    wait_for(lambda: len(seen) == 3)
    wait_for(lambda: "ValueError: the reason" in caplog.text)


def test_other_threads_send_while_a_listener_waits(connection: CoreConnection) -> None:
    """The thread of the listeners lets others in at once, not only when its wait is over."""
    session = connection.session()
    seen: list[str] = []
    session.consumer("orders").listen(lambda message: seen.append(message.value))
    for number in range(10):
        session.send("orders", str(number))
    wait_for(lambda: len(seen) == 10)
