"""The section ``provider`` with ``type: memory``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from connector.config.kinds import Boolean, Size, duration, integer
from connector.config.section import ProviderSection


class MemorySection(ProviderSection):
    """Messages in the memory of one process, lost with it: for tests that run without Spark.

    `check` and every command refuse it, since they are processes of their own;
    `connector.testing.deployment` takes it. Journals, published ids and instance locks lie in
    `state.directory`, otherwise in a temporary directory.
    """

    max_bytes: Size = Field(
        default=64 << 20, description="Bytes of messages that it holds; a sender waits for room."
    )
    send_timeout: Annotated[float, duration(zero=True)] = Field(
        default=30.0, description="How long a sender waits for room; then the send has failed."
    )
    accept_persistent: Boolean = Field(
        default=False,
        description="`true`: takes persistent messages too, although it cannot keep what they promise.",
    )
    redelivery_limit: Annotated[int | None, integer(0, "deliveries", none="none")] = Field(
        default=None, description="Deliveries of a message by any consumer before it counts as undeliverable."
    )
