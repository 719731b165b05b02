"""Makes the messages of timers, by the rules and the data handlers of the deployment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from connector.config.loading import Configuration
from connector.config.timer_model import TimerEntry
from connector.errors import ConfigurationError, ConnectorError, Problem
from connector.events.run.convert import Converter
from connector.events.run.publish import message_writer
from connector.formats.handlers import normal_mime_type
from connector.messaging.message import CONTENT_TYPE
from connector.messaging.provider import Provider
from connector.service.assembly import make_task_settings
from connector.service.timer_times import DueTimes
from connector.sinks.sending import OutboxWriter, SentMessage, Wanted

TIMER: Final = "connector_timer"
"""The property with the name of the timer."""
DUE: Final = "connector_timer_due"
"""The property with the due time, in milliseconds since 1970."""
_NO_ACCESS: Any = None  # a timer reads no stored message


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer that can send.

    Args:
        due: its times.
    """

    entry: TimerEntry
    due: DueTimes
    writer: OutboxWriter

    def message(self, due: int) -> SentMessage:
        """Returns the message for a due time.

        Raises:
            MalformedData: the object cannot be written.
            ValueError: a header or property is not valid.
        """
        entry = self.entry
        if entry.object is not None:
            wanted = Wanted(entry.to, entry.verb, entry.mime_type)
            made = self.writer.write(entry.object, entry.data or {}, wanted)
        else:
            made = self.writer.write((entry.body or "").encode(), None, Wanted(entry.to))
            made.message.message_class = "T"
            if entry.mime_type is not None:
                made.message.set_property(CONTENT_TYPE, normal_mime_type(entry.mime_type))
        made.message.set_property(TIMER, entry.name)
        made.message.set_property(DUE, due, "long")
        return made


def make_timers(configuration: Configuration, provider: Provider) -> Sequence[Timer]:
    """Returns the timers of a deployment. Each has made a message, so that a mistake shows before its time.

    Raises:
        ConfigurationError: a message cannot be made.
    """
    if not configuration.timers:
        return ()
    settings = make_task_settings(configuration, provider, _NO_ACCESS)
    writer = message_writer(settings, Converter(settings, str(configuration.directory)))
    timers = [Timer(entry, DueTimes.of(entry), writer) for entry in configuration.timers]
    problems: list[Problem] = []
    for number, timer in enumerate(timers):
        try:
            timer.message(0)
        except ConfigurationError as error:
            problems += error.problems
        except (ConnectorError, ValueError) as error:
            problems.append(Problem(str(configuration.file), 0, 0, f"timers[{number}]", str(error), ""))
    if problems:
        raise ConfigurationError(problems)
    return timers
