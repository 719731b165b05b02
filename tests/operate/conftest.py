"""The bench of the tests of events, for the tests of what an operator does while events are processed."""

from __future__ import annotations

from tests.events.conftest import bench, section

__all__ = ["bench", "section"]
