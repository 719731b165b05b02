"""Programs for processes of their own, as scripts: one makes requests and may be killed, one answers them."""

from __future__ import annotations

import sys
from concurrent.futures import as_completed
from typing import Final

from connector.messaging.client import ReceivedMessage
from connector.requests.client import RequestClient
from connector.stores.dropbox.provider import DropboxProvider
from tests.requests.world import REPOSITORY, Application, Replying, customer, greet, settings

ASK: Final = "import sys\nfrom tests.requests.caller import ask\nask(*sys.argv[1:])"
ANSWER: Final = "import sys\nfrom tests.requests.caller import answer\nanswer(*sys.argv[1:])"


def ask(root: str, count: str, temporary: str = "") -> None:
    """Makes so many requests at once. Prints ``sent``, then a line for each that completes.

    Args:
        root: of the dropbox.
        count: of the requests.
        temporary: any text = replies come to a temporary queue.
    """
    provider = DropboxProvider(root, create=True, durable=False)
    requests = settings(reply_to=None) if temporary else settings()
    client = RequestClient(requests, provider.connect, provider.capabilities, str(REPOSITORY))
    futures = [
        client.request_async("Customer.Retrieve", customer(f"child-{number}"), timeout=120_000)
        for number in range(int(count))
    ]
    print("sent", flush=True)
    for future in as_completed(futures):
        result = future.result()
        print(result.status.name, result.object["Name"], flush=True)
    client.stop()


def answer(root: str, twice: str) -> None:
    """Answers every request with its own number until the standard input ends, each N-th of them twice.

    Prints ``ready``, and at the end how many requests there were, and how many replies were sent.
    """
    requests = replies = 0

    def reply(request: ReceivedMessage, replying: Replying) -> None:
        nonlocal requests, replies
        requests += 1
        for _ in range(1 if requests % int(twice) else 2):
            greet(request, replying)
            replies += 1

    application = Application(DropboxProvider(root, create=True, durable=False), reply)
    print("ready", flush=True)
    sys.stdin.read()
    application.end()
    print(requests, replies, flush=True)
