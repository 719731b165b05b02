"""Clients that are slow, large, many, broken, or gone: the others are served all the same."""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from connector.http import connections
from connector.http.addresses import client_of
from connector.http.calls import ServerLimits
from connector.http.guard import HEADERS
from connector.http.server import Server
from tests.http import shop
from tests.http.world import PATIENCE, TOKEN, Script, client, connect, read_all, serving
from tests.tables import rows
from tests.waiting import wait_for

PATH = "/requests/Customer/Create"
HEAD = (
    b"POST /requests/Customer/Create HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"
)


def is_served(server: Server) -> bool:
    """Whether somebody else is answered."""
    with client(server) as http:
        return http.get("/docs").status_code == 200


# -- size ----------------------------------------------------------------------------------------------


def test_a_body_of_the_limit_is_read_and_one_byte_more_is_not() -> None:
    headers = {"Content-Type": "application/json"}
    with serving(max_body=100) as server, client(server) as http:
        for size, status in ((100, 200), (101, 413)):
            body = b'{"CustomerId": "7"}'.ljust(size)
            for content in (body, iter([body[:30], body[30:60], body[60:]])):  # the second without a length
                answer = http.post(PATH, content=content, headers=headers)
                assert answer.status_code == status
        assert "larger than 100 bytes (http.max_body)" in answer.json()["detail"]
    with serving(max_body=4 << 20) as server, client(server) as http:
        name = "x" * (3 << 20)
        assert http.post(PATH, json={"Name": name}).json()["object"] == {"Name": name}


