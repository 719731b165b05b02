"""The section ``provider`` with ``type: memory``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from connector.declare.section import ProviderSection
from connector.declare.value_types import Boolean, Size, duration, integer


class MemorySection(ProviderSection):
    """Messages in the memory of one process, lost with the process. For tests without Spark.

    `check` and every command refuse this provider, because they are separate processes.
    `connector.testing.deployment` accepts it. Journals, published ids and instance locks lie in
    `state.directory`, otherwise in a temporary directory.
    """

    max_bytes: Size = Field(
        default=64 << 20, description="Bytes of messages that the provider holds. Senders wait for room."
    )
    send_timeout: Annotated[float, duration(zero=True)] = Field(
        default=30.0, description="Longest wait of a sender for room. Then the send fails."
    )
    accept_persistent: Boolean = Field(
        default=False,
        description="`true`: accepts persistent messages too, although they are lost with the process.",
    )
    redelivery_limit: Annotated[int | None, integer(0, "deliveries", none="none")] = Field(
        default=None, description="Deliveries by any consumer before a message counts as undeliverable."
    )
