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
_REMEDIES: Final = (
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
_CLOSED_LATE: Final = "non-connected transport"
"""With TLS 1.3, a client sends its certificate when the connection counts as open."""
_CLOSED: Final = re.compile(
    f"ClosedChannel|Connection reset|remotely closed|ConnectionClosed|EOFException|{_CLOSED_LATE}"
)
_MISTAKES: Final = re.compile(
    "IllegalArgumentException|URISyntaxException|FileNotFoundException|PKIX|CertPath|CertificateException"
    "|KeyStoreException|NotSslRecord|scheme NOT recognized|Unused parameters"
)
"""A pattern of a class or text of Java that only a change of the configuration or of the broker ends."""
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
    for pattern, remedy in _REMEDIES:
        if re.search(pattern, text, re.IGNORECASE):
            return remedy
    return ""


def is_mistake(error: Any) -> bool:
    """Whether a Java exception of a connection shows a mistake, and not that the broker is away."""
    return _MISTAKES.search(_with_classes(chain_of(error))) is not None


def advice_for_closed(error: Any, url: str) -> str:
    """Returns a remark about TLS, if the other side has closed a new connection without a word.

    Args:
        url: of the broker.
    """
    text = _with_classes(chain_of(error))
    if _CLOSED.search(text) is None or remedy_of(error):
        return ""
    if re.search(r"\b(amqps|ssl|amqpwss)\b", url):
        if _CLOSED_LATE in text:
            return " (the connection was closed at once: does the broker want a certificate of the client?)"
        return " (the connection was closed before TLS was agreed on: does the port of the url speak TLS?)"
    if not re.search(r"\bamqp", url):
        return " (the connection was closed at once: does the port speak TLS, or another protocol?)"
    return " (the connection was closed at once: a port with TLS needs amqps)"


def _with_classes(chain: Iterable[Any]) -> str:
    return "\n".join(f"{one.getClass().getName()} {one.getMessage()}" for one in chain)
