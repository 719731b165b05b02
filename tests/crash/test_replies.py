"""SIGKILL of workers that serve requests, and of one whose process makes a request."""

from __future__ import annotations

import os
from collections import Counter

from connector.stores.dropbox import codec
from tests.crash.conftest import Deploy
from tests.waiting import wait_for


def test_workers_that_are_killed_again_and_again_answer_each_request_once(deploy: Deploy) -> None:
    """Requests that are answered so or so, and that another subscriber takes or refuses."""
    other = {"object": "Customer", "name": "second", "process": "processes:second"}
    deployment = deploy(store={"reply": True}, subscriptions=[other], connector={"max_attempts": 50})
    sent: dict[str, str] = {}
    for name, status in (("", "SUCCESS"), ("raise:no stock", "FAIL")):
        for second in ("", "raise:of another subscriber"):
            ids = deployment.fill("in", [name] * 8, second=second, reply_to="replies")
            sent.update(dict.fromkeys(ids, status))
    run = deployment.start("--drain", fault="deliver:7=kill,done:5=kill")
    assert run.wait() == 0, run.errors
    replies = [codec.decode(name)[0] for name in deployment.names("replies")]
    told = [(str(one.correlation_id), str(one.properties["ResponseResult"])) for one in replies]
    assert Counter(told) == Counter(sent.items())
    assert deployment.ids("archive") + deployment.ids("error") == Counter(list(sent))
    assert deployment.leftovers() == deployment.names("replies", "working") == []
    assert len({delivery.pid for delivery in deployment.deliveries()}) > 4


OBJECTS = """
business_object: Customer
verbs: {Create: , Retrieve: }
attributes:
  CustomerId: {type: String, key: true, required: true}
  Name: String
  Second: String
---
static_metaobject: MO_Config
rules:
  Customer_Create: {InputDestination: queue://in}
  Customer_Retrieve: {OutputDestination: queue://asked, ResponseTimeout: 60000}
"""

ASKING = """
import os

HERE = os.path.dirname(os.path.abspath(__file__))

def ask(customer, event):
    open(os.path.join(HERE, f"asking.{os.getpid()}"), "w").close()
    result = event.request("Customer.Retrieve", {"CustomerId": customer["CustomerId"]})
    with open(os.path.join(HERE, "answers"), "a") as file:
        file.write(f"{event.id} {event.delivery_count} {result.status.name} {result.object['Name']}\\n")
"""

SERVING = """
def serve(customer, event):
    customer["Name"] = "Ada"
    return customer
"""


def test_a_process_on_a_worker_is_killed_while_it_asks_another_adapter_and_asks_again(
    deploy: Deploy,
) -> None:
    front = deploy(only=[{"object": "Customer", "name": "ask", "process": "asking:ask"}])
    (front.directory / "asking.py").write_text(ASKING)
    back = deploy(
        inputs=("asked",),
        only=[{"object": "Customer", "name": "serve", "process": "serving:serve", "reply": True}],
        connector={"ApplicationName": "back", "ArchiveDestination": "queue://served"},
        provider_keys={"root": str(front.root)},
    )
    (back.directory / "serving.py").write_text(SERVING)
    for deployment in (front, back):
        (deployment.directory / "metaobjects" / "objects.yaml").write_text(OBJECTS)
    ids = front.fill("in", [""])
    run = front.start("--drain")
    wait_for(lambda: list(front.directory.glob("asking.*")) and front.names("asked"), 120, "a request")
    run.kill_everything()
    assert any(name.startswith("temporary-") for name in os.listdir(front.root))
    ids += front.fill("in", [""])
    serving = back.start()
    front.java = True  # the workers that ask are those of Spark
    front.drain()
    assert (front.directory / "answers").read_text().splitlines() == [
        f"{ids[0]} 2 VALCHANGE Ada",
        f"{ids[1]} 1 VALCHANGE Ada",
    ]
    wait_for(lambda: len(front.names("served")) == 3, 120, "the request of the dead served")
    serving.signal_driver(15)
    assert serving.wait() == 0, serving.errors
    assert front.ids("archive") == Counter(ids)
    assert front.leftovers() == []
    assert [name for name in os.listdir(front.root) if "temporary" in name] == []
