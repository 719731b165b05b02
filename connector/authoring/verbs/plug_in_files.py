"""The common part of the verbs that write a plug-in to begin with: its names, its files, the next steps."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from connector import own_files
from connector.cli.common import BadArgument

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}")
_WORD: Final = re.compile(r"[A-Z]+[0-9]*(?![a-z])|[A-Z]?[a-z0-9]+|[0-9]+")


class Words:
    """A name of a plug-in, in the forms that Python needs.

    Raises:
        BadArgument: the name cannot be used.
    """

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise BadArgument(f"{name!r}: expected a name of letters, digits and _, such as stock_list")
        words = [word.lower() for word in _WORD.findall(name)]
        self.module = "_".join(words)
        self.class_name = "".join(word.capitalize() for word in words)


def write_plug_in(directory: Path, texts: Mapping[str, str], *, force: bool) -> list[Path]:
    """Writes the files of a plug-in. Returns their paths, in the order of ``texts``.

    Args:
        directory: made if missing.
        texts: by the path below the directory.

    Raises:
        BadArgument: a file exists, and ``force`` is false, or cannot be written.
    """
    if directory.is_file():
        raise BadArgument(f"{directory} is a file, so give a directory with --into")
    files = {directory / name: text for name, text in texts.items()}
    for path in files:
        if os.path.lexists(path) and not force:
            raise BadArgument(f"{path} exists already, so nothing was written; --force replaces it")
    try:
        for path, text in files.items():
            own_files.make_directories(path.parent)
            with open(path, "w", encoding="utf-8", opener=own_files.opener) as file:
                file.write(text)
    except OSError as error:
        raise BadArgument(f"cannot write {error.filename}: {error.strerror}") from None
    return list(files)


def python_command() -> str:
    """Returns how the user's shell starts the Python that runs this command."""
    found = shutil.which("python")
    if found is not None and _prefix_of(found) == sys.prefix:
        return "python"
    return shlex.quote(sys.executable)


def _prefix_of(python: str) -> str:
    """Returns the environment of a Python. Empty = it does not say."""
    try:
        said = subprocess.run(
            [python, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.rstrip("\n")


def test_steps(tests: Path) -> list[str]:
    """Returns the commands that run the tests of a plug-in.

    Args:
        tests: a test module, or a directory of tests.
    """
    needed = [] if importlib.util.find_spec("pytest") else [f"{python_command()} -m pip install pytest"]
    return [*needed, f"{python_command()} -m pytest {shlex.quote(str(tests))}"]
