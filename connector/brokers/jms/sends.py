"""The sent messages of a transaction: whether the broker has taken them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from connector.brokers.jms.listeners import queue_listener
from connector.brokers.jms.reasons import reason_of
from connector.errors import ProviderError

_SECONDS: Final = 30.0
_LOOK_MS: Final = 100


class Sends:
    """The sent messages of one transaction after the other.

    A client sends messages of a transaction without waiting for the broker. If the broker refuses one, the
    commit of the others may work, and the refused message is lost. So the broker's answers are awaited before
    the commit (JMS 2.0, 7.3).

    The answers are collected in Java. A call of Python for each of them would take as long as the send.

    Args:
        jpype: the module.
        jms: the package of JMS, 2.0 or newer.
        failure: returns why the connection has failed, or None.
    """

    def __init__(self, jpype: Any, jms: Any, failure: Callable[[], str | None]) -> None:
        self._failure = failure
        self._sent = 0
        self._milliseconds = jpype.JClass("java.util.concurrent.TimeUnit").MILLISECONDS
        self._answers = jpype.JClass("java.util.concurrent.LinkedBlockingQueue")()
        self._list = jpype.JClass("java.util.ArrayList")
        self.listener = queue_listener(jpype, jms.CompletionListener, self._answers)
        """Is told the answers."""

    def add(self) -> None:
        """Counts a message before it is sent."""
        self._sent += 1

    def refusal(self) -> str:
        """Waits for all answers. Returns why the broker has refused a message, or an empty text.

        Raises:
            ProviderError: the broker does not answer.
        """
        refusal = ""
        deadline = time.monotonic() + _SECONDS
        found = self._list()
        while self._sent:
            if not self._answers.drainTo(found):
                answer = self._answers.poll(_LOOK_MS, self._milliseconds)
                if answer is None:
                    self._check(deadline)
                    continue
                found.add(answer)
            self._sent -= found.size()
            for answer in found:
                if len(answer) > 1 and not refusal:
                    refusal = reason_of(answer[1])
            found.clear()
        return refusal

    def _check(self, deadline: float) -> None:
        failure = self._failure()
        if failure is not None:
            raise ProviderError(failure)
        if time.monotonic() >= deadline:
            raise ProviderError(f"the broker has not taken a message for {_SECONDS:g} s")
