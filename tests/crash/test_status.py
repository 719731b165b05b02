"""`connector status` beside real processes: it sees what they do, and disturbs none of it."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from datetime import datetime
from typing import Any

from tests import forked_command
from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment, assert_settled_once
from tests.waiting import wait_for


def call(deployment: CrashDeployment, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forked_command.run(["status", *arguments], cwd=deployment.directory)


def status(deployment: CrashDeployment) -> dict[str, Any]:
    done = call(deployment, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def age(text: str) -> float:
    """Seconds since a time in an answer."""
    return time.time() - datetime.fromisoformat(text).timestamp()


def test_it_shows_instances_batches_workers_and_what_waits(deploy: Deploy) -> None:
    deployment = deploy(inputs=("in", "other"), connector={"instance": "host-a", "PollQuantity": 3})
    sent = time.time()
    (first, *_) = deployment.fill("in", ["gate:hold", *[""] * 6])
    run = deployment.start()
    (worker,) = deployment.await_gate(run, "hold", 1)
    document = status(deployment)
    assert list(document) == [
        *("application", "well", "reasons", "notices"),
        *("published_5m", "failed_5m", "last_failure", "workers_died_5m"),
        *(
            "in_doubt",
            "error_waiting",
            "error_growth_5m",
            "delayed",
            "provider_failure",
            "disk_shortage",
            "databases",
        ),
        *("instances", "batches", "workers", "resting", "failing", "loads", "paused", "inputs", "timers"),
        "subscriptions",
    ]
    assert (document["application"], document["well"], document["reasons"]) == ("crash", True, [])
    (instance,), (batch,), (at_work,) = (document[name] for name in ("instances", "batches", "workers"))
    for one in (instance, batch, at_work):
        assert 0 <= age(one.pop("since")) < time.time() - sent
    place = {"instance": "host-a", "client": instance["client"]}
    alive = {"host": socket.gethostname(), "pid": run.pid, "state": "alive", "last_good_poll": None}
    assert instance == {**place, **alive}
    assert batch == {**place, "batch": batch["batch"], "events": 3, "destinations": ["queue://in"]}
    event = {"message_id": first, "destination": "queue://in"}
    assert at_work == {
        **place,
        "batch": batch["batch"],
        "host": socket.gethostname(),
        "pid": worker,
        **event,
    }
    (waits, empty) = document["inputs"]
    assert abs(datetime.fromisoformat(waits.pop("oldest")).timestamp() - sent) < 5
    assert 0 <= waits.pop("age") < time.time() - sent + 1
    nothing = {"waiting": 0, "delayed": 0, "hour": [[0, 0]] * 30}
    for row, name in ((waits, "queue://in"), (empty, "queue://other")):
        assert (row.pop("destination"), row.pop("input")) == (name, name)
    assert waits == {**nothing, "waiting": 4}
    assert empty == {**nothing, "oldest": None, "age": None}
    text = call(deployment).stdout
    for part in ("instances of crash", "host-a", str(run.pid), "alive", "running batches", first):
        assert part in text

    deployment.open("hold")
    wait_for(lambda: deployment.instances()[0]["last_good_poll"], 120, "a good poll")
    document = status(deployment)
    assert 0 <= age(document["instances"][0]["last_good_poll"]) < 30
    assert (document["batches"], document["workers"]) == ([], [])
    run.stop()
    assert status(deployment)["instances"] == []


def test_it_tells_the_dead_from_the_living(deploy: Deploy) -> None:
    deployment = deploy()
    deployment.fill("in", ["gate:hold", ""])
    run = deployment.start()
    deployment.await_gate(run, "hold", 1)
    run.kill_everything()
    document = status(deployment)
    assert [(one["pid"], one["state"]) for one in document["instances"]] == [(run.pid, "dead")]
    assert [one["events"] for one in document["batches"]] == [2]
    assert document["workers"] == []
    assert "dead" in call(deployment).stdout


def test_it_never_fails_because_something_vanishes_and_disturbs_nobody(deploy: Deploy) -> None:
    deployment = deploy(connector={"PollQuantity": 5})
    ids = deployment.fill("in", [""] * 500)
    run = deployment.start("--drain", "--json")
    run.await_start()
    looks = 0
    while run.process.poll() is None:
        for one in status(deployment)["workers"]:
            assert one["message_id"] is None or one["message_id"] in ids
        looks += 1
    assert run.wait() == 0
    assert looks
    assert_settled_once(deployment, ids, kills=0)
