"""The reasons of failures: texts of Java exceptions without a stack, and the artifacts of missing classes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

_SEVERAL: Final = 5
_ARTIFACTS: Final = {
    "org.apache.qpid.jms": "org.apache.qpid:qpid-jms-client",
    "org.apache.qpid.proton": "org.apache.qpid:proton-j",
    "org.apache.activemq.artemis.jms": "org.apache.artemis:artemis-jakarta-client",
    "org.apache.activemq": "org.apache.activemq:activemq-client",
    "com.ibm.mq.jakarta": "com.ibm.mq:com.ibm.mq.jakarta.client",
    "com.ibm.mq": "com.ibm.mq:com.ibm.mq.allclient",
    "com.sun.jndi.fscontext": "com.sun.messaging.mq:fscontext",
    "com.rabbitmq.jms": "com.rabbitmq.jms:rabbitmq-jms",
    "com.solacesystems": "com.solacesystems:sol-jms",
    "io.netty": "io.netty:netty-all",
    "jakarta.jms": "jakarta.jms:jakarta.jms-api",
    "javax.jms": "javax.jms:javax.jms-api",
    "org.slf4j": "org.slf4j:slf4j-api",
}
"""From the beginning of a class name to the Maven artifact with that class. The longest beginning counts."""
HEAP: Final = "the heap of Java is too small for messages that have come"
_REMEDIES: Final = (
    (
        "OutOf(Direct)?MemoryError",
        f" ({HEAP}: raise -Xmx in provider.java_options, or lower provider.batch_bytes and PollQuantity)",
    ),
    (
        "Transactions not supported|TransactionCoordinator|amqp:coordinator",
        " (does the broker have transactions of AMQP 1.0? The adapter needs them)",
    ),
    (
        "NotSslRecord|not an SSL/TLS record|Unrecognized SSL|HandshakeTimeout|handshake timed out"
        "|while SSL/TLS handshake",
        " (the port does not answer in TLS: correct the port of the url, or write amqp instead of amqps)",
    ),
    (
        "fatal alert: (unknown_ca|bad_certificate|certificate_)",
        " (TLS: the broker does not take the certificate of the client; Qpid JMS takes "
        "transport.keyStoreLocation and transport.keyStorePassword in the url)",
    ),
    (
        "PKIX|CertPath|CertificateException|No name matching|subject alternative",
        " (TLS: the client must trust the certificate of the broker; Qpid JMS takes "
        "transport.trustStoreLocation and transport.trustStorePassword in the url)",
    ),
    ("keystore|truststore", " (TLS: correct the key store or trust store that the url names)"),
    (
        "handshake_failure|protocol_version|no cipher suites",
        " (TLS: client and broker have no protocol or cipher in common)",
    ),
    (
        "header mismatch",
        " (the port does not answer in AMQP 1.0: correct the port, or take amqps for a port with TLS)",
    ),
    (
        "is not configured for queue support",
        " (the address is MULTICAST, which Artemis makes for a sender that names no kind: make a queue of "
        "routing type ANYCAST at the address, and set default-address-routing-type ANYCAST for such names)",
    ),
    (
        "is not configured for topic support",
        " (the address is ANYCAST, so it is a queue: name a queue, or give the address the routing type "
        "MULTICAST)",
    ),
)
"""A pattern of a class or text of Java -> the remedy. The first one counts."""
_MQ_REASON: Final = re.compile(r"reason(?: code)? '?(\d{4})\b", re.IGNORECASE)
_MQ: Final = {
    "2003": "the unit of work was rolled back: see the log of the queue manager",
    "2009": "the connection is broken: the adapter connects again by itself",
    "2016": "GET is inhibited: ALTER QLOCAL(...) GET(ENABLED)",
    "2024": "a transaction has too many messages: lower provider.batch, or raise MAXUMSGS",
    "2030": "the message is larger than MAXMSGL of the queue",
    "2031": "the message is larger than MAXMSGL of the queue manager",
    "2035": "not authorized: give the user the right by SET AUTHREC, and look at CHLAUTH and CONNAUTH",
    "2042": "another program has the queue for itself, or the queue is not shared: ALTER QLOCAL(...) SHARE",
    "2051": "PUT is inhibited: ALTER QLOCAL(...) PUT(ENABLED)",
    "2053": "the queue is full: take messages from there, or raise MAXDEPTH",
    "2058": "correct QueueManager: the queue manager has another name",
    "2059": "the queue manager or its listener does not run, or HostName and Port are wrong",
    "2085": "no such queue or topic: define it, a name has capitals as it is defined",
    "2087": "the queue is one of an unknown queue manager: correct the name queue://QMGR/QUEUE",
    "2161": "the queue manager ends: the adapter connects again by itself",
    "2162": "the queue manager ends: the adapter connects again by itself",
    "2393": "TLS: correct the key store and trust store in java_options",
    "2397": "TLS: correct SSLCipherSuite, and the key store and trust store in java_options",
    "2400": "TLS: the client does not have this SSLCipherSuite",
    "2537": "the channel is not available: START CHANNEL(...), or raise MAXINST",
    "2538": "no host answers: correct HostName and Port, or start the listener",
    "2540": "the queue manager has no such Channel",
    "2548": "the client could not reconnect: leave ClientReconnectOptions off",
}
"""From a reason code of IBM MQ to what to do."""
_CLOSED_LATE: Final = re.compile("non-connected transport|IOException Connection failed")
"""With TLS 1.3, a client sends its certificate when the connection counts as open."""
_CLOSED: Final = re.compile(
    f"ClosedChannel|Connection reset|remotely closed|ConnectionClosed|EOFException|{_CLOSED_LATE.pattern}"
)
_MISTAKES: Final = re.compile(
    "IllegalArgumentException|URISyntaxException|FileNotFoundException|PKIX|CertPath|CertificateException"
    "|KeyStoreException|NotSslRecord|scheme NOT recognized|Unused parameters"
)
"""A pattern of a class or text of Java that only a change of the configuration or of the broker ends."""
_NO_ANSWER: Final = re.compile(
    r"(Provider|Jms)(Connection|IO|Failed|Closed|Idle|IllegalState|OperationTimed|SendTimed|ResourceClosed"
    r"|TransactionInDoubt|DeliveryReleased)\w*Exception$|(Disconnected|NotConnected|ConnectionTimedOut|UnBlocked"
    r"|ObjectClosed|SessionCreation|Shutdown|OutcomeUnknown|Interrupted|Connection(Failed|Closed)|AlreadyClosed"
    r"|TransportDisposedIO|RequestTimedOutIO|InactivityIO|BrokerStopped|ClosedChannel|Timeout|RejectedExecution"
    r"|Cancellation)Exception$|^java\.io\.(IO|EOF|InterruptedIO)Exception$|^java\.(net|nio\.channels)\."
    r"|^javax\.net\.|^io\.netty\.|^java\..*Error$|\.jms\.IllegalStateException$"
)
"""A pattern of classes of Java: the connection has ended, something is closed, or nobody has answered."""
_NO_ANSWERS: Final = re.compile(
    r"condition = amqp:(connection:|session:|link:(?!message-size-exceeded)|resource-(deleted|locked)"
    r"|transaction:timeout)|closed remotely|remotely closed"
    r"|[Tt]ransaction (completion )?in doubt|connection offline|rolled back on failover"
    r"|MQRC_(CONN|HCONN_|HOBJ_|HOST_|Q_MGR_|CHANNEL_|CALL_INTERRUPTED|RECONNECT|BACKED_OUT)"
)
"""The same of texts: conditions of AMQP 1.0 (2.8.15 to 2.8.18, 4.5.8), reasons of IBM MQ, and what libraries
say of a transaction whose connection was lost and made again.
"""
_SILENCE: Final = re.compile(r"(TimedOut(IO)?|Timeout)Exception$")
"""A pattern of classes of Java: the client library has waited for an answer for as long as it may."""
_FOR_NOW: Final = re.compile(
    r"ResourceAllocationException|JMSSecurityException|DeliveryModifiedException"
    r"|amqp:(resource-limit-exceeded|unauthorized-access)"
    r"|MQRC_(Q_FULL|PUT_INHIBITED|GET_INHIBITED|NOT_AUTHORIZED|STORAGE_|PAGESET_|Q_SPACE|RESOURCE_)"
    r"|\bis full\b"
)
"""A pattern of a class or text of Java: a destination takes nothing now, whatever the message is."""
_OWN_WORDS: Final = re.compile(r"^(javax|jakarta)\.jms\.(JMS|TransactionRolledBack)Exception$")
"""Classes of which the client library makes its own errors. With a cause they tell what the broker says."""
_MISSING_CLASS: Final = ("java.lang.NoClassDefFoundError", "java.lang.ClassNotFoundException")


_UNSUPPORTED: Final = (
    "java.lang.UnsupportedOperationException",
    "java.lang.AbstractMethodError",
    "java.lang.NoSuchMethodError",
)


def is_unsupported(error: Any) -> bool:
    """Whether an error of a call shows that the client library does not have the method."""
    if isinstance(error, TypeError):  # JPype finds no method with these arguments
        return True
    return hasattr(error, "getClass") and str(error.getClass().getName()) in _UNSUPPORTED


def is_refusal(error: Any) -> bool:
    """Whether an error of a send or a commit is an answer about what was sent, of the broker or the library.

    A queue that is full refuses every message for now, and none of them for good. A connection that ends is
    no refusal. With ``failover:``, a library says then in words of its own that a
    send has failed, and its connection works soon again.
    """
    chain = chain_of(error)
    if is_unanswered(error) or _FOR_NOW.search(_with_classes(chain)) is not None:
        return False
    return len(chain) > 1 or _OWN_WORDS.match(str(error.getClass().getName())) is None


def is_unanswered(error: Any) -> bool:
    """Whether a Java exception shows that the connection has ended, or that nobody has answered."""
    chain = chain_of(error)
    names = [str(one.getClass().getName()) for one in chain]
    return any(map(_NO_ANSWER.search, names)) or _NO_ANSWERS.search(_with_classes(chain)) is not None


def is_silence(error: Any) -> bool:
    """Whether a Java exception shows that the broker has not answered in time."""
    return any(_SILENCE.search(str(one.getClass().getName())) for one in chain_of(error))


def artifact_of(class_name: str) -> str:
    """Returns the Maven artifact that a class belongs to, or a text without a name."""
    package = class_name.replace("/", ".")
    found = [beginning for beginning in _ARTIFACTS if package.startswith(f"{beginning}.")]
    return _ARTIFACTS[max(found, key=len)] if found else "its artifact"


def chain_of(error: Any) -> list[Any]:
    """Returns a Java exception, and its linked exceptions or causes."""
    chain: list[Any] = []
    while error is not None and len(chain) < _SEVERAL:
        chain.append(error)
        linked = error.getLinkedException() if hasattr(error, "getLinkedException") else None
        error = linked if linked is not None else error.getCause()
    return chain


def reason_of(error: Any) -> str:
    """Returns the texts of a Java exception and of its causes, without a stack."""
    if isinstance(error, UnicodeError):
        return "it is no Unicode text, because it has half a surrogate pair"
    if not hasattr(error, "getMessage"):
        return str(error)
    texts: list[str] = []
    for one in chain_of(error):
        text = str(one.getMessage() or one.getClass().getSimpleName()).strip()
        if not any(text in known for known in texts):
            texts.append(text)
    return ": ".join(texts) + remedy_of(error)


def remedy_of(error: Any) -> str:
    """Returns what to do about a Java exception. Empty = its text says it."""
    chain = chain_of(error)
    for one in chain:
        if str(one.getClass().getName()) in _MISSING_CLASS:
            name = str(one.getMessage()).replace("/", ".")
            return f" (the Java class {name} is missing: add {artifact_of(name)} to packages)"
    text = _with_classes(chain)
    if found := _MQ_REASON.search(text):
        remedy = _MQ.get(found[1])
        return f" ({remedy})" if remedy else ""
    for pattern, remedy in _REMEDIES:
        if re.search(pattern, text, re.IGNORECASE):
            return remedy
    return ""


def is_mistake(error: Any) -> bool:
    """Whether a Java exception of a connection shows a mistake, and not that the broker is away."""
    return _MISTAKES.search(_with_classes(chain_of(error))) is not None


def advice_for_closed(error: Any, url: str) -> str:
    """Returns a remark about TLS, if the other side has closed a new connection without a word."""
    text = _with_classes(chain_of(error))
    if _CLOSED.search(text) is None or remedy_of(error):
        return ""
    if re.search(r"\b(amqps|ssl|amqpwss)\b", url):
        if _CLOSED_LATE.search(text):
            return " (the connection was closed at once: does the broker want a certificate of the client?)"
        return " (the connection was closed before TLS was agreed on: does the port of the url speak TLS?)"
    if not re.search(r"\bamqp", url):
        return " (the connection was closed at once: does the port speak TLS, or another protocol?)"
    return " (the connection was closed at once: a port with TLS needs amqps)"


def _with_classes(chain: Iterable[Any]) -> str:
    return "\n".join(f"{one.getClass().getName()} {one.getMessage()}" for one in chain)
