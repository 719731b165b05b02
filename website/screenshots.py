"""Makes the pictures of the console in ``docs/images``, of the real pages of a small shop."""

from __future__ import annotations

import json
import random
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from benchmarks.common import scratch
from connector.config.http_model import OPERATE, READ, REQUEST, TokenEntry
from connector.config.loading import load
from connector.http.server import Server
from connector.service.observer import Observer
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.events.conftest import serving
from tests.http.webdriver import Browser, browser
from tests.http.world import client, settings
from tests.waiting import wait_for

TOKEN: Final = "picture-0123456789"
WIDTH: Final = 1280
STEP: Final = 120
"""Seconds of a bar of a chart."""
ADAPTER: Final = """\
provider: {type: dropbox, root: ./data, create: true, durability: none}
connector:
  ApplicationName: shop
  instance: berlin-1
  InputDestination: [queue://orders, queue://customers, queue://returns]
  PollFrequency: 200
  PollQuantity: 100
  ArchiveDestination: queue://archive
  ErrorDestination: queue://error
  ConfigurationMetaObject: MO_Config
  DataHandlerMimeType: application/json
subscriptions:
  - {object: Order, process: "processes:reserve", name: reserve-stock}
  - {object: Order, destination: queue://warehouse, name: pick-list}
  - {object: Customer, process: "processes:store", name: crm}
  - {object: Return, process: "processes:refund", name: refunds}
metaobjects: ./metaobjects
"""
OBJECTS: Final = """\
business_object: Order
verbs: {Create: }
attributes:
  Number: {type: String, key: true, required: true}
  Customer: String
  Article: String
  Quantity: Integer
---
business_object: Customer
verbs: {Update: }
attributes:
  Number: {type: String, key: true, required: true}
  Name: String
  City: String
---
business_object: Return
verbs: {Create: }
attributes:
  Number: {type: String, key: true, required: true}
  Reason: String
---
static_metaobject: MO_Config
rules:
  Order_Create: {InputDestination: queue://orders}
  Customer_Update: {InputDestination: queue://customers}
  Return_Create: {InputDestination: queue://returns}
"""
PROCESSES: Final = """\
import time
from pathlib import Path


def reserve(order, event):
    time.sleep(0.004)
    if order["Article"] == "77-210":
        raise LookupError("there is no article 77-210 in this season")
    if order["Article"] == "12-004" and not Path(__file__).with_name("stock").exists():
        raise TimeoutError("the stock service has not answered for 5 s")


def store(customer, event):
    time.sleep(0.009)


def refund(note, event):
    time.sleep(0.002)
    if note["Reason"] == "":
        raise ValueError("a refund needs a reason")
"""
ARTICLES: Final = ("31-118", "40-552", "55-901", "62-007")
CITIES: Final = ("Bremen", "Lyon", "Porto", "Turku", "Graz")
Send = Callable[..., str]


def order(number: int, article: str, quantity: object = 1) -> str:
    return json.dumps(
        {
            "Number": f"A-{10_400 + number}",
            "Customer": f"C-{2_000 + number % 311}",
            "Article": article,
            "Quantity": quantity,
        }
    )


def customer(number: int) -> str:
    city = CITIES[number % len(CITIES)]
    return json.dumps({"Number": f"C-{2_000 + number}", "Name": f"Customer {number}", "City": city})


def an_hour(deployment: Deployment, adapters: list[InProcessAdapter]) -> None:
    """What a shop does in an hour. The bars of the charts get a clock that has gone slower."""
    chance, number, begin = random.Random(7), 0, time.time()
    for ago in range(29, -1, -1):
        for one in adapters:
            one.activity._clock = lambda ago=ago: begin - ago * STEP  # type: ignore[misc]
        before = sum(one.summary.total.claimed for one in adapters)
        sent = 0
        for _ in range(int(14 + 9 * abs(15 - ago) / 15 * chance.random() + chance.randrange(8))):
            quantity: object = chance.randrange(1, 5)
            article = chance.choice(ARTICLES)
            if number % 103 == 50:
                article = "77-210"
            if ago in (20, 19, 12) and chance.random() < 0.25:
                article = "12-004"
            if number % 190 == 60:
                quantity = "two"
            deployment.send("queue://orders", order(number, article, quantity), type="order")
            number, sent = number + 1, sent + 1
        for _ in range(chance.randrange(7)):
            deployment.send("queue://customers", customer(number), type="customer")
            number, sent = number + 1, sent + 1
        if ago % 4 == 1:
            reason = "" if ago == 5 else "too small"
            text = json.dumps({"Number": f"R-{300 + ago}", "Reason": reason})
            deployment.send("queue://returns", text, type="return")
            sent += 1
        wait_for(
            lambda before=before, sent=sent: (
                sum(one.summary.total.claimed for one in adapters)  # type: ignore[misc]
                == before + sent
            )
        )
        time.sleep(0.3)  # an event is counted after its batch, and then the clock goes on
    for one in adapters:
        one.activity._clock = time.time


