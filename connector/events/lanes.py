"""Order: which events are published one after the other, and how they are spread over tasks."""

from __future__ import annotations

from collections.abc import Sequence

from connector.events.plan import WorkItem
from connector.messaging.provider import Claim

DESTINATION = "destination"
GROUP = "group"
NONE = "none"


def lane_key(order: str, claim: Claim) -> object:
    """Events with equal keys are published one after the other; None = in any order.

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


def make_lanes(order: str, claims: Sequence[Claim]) -> list[list[WorkItem]]:
    """Work items by key, in the order in which the claims were taken.

    Events without a key are lanes of their own.
    """
    lanes: dict[object, list[WorkItem]] = {}
    names: dict[object, str] = {}
    for claim in claims:
        destination = claim.destination
        name = names.get(destination)
        if name is None:
            name = names[destination] = str(destination)
        item = (claim.sequence, name, claim.reference, claim.delivery_count)
        key = lane_key(order, claim)
        if key is None:
            lanes[("alone", claim.sequence)] = [item]
        elif key in lanes:
            lanes[key].append(item)
        else:
            lanes[key] = [item]
    return list(lanes.values())


def spread(lanes: list[list[WorkItem]], partitions: int) -> list[list[list[WorkItem]]]:
    """Lanes over at most ``partitions`` tasks, about equally many events each."""
    partitions = max(1, min(partitions, len(lanes)))
    if partitions == 1:
        return [lanes]
    tasks: list[list[list[WorkItem]]] = [[] for _ in range(partitions)]
    loads = [0] * partitions
    for lane in sorted(lanes, key=len, reverse=True):
        lightest = loads.index(min(loads))
        tasks[lightest].append(lane)
        loads[lightest] += len(lane)
    return [task for task in tasks if task]
