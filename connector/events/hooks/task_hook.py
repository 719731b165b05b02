"""The moments of an event in its task, which hooks observe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connector.events.hooks.hook import guard, observers
from connector.events.run.publication import Publication, TaskEvent


class TaskHook:
    """Observes the events of a task. For the thread of the task.

    A hook overrides the methods of the moments that it observes. A method may raise any exception. The first
    one of each method is logged.
    """

    name = ""
    """Under this name the driver gets what :meth:`take` returns. Empty = nothing."""

    def begun(self, event: TaskEvent) -> None:
        """Observes that an event begins."""

    def taken(self, event: TaskEvent) -> None:
        """Observes that the message of an event is read."""

    def converted(self, event: TaskEvent, seconds: float) -> None:
        """Observes that a message has become objects.

        Args:
            seconds: of the conversion.
        """

    def not_converted(self, event: TaskEvent, error: BaseException) -> None:
        """Observes that a message has become no object."""

    def delivering(self, event: TaskEvent, subscription: str, answers: Publication) -> None:
        """Observes that a subscription is about to get an object.

        Args:
            answers: of the subscriptions before.
        """

    def called(self, subscription: str, seconds: float) -> None:
        """Observes that the call of a sink has ended."""

    def delivered(self, event: TaskEvent, subscription: str, answers: Publication) -> None:
        """Observes the answer of a subscription. The arguments are those of :meth:`delivering`."""

    def not_delivered(self, subscription: str, reason: str) -> None:
        """Observes that a subscription has failed for an event, which may come again."""

    def failed(self, text: str, extra: Mapping[str, object], error: BaseException | None) -> None:
        """Observes that code of the deployment has raised an exception.

        Args:
            text, extra: of the line of the log.
        """

    def requested(self, object_name: str, status: str, seconds: float) -> None:
        """Observes that a request of a business process has ended. In any thread."""

    def ended(self, event: TaskEvent) -> None:
        """Observes that an event has its outcome."""

    def abandoned(self) -> None:
        """Observes that an assignment ends without an answer. What belongs to its events is of no use."""

    def take(self) -> Any:
        """Returns what the driver is told with the answer of the task, as JSON has it, and forgets it.

        Something empty is not told.
        """


class TaskHooks:
    """The observers of each moment in a task."""

    def __init__(self, hooks: Sequence[TaskHook]) -> None:
        self.tellers = [(one.name, guard(one, one.take)) for one in hooks if one.name]
        """The names of hooks, and what returns what the driver is told."""
        self.begun = observers(hooks, TaskHook.begun)
        self.taken = observers(hooks, TaskHook.taken)
        self.converted = observers(hooks, TaskHook.converted)
        self.not_converted = observers(hooks, TaskHook.not_converted)
        self.delivering = observers(hooks, TaskHook.delivering)
        self.called = observers(hooks, TaskHook.called)
        self.delivered = observers(hooks, TaskHook.delivered)
        self.not_delivered = observers(hooks, TaskHook.not_delivered)
        self.abandoned = observers(hooks, TaskHook.abandoned)
        self.ended = observers(hooks, TaskHook.ended)
        self._failed = observers(hooks, TaskHook.failed)
        self._requested = observers(hooks, TaskHook.requested)

    def error(
        self, text: str, /, *, extra: Mapping[str, object], exc_info: BaseException | None = None
    ) -> None:
        """Tells of an exception of user code. So these hooks are the log of :func:`.log_failure`."""
        for observe in self._failed:
            observe(text, extra, exc_info)

    def count_request(self, object_name: str, status: str, seconds: float) -> None:
        """Tells of a request that has ended. For any thread."""
        for observe in self._requested:
            observe(object_name, status, seconds)
