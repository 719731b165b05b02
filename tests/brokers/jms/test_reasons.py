"""Which exceptions of a client library are answers about a message, and which tell of a lost connection."""

from __future__ import annotations

from typing import Any, Final

from connector.brokers.jms.reasons import is_refusal, is_unanswered
from tests.tables import Table

_QPID: Final = "org.apache.qpid.jms"
_PROVIDER: Final = f"{_QPID}.provider.exceptions"
_CORE: Final = "org.apache.activemq.artemis.api.core"


class Thrown:
    """An exception of Java, with its cause."""

    def __init__(self, *chain: tuple[str, str]) -> None:
        (self._name, self._text), *causes = chain
        self._cause = Thrown(*causes) if causes else None

    def getClass(self) -> Any:
        return self

    def getName(self) -> str:
        return self._name

    def getMessage(self) -> str:
        return self._text

    def getCause(self) -> Thrown | None:
        return self._cause


def of_jms(name: str = "JMSException", text: str = "") -> tuple[str, str]:
    return f"jakarta.jms.{name}", text


def condition(name: str) -> tuple[str, str]:
    return f"{_QPID}.provider.ProviderException", f"no [condition = amqp:{name}]"


_REFUSALS: Final = [
    [of_jms(), condition("precondition-failed")],
    [of_jms(), condition("link:message-size-exceeded")],
    [of_jms("InvalidDestinationException"), (f"{_PROVIDER}.ProviderInvalidDestinationException", "none")],
    [of_jms("MessageFormatException", "a list is no property")],
    [of_jms(), (f"{_PROVIDER}.ProviderUnsupportedOperationException", "no delayed delivery")],
    [of_jms("TransactionRolledBackException"), condition("transaction:rollback")],
    [of_jms(), (f"{_CORE}.ActiveMQDuplicateIdException", "twice")],
    [("java.lang.NullPointerException", "a body")],
]
_NO_REFUSALS: Final = [
    [of_jms(text="Send failed due to connection loss")],
    [of_jms("TransactionRolledBackException", "Transaction failed and has been rolled back.")],
    [of_jms(), condition("connection:forced")],
    [of_jms(), condition("link:detach-forced")],
    [of_jms(), condition("resource-deleted")],
    [(f"{_QPID}.JmsSendTimedOutException", "Timed out waiting for disposition of sent Message")],
    [(f"{_QPID}.JmsConnectionFailedException", "The JMS connection has failed")],
    [of_jms(), (f"{_PROVIDER}.ProviderDeliveryReleasedException", "released by receiver")],
    [of_jms("IllegalStateException", "The MessageProducer was closed")],
    [of_jms(), (f"{_CORE}.ActiveMQNotConnectedException", "gone")],
    [of_jms(), ("java.io.EOFException", "")],
    [of_jms(), ("java.net.SocketException", "Broken pipe")],
    [of_jms(), ("java.lang.OutOfMemoryError", "Java heap space")],
    [of_jms(), ("com.ibm.mq.MQException", "reason '2009' ('MQRC_CONNECTION_BROKEN')")],
]


def test_only_an_answer_is_a_refusal() -> None:
    with Table() as table:
        for expected, rows in ((True, _REFUSALS), (False, _NO_REFUSALS)):
            for chain in rows:
                with table.row(chain):
                    assert is_refusal(Thrown(*chain)) is expected


def test_a_commit_without_an_answer_is_not_rolled_back() -> None:
    """So Qpid JMS says it with ``failover:`` if the connection is lost after the commit was sent."""
    offline = of_jms("TransactionRolledBackException", "Commit failed, connection offline")
    lost = f"{_PROVIDER}.ProviderConnectionRemotelyClosedException", "closed"
    assert is_unanswered(Thrown(offline, (f"{_PROVIDER}.ProviderTransactionRolledBackException", ""), lost))
    assert not is_unanswered(
        Thrown(of_jms("TransactionRolledBackException"), condition("transaction:rollback"))
    )
