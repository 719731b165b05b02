"""Options, arguments and output that the verbs share.

A function that reads or checks an argument raises :class:`BadArgument` if the argument cannot be used.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import typer

from connector.errors import DestinationError, SelectorError
from connector.java import JAVA_LINE
from connector.log import JSON_BEGIN, LogSettings, is_json, is_json_line, user_code_in_log
from connector.text.names import shown

if TYPE_CHECKING:  # connector.messaging is slow, and verbs that ask a service do not need it
    from connector.config.loading import Configuration
    from connector.messaging.destination import Destination
    from connector.messaging.selector import Selector

ConfigOption = Annotated[
    str,
    typer.Option(
        "-c", "--config", envvar="CONNECTOR_CONFIG", metavar="FILE", help="The configuration, adapter.yaml."
    ),
]
"""``-c FILE``. The default to give is :data:`DEFAULT_CONFIG`."""

JsonOption = Annotated[bool, typer.Option("--json", help="Answers in JSON.")]


def whole_number(least: int, most: int, metavar: str, help: str) -> Any:
    """Returns an option for a whole number, in the notation of all edges."""

    def read(value: str | int) -> int:
        from connector.messaging.numbers import read_whole

        try:
            number = value if isinstance(value, int) else read_whole(value)
        except ValueError as error:
            raise typer.BadParameter(f"{shown(str(value))}: {error}") from None
        if not least <= number <= most:
            raise typer.BadParameter(f"{number} is not in the range {least} to {most}.")
        return number

    return typer.Option(metavar=metavar, parser=read, help=help)


def _read_selector_text(text: str | None) -> str | None:
    from connector.messaging.selector import selector_text

    return selector_text(text) or None


SelectorOption = Annotated[
    str | None,
    typer.Option(
        "--selector",
        metavar="S",
        help="Only messages that match this selector. Empty: no selector.",
        callback=_read_selector_text,
    ),
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
        help="Client id of the subscription, needed unless shared. For an adapter: its ApplicationName.",
    ),
]

DEFAULT_CONFIG = "adapter.yaml"

_CONTENT: Final = ("{", "[", "<")
"""What JSON and XML begin with."""

_CONTROL: Final = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal acts upon, without tab and line end."""

_log = logging.getLogger("connector.cli")


class BadArgument(typer.TyperException):
    """An argument cannot be used. The text names the argument and the expected value."""

    exit_code = 2


class CannotAnswer(typer.TyperException):
    """Standard output does not take the answer."""

    exit_code = 1


def read_destination(text: str, configuration: Configuration) -> Destination:
    """Returns the destination that an argument names at the provider of a deployment."""
    try:
        return configuration.destination(text)
    except DestinationError as error:
        raise BadArgument(str(error)) from None


def read_input(path: Path | None, source: str, prompt: str = "") -> tuple[str, bytes]:
    """Returns the source of the input, for errors, and its bytes.

    Args:
        path: None = stdin.
        source: how the user has named the file.
        prompt: for a user at a terminal.
    """
    if path is None:
        if sys.stdin.isatty():
            note(prompt)
        return "stdin", sys.stdin.buffer.read()
    try:
        return source, path.read_bytes()
    except OSError as error:
        raise BadArgument(f"{source}: {error.strerror}") from None


def read_body(given: str | None) -> bytes:
    """Returns the bytes of ``--body``. None = those of stdin."""
    return read_content(given, "--body", "the body, then Ctrl-D; --body reads a file")[1]


def read_content(given: str | None, option: str, prompt: str) -> tuple[str, bytes]:
    """Returns the source and the bytes of an option that names a file, or is the content itself.

    A text that begins as JSON or XML does is the content if there is no such file.

    Args:
        given: the value of the option. None = stdin.
        prompt: for a user at a terminal.
    """
    if given is None:
        return read_input(None, "", prompt)
    if given.lstrip().startswith(_CONTENT) and not os.path.exists(given):
        return option, os.fsencode(given)
    try:
        return f"{option} {given}", Path(given).read_bytes()
    except OSError as error:
        raise BadArgument(
            f"{option} {given}: {error.strerror}; {option} names a file, or is a text that begins with "
            f"{', '.join(_CONTENT[:-1])} or {_CONTENT[-1]}"
        ) from None