def test_a_body_that_says_that_it_is_too_large_is_not_waited_for(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n")
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"\r\nconnection: close\r\n" in answer.lower()


def test_a_client_that_goes_on_writing_has_its_answer_and_is_cut_off(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(HEAD + b"Content-Length: 99999999999\r\n\r\n")
        sent = 0
        try:
            while sent < 1 << 30:
                sent += connection.send(b" " * 65536)
        except OSError:
            pass  # cut off
        assert sent < 64 << 20
    assert is_served(server)


# -- broken --------------------------------------------------------------------------------------------


@rows(
    "call",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"POST " + PATH.encode() + b" HTTP/1.1\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1e3\r\n\r\n",
        HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        HEAD + b"Transfer-Encoding: gzip\r\n\r\n{}",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        HEAD + b"X: \x00\r\nContent-Length: 2\r\n\r\n{}",
        HEAD + b"X: " + b"x" * 200_000 + b"\r\n\r\n",
        HEAD + b"".join(b"X-%d: x\r\n" % number for number in range(20_000)) + b"\r\n",
    ],
)
def test_what_is_no_http_is_refused_and_the_connection_ends(
    server: Server, script: Script, call: bytes
) -> None:
    with connect(server) as connection:
        try:
            connection.sendall(call)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it was refused before it was read
        answer = read_all(connection)
    assert answer == b"" or answer.split()[1] in (b"400", b"501"), answer[:200]
    if call == b"GET\r\n\r\n":
        assert b"\r\nconnection: close" in answer.lower()
        assert answer.endswith(b"\r\n\r\nInvalid HTTP request received.")
    assert script.calls == []
    assert is_served(server)


@rows(
    "call",
    [
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        HEAD + b"Content-Length : 2\r\n\r\n{}",
        HEAD + b"Content-Length: +2\r\n\r\n{}",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx0\r\n\r\n",
    ],
)
def test_a_call_whose_end_can_be_read_in_two_ways_is_refused_and_so_is_all_that_follows(
    server: Server, script: Script, call: bytes
) -> None:
    with connect(server) as connection:
        connection.sendall(call + b"GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    if b"Transfer-Encoding: chunked" in call and b"Content-Length: 4" in call:
        head, _, body = answer.partition(b"\r\n\r\n")
        check_problem(head, body, 400)
        assert b"\r\nconnection: close" in head.lower()
        assert b"found both Transfer-Encoding and Content-Length" in body
    assert script.calls == []


def check_problem(head: bytes, body: bytes, status: int) -> None:
    """Whether what no application has answered is told as everything else is."""
    headers = head.lower()
    assert headers.startswith(b"http/1.1 %d " % status)
    assert b"\r\ncontent-type: application/problem+json\r\n" in headers
    for name, value in HEADERS.items():
        assert f"\r\n{name}: {value}".lower().encode() in headers
    assert json.loads(body)["status"] == status


def test_a_malformed_end_of_a_body_that_was_answered_already_only_ends_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving(max_body=10) as server, connect(server) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n40\r\n" + b" " * 64 + b"\r\n")
        received = connection.recv(65536)
        connection.sendall(b"zz\r\n")
        received += read_all(connection)
    assert received.startswith(b"HTTP/1.1 413 ")
    assert received.count(b"HTTP/1.1 ") == 1
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_target_may_be_a_whole_url_which_says_the_host(server: Server, script: Script) -> None:
    rest = HEAD.partition(b" HTTP/1.1")[2] + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"
    other = b"\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for call, status in (
        (b"POST http://localhost:99" + PATH.encode() + b" HTTP/1.1" + rest, b"200"),
        (b"POST HTTPS://127.0.0.1" + PATH.encode() + b" HTTP/1.1" + rest, b"200"),
        (b"GET http://evil.example/docs HTTP/1.1" + other, b"421"),
        (b"GET http:///docs HTTP/1.1" + other, b"400"),
        (b"GET http://localhost?x=1 HTTP/1.1" + other.replace(b"localhost", b"x"), b"307"),
    ):
        with connect(server) as connection:
            connection.sendall(call)
            assert read_all(connection).split()[1] == status, call
    assert len(script.calls) == 2


def test_a_body_shorter_than_its_length_makes_no_request(server: Server, script: Script) -> None:
    with connect(server) as connection:
        connection.sendall(HEAD + b'Content-Length: 50\r\n\r\n{"CustomerId"')
        connection.shutdown(socket.SHUT_WR)
        read_all(connection)
    assert is_served(server)
    assert script.calls == []


def test_what_follows_a_body_is_no_part_of_it(server: Server, script: Script) -> None:
    body = json.dumps({"CustomerId": "7"}).encode()
    call = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with connect(server) as connection:
        connection.sendall(call + call)
        wait_for(lambda: len(script.calls) == 2, what="both calls are made")
        connection.sendall(b"GARBAGE\r\n\r\n")
        answers = read_all(connection)
    assert answers.count(b"HTTP/1.1 200 ") == 2
    assert b"HTTP/1.1 400 " in answers


# -- slow ----------------------------------------------------------------------------------------------


def test_what_does_not_come_is_not_waited_for() -> None:
    limits = ServerLimits(head_seconds=0.3, body_seconds=0.3)
    with serving(limits=limits) as server, connect(server) as silent, connect(server) as slow:
        slow.sendall(HEAD[:40])
        assert is_served(server)
        assert read_all(silent) == b""
        assert read_all(slow) == b""
        with connect(server) as connection:
            connection.sendall(HEAD + b"Content-Length: 20\r\n\r\n{")
            assert is_served(server)
            assert read_all(connection).startswith(b"HTTP/1.1 408 ")


def test_the_second_head_of_a_connection_is_not_waited_for_either() -> None:
    with serving(limits=ServerLimits(head_seconds=2.0)) as server, connect(server) as connection:
        connection.sendall(b"GET /favicon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"GET / HT")
        assert b"HTTP/1.1" not in read_all(connection)


# -- many ----------------------------------------------------------------------------------------------


@pytest.fixture
def many_files() -> Iterator[None]:
    """Both ends of all connections are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    more = 8192 if hard == resource.RLIM_INFINITY else min(hard, 8192)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, more), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_pages_are_shown_while_a_thousand_requests_wait(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "connector.http")
    script = Script()
    script.holds = True
    body = json.dumps({"CustomerId": "7"}).encode()
    call = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    waiting = []
    with serving(script, max_requests=1000) as server:
        try:
            for _ in range(1000):
                waiting.append(connect(server))
                waiting[-1].sendall(call)
            wait_for(lambda: len(script.held) == 1000, what="a thousand requests wait")
            assert is_served(server)
            with client(server) as http:
                answer = http.post(PATH, json={})
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert "too many requests (http.max_requests)" in answer.json()["detail"]
            wait_for(lambda: "calls are refused" in caplog.messages, what="it is logged")
            refused = [vars(one) for one in caplog.records if one.getMessage() == "calls are refused"]
            assert [(one["number"], one["max_requests"]) for one in refused] == [(1, 1000)]
            script.release()
            assert all(read_all(connection).startswith(b"HTTP/1.1 200 ") for connection in waiting)
        finally:
            for connection in waiting:
                connection.close()
    assert len(script.calls) == 1000


def test_connections_beyond_the_limit_are_told_so_and_the_others_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "connector.http")
    with serving(max_requests=1) as server, ExitStack() as stack:
        idle = many(server, stack)
        head, _, body = call(server, b"/docs").partition(b"\r\n\r\n")
        check_problem(head, body, 503)
        assert b"\r\nretry-after: 1" in head.lower()
        wait_for(lambda: "connections are refused" in caplog.messages, what="it is logged")
        fields = vars(caplog.records[caplog.messages.index("connections are refused")])
        assert (fields["number"], fields["open"]) == (1, 101)
        assert call(server, b"/docs", "127.0.0.2").startswith(b"HTTP/1.1 200 "), "one client of many"
        idle.pop().close()
        wait_for(lambda: is_served(server), what="there is room again")


def many(server: Server, stack: ExitStack) -> list[socket.socket]:
    """All connections that one client may have. Nothing is sent."""
    most = connections.most_connections(1) - connections._OTHERS
    return [stack.enter_context(connect(server)) for _ in range(most)]


def call(server: Server, path: bytes, client: str = "127.0.0.1") -> bytes:
    """The answer to a call of a client with another address of this machine."""
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE, (client, 0)) as connection:
        connection.sendall(
            b"GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n"
            % (path, TOKEN.encode())
        )
        return read_all(connection)


def test_whoever_asks_for_the_health_is_answered_beside_connections_that_are_silent(tmp_path: Path) -> None:
    with shop.service(tmp_path, max_requests=1) as (_, _, server), ExitStack() as stack:
        many(server, stack)
        silent = [stack.enter_context(connect(server)) for _ in range(3 * connections._HEALTH_PLACES)]
        for path in (b"/health/live", b"/health/ready", b"/metrics", b"/health/well"):
            answer = call(server, path)
            assert answer.startswith(b"HTTP/1.1 200 "), path
            assert b"\r\nconnection: close\r\n" in answer.lower()
        for path in (b"/docs", b"/control/status", b"/healthy"):
            assert call(server, path).startswith(b"HTTP/1.1 503 "), path
        head, _, body = read_all(silent[0]).partition(b"\r\n\r\n")
        check_problem(head, body, 503)


def test_a_client_that_does_not_read_loses_its_connection() -> None:
    ask = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(limits=ServerLimits(write_seconds=0.2), max_requests=1) as server, ExitStack() as stack:
        for connection in many(server, stack):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setblocking(False)
            with suppress(BlockingIOError):
                connection.sendall(ask * 1000)
        wait_for(lambda: is_served(server), what="there is room again")


class Reader(asyncio.Transport):
    """What has been written to a client that reads as a test says."""

    waiting, ended = 0, False

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def abort(self) -> None:
        self.ended = True


@rows(
    "looks, ended",
    [
        ([(0, 0), (0, 0), (0, 0)], False),
        ([(1_000_000, 1_000_000)], False),
        ([(1_000_000, 1_000_000), (1_000_000, 1_000_000)], True),
        ([(1_000_000, 1_000_000), (1_000_000, 999_000)], True),
        ([(1_000_000, 1_000_000), (1_000_000, 980_000), (1_000_000, 960_000)], False),
        ([(1_000_000, 1_000_000), (1_050_000, 1_000_000), (1_100_000, 1_000_000)], False),
        ([(1_000_000, 1_000_000), (1_050_000, 1_000_000), (1_100_000, 1_050_000)], True),
        ([(100, 100), (100, 0), (200, 100), (200, 0)], False),
        ([(100, 100), (100, 99), (100, 98)], True),
    ],
)
def test_a_client_reads_a_part_of_what_waits_or_its_connection_ends(
    looks: list[tuple[int, int]], ended: bool
) -> None:
    async def look() -> bool:
        kind = connections.connection_class(101, 1.0, 1000.0)
        reader = Reader()
        connection = object.__new__(kind)
        connection._transport, connection.given = reader, 0
        connection._read, connection._has_waited = 0, False
        for connection.given, reader.waiting in looks:
            connection._look_at_reader()
        return reader.ended

    assert asyncio.run(look()) is ended


@rows(
    "peer, client",
    [
        (("192.0.2.7", 80), "192.0.2.7"),
        (("::ffff:192.0.2.7", 80, 0, 0), "192.0.2.7"),
        (("2001:db8:1:2:3:4:5:6", 80, 0, 0), "2001:db8:1:2::/64"),
        (("2001:db8:1:2::1", 80, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 80, 0, 2), "fe80::/64"),
        (("name", 0), "name"),
        (None, ""),
    ],
)
def test_a_client_is_known_by_its_address(peer: tuple[object, ...] | None, client: str) -> None:
    assert client_of(peer) == client


# -- gone ----------------------------------------------------------------------------------------------
