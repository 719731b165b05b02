"""The messages of Java exceptions, without the stack traces of two languages."""

from __future__ import annotations

import re

_LOST_TASK = re.compile(r"Lost task (\d+)\.\d+ in stage \S+ \(TID \d+\) \(([^)]*)\): (.*)", re.DOTALL)
_JAVA_CLASS = re.compile(r"^(?:\w+\.)+[\w$]*(?:Exception|Error): ")
_ADVICE = re.compile(r"\s*(?:Consider setting '|SQLSTATE: \w+\s*$).*", re.DOTALL)
_TRACEBACK = "Traceback (most recent call last):"
_LOST_WORKER = re.compile(r"Python worker (exited|failed)|EOFException|Connection reset|Broken pipe")
_CANCELLED = re.compile(r"^\[SPARK_JOB_CANCELLED\].*", re.DOTALL)


def _java_text(error: Exception) -> str | None:
    """Returns the text of a Java exception, or None if Java did not answer.

    As soon as the process has a SparkSession, PySpark converts exceptions of Python workers.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    try:
        if isinstance(error, CapturedException):
            return str(error)
        return str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else None
    except Exception:  # the JVM is gone
        return None


def java_reason(error: Exception) -> str | None:
    """Returns the message of a Java exception in a line or two, or None if Java did not answer."""
    text = _java_text(error)
    if text is None:
        return None
    place = ""
    if lost := _LOST_TASK.search(text):
        host, _, executor = lost.group(2).partition(" executor ")
        place = (
            f"task {lost.group(1)}"
            + ("" if executor == "driver" else f" on executor {executor} ({host})")
            + ": "
        )
        text = lost.group(3)
    text = text.split("\n\nDriver stacktrace:")[0]
    if _TRACEBACK in text:
        # The first line that is not indented begins the exception's own text.
        text = re.split(r"\n\s*\n?\tat ", text.split(_TRACEBACK)[-1])[0]
        own = re.search(r"^\S.*", text, re.MULTILINE | re.DOTALL)
        text = own.group() if own else text
        place = place or "a task failed: "
    else:
        text = _JAVA_CLASS.sub("", text.split("\n\tat ")[0].strip())
    return place + _CANCELLED.sub("cancelled", _ADVICE.sub("", text.strip()))


def is_lost_worker(error: Exception) -> bool:
    """Whether a job has failed because a Python worker has ended, and not because its code raised."""
    from py4j.protocol import Py4JJavaError

    text = _java_text(error)
    if text is None:
        return isinstance(error, Py4JJavaError)  # the JVM is gone
    return _TRACEBACK not in text and _LOST_WORKER.search(text) is not None
