"""The connection of the sink ``webhook``: what one exchange leaves, the next one must not meet."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

import pytest

from connector.sinks.webhook.sink import WebhookSink, WebhookUnavailable
from connector.testing.sinks import sample_event, sample_object
from tests.sinks.test_webhook_sink import sink
from tests.sinks.web_server import Answer, WebServer, answer, hang_up, raw, server
from tests.tables import rows

__all__ = ["server"]

GOOD = b"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n"
LATE = b"HTTP/1.1 200 X\r\nContent-Length: 4\r\n\r\nlate"
LENGTH_4 = b"HTTP/1.1 200 X\r\nContent-Length: 4\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n"


def deliver(made: WebhookSink) -> None:
    made.deliver(sample_object(), sample_event())


def expect_failure_of_its_own(made: WebhookSink, server: WebServer, *, kept: bool) -> None:
    """The next exchange gets the answer that is meant for it."""
    server.answers = [answer(500, b"for the second")]
    with pytest.raises(WebhookUnavailable, match="500 Internal Server Error: for the second"):
        deliver(made)
    made.close()
    first, second = server.asked
    assert (first.connection == second.connection) is kept


@rows(
    "kept, first",
    [
        (True, GOOD),
        (True, b"HTTP/1.1 204 X\r\n\r\n"),
        (True, LENGTH_4 + b"done"),
        (True, CHUNKED + b"4\r\ndone\r\n0\r\n\r\n"),
        (True, CHUNKED + b"4\r\ndone\r\n0\r\nX-Sum: 1\r\n\r\n"),
        (True, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nLink: a\r\n\r\n" + GOOD),
        (False, GOOD + LATE),
        (False, GOOD + GOOD),
        (False, b"HTTP/1.1 204 X\r\n\r\n" + GOOD),
        (False, LENGTH_4 + b"done" + LATE),
        (False, LENGTH_4 + b"done and more"),
        (False, LENGTH_4 + b"done" + b"x" * 70_000),
        (False, GOOD + b"x"),
        (False, GOOD + b"\r\n"),
        (False, GOOD + b"HTTP/1.1 103 X\r\n\r\n"),
        (False, GOOD + b"HTTP/1.1 100 Continue\r\n\r\n" + GOOD),
        (False, CHUNKED + b"4\r\ndone\r\n0\r\n\r\n" + LATE),
        (False, CHUNKED + b"4\r\ndone\r\n0\r\n\r\n\n"),
        (False, CHUNKED + b"no chunk\r\n" + GOOD),
        (False, CHUNKED + b"4\r\ndone and more\r\n0\r\n\r\n"),
        (False, b"HTTP/1.0 200 X\r\nContent-Length: 0\r\n\r\n"),
        (False, b"HTTP/1.0 200 X\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"),
        (False, b"HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" + LATE),
        (False, LENGTH_4 + b"x" * 4 + b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ],
)
def test_a_connection_is_used_again_only_if_nothing_follows_the_answer(
    server: WebServer, kept: bool, first: bytes
) -> None:
    made = sink(server.url)
    server.answers = [raw(first)]
    deliver(made)
    expect_failure_of_its_own(made, server, kept=kept)


@rows("then", [raw(LATE), raw(b"HTTP/1.1 100 Continue\r\n\r\n"), raw(b"\n"), hang_up])
def test_what_comes_between_two_events_ends_the_connection(server: WebServer, then: Answer) -> None:
    handlers: list[BaseHTTPRequestHandler] = []

    def good(handler: BaseHTTPRequestHandler) -> None:
        handlers.append(handler)
        raw(GOOD)(handler)

    made = sink(server.url)
    server.answers = [good]
    deliver(made)
    then(handlers[0])
    expect_failure_of_its_own(made, server, kept=False)


def test_an_event_is_sent_once_when_its_connection_ends_under_it(server: WebServer) -> None:
    made = sink(server.url)
    server.answers = [raw(GOOD), hang_up]
    deliver(made)
    with pytest.raises(WebhookUnavailable, match="the connection was closed without an answer"):
        deliver(made)
    assert len(server.asked) == 2, "whether the server has done its work is not known"
    deliver(made)
    made.close()
