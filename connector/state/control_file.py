"""What operators have told an application: one file."""

from __future__ import annotations

import os

from connector.messaging.state_store import Control, ControlRecord
from connector.state.shared_file import SharedFile


class ControlFile(SharedFile[Control], ControlRecord):
    """The file with the control."""

    def __init__(self, directory: str) -> None:
        super().__init__(
            os.path.join(directory, "control.json"),  # the folder of an instance has no dot in its name
            os.path.join(directory, "control.lock"),
            Control.from_json,
            Control.to_json,
            Control,
            is_durable=True,
        )
