"""An operator who calls beside an event at work: each call leaves it, and its process is called once."""

from __future__ import annotations

import contextlib
import html
import re
from http import HTTPStatus
from pathlib import Path

from connector.messaging.history import plain_text
from connector.operate.lives import read_life
from tests.http.shop import BOSS, CONSOLE, service, with_archive
from tests.http.test_console import fields, signed_in
from tests.http.world import client
from tests.waiting import wait_for

WAITS = """\
import os
from tests.waiting import wait_for

HERE = os.path.dirname(os.path.abspath(__file__))


def store(order, event):
    with open(HERE + "/called", "a") as file:
        file.write(f"{order['Id']} {event.delivery_count}\\n")
    wait_for(lambda: os.path.exists(HERE + "/go"))
"""
OWNER = re.compile(r"in use by the adapter 'shop', instance 'host-a', .*process.* since 20\d\d-")


def test_an_event_at_work_is_refused_by_each_call_and_called_once(tmp_path: Path, on_provider: str) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    text = with_archive(on_provider).replace("processes:store", "waits:store")
    text = text.replace("  ErrorDestination", "  InProgressDestination: queue://busy\n  ErrorDestination")
    with (
        service(tmp_path, text, **CONSOLE) as (deployment, _, server),
        client(server, BOSS) as http,
        contextlib.ExitStack() as last,
    ):
        last.callback((tmp_path / "go").touch)  # a process that waits would be killed, and this one with it
        identity = deployment.send("queue://orders", '{"Id": "1"}')
        wait_for(lambda: (tmp_path / "called").exists(), what="the process is called")
        busy = {"destination": "queue://busy"}
        for call in ({}, {"yes": True}, {"yes": True, "ids": [identity]}):
            for verb, more in (("replay", {}), ("move", {"to": "queue://aside"}), ("discard", {})):
                answer = http.post(f"/control/{verb}", json={**busy, **call, **more})
                assert (answer.status_code, answer.json()["moved"]) == (HTTPStatus.OK, 0), verb
                (reason,) = answer.json()["left"]
                assert OWNER.match(reason), reason
        refused = http.post("/control/correct", json={**busy, "id": identity, "body": "{}"})
        assert refused.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
        assert OWNER.search(refused.json()["detail"])
        with signed_in(server, BOSS) as console:
            form = {"form_key": fields(console.get("/console").text)["form_key"], **busy}
            assert OWNER.search(html.unescape(console.post("/console/replay", data=form).text))
            assert console.post("/console/replay", data={**form, "yes": "1"}).status_code == HTTPStatus.OK
        (tmp_path / "go").touch()
        wait_for(lambda: len(deployment.messages("archive")) == 1, what="it is published")
        assert (tmp_path / "called").read_text() == "1 1\n"
        life = read_life(deployment.provider.existing_state("shop").history(), plain_text(identity))
    assert [one.row.what for one in life.events] == ["published"]
