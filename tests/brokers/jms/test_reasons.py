"""Which exceptions of a client library are answers about a message, and which tell of a lost connection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import pytest

from connector.brokers.engine.broker import UnreadableMessage
from connector.brokers.jms.reasons import is_refusal, is_unanswered
from connector.brokers.jms.session import JmsReceiver
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
    [of_jms(), (f"{_PROVIDER}.ProviderDeliveryModifiedException", "Delivery failed: failure at remote")],
    [of_jms(), (f"{_QPID}.provider.ProviderException", "Producer closed remotely before message transfer")],
    [("java.util.concurrent.RejectedExecutionException", "event executor terminated")],
    [of_jms(), ("java.nio.channels.AsynchronousCloseException", "")],
    [of_jms(), ("javax.net.ssl.SSLException", "Connection reset")],
    [of_jms(), ("io.netty.channel.unix.Errors$NativeIoException", "writevAddresses failed: Broken pipe")],
    [of_jms(), ("com.ibm.mq.MQException", "reason '2009' ('MQRC_CONNECTION_BROKEN')")],
    [of_jms(), ("com.ibm.mq.MQException", "reason '2018' ('MQRC_HCONN_ERROR')")],
    [of_jms(), ("com.ibm.mq.MQException", "reason '2538' ('MQRC_HOST_NOT_AVAILABLE')")],
    [of_jms("DetailedJMSException"), ("com.ibm.mq.MQException", "reason '2003' ('MQRC_BACKED_OUT')")],
]


def test_only_an_answer_is_a_refusal() -> None:
    with Table() as table:
        for expected, rows in ((True, _REFUSALS), (False, _NO_REFUSALS)):
            for chain in rows:
                with table.row(chain):
                    assert is_refusal(Thrown(*chain)) is expected


_BACK: Final = "TransactionRolledBackException"
_OF_QPID: Final = f"{_PROVIDER}.ProviderTransactionRolledBackException"
_OFFLINE: Final = "Commit failed, connection offline: "
_IN_DOUBT: Final = "Transaction in doubt and cannot be committed."
_CLOSED: Final = "Transaction inbout: Coordinator remotely closed"
_ON_FAILOVER: Final = "The transaction was rolled back on failover to a backup server"
_UNKNOWN_COMMITS: Final = [
    [of_jms(_BACK), (_OF_QPID, ""), (f"{_PROVIDER}.ProviderConnectionRemotelyClosedException", "closed")],
    [of_jms(_BACK, _OFFLINE + _IN_DOUBT), (_OF_QPID, _OFFLINE + _IN_DOUBT), (_OF_QPID, _IN_DOUBT)],
    [of_jms(_BACK, _OFFLINE), (_OF_QPID, _OFFLINE), (f"{_QPID}.provider.ProviderException", "")],
    [of_jms(_BACK, _IN_DOUBT), (_OF_QPID, _IN_DOUBT)],
    [of_jms(_BACK, _CLOSED), (_OF_QPID, _CLOSED)],
    [of_jms(_BACK, _ON_FAILOVER), (f"{_CORE}.ActiveMQTransactionRolledBackException", _ON_FAILOVER)],
    [of_jms(_BACK, "Transaction completion in doubt due to failover. Forcing rollback of TX:1")],
]


def test_a_commit_without_an_answer_is_not_rolled_back() -> None:
    """So libraries say it that make a lost connection again, if it is lost at a commit."""
    with Table() as table:
        for chain in _UNKNOWN_COMMITS:
            with table.row(chain):
                assert is_unanswered(Thrown(*chain))
                assert not is_refusal(Thrown(*chain))
    assert not is_unanswered(Thrown(of_jms(_BACK), condition("transaction:rollback")))


class Raised(Thrown, Exception):
    """An exception of Java that a call has raised."""


class OfMachine(Raised):
    """An error of the Java machine."""


_UNREADABLE: Final = [
    (Raised, [of_jms("MessageFormatException", "a body")], True),
    (OfMachine, [("java.lang.StackOverflowError", "too deep")], True),
    (Raised, [of_jms(), condition("resource-deleted")], False),
    (Raised, [of_jms(), (f"{_PROVIDER}.ProviderConnectionRemotelyClosedException", "closed")], False),
    (Raised, [of_jms("IllegalStateException", "The MessageConsumer was closed")], False),
]


def test_a_receiver_whose_link_ends_meets_no_message_that_cannot_be_read() -> None:
    receiver = JmsReceiver.__new__(JmsReceiver)
    java = SimpleNamespace(JException=Raised, JClass=lambda _: OfMachine)
    receiver._connection = SimpleNamespace(jpype=java, failure=None)
    receiver._name = "queue://q"
    with Table() as table:
        for kind, chain, is_unreadable in _UNREADABLE:
            with table.row(chain):
                expected = UnreadableMessage if is_unreadable else kind
                with pytest.raises(expected), receiver._reading():
                    raise kind(*chain)
