"""Every exception the connector raises on purpose.

::

    ConnectorError
    ├── ConfigurationError        correct adapter.yaml or metaobjects/, start again
    ├── DestinationError          correct the name of the queue or topic
    ├── UnknownDestination        the destination does not exist (yet): create it or correct its name
    ├── CapabilityError           this provider cannot do it: choose another, or do without
    ├── SelectorError             correct the message selector
    ├── SubscriptionError         another subscription, or a consumer, is in the way
    ├── ClientIdError             another process has this client id: end it, or choose another id
    ├── SessionStateError         it is closed, or in a mode that does not do that: make another
    ├── MalformedData             the body is not what its format or business object demands
    │   └── UnknownBusinessObject nobody can say which business object the body is
    ├── RequestRefused            the request cannot be made as it is; its answer is FAIL with this text
    ├── ProviderError             the provider failed; the adapter reconnects with back-off
    │   ├── SettlementError       a destination of ours cannot be written; nothing was lost
    │   ├── ClaimLost             the message is not ours any more; it comes again, to us or another
    │   └── TransactionRolledBack the commit was not possible; all of it was undone: do it again
    ├── PipelineError             Spark failed; what was in flight is settled from its journal
    └── ProcessAnswer             raised *by* business processes, to say something else than "done"
        ├── Unsubscribed          this process does not want the object
        ├── NotActive             it cannot take anything now: the message stays, the poll ends
        └── TemporaryFailure      it may work in a moment: tried again in place, ``retries`` times

Each leaf asks for a different remedy; where two would ask for the same, there is only one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ConnectorError(Exception):
    """The root: catches everything the connector raises on purpose, and nothing else."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a configuration file, with all that is needed to mend it.

    Args:
        file: path as the user would type it.
        line: 1-based; 0 where the file as a whole is meant.
        column: 1-based; 0 where the line as a whole is meant.
        path: the field, ``connector.InputDestination[1]``; empty for the file as a whole.
        found: what stands there, or what is wrong with it.
        expected: what should stand there.
        nearest: the right name that a misspelt one is closest to, if any.
        warning: True when the configuration works all the same.
    """

    file: str
    line: int
    column: int
    path: str
    found: str
    expected: str
    nearest: str | None = None
    warning: bool = False

    @property
    def mistake(self) -> str:
        """What is wrong and what was expected, without the place."""
        text = self.found
        if self.expected:
            text += f", expected {self.expected}"
        if self.nearest:
            text += f", did you mean {self.nearest!r}?"
        return text

    def __str__(self) -> str:
        known = [number for number in (self.line, self.column) if number]
        place = ":".join(map(str, [self.file, *known]))
        path = f" {self.path}:" if self.path else ""
        text = f"{place}:{path} {self.mistake}"
        return f"{text} (warning)" if self.warning else text


class ConfigurationError(ConnectorError):
    """The configuration is wrong. Carries every :class:`Problem`, not only the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class DestinationError(ConnectorError, ValueError):
    """The text is not the name of a destination; says what is wrong with it."""


class UnknownDestination(ConnectorError, LookupError):
    """No such destination at the provider."""


class CapabilityError(ConnectorError):
    """The provider, or this version of it, is not able to do what is asked. Raised at start."""


class SelectorError(ConnectorError, ValueError):
    """A message selector is not valid; says what was found, what was expected, and where.

    Args:
        text: what is wrong.
        position: of the first wrong character in the selector, from 1.
    """

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text)
        self.position = position


class SubscriptionError(ConnectorError):
    """A subscription cannot be made, attached to or removed as asked (Qpid JMS); says what is in the way."""


class ClientIdError(ConnectorError):
    """The client id is in use: it is held by one process at a time."""


class SessionStateError(ConnectorError):
    """A session, connection, channel or transaction has ended, or its mode does not have the operation."""


class MalformedData(ConnectorError, ValueError):
    """A body cannot be read as its format or its business object demands.

    The text names the attribute or the place in the body. The event fails; its message goes to
    the ErrorDestination with this text as the reason.
    """


class UnknownBusinessObject(MalformedData):
    """Neither a rule nor the body names a business object that is defined: unsubscribed."""


class RequestRefused(ConnectorError):
    """A request cannot be made, or its reply not read: improper or incomplete meta-data, a wrong body.

    Never leaves a request client: the request completes with FAIL and this text.
    """


class ProviderError(ConnectorError):
    """The provider failed or is out of reach. Ends the poll with APPRESPONSETIMEOUT."""


class SettlementError(ProviderError):
    """A message could not be settled because a destination cannot be written. It stays claimed."""


class ClaimLost(ProviderError):
    """A claim was taken from its owner before it was settled; nothing was touched."""


class TransactionRolledBack(ProviderError):
    """A commit could not be done and became a rollback: sends are dropped, receives come again."""


class PipelineError(ConnectorError):
    """Spark could not run the job of a batch. What it had done is settled from its journal."""


class ProcessAnswer(ConnectorError):
    """Base of what a business process raises to answer something else than "done"."""


class Unsubscribed(ProcessAnswer):
    """The process does not want this object; as if it had not subscribed."""


class NotActive(ProcessAnswer):
    """The process takes nothing now. The message stays and the poll ends APPRESPONSETIMEOUT."""


class TemporaryFailure(ProcessAnswer):
    """May succeed in a moment: called again in place, with back-off, ``retries`` times."""