@contextmanager
def shop(directory: Path) -> Iterator[tuple[Deployment, Server, str]]:
    """Two instances, the server of one, and the id of an order that was repaired."""
    socket.gethostname = lambda: "node-1"
    deployment = Deployment(directory, adapter=ADAPTER, metaobjects=OBJECTS, processes=PROCESSES)
    second = deployment.write("second.yaml", ADAPTER.replace("berlin-1", "berlin-2"))
    token = TokenEntry.model_construct(token=TOKEN, name="eva", roles=(READ, OPERATE, REQUEST))
    with ExitStack() as stack:
        adapters = [
            stack.enter_context(deployment.running()),
            stack.enter_context(InProcessAdapter(load(second, in_process=True))),
        ]
        observer = Observer(adapters[0])
        definitions = deployment.configuration.metaobjects.definitions
        section = settings(tokens=(token,), console=True)
        server = Server(section, adapters[0].requests, definitions, observer=observer)
        server.start()
        stack.callback(server.stop)
        for one in adapters:
            stack.enter_context(serving(one))
        an_hour(deployment, adapters)
        with client(server, TOKEN) as http:
            repaired = next(one for one in deployment.messages("error") if b"12-004" in one.body).message_id
            deployment.write("stock", "")
            given = {"destination": "queue://error", "ids": [repaired], "yes": True}
            assert http.post("/control/replay", json=given).is_success
            wait_for(
                lambda: any(
                    one.properties.get("connector_event_id", one.message_id) == repaired
                    for one in deployment.messages("archive")
                )
            )
            pause = {"what": "queue://customers", "reason": "the CRM is upgraded until 14:00"}
            assert http.post("/control/pause", json=pause).is_success
            time.sleep(3)  # an instance obeys a pause within two seconds, and no page shows when
            for number in range(37):
                deployment.send("queue://customers", customer(number), type="customer")
            time.sleep(3)  # the console looks at the queues every other second
        yield deployment, server, str(repaired)


def take(
    window: Browser, path: Path, *, width: int = WIDTH, tallest: int = 1400, scheme: str = "light"
) -> None:
    """Writes a picture of the page from its top."""
    window.emulate(width=width, scheme=scheme)
    tall = min(tallest, int(window.run("return document.body.scrollHeight")))
    window.cdp(
        "Emulation.setDeviceMetricsOverride", width=width, height=tall, deviceScaleFactor=1, mobile=False
    )
    window.run("document.activeElement.blur(); scrollTo(0, 0)")
    window.screenshot(path)


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with scratch() as root, shop(root / "shop") as (deployment, server, repaired), browser() as window:
        window.cdp("Emulation.setTimezoneOverride", timezoneId="Europe/Berlin")
        window.cdp("Emulation.setLocaleOverride", locale="en-GB")
        window.cdp("Emulation.setScrollbarsHidden", hidden=True)
        window.emulate(width=WIDTH, scheme="light")
        window.open(f"{server.url}/console")
        window.write("#token", TOKEN)
        window.click("main button")
        window.wait("#instances")
        # For the narrow column of the front page: three inputs side by side, and the subscriptions.
        take(window, directory / "console-overview.png", width=1120, tallest=875)
        take(window, directory / "console-overview-dark.png", scheme="dark")
        window.open(f"{server.url}/console/errors")
        window.wait(".group")
        take(window, directory / "console-errors.png")
        failed = next(one for one in deployment.messages("error") if b"77-210" in one.body)
        asked = urlencode({"queue": "queue://error", "id": failed.message_id or ""})
        window.open(f"{server.url}/console/message?{asked}")
        wait_for(lambda: window.find("#explanation table"), what="the explanation")
        take(window, directory / "console-message.png")
        window.open(f"{server.url}/console/history?{urlencode({'id': repaired})}")
        window.wait(".life")
        take(window, directory / "console-history.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
