"""``connector request``: sends a business object to an application and prints the answer."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from connector.cli.common import (
    DEFAULT_CONFIG,
    BadArgument,
    ConfigOption,
    JsonOption,
    answer,
    answer_json,
    note,
    read_content,
    whole_number,
)
from connector.cli.deployment import load_for
from connector.config.loading import CONVERSION
from connector.datahandlers.json_handler import parse_object
from connector.errors import MalformedData, UnknownBusinessObject
from connector.messaging.numbers import MAX_INT
from connector.printable import printable
from connector.requests.result import RequestResult
from connector.service.assembly import make_requests

_PROMPT = "the object as JSON, then Ctrl-D; {} for one without attributes; --data reads a file"
_QUIET = 1.0
"""Seconds after which a user at a terminal is told that the command waits for a reply."""


def request(
    name: Annotated[
        str, typer.Argument(metavar="OBJECT.VERB", help="Business object and verb: Customer.Retrieve.")
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            "--body",
            metavar="FILE",
            show_default=False,
            help="The object as JSON, a file or the text. Left out: stdin.",
        ),
    ] = None,
    timeout: Annotated[
        int | None,
        whole_number(-MAX_INT - 1, MAX_INT, "MS", "ResponseTimeout of this request. Below 0: no wait."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Makes a request and prints the object as it is then. With --json prints status, object and message.

    The meta-objects say where the request is sent, and whether the command waits for a reply. The dynamic
    meta-object is part of the object, in the attribute that holds it.
    Exit status 0 for SUCCEED, VALCHANGE and MULTIPLE_HITS, 1 for any other answer, 2 for a wrong call.
    """
    with _end_at_signals(name) as fate:
        configuration = load_for(config, CONVERSION | {"history"}, thorough=True)
        try:
            configuration.metaobjects.definitions.find(name)
        except UnknownBusinessObject as error:  # checked before the command waits for a body
            raise BadArgument(str(error)) from None
        source, body = read_content(data, "--data", _PROMPT)
        try:
            attributes = parse_object(body)
        except MalformedData as error:
            raise BadArgument(f"{source}: {error}") from None
        client = make_requests(configuration).open(str(configuration.directory))
        with ThreadPoolExecutor(1, "connector-request") as caller:
            try:
                fate.append("it may have been sent")
                # in another thread, because a signal could end this thread in the middle of a commit
                result = _wait(caller.submit(client.request, name, attributes, timeout=timeout), name)
            except MalformedData as error:
                raise BadArgument(str(error)) from None
            finally:
                client.stop()
        _show(name, result, as_json=json)
    raise typer.Exit(0 if result.good else 1)


def _wait(request: Future[RequestResult], name: str) -> RequestResult:
    if sys.stderr.isatty():
        try:
            return request.result(_QUIET)
        except TimeoutError:
            note(f"{printable(name)}: waiting for the reply; Ctrl-C gives up")
    return request.result()


class _Ended(BaseException):
    """A signal has ended the command. No ``except Exception`` of a plug-in holds it up."""


@contextmanager
def _end_at_signals(name: str) -> Iterator[list[str]]:
    """Lets SIGINT and SIGTERM end the command cleanly. A second signal ends the process at once.

    Yields a list. Its last entry says what has become of the request, for the line on stderr.
    """
    fate = ["nothing was sent"]
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    ended_by, is_over = 0, False

    def handle(signum: int, frame: Any) -> None:
        nonlocal ended_by
        if is_over:
            return
        if ended_by:
            os.write(2, f"{text(signum)}\n".encode())  # what was interrupted may have been printing
            os._exit(128 + signum)
        ended_by = signum
        raise _Ended

    def text(signum: int) -> str:
        return f"connector: {printable(name)}: given up by {signal.Signals(signum).name}; {fate[-1]}"

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # a process has blocked them, see __main__
    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        yield fate
    except _Ended:
        note(text(ended_by))
        raise typer.Exit(128 + ended_by) from None
    finally:
        is_over = True
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(name: str, result: RequestResult, *, as_json: bool) -> None:
    if as_json:
        answer_json(result.as_dict())
    elif result.good:
        from connector.text.json_text import to_json_text

        answer(to_json_text(result.as_dict()["object"], indent=2))
    if not result.good:
        note(f"connector: {result.status.name}: {printable(result.message or '')}")
    elif not as_json:
        note(f"{name}: {result.status.name}")
