"""Checks the signature of a body, which its sender has made with a shared secret (HMAC, RFC 2104)."""

from __future__ import annotations

import hashlib
import hmac
import re
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers

from connector.config.events_model import Signature
from connector.http.problems import HttpProblem

_FORM: Final = re.compile(r"sha256=([0-9a-fA-F]{64})")


def signature_of(headers: Headers, expected: Signature) -> bytes:
    """Returns the HMAC that a call names.

    Raises:
        HttpProblem: 403, there is no HMAC, or more than one. The body is not read.
    """
    given = headers.getlist(expected.header)
    found = _FORM.fullmatch(given[0].strip()) if len(given) == 1 else None
    if found is None:
        detail = f"this queue needs one header {expected.header}: sha256= and 64 hexadecimal digits"
        raise HttpProblem(HTTPStatus.FORBIDDEN, detail, closes=True)
    return bytes.fromhex(found[1])


def check_signature(given: bytes, body: bytes, expected: Signature) -> None:
    """Checks the HMAC of a body. The time of the comparison tells nothing of the right HMAC.

    Args:
        body: as it was received.

    Raises:
        HttpProblem: 403.
    """
    right = hmac.new(expected.secret.encode(), body, hashlib.sha256).digest()
    if not hmac.compare_digest(given, right):
        detail = f"the signature in {expected.header} is not that of this body and of the shared secret"
        raise HttpProblem(HTTPStatus.FORBIDDEN, detail)
