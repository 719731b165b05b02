"""All exceptions that the connector raises on purpose.

::

    ConnectorError
    ├── ConfigurationError        correct adapter.yaml or metaobjects/, start again
    ├── DestinationError          correct the name of the queue or topic
    ├── UnknownDestination        the destination does not exist (yet): create it or correct the name
    ├── CapabilityError           this provider cannot do this: choose another provider, or do without
    ├── SelectorError             correct the message selector
    ├── SubscriptionError         another subscription, or a consumer, is in the way
    ├── LotError                  another client owns the name, or the lot is settled: the text says which
    ├── ClientIdError             another process has this client id: end that process, or choose another id
    ├── SessionStateError         closed, or in a mode without this operation: make another
    ├── MalformedData             the body breaks the rules of the format or business object
    │   └── UnknownBusinessObject the business object of the body is not known
    ├── RequestRefused            the request is wrong: the answer is FAIL with this text
    ├── ProviderError             the provider failed: the adapter reconnects with back-off
    │   ├── ProviderMisconfigured waiting does not help: correct adapter.yaml or the machine, start again
    │   ├── SettlementError       a destination of ours cannot be written, nothing was lost
    │   ├── ClaimLost             the message is not ours any more, and comes again, to us or another
    │   └── TransactionRolledBack the commit failed, and everything was undone: try again
    ├── PipelineError             Spark failed: events in flight are settled from their journal
    │   └── SparkLost             Java or a worker has ended or does not answer: start Spark anew
    └── ProcessAnswer             raised *by* business processes, for an answer other than "done"
        ├── Unsubscribed          this process does not want the object
        ├── NotActive             the process cannot work now: the message stays, the poll ends
        ├── TemporaryFailure      a new attempt may succeed: tried again in place, ``retries`` times
        └── Failed                the event has failed, in spite of ``retry_later``

Each leaf asks for a different remedy.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass


class ConnectorError(Exception):
    """The root of all exceptions that the connector raises on purpose."""

    exit_status = 1
    """Of a command that ends with the exception. 2 = somebody has to act first: a start anew ends alike."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a configuration file, with all facts that are needed to correct that mistake.

    Args:
        file: path as typed by the user.
        line: from 1. 0 = the whole file.
        column: from 1. 0 = the whole line.
        path: the field, ``connector.InputDestination[1]``. Empty = the whole file.
        found: the wrong text, or the mistake.
        expected: the right text.
        nearest: the right name that is closest to a misspelt name, if any.
        warning: True if the configuration works all the same.
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
        """The mistake and the expected text, without the place."""
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


class WrongValue(ValueError):
    """A value of a setting cannot be used. The text never shows the value, which may hold a secret.

    Attributes:
        found, expected: as in :class:`Problem`.
    """

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"{found}, expected {expected}")
        self.found, self.expected = found, expected


class ConfigurationError(ConnectorError):
    """The configuration is wrong. Carries every :class:`Problem`, not only the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class DestinationError(ConnectorError, ValueError):
    """The text is not the name of a destination. The error says why.

    Args:
        reason: the text without the destination that may be meant.
        near: the destination that may be meant, if any. It is part of the error's text.
    """

    def __init__(self, reason: str, near: str | None = None) -> None:
        super().__init__(f"{reason}, did you mean {near!r}?" if near else reason)
        self.reason = reason
        self.near = near


class UnknownDestination(ConnectorError, LookupError):
    """The provider has no such destination."""


class CapabilityError(ConnectorError):
    """The provider, or the installed version, cannot do an operation. Raised at start."""


class SelectorError(ConnectorError, ValueError):
    """A message selector is not valid. The text says which characters were found and which were expected.

    Args:
        text: of the error.
        position: of the first wrong character in the selector, from 1.
    """

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text)
        self.position = position


class SubscriptionError(ConnectorError):
    """A subscription cannot be made, attached to or removed (Qpid JMS). The text names the obstacle."""


class LotError(ConnectorError):
    """A lot cannot be had: another client owns its name, it is settled, or a message of it is gone."""


class ClientIdError(ConnectorError):
    """The client id is in use: only one process at a time can hold a client id."""


class SessionStateError(ConnectorError):
    """A session, connection, channel or transaction has ended, or its mode lacks the operation."""


class MalformedData(ConnectorError, ValueError):
    """A body breaks the rules of the format or the business object.

    The text names the attribute or the place in the body. The event fails, and its message goes to the
    ErrorDestination with this text as the reason.

    Attributes:
        path: of the attribute in the object, ``Address[1].City``. Empty = not known.
        is_unknown: the object has no such attribute.
    """

    path = ""
    is_unknown = False


class BodyTooLarge(MalformedData):
    """A body has more bytes than ``max_body``, and is not read."""


class TooManyHops(MalformedData):
    """A message has passed more adapters than ``max_hops``. It probably goes round in a loop."""


class UnknownBusinessObject(MalformedData):
    """Neither a rule nor the body names a defined business object. The event is unsubscribed."""


class DatabaseProblem(ConnectorError):
    """A database cannot be used as it is configured. The text gives the reason and the remedy."""


class ObjectRefused(ConnectorError):
    """A sink refuses a business object. The text is the reason, without a place in the code of a user."""


class RequestRefused(ConnectorError):
    """A request cannot be made or the reply cannot be read: wrong or incomplete meta-data, or a wrong body.

    Never leaves a request client: the request completes with FAIL and this text.
    """


class ProviderError(ConnectorError):
    """The provider failed or is out of reach. Ends the poll with APPRESPONSETIMEOUT."""


class ProviderMisconfigured(ProviderError):
    """The provider cannot be used as it is configured, for example because of a wrong password.

    A start does not wait for the provider to change. A service that has worked before tries again.
    """


class SettlementError(ProviderError):
    """A message could not be settled because a destination cannot be written. It stays claimed."""


class ClaimLost(ProviderError):
    """Another client took a claim from the owner before the settlement. No message was changed."""


class TransactionRolledBack(ProviderError):
    """A commit failed and became a rollback: sent messages are dropped, received messages come again."""


class PipelineError(ConnectorError):
    """Spark could not run the job of a batch. Finished events are settled from their journal."""


class SparkLost(PipelineError):
    """The Java of Spark or a worker was killed, or does not answer. A new start may succeed."""


class ProcessAnswer(ConnectorError):
    """Base of the exceptions by which a business process gives an answer other than "done"."""


class Unsubscribed(ProcessAnswer):
    """The process does not want this object, as if not subscribed."""


class NotActive(ProcessAnswer):
    """The process takes nothing now. The message stays, and the poll ends with APPRESPONSETIMEOUT."""


class TemporaryFailure(ProcessAnswer):
    """A new attempt may succeed. The process is called again in place, with back-off, ``retries`` times.

    With ``retry_later`` the event then comes again after a while. With ``order: destination`` it holds its
    input until then.

    Args:
        args: the text.
        after: the shortest wait before the next try with ``retry_later``, in seconds, at most a year. A try
            in place waits so long too, but at most 10 s.
    """

    after: float = 0.0

    def __init__(self, *args: object, after: float = 0.0) -> None:
        super().__init__(*args)
        self.after = min(max(0.0, after), 31_536_000.0)


class Failed(ProcessAnswer):
    """The event has failed, at once and in spite of ``retry_later``."""


def remedy(error: OSError) -> str:
    """Returns the end of a text about a file that cannot be written: what to do about it. Empty = unknown."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "; make room on the disk"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "; give this user the right to write there"
    return ""
