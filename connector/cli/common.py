"""What the verbs share: options and the way of answering."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from connector.errors import DestinationError, SelectorError
from connector.log import JSON_BEGIN, is_json, is_json_line
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.selector import Selector, compile_selector

ConfigOption = Annotated[
    str,
    typer.Option(
        "-c", "--config", envvar="CONNECTOR_CONFIG", metavar="FILE", help="The configuration, adapter.yaml."
    ),
]
"""``-c FILE``; give it the default :data:`DEFAULT_CONFIG`."""

JsonOption = Annotated[bool, typer.Option("--json", help="Answers in JSON.")]

SelectorOption = Annotated[
    str | None,
    typer.Option("--selector", metavar="S", help="Only messages that match this selector."),
]

SubscriptionOption = Annotated[
    str | None, typer.Option("--subscription", metavar="NAME", help="A durable subscription of the topic.")
]

SharedOption = Annotated[bool, typer.Option("--shared", help="Other consumers may share the subscription.")]

ClientIdOption = Annotated[
    str,
    typer.Option(
        "--client-id",
        metavar="ID",
        help="Whose subscription it is; needed unless it is shared. That of an adapter: its ApplicationName.",
    ),
]

DEFAULT_CONFIG = "adapter.yaml"

_log = logging.getLogger("connector.cli")

_JAVA: Final = re.compile(
    r'(OpenJDK|Java HotSpot|WARNING: |Picked up |Exception in thread "|SLF4J|\[[0-9.,]+s\]|\tat |'
    r"[A-Z]+StatusLogger|(Caused by: )?(java|javax|scala|sun|jdk|org\.apache)\.[\w.$]+)"
)
"""How lines of Java begin. Java passes on what the workers write, so that nothing else tells them apart."""


class BadArgument(typer.TyperException):
    """An argument cannot be used; says which and what is expected."""

    exit_code = 2


class CannotAnswer(typer.TyperException):
    """Standard output does not take the answer."""

    exit_code = 1


def read_destination(text: str) -> Destination:
    """The destination that an argument names.

    Raises:
        BadArgument: it names none.
    """
    try:
        return parse_destination(text)
    except DestinationError as error:
        raise BadArgument(str(error)) from None


def read_selector(text: str | None) -> Selector | None:
    """The selector of ``--selector``.

    Raises:
        BadArgument: it is none.
    """
    if text is None:
        return None
    try:
        return compile_selector(text)
    except SelectorError as error:
        raise BadArgument(f"--selector: {error}") from None


def read_topic(text: str) -> Destination:
    """The topic that an argument names.

    Raises:
        BadArgument: it names none, or a queue.
    """
    destination = read_destination(text)
    if destination.is_queue:
        raise BadArgument(f"{destination} is a queue: only topics have subscriptions, topic://NAME")
    return destination


def check_name(subscription: str) -> None:
    """Whether a durable subscription can have this name.

    Raises:
        BadArgument: it is empty.
    """
    if not subscription:
        raise BadArgument("--subscription: expected a name, found nothing")


def check_subscription(subscription: str, client_id: str, *, shared: bool) -> None:
    """Whether a subscription has a name, and the client id that it needs.

    Raises:
        BadArgument: one of them is missing.
    """
    check_name(subscription)
    if not shared and not client_id:
        raise BadArgument(f"--subscription {subscription}: give --client-id, whose it is, or --shared")


def printable(text: str) -> str:
    """``text`` with what a terminal would act upon escaped: what messages say comes from strangers."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def answer(text: str) -> None:
    """Writes a line of the answer to stdout; what the terminal cannot show is escaped.

    Raises:
        CannotAnswer: it cannot be written.
    """
    encoding = sys.stdout.encoding or "utf-8"
    with _stdout():
        print(text.encode(encoding, "backslashreplace").decode(encoding))


def answer_json(value: Any) -> None:
    """Writes a JSON document, on one line, to stdout; raises as :func:`answer`."""
    import json

    answer(json.dumps(value, ensure_ascii=False))


def answer_bytes(document: bytes) -> None:
    """Writes a document to stdout as it is, behind what was answered before it; raises as :func:`answer`."""
    flush()
    with _stdout():
        sys.stdout.buffer.write(document)
    flush()


def flush() -> None:
    """Whoever reads the answer has all of it now; raises as :func:`answer`."""
    with _stdout():
        sys.stdout.flush()


@contextlib.contextmanager
def _stdout() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # the reader has seen enough
        raise
    except OSError as error:
        raise CannotAnswer(f"cannot write to standard output: {error.strerror}") from error


def complain(text: str) -> None:
    """Writes why a command fails to stderr: a line for people, or where the log is JSON a line of the log."""
    if is_json():
        _log.error("the command failed", extra={"reason": text.removeprefix("connector: ")})
    else:
        print(text, file=sys.stderr)


def show_output(line: str) -> None:
    """Shows a line that a worker or Java has written; where the log is JSON, as a line of the log."""
    if not is_json():
        note(line)
        return
    before, begin, rest = line.partition(JSON_BEGIN)
    own = begin + rest if is_json_line(begin + rest) else ""
    if (
        text := before if own else line
    ):  # what was printed without an end of line stands before a line of the log
        source = "java" if _JAVA.match(text) else "worker"
        _log.info("output", extra={"source": source, "text": text})
    if own:
        note(own)


def note(text: str) -> None:
    """Writes a line that is no part of the answer, to stderr, behind what was answered before it."""
    flush()
    encoding = sys.stderr.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)
