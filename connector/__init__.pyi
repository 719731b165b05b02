"""The types of the public names, also of those that :mod:`connector` loads on first use."""

from connector.errors import Failed as Failed
from connector.errors import MalformedData as MalformedData
from connector.errors import NotActive as NotActive
from connector.errors import TemporaryFailure as TemporaryFailure
from connector.errors import UnknownBusinessObject as UnknownBusinessObject
from connector.errors import Unsubscribed as Unsubscribed
from connector.lake.source.data_source import EventsDataSource as EventsDataSource
from connector.service.adapter import Adapter as Adapter
from connector.sinks.replying import Reply as Reply

__all__: list[str]
__version__: str
