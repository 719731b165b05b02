"""Shows subscriptions of topics."""

from __future__ import annotations

from typing import Any

from connector.cli.common import printable
from connector.messaging.subscription import SubscriptionInfo, TopicSubscription


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


def info_document(info: SubscriptionInfo) -> dict[str, Any]:
    """Returns a subscription with its numbers, for JSON."""
    return {
        **as_document(info.subscription),
        "consumers": info.consumers,
        "waiting": info.waiting,
        "in_progress": info.in_progress,
        "expired": info.expired,
        "error": info.error,
    }


def title(info: SubscriptionInfo) -> str:
    """Returns a subscription as a line for people."""
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
    details.append(f"{info.consumers} consumer{'s' * (info.consumers != 1)}")
    return f"{' '.join(words)} ({', '.join(details)})"
