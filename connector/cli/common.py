"""What the verbs share: options and the way of answering."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

ConfigOption = Annotated[
    str,
    typer.Option(
        "-c", "--config", envvar="CONNECTOR_CONFIG", metavar="FILE", help="The configuration, adapter.yaml."
    ),
]
"""``-c FILE``; give it the default :data:`DEFAULT_CONFIG`."""

JsonOption = Annotated[bool, typer.Option("--json", help="Answers in JSON.")]

DEFAULT_CONFIG = "adapter.yaml"


class BadArgument(typer.TyperException):
    """An argument cannot be used; says which and what is expected."""

    exit_code = 2


def printable(text: str) -> str:
    """``text`` with what a terminal would act upon escaped: what messages say comes from strangers."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def answer(text: str) -> None:
    """Writes a line of the answer to stdout; what the terminal cannot show is escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def answer_json(value: Any) -> None:
    """Writes a JSON document, on one line, to stdout."""
    import json

    answer(json.dumps(value, ensure_ascii=False))


def note(text: str) -> None:
    """Writes a line that is no part of the answer, to stderr, behind what was answered before it."""
    sys.stdout.flush()
    encoding = sys.stderr.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)
