"""Logs the exceptions of user code in a task."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from connector.events.hooks.grouped_log import GroupedLog, LogGroups
from connector.events.hooks.task_hook import TaskHook


class TaskFailures(TaskHook):
    """Logs alike exceptions once a minute.

    Args:
        tell: gets subscription, place and traceback of each exception that is logged.
        groups: of all tasks of the process. None = of this task.
    """

    def __init__(self, tell: Callable[[str, str, str], None], groups: LogGroups | None = None) -> None:
        self._lines = GroupedLog(logging.getLogger("connector.events"), tell=tell, groups=groups)

    def failed(self, text: str, extra: Mapping[str, object], error: BaseException | None) -> None:
        self._lines.error(text, extra=extra, exc_info=error)
