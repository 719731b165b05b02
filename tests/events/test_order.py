"""What is published one after the other, and in which order."""

from __future__ import annotations

from connector.status import ReturnCode
from tests.events.conftest import Bench, customer
from tests.tables import rows


def test_higher_priority_comes_first_then_the_older_one(bench: Bench) -> None:
    deployment = bench.deploy()
    names = ("4.x1.T", "9.x2.T", "4.x3.T", "0.x4.T", "-3.x5.T", "2147483647.x6.T", "9.x7.T")
    deployment.drop_in_turn("customers", customer(), *names)
    deployment.drain()
    assert [i.removeprefix("ID:") for i in bench.called()] == ["x6", "x2", "x7", "x1", "x3", "x4", "x5"]


def test_the_time_in_an_id_is_the_age_of_a_message(bench: Bench) -> None:
    deployment = bench.deploy()
    for name in ("4.0000000000000003-c.T", "4.0000000000000001-a.T", "4.0000000000000002-b.T"):
        deployment.drop("customers", customer(), name)
    deployment.drain()
    assert [i[-1] for i in bench.called()] == ["a", "b", "c"]


def group(name: str, of: str | None) -> str:
    return f"4.{name}.T.....JMSXGroupIDS={of}" if of else f"4.{name}.T"


@rows(
    "order, not_published",
    [
        ("destination", ["x2", "x3", "x4", "x5", "x6"]),  # the rest of the destination waits
        ("group", ["x2", "x4"]),  # the rest of the group waits
        ("none", ["x2"]),  # nothing waits
    ],
)
def test_an_event_given_back_stops_the_later_ones_of_its_key(
    bench: Bench, order: str, not_published: list[str]
) -> None:
    deployment = bench.deploy(order=order)
    messages = [("x1", "g"), ("x2", "g"), ("x3", "h"), ("x4", "g"), ("x5", None), ("x6", "h")]
    for identity, of in messages:
        body = customer("a: inactive at lunch") if identity == "x2" else customer()
        deployment.drop("customers", body, group(identity, of))
    # a task for each key: a process that is not active ends its whole task
    with deployment.running(parallelism=6) as adapter:
        report = adapter.poll()
        assert report.code is ReturnCode.APPRESPONSETIMEOUT
        assert not report.provider_failed
        assert "at lunch" in report.reason
        waiting = sorted(identity.removeprefix("ID:") for identity in deployment.ids("customers"))
    assert waiting == not_published
    assert deployment.names("customers", "processing") == []
    published = {i for i, _ in messages} - set(not_published)
    assert sorted(bench.called()) == sorted({f"ID:{i}" for i in published} | {"ID:x2"})
    # what was given back has no delivery more than before
    assert all(m.delivery_count == 1 for m in deployment.messages("customers"))


def test_the_events_of_a_group_keep_their_order_whatever_else_runs(bench: Bench) -> None:
    deployment = bench.deploy(order="group", PollQuantity=4)
    for n in range(24):
        deployment.drop("customers", customer(), f"4.m{n:02}.T.....JMSXGroupIDS=g{n % 5}")
    deployment.drain(parallelism=3)
    called = [i.removeprefix("ID:") for i in bench.called()]
    assert sorted(called) == [f"m{n:02}" for n in range(24)]
    for remainder in range(5):
        of_group = [i for i in called if int(i[1:]) % 5 == remainder]
        assert of_group == sorted(of_group)
