"""The tests of requests at a real broker. In tests/requests they run on the broker in this process."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Final

import pytest

from tests.requests import (
    test_client_destinations,
    test_client_replies,
    test_client_selectors,
    test_tables,
)
from tests.servers.conftest import Broker

_LEFT_OUT: Final = (
    "test_a_destination_that_nothing_can_be_sent_to_fails_its_requests_only",
    "test_a_late_reply_that_cannot_be_put_aside_is_kept_and_is_in_nobody_s_way",
    "test_a_reply_that_cannot_be_read_fails_its_request_only",
)
"""Tests that need a queue to which nobody can send, or replies that no client library can send."""


def _of(module: ModuleType) -> dict[str, object]:
    """Returns the tests of a module that need one provider, whichever it is."""
    return {
        name: test
        for name, test in vars(module).items()
        if name.startswith("test_")
        and name not in _LEFT_OUT
        and "world" in inspect.signature(test).parameters
    }


for _module in (
    test_client_destinations,
    test_client_replies,
    test_client_selectors,
    test_tables,
):
    globals().update(_of(_module))


@pytest.fixture
def broker(artemis: Broker) -> Broker:
    """One broker, because the requests are above the client library."""
    return artemis
