"""The beginning and the end of a call: HTTP/1.1 as h11 reads it, with stricter rules.

A proxy and this server read the same bytes and must not disagree about the end of a call. Otherwise a part
that the proxy takes for a body could be a call for this server that the proxy has not checked.
"""

from __future__ import annotations

from typing import Any, Final

import h11

_SCHEMES: Final = (b"http://", b"https://")


class StrictConnection(h11.Connection):
    """The server's side of a connection, as h11 reads it, with two more rules.

    A call that gives its length in two ways is refused. So is a call in chunks with HTTP/1.0, which has no
    chunks (RFC 9112, 6.1). A target in absolute form is split into path and ``Host`` (RFC 9112, 3.2.2).
    """

    mistake: str = "what has come cannot be read as HTTP/1.1"
    """The mistake of a call that was refused, for its answer."""

    def next_event(self) -> Any:
        """See :meth:`h11.Connection.next_event`.

        Raises:
            h11.RemoteProtocolError: the bytes are not HTTP.
        """
        event = super().next_event()
        if not isinstance(event, h11.Request):
            return event
        try:
            return _checked(event)
        except h11.RemoteProtocolError as error:
            self.mistake = str(error)
            raise


def _checked(request: h11.Request) -> h11.Request:
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" in names:
        if b"content-length" in names:
            raise h11.RemoteProtocolError(
                "found both Transfer-Encoding and Content-Length, expected one of them"
            )
        if request.http_version < b"1.1":
            raise h11.RemoteProtocolError("found Transfer-Encoding in HTTP/1.0, expected Content-Length")
    scheme = next((it for it in _SCHEMES if request.target[:8].lower().startswith(it)), None)
    return request if scheme is None else _in_origin_form(request, scheme)


def _in_origin_form(request: h11.Request, scheme: bytes) -> h11.Request:
    rest = request.target[len(scheme) :]
    authority = rest.partition(b"/")[0].partition(b"?")[0]
    if not authority:
        raise h11.RemoteProtocolError("found a target without a host")
    path = rest[len(authority) :]
    headers = [(name, value) for name, value in request.headers if name != b"host"]
    return h11.Request(
        method=request.method,
        target=path if path.startswith(b"/") else b"/" + path,
        headers=[(b"host", authority), *headers],
        http_version=request.http_version,
    )
