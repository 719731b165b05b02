"""The result of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from connector.businessobjects.instance import BusinessObject
from connector.status import ReturnCode

GOOD: Final = frozenset({ReturnCode.SUCCEED, ReturnCode.VALCHANGE, ReturnCode.MULTIPLE_HITS})
"""The return codes of a successful request."""


@dataclass(frozen=True, slots=True)
class RequestResult:
    """The answer to one request (WBI Adapter for JMS, tables 3 and 6).

    Args:
        status: the return code.
        object: the business object of the request. After VALCHANGE and MULTIPLE_HITS refilled from the reply.
        message: the error text of the application or the adapter. None after success.
        not_sent: nothing was sent, but the same request may succeed later: too many are in flight, the
            adapter is stopping, a queue of a broker takes no request now, or the provider has failed.
        refused: nothing was sent, and the same request will always fail: the request is wrong, or the adapter
            is not configured for it.
    """

    status: ReturnCode
    object: BusinessObject
    message: str | None = None
    not_sent: bool = False
    refused: bool = False

    @property
    def good(self) -> bool:
        """Whether the status is SUCCEED, VALCHANGE or MULTIPLE_HITS."""
        return self.status in GOOD

    def as_dict(self) -> dict[str, Any]:
        """Returns the result as ``connector request --json`` and the HTTP server write it."""
        return {"status": self.status.name, "object": self.object.as_dict(), "message": self.message}
