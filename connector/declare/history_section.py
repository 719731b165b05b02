"""The section ``history`` of ``adapter.yaml``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from connector.declare.section import Section
from connector.declare.value_types import Boolean, duration


class HistorySection(Section):
    """What happened to each event and request, for `connector history`."""

    keep: Annotated[float, duration(zero=True)] = Field(
        default=7 * 86400.0, description="A day of the history is removed after this. `0`: no history."
    )
    keys: Boolean = Field(
        default=True,
        description="The history holds the key attributes of the objects. Attributes of type Ciphertext are "
        "left out.",
    )
