"""What a request answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from connector.businessobjects.instance import BusinessObject
from connector.status import ReturnCode

GOOD: Final = frozenset({ReturnCode.SUCCEED, ReturnCode.VALCHANGE, ReturnCode.MULTIPLE_HITS})
"""The return codes of a request that went well."""


@dataclass(frozen=True, slots=True)
class RequestResult:
    """The answer to one request (WBI Adapter for JMS, tables 3 and 6).

    Args:
        status: the return code.
        object: the business object of the request; after VALCHANGE and MULTIPLE_HITS refilled from the reply.
        message: why it did not go well: the application's own text, or the adapter's; None where it did.
        not_sent: nothing was sent, and the same request may well be sent in a moment: too many are in
            flight, or the adapter is stopping.
        refused: nothing was sent, and the same request will never be: it is wrong as it is, or the adapter
            is not configured for it.
    """

    status: ReturnCode
    object: BusinessObject
    message: str | None = None
    not_sent: bool = False
    refused: bool = False

    @property
    def good(self) -> bool:
        """Whether it went well: SUCCEED, VALCHANGE or MULTIPLE_HITS."""
        return self.status in GOOD

    def as_dict(self) -> dict[str, Any]:
        """As ``connector request --json`` and the HTTP server write it."""
        return {"status": self.status.name, "object": self.object.as_dict(), "message": self.message}
