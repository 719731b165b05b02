"""The hooks of a task: which features are on."""

from __future__ import annotations

from connector.events.hooks.activity import TaskActivity
from connector.events.hooks.event_history import TaskNotes
from connector.events.hooks.failures import TaskFailures
from connector.events.hooks.grouped_log import LogGroups
from connector.events.hooks.task_hook import TaskHook, TaskHooks
from connector.events.run.task_settings import TaskSettings


def task_hooks(task_settings: TaskSettings, groups: LogGroups | None = None) -> TaskHooks:
    """Returns the hooks of the features that are on.

    Args:
        groups: of the log lines of all tasks of the process. None = the task has its own.
    """
    activity = TaskActivity()
    hooks: list[TaskHook] = [TaskFailures(activity.add_traceback, groups)]
    if task_settings.sample is not None:
        from connector.events.hooks.spans import TaskSpans

        hooks.append(TaskSpans(task_settings.sample))
    if task_settings.history.keep:
        hooks.append(TaskNotes(keys=task_settings.history.keys))
    return TaskHooks([*hooks, activity])
