"""Order: decides which events are published one after the other, and spreads order groups over tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connector.events.task_settings import WorkItem
from connector.messaging.claim import Claim

DESTINATION = "destination"
GROUP = "group"
NONE = "none"


def order_group_key(order: str, claim: Claim) -> object:
    """Returns the key of the order group of an event, or None for events without an order.

    Events with equal keys are published one after the other.

    Args:
        order: ``destination``, ``group`` (JMSXGroupID within a destination) or ``none``.
        claim: the event.
    """
    if order == DESTINATION:
        return claim.destination
    if order == GROUP:
        group = claim.group_id
        return None if group is None else (claim.destination, group)
    return None


def work_items(claims: Sequence[Claim], attempts: Mapping[int, int]) -> list[WorkItem]:
    """Returns the work items of an order group.

    Args:
        claims: of one destination.
        attempts: by sequence, begun deliveries that the claims do not count.
    """
    name = str(claims[0].destination)
    if not attempts:
        return [(claim.sequence, name, claim.reference, claim.delivery_count) for claim in claims]
    return [
        (
            claim.sequence,
            name,
            claim.reference,
            claim.delivery_count + attempts.get(claim.sequence, 0),
        )
        for claim in claims
    ]


def spread(order_groups: list[list[WorkItem]], partitions: int) -> list[list[list[WorkItem]]]:
    """Spreads order groups over at most ``partitions`` tasks, about equally many events each."""
    partitions = max(1, min(partitions, len(order_groups)))
    if partitions == 1:
        return [order_groups]
    tasks: list[list[list[WorkItem]]] = [[] for _ in range(partitions)]
    loads = [0] * partitions
    for group in sorted(order_groups, key=len, reverse=True):
        lightest = loads.index(min(loads))
        tasks[lightest].append(group)
        loads[lightest] += len(group)
    return [task for task in tasks if task]
