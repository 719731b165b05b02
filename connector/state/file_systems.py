"""Recognizes places where files cannot be, and what file systems do: who may change them, in which order."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

from connector.regular_file import read_regular

_STATFS_BYTES: Final = 512

_SHARED: Final = frozenset(
    {
        0x6969,  # NFS
        0x517B,  # SMB
        0xFF534D42,  # CIFS
        0xFE534D42,  # SMB 2
        0x65735546,  # FUSE: sshfs, GlusterFS, virtiofs ...
        0x00C36400,  # Ceph
        0x01021997,  # 9P
        0x5346414F,  # OpenAFS
        0x6B414653,  # AFS of the kernel
        0x73757245,  # Coda
        0x7461636F,  # OCFS2
        0x01161970,  # GFS2
        0x0BD00BD0,  # Lustre
        0x47504653,  # GPFS
        0x19830326,  # BeeGFS
        0x20030528,  # OrangeFS
        0xAAD7AAEA,  # PanFS
        0x786F4256,  # folders of a VirtualBox host
        0xBACBACBC,  # folders of a VMware host
    }
)
"""Types of file systems (statfs(2)) that other machines may change."""

_IN_ORDER: Final = frozenset(
    {
        0xEF53,  # ext3, ext4
        0x58465342,  # XFS
        0x01021994,  # tmpfs, which survives no loss of power anyway
    }
)
"""Types of file systems with one journal for all names."""

_SQLITE: Final = b"SQLite format 3\0"
"""The first bytes of each database of SQLite."""

_MOST_BYTES: Final = 255
"""The most bytes that the file systems of Linux keep of one name."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def _bytes(name: str) -> int:
    return len(os.fsencode(name))


def obstacle(directory: Path) -> str | None:
    """Returns why a directory cannot be there or be made, such as a file in the way. None = nothing is."""
    if (longest := max(directory.parts, key=_bytes)) and _bytes(longest) > _MOST_BYTES:
        return f"the name {longest[:40]}... has {_bytes(longest)} bytes, and a name has at most {_MOST_BYTES}"
    for place in (directory, *directory.parents):
        try:
            os.lstat(place)
        except ValueError as error:  # a null character
            return f"{str(place)!r}: {error}"
        except OSError:
            continue
        return None if place.is_dir() else f"{place} is not a directory"
    return None


def file_obstacle(file: Path) -> str | None:
    """Returns why a database of SQLite cannot be there or be made. None = nothing is in the way."""
    reason = obstacle(file.parent)
    if reason is not None:
        return reason
    try:
        begin = read_regular(file, len(_SQLITE))
    except FileNotFoundError:
        return None
    except ValueError as error:  # a null character
        return f"{str(file)!r}: {error}"
    except OSError as error:
        return f"{file}: {error.strerror}"
    return None if begin in (b"", _SQLITE) else f"{file} is no database of SQLite"


def is_shared(path: str) -> bool:
    """Tells whether a directory lies on a file system that other machines may change.

    Raises:
        OSError: the directory does not exist.
    """
    return _type_of(path) in _SHARED


def keeps_order(path: str) -> bool:
    """Tells whether a directory lies on a file system that makes names durable in the order of the changes.

    Such a file system has no later change of a name on the disk without all earlier changes. A sync of a file
    or a directory takes the earlier changes of all directories with it.

    Raises:
        OSError: the directory does not exist.
    """
    return _type_of(path) in _IN_ORDER


def _type_of(path: str) -> int:
    status = ctypes.create_string_buffer(_STATFS_BYTES)  # the first field is the type
    if _libc.statfs(os.fsencode(path), status) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return ctypes.c_long.from_buffer(status).value & 0xFFFF_FFFF
