"""In which order events are taken and published: round robin over the inputs, and groups.

See WBI Adapter for JMS, "Event detection".
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connector.events.run.job import spread
from connector.events.run.task_settings import WorkItem
from connector.status import ReturnCode
from tests.events.conftest import ORDER, Bench, EventDeployment, customer, outcomes_of
from tests.tables import rows


def deploy(bench: Bench, inputs: str, quantity: int) -> EventDeployment:
    """A deployment that polls queues of one letter."""
    queues = [f"queue://{name}" for name in inputs]
    return bench.deploy(InputDestination=queues, PollQuantity=quantity)


def fill(deployment: EventDeployment, **queues: int) -> None:
    for queue, number in queues.items():
        for n in range(number):
            deployment.drop(queue, ORDER, f"4.{queue}{n + 1}.T")


@rows(
    "quantity, waiting, taken, left",
    [
        (2, {"a": 2, "b": 1, "c": 5}, "a1 b1 c1 a2 c2", {"c": 3}),  # the seed's example
        (1, {"a": 2, "b": 2, "c": 0}, "a1 b1", {"a": 1, "b": 1}),  # PollQuantity 1, the default
        (9, {"a": 3, "b": 1, "c": 0}, "a1 b1 a2 a3", {}),  # all empty before the maximum
        (3, {"a": 0, "b": 0, "c": 4}, "c1 c2 c3", {"c": 1}),  # the maximum is of each destination
        (5, {"a": 0, "b": 0, "c": 0}, "", {}),  # nothing waits
    ],
)
def test_a_poll_is_a_round_robin_over_the_inputs(
    bench: Bench, quantity: int, waiting: dict[str, int], taken: str, left: dict[str, int]
) -> None:
    deployment = deploy(bench, "abc", quantity)
    fill(deployment, **waiting)
    with deployment.running() as adapter:
        report = adapter.poll()
    order = [identity.removeprefix("ID:") for identity in outcomes_of(adapter)]
    assert order == taken.split()
    assert bench.called() == [f"ID:{name}" for name in order]
    assert {queue: n for queue in "abc" if (n := len(deployment.names(queue)))} == left
    assert (report.code, report.claimed, report.settled) == (ReturnCode.SUCCEED, len(order), len(order))
    assert bool(adapter.pipeline.jobs) == bool(order)


def test_a_destination_of_unknown_pace_has_its_own_job_and_quick_ones_share_one(bench: Bench) -> None:
    deployment = deploy(bench, "ab", 3)
    fill(deployment, a=3, b=2)
    with deployment.running(parallelism=2) as adapter:
        adapter.poll()
        assert sorted(adapter.pipeline.jobs) == [
            "poll 1, 2 events of queue://b",
            "poll 1, 3 events of queue://a",
        ]
        fill(deployment, a=3, b=2)
        adapter.poll()
        assert adapter.pipeline.jobs[2:] == ["poll 2, 5 events of queue://a, queue://b"]


def test_a_provider_error_in_the_middle_of_an_input_ends_that_poll(bench: Bench) -> None:
    deployment = deploy(bench, "ab", 5)
    fill(deployment, a=1, b=1)
    deployment.drop("a", ORDER, f"4.a2{'x' * 240}.T")  # a claim of it needs a sidecar
    deployment.drop("a", ORDER, "4.a3.T")
    headers = bench.root / "dropboxmq" / "headers"
    with deployment.running() as adapter:
        headers.rmdir()
        headers.write_text("a file stands where the directory was")
        report = adapter.poll()
        assert (report.code, report.provider_failed) == (ReturnCode.APPRESPONSETIMEOUT, True)
        assert (str(headers) in report.reason, report.claimed, report.settled) == (True, 1, 1)
        assert bench.called() == ["ID:a1"], "what was claimed is finished"
        assert (len(deployment.names("a")), deployment.names("b")) == (2, ["4.b1.T"]), "no more was claimed"
        headers.unlink()
        headers.mkdir()
        adapter.drain()
    assert len(deployment.names("archive")) == 4


def test_a_stop_lets_the_cycle_finish_and_claims_no_more(bench: Bench) -> None:
    deployment = bench.deploy(PollQuantity=2)
    fill(deployment, orders=9)
    with deployment.running() as adapter:
        adapter.drain(lambda report: adapter.request_stop())
        assert adapter.poll().claimed == 0
    done = len(deployment.names("archive"))
    assert 2 <= done <= 4  # the cycle that ran, and the one that ran already when the stop came
    assert len(deployment.names("orders")) == 9 - done
    assert deployment.names("orders", "processing") == []
    assert len(bench.called()) == done


# -- what is published one after the other ------------------------------------------------------------


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
def test_an_event_given_back_stops_those_behind_it(
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
    outcomes = deployment.outcomes(parallelism=3)
    called = [i.removeprefix("ID:") for i in bench.called()]
    assert sorted(called) == [f"m{n:02}" for n in range(24)]
    assert list(outcomes) == [f"ID:m{n:02}" for n in range(24)], "whenever tasks end"
    for remainder in range(5):
        of_group = [i for i in called if int(i[1:]) % 5 == remainder]
        assert of_group == sorted(of_group)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.integers(1, 9))
def test_no_task_has_more_than_the_longest_lane_above_another(lengths: list[int], partitions: int) -> None:
    order_groups: list[list[WorkItem]] = [[(0, "queue://a", "", 0, None)] * length for length in lengths]
    loads = [sum(map(len, task)) for task in spread(order_groups, partitions)]
    assert sum(loads) == sum(lengths)
    assert len(loads) <= partitions
    assert min(loads) >= 1
    assert max(loads) - min(loads) <= max(lengths)
