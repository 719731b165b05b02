"""What a reload may change, and what only a restart changes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from connector.config.loading import Configuration
from connector.errors import ConnectorError
from connector.events.inbound import Inbound
from connector.events.settings import EventSettings
from connector.messaging.destination import Destination

_FIXED: Final = {
    "application_name": "ApplicationName",
    "instance": "instance",
    "order": "order",
    "in_progress_destination": "InProgressDestination",
    "container_managed_events": "ContainerManagedEvents",
}
"""Fields of the section ``connector``, with their names in adapter.yaml."""


class ReloadRefused(ConnectorError):
    """The configuration cannot be changed, and the earlier one holds. The text says why."""


def check_changes(before: Configuration, after: Configuration) -> None:
    """Checks that no restart is needed.

    Raises:
        ReloadRefused: it names the keys that a restart has to change.
    """
    found = [
        f"connector.{key}"
        for name, key in _FIXED.items()
        if getattr(before.connector, name) != getattr(after.connector, name)
    ]
    if before.connector.order == after.connector.order:
        now = _orders(after)
        found += [f"order of {one}" for one, order in _orders(before).items() if order != now.get(one, order)]
    for section in ("provider", "spark", "state", "http"):
        if getattr(before, section) != getattr(after, section):
            found.append(section)
    if before.logging.format != after.logging.format:
        found.append("logging.format")
    if bool(before.connector.inputs) != bool(after.connector.inputs):
        found.append("connector.InputDestination: from none, or to none")
    if found:
        raise ReloadRefused(f"a restart is needed, because this has changed: {', '.join(found)}")


def _orders(configuration: Configuration) -> dict[Destination, str]:
    """Returns the order of the events of each input."""
    inputs = configuration.connector.inputs
    return {one.destination: one.order or configuration.connector.order for one in inputs}


def check_inputs(inbound: Inbound, before: EventSettings, after: EventSettings) -> None:
    """Checks that no message is left without its input.

    Raises:
        ReloadRefused: it names the inputs that have to stay.
        ConnectorError: an input cannot be read.
    """
    stay = [one.input for one in after.inputs]
    left = []
    for one in (one.input for one in before.inputs if one.input not in stay):
        others = [other.selector for other in stay if other[::2] == one[::2]]
        if inbound.has_bound_messages(one, others):
            left.append(str(one))
    if left:
        raise ReloadRefused(
            f"{', '.join(left)} must stay an input, because messages of it are in progress or come again "
            "later: stop its senders, let the adapter finish them, and reload then"
        )


def stale_files(configuration: Configuration, since: float, *, ships: bool) -> list[str]:
    """Returns the modules of the deployment that have changed, and that only a restart loads anew.

    Args:
        since: start of this process, in seconds since 1970.
        ships: whether executors run what was shipped at the start.
    """
    found = set(_loaded_files(configuration))
    if ships:
        found |= {
            *configuration.directory.glob("*.py"),
            *configuration.directory.glob("datahandlers/**/*.py"),
        }
    return sorted(os.path.relpath(file, configuration.directory) for file in found if _changed(file) > since)


def _loaded_files(configuration: Configuration) -> Iterator[Path]:
    roots = [one for one in (configuration.directory, configuration.datahandlers) if one is not None]
    for module in list(sys.modules.values()):
        file = Path(getattr(module, "__file__", None) or "/")
        if any(file.is_relative_to(root) for root in roots) and "site-packages" not in file.parts:
            yield file


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
