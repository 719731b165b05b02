"""The sink ``process``: calls a Python function with the object and the event."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from connector.businessobjects.instance import BusinessObject
from connector.sinks.calling import is_coroutine_function
from connector.sinks.contract import Event, ExternalSink, SinkContext, TransactionalSink
from connector.sinks.functions import load_process

_log: Final = logging.getLogger("connector.events")
_FAILED: Final = "a business process has failed"


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """Recipe for a :class:`ProcessSink`.

    Args:
        process: ``module:function``.
        replies: whether the return value of the function is the reply.
        database: whose transaction the function gets. None = it gets none.
    """

    process: str
    replies: bool = False
    database: str | None = None

    def open(self, context: SinkContext) -> ProcessSink | TransactionalProcessSink:
        """Loads the function.

        Raises:
            ProcessNotFound: there is no such module or function, or importing the module raised.
        """
        function = load_process(self.process, context.deployment)
        is_async = is_coroutine_function(function)
        if self.database is not None:
            transactional = AsyncTransactionalProcessSink if is_async else TransactionalProcessSink
            return transactional(function, context.subscription, self.database)
        external = AsyncProcessSink if is_async else ProcessSink
        return external(function, context.subscription, replies=self.replies)


class _Process:
    """Calls a Python function ``f(bo, event)``."""

    def __init__(self, function: Callable[..., Any], subscription: str, *, replies: bool = False) -> None:
        self.__wrapped__ = function  # a traceback without a frame of the user's module points here
        self._subscription = subscription
        self._has_warned = replies

    def deliver(self, bo: BusinessObject, event: Event) -> object:
        """Calls the function. Warns once when the function returns a value that nothing uses."""
        returned = self.__wrapped__(bo, event)
        if returned is not None:
            self._look_at(returned, event)
        return returned

    def _look_at(self, returned: object, event: Event) -> None:
        if inspect.iscoroutine(returned):
            returned.close()
            raise TypeError("the process returned a coroutine, which nobody awaits; write async def")
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "a process returned a value, but its subscription does not set reply: true",
                extra={"subscription": self._subscription, "message_id": event.id},
            )


class ProcessSink(_Process, ExternalSink):
    """A sink that calls a Python function. The arguments are those of the class above."""

    failed: ClassVar[str] = _FAILED


class TransactionalProcessSink(_Process, TransactionalSink):
    """A sink that calls a Python function in a transaction."""

    failed: ClassVar[str] = _FAILED

    def __init__(self, function: Callable[..., Any], subscription: str, database: str) -> None:
        super().__init__(function, subscription)
        self.database = database


class AsyncProcessSink(ProcessSink):
    """A sink that calls a function of ``async def``."""

    async def deliver(self, bo: BusinessObject, event: Event) -> object:
        returned: object = await self.__wrapped__(bo, event)
        if returned is not None:
            self._look_at(returned, event)
        return returned


class AsyncTransactionalProcessSink(TransactionalProcessSink):
    """A sink that calls a function of ``async def`` in a transaction."""

    async def deliver(self, bo: BusinessObject, event: Event) -> object:
        return await self.__wrapped__(bo, event)
