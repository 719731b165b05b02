"""Checks that every call has one meaning and is for this server, and sets the headers of every answer."""

from __future__ import annotations

import logging
import re
import time
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from connector.config.http_model import Http, is_loopback
from connector.http.problems import HttpProblem
from connector.text.names import shown

_log = logging.getLogger("connector.http")

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer. Browsers and proxies keep nothing, and a page loads nothing from other servers."""

_FIRST_PAGES: Final = ("/", "/docs", "/console", "/console/sign-in")
"""Where a link on a page of another site may lead."""
_ABSOLUTE: Final = re.compile(rb"https?://([^/]*)(.*)", re.IGNORECASE | re.DOTALL)


class Guard:
    """A wrapper around an application that refuses calls from pages of other servers.

    A proxy and this server read the same bytes and must not disagree about the end of a call. Otherwise a
    part that the proxy takes for a body could be a call for this server that the proxy has not checked. So a
    call that gives its length in two ways is refused, and so is a call in chunks with HTTP/1.0, which has no
    chunks (RFC 9112, 6.1). A target in absolute form is split into path and ``Host`` (RFC 9112, 3.2.2).

    The page of a stranger must not make requests from the browser of a user who can reach this server. So the
    name in ``Host`` has to be a name of this server. Another name that points to this address is refused.
    An ``Origin`` has to be this server itself or a configured host, because behind a proxy ``Host`` may be
    this server's own address. A picture or a script of a stranger's page comes without ``Origin``, and could
    make this server work. Browsers say ``Sec-Fetch-Site`` then. Only a link may lead to a first page here.
    """

    def __init__(self, application: ASGIApp, settings: Http) -> None:
        self._application = application
        self._hosts = frozenset(settings.hosts)
        self._names = self._hosts | {settings.listen.host.casefold()}
        self._any_name = not settings.listen.is_loopback and not settings.hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.monotonic()
        status = 0

        async def send_watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            mistake = _mistake(scope)
            scope = _in_origin_form(scope)
            refused = self._refusal(scope, mistake)
            await (refused or self._application)(scope, receive, send_watched)
        except Exception:
            # A 500 has been sent. The traceback shows code, but no values: neither headers nor bodies.
            _log.exception("a call failed with an unexpected exception")
        finally:
            took = (time.monotonic() - began) * 1000
            _log.debug(
                "call",
                extra={
                    "method": scope["method"],
                    "path": scope["raw_path"][:200].decode(),
                    "status": status,
                    "ms": round(took, 1),
                },
            )

    def _refusal(self, scope: Scope, mistake: str) -> Response | None:
        headers = Headers(scope=scope)
        if mistake:
            return HttpProblem(HTTPStatus.BAD_REQUEST, mistake, {"Connection": "close"}).response()
        host = headers.get("host", "")
        if not self._is_ours(host):
            detail = f"{shown(host)} is no name of this server (http.hosts)"
            return HttpProblem(HTTPStatus.MISDIRECTED_REQUEST, detail).response()
        origin = headers.get("origin")
        if origin is not None and not _is_same(origin, host) and _name(origin) not in self._hosts:
            detail = f"calls from pages of {shown(origin)} are not answered (http.hosts)"
            return HttpProblem(HTTPStatus.FORBIDDEN, detail).response()
        is_strange = origin is None and headers.get("sec-fetch-site") in ("cross-site", "same-site")
        if is_strange and not _opens_first_page(scope, headers):
            detail = "calls from pages of other sites are not answered; open the address itself"
            return HttpProblem(HTTPStatus.FORBIDDEN, detail).response()
        return None

    def _is_ours(self, host: str) -> bool:
        if self._any_name:
            return True
        name = _name(f"//{host}")
        return name in self._names or is_loopback(name)


def _mistake(scope: Scope) -> str:
    """Returns why the end or the target of a call is not clear. Empty = both are clear."""
    headers = Headers(scope=scope)
    if "transfer-encoding" in headers and "content-length" in headers:
        return "found both Transfer-Encoding and Content-Length, expected one of them"
    if "transfer-encoding" in headers and scope["http_version"] < "1.1":
        return "found Transfer-Encoding in HTTP/1.0, expected Content-Length"
    absolute = _ABSOLUTE.fullmatch(scope["raw_path"])
    return "found a target without a host" if absolute is not None and not absolute[1] else ""


def _opens_first_page(scope: Scope, headers: Headers) -> bool:
    """Whether a browser follows a link to a page that costs little."""
    is_link = headers.get("sec-fetch-mode") == "navigate" and scope["method"] in ("GET", "HEAD")
    is_window = headers.get("sec-fetch-dest", "document") == "document"
    return is_link and is_window and scope["path"] in _FIRST_PAGES


def _in_origin_form(scope: Scope) -> Scope:
    """Returns a call whose target is a path, and whose header ``Host`` has what stood before the path."""
    absolute = _ABSOLUTE.fullmatch(scope["raw_path"])
    if absolute is None:
        return scope
    path = absolute[2] or b"/"
    headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
    return {
        **scope,
        "path": unquote(path.decode("ascii")),
        "raw_path": path,
        "headers": [(b"host", absolute[1]), *headers],
    }


def _name(url: str) -> str:
    """Returns the name of the host, in lower case and without port. Empty if the URL names no host."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_same(origin: str, host: str) -> bool:
    """Tells whether ``Host`` names the origin. The scheme is not compared, because a proxy may end TLS."""
    try:
        return urlsplit(origin).netloc.casefold() == host.casefold() != ""
    except ValueError:
        return False