def read_selector(text: str | None) -> Selector | None:
    """Returns the selector of ``--selector``."""
    if text is None:
        return None
    from connector.messaging.selector import compile_selector

    try:
        return compile_selector(text)
    except SelectorError as error:
        raise BadArgument(f"--selector: {error}") from None


def read_topic(text: str, configuration: Configuration) -> Destination:
    """Returns the topic that an argument names."""
    destination = read_destination(text, configuration)
    if destination.is_queue:
        raise BadArgument(
            f"{destination} is a queue, expected a topic (topic://NAME): only topics have subscriptions"
        )
    return destination


def check_name(subscription: str) -> None:
    """Checks the name of a durable subscription."""
    if not subscription:
        raise BadArgument("--subscription: expected a name, found nothing")


def check_subscription(subscription: str, client_id: str, *, shared: bool) -> None:
    """Checks that a subscription has a name, and a client id unless the subscription is shared."""
    check_name(subscription)
    if not shared and not client_id:
        raise BadArgument(
            f"--subscription {subscription}: give --client-id with the id of its client, or --shared"
        )


def answer(text: str) -> None:
    """Writes a line of the answer to stdout. What the terminal cannot show, or acts upon, is escaped.

    Raises:
        CannotAnswer: stdout does not take the line.
    """
    with _stdout():
        _print(text, sys.stdout)


def _print(text: str, stream: TextIO) -> None:
    """Writes a line, in one call. Control characters are escaped as in JSON, which may be the text."""
    escaped = _CONTROL.sub(lambda one: f"\\u{ord(one[0]):04x}", text)
    encoding = stream.encoding or "utf-8"
    stream.write(f"{escaped.encode(encoding, 'backslashreplace').decode(encoding)}\n")


def answer_json(value: Any) -> None:
    """Writes a JSON document to stdout, on one line. Raises the errors of :func:`answer`."""
    from connector.text.json_text import to_json_text

    answer(to_json_text(value))


def answer_bytes(document: bytes) -> None:
    """Writes a document to stdout unchanged. Raises the errors of :func:`answer`."""
    flush()
    with _stdout():
        sys.stdout.buffer.write(document)
    flush()


def flush() -> None:
    """Flushes stdout. Raises the errors of :func:`answer`."""
    with _stdout():
        sys.stdout.flush()


@contextlib.contextmanager
def _stdout() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # the reader has closed the pipe
        raise
    except OSError as error:
        raise CannotAnswer(f"cannot write to standard output: {error.strerror}") from error


@contextlib.contextmanager
def user_code(directory: Path, logging: LogSettings | None = None) -> Iterator[None]:
    """Runs code of the deployment in this process: data handlers, name handlers, sinks.

    The code finds its modules, as in a worker. Its prints go to stderr, because they are no answer.

    Args:
        logging: which lines of the code are shown. None = as Python shows them.
    """
    if str(directory) not in sys.path:
        sys.path.append(str(directory))  # at the end: a user's json.py hides nothing
    shown = contextlib.nullcontext() if logging is None else user_code_in_log(logging)
    with shown, contextlib.redirect_stdout(sys.stderr):
        yield


def complain(text: str) -> None:
    """Writes to stderr why a command fails. With a JSON log this is a line of the log."""
    if is_json():
        _log.error("the command failed", extra={"reason": text.removeprefix("connector: ")})
    else:
        _print(text.replace("\n", "\n  "), sys.stderr)  # nobody forges a line


def show_output(line: str) -> None:
    """Shows a line that a worker or Java has written. With a JSON log this is a line of the log."""
    if not is_json():
        note(line)
        return
    before, begin, rest = line.partition(JSON_BEGIN)
    own = begin + rest if is_json_line(begin + rest) else ""
    if text := before if own else line:  # output without an end of line stands before a line of the log
        source = "java" if JAVA_LINE.match(text) else "worker"
        _log.info("output", extra={"source": source, "text": text})
    if own:
        note(own)


def counted(number: int, noun: str) -> str:
    """Returns ``no mistakes``, ``1 mistake``, ``2 mistakes``."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def note(text: str) -> None:
    """Writes a line that is no part of the answer to stderr, after the earlier answers."""
    flush()
    _print(text.replace("\n", "\n  "), sys.stderr)
