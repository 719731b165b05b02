"""The record of messages that a broker delivers again, for all instances of an application. Usually empty."""

from __future__ import annotations

import os

from connector.messaging.state_store import RedeliveryNote, RedeliveryRecord
from connector.state.shared_file import SharedFile


class RedeliveryFile(SharedFile[list[RedeliveryNote]], RedeliveryRecord):
    """A file with all entries."""

    def __init__(self, directory: str) -> None:
        super().__init__(
            os.path.join(directory, "redeliveries"),
            os.path.join(directory, "redeliveries.lock"),
            lambda values: [RedeliveryNote(*one) for one in values],
            lambda notes: [note.to_list() for note in notes],
            list,
        )
