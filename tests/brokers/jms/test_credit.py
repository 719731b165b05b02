"""How many messages a consumer has fetched ahead. Real brokers show it in tests/servers."""

from __future__ import annotations

from connector.brokers.jms.credit import Credit
from tests.tables import rows

MIB = 1 << 20


class Inner:
    """Stands in for the inner object of a consumer of Qpid JMS."""

    messages = 1

    def getPrefetchSize(self) -> int:
        return self.messages

    def setPrefetchSize(self, messages: int) -> None:
        self.messages = messages


@rows(
    "came, expected",
    [
        ([(1, 1000)], 4),
        ([(1, 1000), (3, 1000), (12, 1000)], 64),
        ([(40, 1000)], 100),
        ([(40, 0)], 100),
        ([(1, 10 * MIB)], 1),
        ([(1, 64 * MIB)], 1),
        ([(40, MIB)], 16),
        ([(40, 1000), (1, 10 * MIB)], 1),
        ([(40, 10 * MIB), (1, 1000)], 3),
        ([(40, 10 * MIB), *[(1, 1000)] * 9], 100),
    ],
)
def test_what_is_fetched_ahead_fits_into_the_bytes(came: list[tuple[int, int]], expected: int) -> None:
    inner = Inner()
    credit = Credit(inner, 100, 16 * MIB)
    for number, largest in came:
        before = inner.messages
        assert credit.note(number, largest) is (inner.messages > before)
    assert inner.messages == expected
