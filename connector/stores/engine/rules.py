"""The decision about a message before it is taken."""

from __future__ import annotations

from connector.messaging.message import Message
from connector.messaging.selector import Selector
from connector.stores.engine.store import Judge, Verdict


class DeliveryRules(Judge):
    """Decides about a message before it is taken (see :class:`connector.stores.engine.store.Judge`).

    A message that has expired, or was delivered too often, is put aside before the selector is evaluated.

    Args:
        limit: deliveries begun after which a message is put aside. None = no limit.
        selector: of the messages that are taken. None = all.
        is_view: whether a virtual destination is polled. Its messages have expired or failed already.
        by_group: whether messages of a group that another client has in progress stay.
    """

    def __init__(
        self, limit: int | None, selector: Selector | None, *, is_view: bool, by_group: bool = False
    ) -> None:
        self.limit = limit
        self.selects = selector is not None
        self.selector = selector.text if selector is not None else ""
        self.is_view = is_view
        self.by_group = by_group
        self._matches = selector.matches if selector is not None else None

    def __call__(self, headers: Message, now: int) -> Verdict:
        if not self.is_view:
            if 0 < headers.expiration <= now:
                return Verdict.EXPIRED
            if self.limit is not None and headers.delivery_count > self.limit:
                return Verdict.EXHAUSTED
        if self._matches is not None and not self._matches(headers):
            return Verdict.LEAVE
        return Verdict.TAKE
