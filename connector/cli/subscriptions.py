"""Shows subscriptions of topics."""

from __future__ import annotations

from typing import Any, Final

from connector.messaging.subscription import SubscriptionInfo, TopicSubscription
from connector.printable import printable


def as_document(subscription: TopicSubscription) -> dict[str, Any]:
    """Returns the details of a subscription, for JSON."""
    return {
        "subscription": subscription.name,
        "topic": str(subscription.topic),
        "client_id": subscription.client_id,
        "durable": subscription.durable,
        "shared": subscription.shared,
        "selector": subscription.selector,
        "no_local": subscription.no_local,
    }


_COUNTED: Final = ("consumers", "waiting", "delayed", "in_progress", "expired", "error")


def info_document(info: SubscriptionInfo, *, is_counted: bool = True) -> dict[str, Any]:
    """Returns a subscription with its numbers, for JSON. Numbers that are not known are None."""
    numbers = {name: getattr(info, name) if is_counted else None for name in _COUNTED}
    return {**as_document(info.subscription), **numbers}


def title(info: SubscriptionInfo, *, is_counted: bool = True) -> str:
    """Returns a subscription as a line for people. ``is_counted`` says whether its numbers are known."""
    subscription = info.subscription
    words = [printable(subscription.name) or "(unnamed)"]
    if subscription.client_id:
        words.append(f"of {printable(subscription.client_id)}")
    details = ["durable" if subscription.durable else "not durable"]
    if subscription.shared:
        details.append("shared")
    if subscription.no_local:
        details.append("no local messages")
    if subscription.selector:
        details.append(printable(subscription.selector))
    if is_counted:
        details.append(f"{info.consumers} consumer{'s' * (info.consumers != 1)}")
    return f"{' '.join(words)} ({', '.join(details)})"
