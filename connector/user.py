"""The user of this process. In a container the user may be a number without an account in ``/etc/passwd``."""

from __future__ import annotations

import os
import pwd
import socket
import tempfile
from pathlib import Path


def has_account() -> bool:
    """Whether the system knows a name and a home of this user."""
    try:
        return bool(pwd.getpwuid(os.geteuid()).pw_name)
    except KeyError:
        return False


def cache_directory() -> Path:
    """Returns the directory for files that can be made again: ``$XDG_CACHE_HOME``, else ``~/.cache``.

    A user without a home has a directory among the temporary files.
    """
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given)
    home = os.path.expanduser("~")
    if os.path.isabs(home):
        return Path(home) / ".cache"
    return Path(tempfile.gettempdir()) / f"connector-cache-{os.geteuid()}"


def name_without_account() -> str:
    """Returns a name for a user without an account: that of the environment, else the number."""
    for variable in ("SPARK_USER", "HADOOP_USER_NAME", "USER"):
        if given := os.environ.get(variable):
            return given
    return str(os.geteuid())


def operator_name() -> str:
    """Returns who has started this process, for what is told to an application: ``NAME@HOST``."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = name_without_account()
    return f"{name}@{socket.gethostname()}"


def java_options(home: str) -> list[str]:
    """Returns options for Java that stand in for a missing account. Java itself would say ``?``.

    Args:
        home: a directory that this user may write, if ``HOME`` names none.
    """
    if has_account():
        return []
    given = os.environ.get("HOME", "")
    if not os.path.isabs(given) or not os.access(given, os.W_OK | os.X_OK):
        given = home
    return [f"-Duser.home={given}", f"-Duser.name={name_without_account()}"]
