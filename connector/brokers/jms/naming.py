"""JNDI: where a connection factory and destinations are looked up by name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from connector.brokers.jms.reasons import artifact_of, reason_of
from connector.brokers.jms.urls import without_secrets
from connector.declare.masking import is_secret
from connector.errors import ProviderError, ProviderMisconfigured, UnknownDestination
from connector.messaging.destination import Destination

PREFIX: Final = "CTX_"
"""Beginning of the keys that go to the initial context."""
_OWN: Final = "connector."
"""Beginning of the names of queues that belong to the adapter. JNDI need not know them."""
_MOST: Final = 10_000
"""Destinations of messages that are remembered."""
_NAMES: Final = {
    "initialcontextfactory": "java.naming.factory.initial",
    "providerurl": "java.naming.provider.url",
    "objectfactories": "java.naming.factory.object",
    "statefactories": "java.naming.factory.state",
    "urlpkgprefixes": "java.naming.factory.url.pkgs",
    "dnsurl": "java.naming.dns.url",
    "securityprincipal": "java.naming.security.principal",
    "securitycredentials": "java.naming.security.credentials",
    "securityauthentication": "java.naming.security.authentication",
    "securityprotocol": "java.naming.security.protocol",
    **{word: f"java.naming.{word}" for word in ("authoritative", "batchsize", "language", "referral")},
}
"""The constants of ``javax.naming.Context`` without underscores, and their values."""
_AWAY: Final = (
    *("CommunicationException", "ServiceUnavailableException", "TimeLimitExceededException"),
    "InsufficientResourcesException",
)
"""Exceptions of JNDI that may end without a correction."""


def environment_of(keys: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of the initial context that keys ``CTX_...`` mean.

    ``CTX_ProviderURL`` and ``CTX_PROVIDER_URL`` are the constant ``Context.PROVIDER_URL``. Any other name is
    that of the environment itself: ``CTX_queue.orders`` is ``queue.orders``.
    """
    return {name_of(key): value for key, value in keys.items()}


def name_of(key: str) -> str:
    """Returns the name in the environment of an initial context that a key ``CTX_...`` means."""
    name = key.removeprefix(PREFIX)
    return _NAMES.get(name.replace("_", "").casefold(), name)


@dataclass(frozen=True, slots=True)
class Naming:
    """The look-ups of a deployment in JNDI.

    Args:
        environment: of the initial context.
        destinations: whether names of destinations are looked up.
    """

    environment: Mapping[str, str]
    factory: str
    destinations: bool = False

    def __repr__(self) -> str:
        return f"Naming({self.factory!r})"  # the environment may contain a password

    def safe(self, text: str) -> str:
        """Returns a text of Java without the passwords of the environment."""
        return without_secrets(text, *(value for name, value in self.environment.items() if is_secret(name)))

    def find_factory(self, jpype: Any) -> Any:
        """Looks the connection factory up.

        Raises:
            ProviderMisconfigured: JNDI has no such name, or something else under it.
            ProviderError: JNDI is out of reach.
        """
        found, reason, error = self._look_up(jpype, self.factory)
        if found is None:
            failure = ProviderError if _is_away(error) else ProviderMisconfigured
            raise failure(f"ConnectionFactoryName: {self.factory!r} is not found in JNDI: {reason}")
        return found

    def find(self, jpype: Any, destination: Destination) -> tuple[Any, str]:
        """Looks a destination up. Returns the Java object, or else None and the reason.

        JNDI takes a name with a colon for a URL of any server. A message may name such a destination for its
        reply, so a name with a colon is never looked up.

        Raises:
            ProviderError: JNDI is out of reach.
        """
        name = destination.own_name
        if ":" in name:
            return None, "a name in JNDI has no colon"
        found, reason, error = self._look_up(jpype, name)
        if found is None and "." in name:
            found, _, _ = self._look_up(jpype, name.replace(".", "/"))
        if error is not None and _is_away(error):
            raise ProviderError(f"{destination} cannot be looked up in JNDI: {reason}")
        return found, reason

    def _look_up(self, jpype: Any, name: str) -> tuple[Any, str, Any]:
        """Returns what JNDI has under a name, or else the reason and the Java exception."""
        try:
            table = jpype.JClass("java.util.Hashtable")()
            for key, value in self.environment.items():
                table.put(key, value)
            context = jpype.JClass("javax.naming.InitialContext")(table)
            try:
                found = context.lookup(name)
            finally:
                context.close()
        except jpype.JException as error:
            if isinstance(error, jpype.JClass("javax.naming.NameNotFoundException")):
                return None, "there is no such name", error
            return None, self.safe(reason_of(error)), error
        if found is None:
            return None, "there is nothing under the name", None
        if isinstance(found, jpype.JClass("javax.naming.Reference")):  # its class is not there
            wanted = str(found.getClassName())
            missing = (
                f"there is a {wanted}, and the class {found.getFactoryClassName()} that makes it is missing"
            )
            return None, f"{missing}: add {artifact_of(wanted)} to packages", None
        return found, "", None


class Destinations:
    """The Java destinations of a client that a session need not make by the name at the broker.

    Args:
        naming: None = names of destinations are those of the broker.
    """

    def __init__(self, jpype: Any, jms: Any, naming: Naming | None) -> None:
        self._jpype = jpype
        self._kinds = {"queue": jms.Queue, "topic": jms.Topic}
        self._naming = naming if naming is not None and naming.destinations else None
        self._found: dict[Destination, Any] = {}
        self._told: OrderedDict[str, Any] = OrderedDict()
        self._absent: OrderedDict[str, None] = OrderedDict()
        """Names that JNDI does not have, and need not."""

    @property
    def looks_up(self) -> bool:
        """Tells whether names of destinations are names in JNDI."""
        return self._naming is not None

    def tell(self, name: str, java: Any) -> None:
        """Remembers a destination of the broker that JNDI need not have: temporary, or named by a message."""
        if self._naming is not None:
            _put(self._told, name, java)

    def find(self, destination: Destination) -> Any:
        """Returns the Java destination. None = a session makes it, by the name at the broker.

        Raises:
            UnknownDestination: JNDI has no such destination.
            ProviderError: JNDI is out of reach.
        """
        if self._naming is None:
            return None
        if destination in self._found:
            return self._found[destination]
        name = str(destination)
        if name not in self._absent:
            java, reason = self._naming.find(self._jpype, destination)
            if isinstance(java, self._kinds[destination.kind]):
                self._found[destination] = java
                return java
            if name not in self._told and not destination.own_name.startswith(_OWN):
                reason = reason or f"there is a {java.getClass().getName()}"
                raise UnknownDestination(f"{destination} is not found in JNDI: {reason}")
            _put(self._absent, name, None)
        return self._told.get(name)


def _put(found: OrderedDict[str, Any], name: str, value: Any) -> None:
    found[name] = value
    if len(found) > _MOST:
        found.popitem(last=False)


def _is_away(error: Any) -> bool:
    return error is not None and type(error).__name__.rpartition(".")[2] in _AWAY
