"""Rows of messages for the source ``events``: of a business object, or of the messages themselves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from pyspark.sql.types import BinaryType, MapType, StringType, StructField, StructType

from connector.businessobjects.types import text_of
from connector.config.loading import Configuration
from connector.errors import MalformedData, UnknownBusinessObject
from connector.events.outcome import Outcome, shorten
from connector.events.run.convert import Converter
from connector.events.run.task import kind_of_mistake
from connector.events.run.task_settings import TaskSettings
from connector.lake.tables import SparkTable
from connector.limits import stages
from connector.messaging.access import AccessSpec
from connector.messaging.message import Message
from connector.messaging.provider import Provider
from connector.operate.reasons import ReasonKind
from connector.service.assembly import make_task_settings
from connector.status import OutcomeKind
from connector.tracebacks import error_text, message_of

_TEXTS: Final = MapType(StringType(), StringType())
_RAW: Final = StructType(
    [
        StructField("id", StringType()),
        StructField("destination", StringType()),
        StructField("headers", _TEXTS),
        StructField("properties", _TEXTS),
        StructField("body", BinaryType()),
    ]
)

Rows = list[tuple[Any, ...]]


def columns_of(configuration: Configuration, object_name: str) -> StructType:
    """Returns the columns of a business object. Without a name, those of a message.

    Raises:
        UnknownBusinessObject: there is no such object.
        CapabilityError: columns cannot hold the object.
    """
    if not object_name:
        return _RAW
    return SparkTable(configuration.metaobjects.definitions, object_name).schema


class SourceRows:
    """Makes the rows of messages. Picklable.

    Args:
        deployment: the directory of adapter.yaml.
        object_name: the business object. Empty = raw messages.
    """

    def __init__(self, settings: TaskSettings, deployment: str, object_name: str) -> None:
        self.settings = settings
        self._deployment = deployment
        self._object = object_name
        self._conversion: tuple[Converter, SparkTable] | None = None

    def __getstate__(self) -> tuple[TaskSettings, str, str]:
        return self.settings, self._deployment, self._object

    def __setstate__(self, state: tuple[TaskSettings, str, str]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # the conversion is made anew

    @classmethod
    def make(
        cls, configuration: Configuration, provider: Provider, access: AccessSpec, object_name: str
    ) -> SourceRows:
        """Makes the rows of a deployment.

        Raises:
            ConfigurationError: a data handler is missing or its options are wrong.
        """
        settings = make_task_settings(configuration, provider, access)
        return cls(settings, str(configuration.directory), object_name)

    def rows(self, message: Message, destination: str) -> Rows | Outcome:
        """Returns the rows of a message. If the message is not wanted, returns its outcome.

        Args:
            destination: the input destination of the message.
        """
        if not self._object:
            return [_raw(message, destination)]
        if self._conversion is None:
            settings = self.settings
            self._conversion = (
                Converter(settings, self._deployment),
                SparkTable(settings.definitions, self._object),
            )
        converter, table = self._conversion
        try:
            with _limit(self.settings.connector.convert_timeout):
                objects = converter.convert(message, destination)
                wanted = [table.row(bo) for bo in objects if bo.type == self._object]
        except _TookTooLong as error:
            return _not_read(OutcomeKind.FAILED, str(error), ReasonKind.TIMEOUT)
        except MalformedData as error:
            return refused(error)
        except Exception as error:  # code of the deployment fails this message only
            if stages.is_interrupt(error):
                raise
            reason = f"the conversion raised {error_text(error)}"
            return _not_read(OutcomeKind.FAILED, reason, ReasonKind.HANDLER_FAILED)
        if wanted:
            return wanted
        found = objects[0].type
        reason = f"the message is {found}, and the source wants {self._object}"
        outcome = _not_read(OutcomeKind.UNSUBSCRIBED, reason, ReasonKind.UNSUBSCRIBED)
        return outcome._replace(object=found, verb=objects[0].verb)


def refused(error: MalformedData) -> Outcome:
    """Returns the outcome of a message that is no object."""
    is_unknown = isinstance(error, UnknownBusinessObject)
    kind = OutcomeKind.UNSUBSCRIBED if is_unknown else OutcomeKind.FAILED
    return _not_read(kind, message_of(error), kind_of_mistake(error))


def _not_read(kind: OutcomeKind, reason: str, reason_kind: ReasonKind) -> Outcome:
    return Outcome(kind, reason=shorten(reason), attempts=1, reason_kind=reason_kind)


def _raw(message: Message, destination: str) -> tuple[Any, ...]:
    headers = {name: str(value) for name, value in message.headers().items() if value}
    properties = {name: text_of(value) for name, value in message.properties.items()}
    return message.message_id, destination, headers, properties, bytes(message.body)


class _TookTooLong(BaseException):
    pass


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Ends a conversion that takes too long. Works in the main thread only, where Spark runs tasks."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise _TookTooLong(f"the conversion took more than {seconds:g} s (convert_timeout)")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
