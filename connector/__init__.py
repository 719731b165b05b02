"""An event-polling integration adapter: messages in, business objects to business processes."""

from connector.errors import MalformedData, NotActive, TemporaryFailure, Unsubscribed

__version__ = "0.1.0"

__all__ = ["MalformedData", "NotActive", "TemporaryFailure", "Unsubscribed", "__version__"]
