"""``connector new sink``: writes a package with a sink that works, with its test."""

from __future__ import annotations

import importlib.util
import keyword
import os
import shlex
from pathlib import Path
from typing import Any, Final

from connector.authoring.verbs.plug_in_files import Words, python_command, test_steps, write_plug_in
from connector.cli.common import BadArgument, answer, answer_json
from connector.config.sinks import SINKS
from connector.declare.reading import field_names
from connector.sinks.subscription_model import ExternalEntry, PreparedEntry, TransactionalEntry

_PROJECT: Final = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{project}"
version = "0.1.0"
dependencies = ["event-connector"]

[project.entry-points."connector.sinks"]
{key} = "{package}.entry:{class_name}Entry"

[tool.setuptools]
packages = ["{package}"]
"""

_PACKAGE: Final = '''\
"""The sink `{key}`."""
'''

_SINK: Final = '''\
"""The sink `{key}`: appends a line of JSON to a file for each object. Runs in the workers."""

import json
import os
from dataclasses import dataclass

from connector.errors import ConnectorError, TemporaryFailure
from connector.sinks.contract import ExternalSink


@dataclass(frozen=True)
class {class_name}Spec:
    """Travels to the workers, and opens the sink there."""

    path: str

    def open(self, context):
        return {class_name}Sink(os.path.join(context.deployment, self.path))


class {class_name}Sink(ExternalSink):
    """Appends to one file. Several workers may do so at the same time."""

    def __init__(self, path):
        self._path = path
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o660)
        except OSError as error:
            raise ConnectorError(f"{{path}} cannot be opened: {{error.strerror}}") from error

    def deliver(self, bo, event):
        said = {{"event": event.id, "object": bo.type, "verb": bo.verb, "values": bo.as_dict()}}
        line = json.dumps(said, default=str).encode() + b"\\n"
        try:
            os.write(self._file, line)  # one call, so that the lines of two workers do not mix
            os.fsync(self._file)  # the line must be safe when this returns
        except OSError as error:
            raise TemporaryFailure(f"{{self._path}} cannot be written: {{error.strerror}}") from error

    def close(self):
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
'''

_ENTRY: Final = '''\
"""The entry of a subscription with the key `{key}`. Runs in the adapter and in `connector check`."""

from pydantic import Field

from connector.declare.value_types import Text
from connector.sinks.subscription_model import ExternalEntry
from {package}.sink import {class_name}Spec


class {class_name}Entry(ExternalEntry):
    """A file of JSON lines: one line for each object."""

    {key}: Text = Field(description="The file; a relative path counts from the directory of `adapter.yaml`.")

    def sink(self):
        return {class_name}Spec(self.{key})

    def target(self):
        return self.{key}

    def check(self, check):
        super().check(check)
        directory = (check.directory / self.{key}).parent
        if check.runs_here and not directory.is_dir():
            check.add("{key}", f"there is no directory {{directory}}", "a file in a directory that is there")
'''

_TEST: Final = '''\
"""The sink `{key}` passes the suite of sinks. The package must be installed."""

import json

from connector.testing.sinks import ExternalSinkSuite


class Test{class_name}(ExternalSinkSuite):
    key = "{key}"
    entry = "{{{key}: ./objects.jsonl}}"

    def arrived(self, deployment):
        lines = (deployment.directory / "objects.jsonl").read_text().splitlines()
        return [json.loads(line)["values"]["Text"] for line in lines]
'''


def new_sink(name: str, config: str, into: Path | None, *, force: bool, as_json: bool) -> None:
    """Writes the package of a sink. Prints the next steps.

    Args:
        config: path of ``adapter.yaml``. Need not exist.
        into: the directory that gets the directory of the package. None = that of ``config``.

    Raises:
        BadArgument: the name cannot be used, or a file exists, or cannot be written.
    """
    words = Words(name)
    key = _key(words, force)
    package = f"{key}_sink"
    project = package.replace("_", "-")
    facts = {"key": key, "package": package, "project": project, "class_name": words.class_name}
    texts = {
        "pyproject.toml": _PROJECT,
        f"{package}/__init__.py": _PACKAGE,
        f"{package}/entry.py": _ENTRY,
        f"{package}/sink.py": _SINK,
        f"test_{package}.py": _TEST,
    }
    directory = (into or Path(config).parent) / project
    files = write_plug_in(
        directory, {path: text.format(**facts) for path, text in texts.items()}, force=force
    )
    if as_json:
        answer_json({"files": [str(file) for file in files], "key": key})
        return
    answer(f"wrote {directory}: {', '.join(os.path.relpath(file, directory) for file in files)}")
    answer("Next:")
    # pip gets setuptools by itself only where it may ask a registry
    at_hand = "--no-build-isolation " if importlib.util.find_spec("setuptools") else ""
    place = shlex.quote(os.path.join(".", directory))
    answer(f"  {python_command()} -m pip install {at_hand}-e {place}")
    for step in test_steps(files[-1]):
        answer(f"  {step}")
    answer(f"  use it, in subscriptions: of adapter.yaml: - {{object: Order, {key}: ./objects.jsonl}}")
    answer("  connector check")


def _key(words: Words, force: bool) -> str:
    """Returns the key of the sink.

    Raises:
        BadArgument: the key means something already.
    """
    key = words.module
    if keyword.iskeyword(key):
        raise BadArgument(f"{key!r} is a word of Python, so no key of a subscription; choose another name")
    others = {name: entry for name, entry in SINKS.usable() if name != key}
    if key in SINKS.names and not (force and SINKS.find(key).module == f"{key}_sink.entry"):
        raise BadArgument(f"there is a sink {key!r} already; choose another name")
    kinds: list[Any] = [ExternalEntry, PreparedEntry, TransactionalEntry, *others.values()]
    bases = {base.__name__ for kind in kinds for base in kind.__mro__}
    if (
        any(key in field_names(kind, ()) for kind in kinds)
        or hasattr(ExternalEntry, key)
        or f"{words.class_name}Entry" in bases
    ):
        raise BadArgument(f"{key!r} has a meaning in subscriptions already; choose another name")
    return key
