"""Names of lots: a directory ``dropboxmq/lots/<name>`` each.

``lot.json`` has the last lot of the name. ``owners/`` has the locked file of the client that owns the name.
The messages of the lot are claimed files. Their owner is the lot.
"""

from __future__ import annotations

import json
import logging
import os
from typing import Final

from connector import own_files
from connector.errors import ProviderError, remedy
from connector.stores.dropbox import files
from connector.stores.dropbox.layout import RootLayout
from connector.stores.engine.client import LOT
from connector.stores.engine.registry import Record

_log: Final = logging.getLogger("connector.dropbox")

OWNERS: Final = "owners"
_LOT: Final = "lot.json"
_KEYS: Final = ("number", "sequence_id", "destination", "messages")


def read_lots(layout: RootLayout) -> list[Record]:
    """Returns the last lot of each name. A file that is no lot counts as gone: its messages come again.

    Raises:
        ProviderError: a file cannot be read.
    """
    found = []
    for folder in files.names_in(layout.lots):
        path = os.path.join(layout.lots, folder, _LOT)
        try:
            with open(path, "rb") as file:
                data = json.loads(file.read())
            known = {key: data[key] for key in _KEYS}
            known["client_id"] = str(data.get("client_id", ""))  # an earlier version writes none
            found.append(Record(LOT, "", data["name"], known, durable=True))
        except (FileNotFoundError, NotADirectoryError):
            continue  # the name has an owner, and no lot yet
        except OSError as error:
            raise files.unreadable(path, error) from error
        except (ValueError, LookupError, TypeError) as error:
            _log.warning(
                "the file of a lot cannot be read, so its messages come again",
                extra={"file": ascii(path), "reason": str(error)},
            )
    return found


def write_lot(folder: str, record: Record, *, sync: bool) -> None:
    """Writes the last lot of a name, under the lock of the registry.

    Raises:
        ProviderError: the lot cannot be written.
    """
    path, hidden = os.path.join(folder, _LOT), os.path.join(folder, f".{_LOT}")
    try:
        own_files.make_directories(folder)
        is_new = not os.path.exists(path)
        files.write_new(
            hidden, json.dumps({"name": record.key, **record.data}).encode(), sync=sync, replace=True
        )
        os.rename(hidden, path)
        if sync:
            files.sync_directory(folder)
        if sync and is_new:
            files.sync_directory(os.path.dirname(folder))
            files.sync_directory(os.path.dirname(os.path.dirname(folder)))
    except OSError as error:
        raise ProviderError(f"cannot write {hidden}: {error.strerror}{remedy(error)}") from error
