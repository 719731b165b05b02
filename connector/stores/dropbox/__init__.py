"""The ``dropbox`` provider: queues are directories, claims are renames (DropboxMQ)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from connector.stores.dropbox.provider import DropboxProvider


def open_provider(location: str, *, durability: str = "batch", **options: Any) -> DropboxProvider:
    """Returns the provider of the URL ``dropbox:<location>``.

    Args:
        location: the root directory. ``?create=true`` may follow, which is the option ``create``.
        durability: ``batch`` or ``none``.
        options: the others of :class:`~connector.stores.dropbox.provider.DropboxProvider`.

    Raises:
        TypeError, ValueError: there is no such option, or it has no such value.
    """
    from connector.stores.dropbox.provider import DropboxProvider

    if not location:
        raise ValueError("'dropbox:' needs a directory: dropbox:/var/mq, dropbox:./data")
    location, mark, query = location.partition("?")
    if mark:
        if query not in ("create=true", "create=false"):
            raise ValueError(f"'?{query}' in the URL of a dropbox: expected ?create=true")
        options = {"create": query == "create=true", **options}
    if durability not in ("batch", "none"):
        raise ValueError(f"{durability!r} is no durability; there are 'batch' and 'none'")
    return DropboxProvider(location, durable=durability == "batch", **options)
