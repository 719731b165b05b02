"""The documents of destinations, their subscriptions and lots, as commands and HTTP show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from connector.config.loading import Configuration
from connector.messaging.lot import LotInfo
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.subscription import DestinationInfo, SubscriptionInfo, TopicSubscription
from connector.service.queues import find_destinations, role_of

NUMBERS: Final = ("waiting", "delayed", "in_progress", "processed", "expired", "error")
"""The numbers of a destination."""
_OF_SUBSCRIPTION: Final = ("consumers", "waiting", "delayed", "in_progress", "expired", "error")


def queue_documents(configuration: Configuration, provider: AdapterProvider) -> list[dict[str, Any]]:
    """Returns the documents of ``connector queues --json``. A number that is not known is None.

    Raises:
        ProviderError: the provider cannot be used.
    """
    return list(documents_of(find_destinations(configuration, provider), configuration, provider))


def documents_of(
    infos: Iterable[DestinationInfo], configuration: Configuration, provider: AdapterProvider
) -> Iterable[dict[str, Any]]:
    """Yields the document of each destination."""
    shows_all = provider.capabilities.shows_all
    known = NUMBERS if shows_all else ("waiting",)
    for info in infos:
        names: Sequence[str] = known if info.destination.is_queue or shows_all else ()
        yield {
            "destination": str(info.destination),
            "kind": info.destination.kind,
            "role": role_of(info.destination, configuration),
            **{name: getattr(info, name) if name in names else None for name in NUMBERS},
            "subscriptions": [info_document(one, is_counted=bool(names)) for one in info.subscriptions],
            "lots": [_lot_document(one) for one in info.lots],
        }


def subscription_document(subscription: TopicSubscription) -> dict[str, Any]:
    """Returns the details of a subscription."""
    return {
        "subscription": subscription.name,
        "topic": str(subscription.topic),
        "client_id": subscription.client_id,
        "durable": subscription.durable,
        "shared": subscription.shared,
        "selector": subscription.selector,
        "no_local": subscription.no_local,
    }


def info_document(info: SubscriptionInfo, *, is_counted: bool = True) -> dict[str, Any]:
    """Returns a subscription with its numbers. Numbers that are not known are None."""
    numbers = {name: getattr(info, name) if is_counted else None for name in _OF_SUBSCRIPTION}
    return {**subscription_document(info.subscription), **numbers}


def _lot_document(lot: LotInfo) -> dict[str, Any]:
    return {"name": lot.name, "number": lot.number, "messages": lot.messages, "owner": lot.owner or None}
