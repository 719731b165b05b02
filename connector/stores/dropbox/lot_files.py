"""Names of lots: a directory ``dropboxmq/lots/<name>`` each.

``lot.json`` has the last lot of the name. ``owners/`` has the locked file of the client that owns the name.
The messages of the lot are claimed files. Their owner is the lot.
"""

from __future__ import annotations

import json
import os
from typing import Final

from connector.errors import ProviderError, remedy
from connector.stores.dropbox import files
from connector.stores.dropbox.layout import RootLayout
from connector.stores.engine.client import LOT
from connector.stores.engine.registry import Record

OWNERS: Final = "owners"
_LOT: Final = "lot.json"
_KEY: Final = "name"


def read_lots(layout: RootLayout) -> list[Record]:
    """Returns the last lot of each name.

    Raises:
        ProviderError: a file cannot be read, or is no lot. Its messages stay claimed.
    """
    found = []
    for folder in files.names_in(layout.lots):
        path = os.path.join(layout.lots, folder, _LOT)
        try:
            with open(path, "rb") as file:
                data = json.loads(file.read())
            found.append(Record(LOT, "", data.pop(_KEY), data, durable=True))
        except (FileNotFoundError, NotADirectoryError):
            continue  # the name has an owner, and no lot yet
        except OSError as error:
            raise files.unreadable(path, error) from error
        except (ValueError, KeyError, AttributeError) as error:
            raise ProviderError(
                f"{path} is no lot ({error}): remove it, and its messages come again"
            ) from error
    return found


def write_lot(folder: str, record: Record, *, sync: bool) -> None:
    """Writes the last lot of a name, under the lock of the registry.

    Args:
        folder: of the name.
        record: of the lot.
        sync: whether the lot is synced.

    Raises:
        ProviderError: the lot cannot be written.
    """
    hidden = os.path.join(folder, f".{_LOT}")
    try:
        os.makedirs(folder, exist_ok=True)
        files.write_new(
            hidden, json.dumps({_KEY: record.key, **record.data}).encode(), sync=sync, replace=True
        )
        os.rename(hidden, os.path.join(folder, _LOT))
        if sync:
            for path in (folder, os.path.dirname(folder), os.path.dirname(os.path.dirname(folder))):
                files.sync_directory(path)
    except OSError as error:
        raise ProviderError(f"cannot write {hidden}: {error.strerror}{remedy(error)}") from error
