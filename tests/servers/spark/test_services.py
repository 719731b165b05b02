"""Services with a real Spark: bodies that harm it, a start without the database, a reload."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.cli.in_process import call as in_process
from tests.crash.conftest import Deploy
from tests.crash.test_service import call, start
from tests.crash.test_start import wait_for_the_database
from tests.events.conftest import handler
from tests.postgres import PostgresServer
from tests.waiting import wait_for

HANDLER = handler(
    "application/x-obeying",
    head="import ctypes, json, os, re, signal\nfrom connector.businessobjects.instance import BusinessObject",
    reads="""\
values = json.loads(body)
what = values.get("Second")
if what == "hang":
    re.match("^([a-z]+)+$", "a" * 64 + "1")
elif what == "segv":
    ctypes.string_at(0)
elif what == "group":
    os.killpg(0, signal.SIGKILL)
elif what == "terminate":
    os.killpg(0, signal.SIGTERM)
return BusinessObject(self.definitions, values.pop("BusinessObject"), values.pop("Verb"), values)
""",
    writes="return '{}'",
)
CONVERSIONS: Final = {
    "hang": "data handler Own: did not end within 2 s (convert_timeout)",
    "segv": "its worker was ended by SIGSEGV during the conversion; it was tried alone, too",
    "group": "tried alone",
    "terminate": "alone",
}
"""What a conversion does, and what is said of it. The last two end the worker of Spark, too."""


def test_bodies_that_harm_their_conversion_hold_up_no_service(deploy: Deploy) -> None:
    """All objects go to a queue: no delivery is journalled that could tell of what was begun."""
    out = {"object": "Customer", "destination": "queue://out", "mime_type": "application/json"}
    deployment = deploy(
        inputs=("a", "b"),
        connector={"DataHandlerClassName": "obeying:Own", "convert_timeout": "2s", "max_attempts": 2},
        only=[out],
        java=True,
    )
    deployment.write("obeying.py", HANDLER)
    run = deployment.start()
    good, harmful = [], {}
    for what in CONVERSIONS:
        good += deployment.fill("a", ["", ""])
        (harmful[what],) = deployment.fill("a", [""], second=what)
        good += deployment.fill("b", [""])
    good += deployment.fill("a", [""])
    wait_for(lambda: set(deployment.ids("error")) == set(harmful.values()), what=lambda: run.errors)
    deployment.await_archived(good)
    run.stop()
    assert deployment.ids("archive") == dict.fromkeys(good, 1)
    assert deployment.count("out") == len(good)
    assert "APPRESPONSETIMEOUT" not in run.errors
    assert "connected again" not in run.errors
    reasons = {
        str(one.message_id): str(one.properties["connector_reason"]) for one in deployment.messages("error")
    }
    for what, identity in harmful.items():
        assert CONVERSIONS[what] in reasons[identity]
    assert deployment.leftovers() == []
    run.await_gone()


def test_a_service_waits_for_a_database_that_is_away_at_the_start(
    own_postgres: PostgresServer, deploy: Deploy
) -> None:
    wait_for_the_database(own_postgres, deploy, java=True)


def test_java_that_cannot_start_ends_a_service_at_once(deploy: Deploy) -> None:
    options = {"conf": {"spark.driver.extraJavaOptions": "-javaagent:/no/such.jar"}}
    run = deploy(java=True, connector={"RestartRetryCount": 300}, spark=options).start()
    assert run.wait(60) == 1
    assert "restarting" not in run.errors


LOADS = """
import pathlib

HERE = pathlib.Path(__file__).parent

def broken(dataframe, lot):
    if (HERE / "broken").exists():
        raise ValueError("the lake is dry")
    (HERE / f"loaded{lot.number}").write_text(f"{lot.attempt} {dataframe.count()}")
"""


def test_a_reload_in_spark_loads_the_processes_anew_and_begins_a_stopped_load_again(deploy: Deploy) -> None:
    load = {"object": "Customer", "name": "broken", "load": "loads:broken", "every": "100ms"}
    deployment = deploy(java=True, subscriptions=[load])
    deployment.write("loads.py", LOADS)
    broken, loaded = deployment.directory / "broken", deployment.directory / "loaded1"
    broken.touch()

    def shown() -> dict[str, Any]:
        return json.loads(in_process(deployment.directory, "status", "--json").stdout)  # type: ignore[no-any-return]

    run = start(deployment)
    (first,) = deployment.fill("in", [""])
    deployment.await_archived([first])
    document = wait_for(lambda: (found := shown())["loads"] and found, 180)
    (row,) = document["loads"]
    assert (row["subscription"], row["state"], row["lot"], row["attempt"]) == ("broken", "stopped", 1, 1)
    assert "ValueError: the lake is dry" in row["reason"]
    assert document["well"] is False
    assert any("the load of broken has stopped" in reason["text"] for reason in document["reasons"])
    errors = in_process(deployment.directory, "errors")
    assert (errors.returncode, "the load of broken has stopped: " in errors.stderr) == (0, True)
    broken.unlink()
    processes = deployment.directory / "processes.py"
    processes.write_text(processes.read_text().replace('"store"', '"new"'))
    status, output = call(deployment, "reload")
    assert (status, output.endswith(" has the new configuration\n")) == (0, True), output + run.errors
    wait_for(lambda: loaded.exists() and loaded.read_text() == "2 1", 180, lambda: run.errors)
    wait_for(lambda: shown()["well"], 180)
    assert shown()["loads"] == []
    (second,) = deployment.fill("in", [""])
    deployment.await_archived([second])
    processes.write_text(f"{processes.read_text()}\nraise RuntimeError('half written')")
    status, output = call(deployment, "reload")
    assert (status, "half written" in output) == (2, True), output
    (third,) = deployment.fill("in", [""])  # workers that were there before run it
    deployment.await_archived([third])
    run.stop()
    assert (deployment.begun("store"), deployment.begun("new")) == ({first: 1}, {second: 1, third: 1})
