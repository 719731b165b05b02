"""Definitions and handlers of the tests of data handlers, each in a few words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.datahandlers import json_handler
from connector.formats.datahandler import DataHandler, resolve_options
from connector.testing.datahandlers import sample_definitions

VERBS = {name: Verb(name) for name in ("Create", "Update")}
SAMPLES = sample_definitions()
Handler = TypeVar("Handler", bound=DataHandler)


def define(name: str, info: str = "", /, **attributes: str | Attribute) -> Definition:
    """Returns a definition with the verbs Create and Update.

    An attribute is its type, a star for a list, its width and its tags: ``Tag="String* 8 elem_name=tag"``.
    """
    found = {}
    for attribute, text in attributes.items():
        if isinstance(text, str):
            type_name, *words = text.split(" ", 1)
            width, _, tags = words[0].partition(" ") if words else ("", "", "")
            if not width.isdecimal():
                width, tags = "0", words[0] if words else ""
            found[attribute] = Attribute(
                attribute,
                type_name.removesuffix("*"),
                cardinality="n" if type_name.endswith("*") else "1",
                max_length=int(width),
                app_specific_info=tags,
            )
        else:
            found[attribute] = text
    return Definition(name, "1.0.0", info, found, VERBS)


def known(*definitions: Definition) -> Definitions:
    return Definitions({one.name: one for one in definitions})


def make(
    kind: type[Handler], definitions: Definitions = SAMPLES, base: Path = Path(), **options: Any
) -> Handler:
    """Returns a handler with these options, as a configuration gives them, and the defaults of the others."""
    declared: Any = kind
    handler: Handler = kind(resolve_options(declared.options, options, "test", base), definitions)
    return handler


@contextmanager
def without_decoder() -> Iterator[None]:
    """Lets handlers of JSON that are made inside parse each body and set its values one by one."""

    class RefusingDecoder:
        """A decoder that leaves every body to its caller."""

        def __init__(self, *_: object) -> None: ...

        def decode(self, *_: object) -> None: ...

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_handler, "JsonDecoder", RefusingDecoder)
        yield
