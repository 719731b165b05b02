"""The connection of a webhook to its server. It carries nothing from one exchange to the next."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import httpcore

from connector.sinks.webhook.network import find_proxy, make_tls_context, split_authority

_MAX_ANSWER: Final = 64 << 10
"""Bytes of an answer that are read. A longer answer costs its connection."""
_KEPT_SECONDS: Final = 2.0
"""Many servers close a connection that was idle for 5 s, some while the next request is on its way."""
_FAILURES: Final = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
)


class Unsendable(Exception):
    """HTTP cannot carry the request."""


class NoAnswer(Exception):
    """The server has not answered. The text says why."""


class Answer(NamedTuple):
    """An answer.

    Args:
        headers: the names are in lower case.
        body: its start.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class ServerConnection:
    """Sends requests to one server. The first one connects, through the proxy that the environment names.

    Args:
        origin: scheme, host and port of a valid URL.
        timeout: seconds of one exchange.

    Raises:
        WrongValue: the environment names a proxy or certificates that cannot be used.
    """

    def __init__(self, origin: str, timeout: float) -> None:
        scheme, _, authority = origin.partition("://")
        proxy = find_proxy(origin)
        self.route = f"{origin} through the proxy {proxy.url} ({proxy.variable})" if proxy else origin
        """The way to the server, for texts."""
        host, port = split_authority(authority) or ("", None)
        if proxy is not None and scheme == "http" and ":" in host:
            host = f"[{host}]"  # this proxy gets the whole URL
        self._timeout, self._deadline = timeout, _Deadline(timeout)
        self._origin, self._host_header = (scheme, host, port), authority
        is_secured = scheme == "https" or (proxy is not None and proxy.url.startswith("https:"))
        tls = make_tls_context() if is_secured else None
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            proxy=None if proxy is None else httpcore.Proxy(proxy.url, proxy.user, ssl_context=tls),
            max_connections=1,
            keepalive_expiry=_KEPT_SECONDS,
            network_backend=_Network(),
        )

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        """Sends a request and returns the answer. An answer that breaks off behind its status is one, too.

        Args:
            target: path and query.
            headers: without Host.
            body: None = the request has none.

        Raises:
            Unsendable: HTTP cannot carry the request.
            NoAnswer: there is no answer.
        """
        scheme, host, port = self._origin
        path = target if target.startswith("/") else f"/{target}"
        url = httpcore.URL(scheme=scheme, host=host, port=port, target=path)
        timeouts = dict.fromkeys(("connect", "read", "write", "pool"), self._timeout)
        try:
            with (
                self._deadline as deadline,
                self._pool.stream(
                    method,
                    url,
                    headers=[("Host", self._host_header), *headers.items()],
                    content=body,
                    extensions={"timeout": timeouts, "trace": deadline.trace},
                ) as response,
            ):
                answer = _read(response)
        except httpcore.LocalProtocolError:
            raise Unsendable from None
        except _FAILURES as error:
            is_late = isinstance(error, httpcore.TimeoutException) or deadline.is_over
            raise NoAnswer(f"no answer within {self._timeout:g} s" if is_late else _reason(error)) from error
        found = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in response.headers}
        return Answer(response.status, found, answer)

    def close(self) -> None:
        self._pool.close()


def _read(response: httpcore.Response) -> bytes:
    """Returns the start of an answer. The status has come, so an answer that breaks off changes nothing."""
    answer = b""
    try:
        for chunk in response.iter_stream():
            answer += chunk
            if len(answer) > _MAX_ANSWER:
                break
    except _FAILURES:
        pass
    return answer


def _reason(error: Exception) -> str:
    """Returns why there is no answer, in words of the system or of ours."""
    cause = error.args[0] if error.args else None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is refused ({cause.verify_message}): SSL_CERT_FILE names the authorities"
    if isinstance(cause, ssl.SSLError):
        return f"TLS is not possible ({(cause.reason or 'the connection ended').replace('_', ' ').lower()})"
    if isinstance(cause, OSError):
        return cause.strerror or str(cause)
    if isinstance(error, httpcore.ProxyError):
        return f"the proxy has answered {error}"
    is_of_parser = isinstance(cause, Exception)
    return "the answer is no HTTP" if is_of_parser else "the connection was closed without an answer"


class _Network(httpcore.SyncBackend):
    """Makes connections that know whether something has followed an answer."""

    def connect_tcp(self, *arguments: Any, **options: Any) -> httpcore.NetworkStream:
        return _Stream(super().connect_tcp(*arguments, **options))


class _Stream(httpcore.NetworkStream):
    """A connection that holds back the last byte of what has come until the client reads once more.

    A client that has a whole answer does not read. So a byte that is still here then belongs to no answer,
    and the next request must not meet it: the connection counts as ended.

    Args:
        can_tell: whether the connection knows that something has come. TLS within TLS does not.
    """

    def __init__(self, stream: httpcore.NetworkStream, *, can_tell: bool = True) -> None:
        self._stream = stream
        self._can_tell = can_tell
        self._last = b""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._last:
            data, self._last = self._last, b""
            return data
        data = self._stream.read(max_bytes, timeout)
        if len(data) > 1:  # an empty text is the end
            data, self._last = data[:-1], data[-1:]
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, timeout)

    def close(self) -> None:
        self._stream.close()

    def start_tls(self, *arguments: Any, **options: Any) -> httpcore.NetworkStream:
        is_first = self._stream.get_extra_info("ssl_object") is None
        return _Stream(self._stream.start_tls(*arguments, **options), can_tell=is_first)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable" and (self._last or not self._can_tell):
            return True
        return self._stream.get_extra_info(info)


class _Deadline:
    """Limits a whole exchange. The time-outs of httpcore limit each wait, and a server may send byte by byte.

    Args:
        seconds: of one exchange.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._stream: Any = None
        self._timer = threading.Timer(seconds, self._end)
        self.is_over = False

    def __enter__(self) -> _Deadline:
        self.is_over = False
        self._timer = threading.Timer(self._seconds, self._end)
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()  # a late end must not meet the next exchange

    def trace(self, name: str, info: Mapping[str, Any]) -> None:
        """Remembers the connection. Called by httpcore (its extension ``trace``)."""
        if name.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self._stream = info["return_value"]
            if self.is_over:
                self._end()

    def _end(self) -> None:
        self.is_over = True
        connection = self._stream and self._stream.get_extra_info("socket")
        if isinstance(connection, socket.socket):
            try:
                # Not the method of a TLS socket, which is of no use to another thread.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
            except OSError:
                pass  # closed already
