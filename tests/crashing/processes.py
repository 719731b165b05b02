"""The business processes of a world. Each call is written down when it begins and when it ends.

The lines go to the file ``log`` of the working directory, which is that of the deployment.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from connector.errors import TemporaryFailure
from connector.sinks.contract import Event


def note(*words: object, directory: str = ".", file: str = "log") -> None:
    """Adds a line to a file, with one write. The line begins with the ids of process and thread."""
    line = " ".join(map(str, (f"{os.getpid()}.{threading.get_ident()}", *words)))
    log = os.open(os.path.join(directory, file), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
    os.write(log, line.encode() + b"\n")
    os.close(log)


def _call(word: str, customer: Any, event: Event) -> None:
    note(word, event.subscription, customer["CustomerId"], event.delivery_count, event.retries, event.id)


def store(customer: Any, event: Event) -> None:
    """Does what the message says."""
    _call("begin", customer, event)
    what, _, value = (customer["Name"] or "").partition(":")
    if what == "fail":
        raise ValueError("as the message says")
    if what == "away" and event.retries < int(value):
        raise TemporaryFailure("as the message says")
    _call("end", customer, event)


def book(customer: Any, event: Event) -> None:
    """Writes a row in the transaction of the event."""
    mark = "?" if type(event.transaction.cursor()._cursor).__module__ == "sqlite3" else "%s"
    row = (customer["CustomerId"],)
    event.transaction.cursor().execute(f"INSERT INTO booking (event) VALUES ({mark})", row)


def answer(customer: Any, event: Event) -> dict[str, str]:
    """Replies."""
    _call("begin", customer, event)
    return {"CustomerId": customer["CustomerId"]}


def ask(customer: Any, event: Event) -> None:
    """Makes a request that nobody replies to."""
    _call("begin", customer, event)
    result = event.request("Question.Create", {"Id": customer["CustomerId"]})
    assert result.good, result
    _call("end", customer, event)
