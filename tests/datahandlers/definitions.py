"""Definitions and handlers of the tests of data handlers, and their shipped suite, each in a few words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest

from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.instance import BusinessObject
from connector.datahandlers import json_handler
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import DataHandler, resolve_options
from connector.testing.datahandlers import DataHandlerSuite, Sample, sample_definitions

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


RENAMED = known(
    define(  # members that are not called as their attributes in JSON
        "Order",
        "cw_mo_conn=Meta",
        Id="String name=order-id;elem_name=x;attr_name=y",
        Date="Date type=attribute; attr_name = order date",
        First="String name=Second",  # the names change places
        Second="String name=First",
        Kind="String name=Verb;",
        Total="Double elem_name=Betrag €",
        Line="Line* name=lines",
        Home="Place",
        Plain="Plain",
        Meta="Plain name=meta",
    ),
    define("Line", Article="String", Place="Place name=at"),
    define("Place", City="String name=town", Within="Place"),
    define("Plain", Text="String", Note="String name=;x=y"),
)
RENAMED_VALUES: dict[str, Any] = {
    "Id": "1",
    "Date": "2024-05-31",
    "First": "a",
    "Second": "b",
    "Kind": "c",
    "Total": 1.5,
    "Line": [{"Article": "x", "Place": {"City": "Oslo", "Within": {"City": "Norway"}}}, {}],
    "Home": {"Within": {"City": "Rome"}},
    "Plain": {"Text": "d", "Note": "e"},
}
RENAMED_BODY: dict[str, Any] = {
    "order-id": "1",
    "order date": "2024-05-31",
    "Second": "a",
    "First": "b",
    "Verb": "c",
    "Betrag €": 1.5,
    "lines": [{"Article": "x", "at": {"town": "Oslo", "Within": {"town": "Norway"}}}, {}],
    "Home": {"Within": {"town": "Rome"}},
    "Plain": {"Text": "d", "Note": "e"},
}


def make(
    kind: type[Handler], definitions: Definitions = SAMPLES, base: Path = Path(), **options: Any
) -> Handler:
    """Returns a handler with these options, as a configuration gives them, and the defaults of the others."""
    declared: Any = kind
    handler: Handler = kind(resolve_options(declared.options, options, "test", base), definitions)
    return handler


def _with_widths() -> Definitions:
    """The sample definitions with a width for every text."""
    definitions = {}
    for name, definition in SAMPLES.items():
        attributes = {
            attribute.name: replace(attribute, max_length=attribute.max_length or 30)
            if attribute.type in ("String", "LongText")
            else attribute
            for attribute in definition.attributes.values()
        }
        definitions[name] = replace(definition, attributes=attributes)
    return Definitions(definitions)


WIDE = _with_widths()


def refusal(work: Callable[..., object], *arguments: Any, **options: Any) -> str:
    """Returns why what a call is given is malformed. It is not unknown."""
    with pytest.raises(MalformedData) as refused:
        work(*arguments, **options)
    assert not isinstance(refused.value, UnknownBusinessObject)
    return str(refused.value)


def kind_of(name: str) -> type[Any]:
    """Returns a shipped data handler, ``kind_of("Json")``."""
    module = import_module(f"connector.datahandlers.{name.lower()}_handler")
    found: type[Any] = getattr(module, f"{name}Handler")
    return found


@contextmanager
def without_decoder() -> Iterator[None]:
    """Lets handlers of JSON that are made inside parse each body and set its values one by one."""

    class RefusingDecoder:
        """A decoder that leaves every body to its caller."""

        def __init__(self, *_: object, **__: object) -> None: ...

        def decode(self, *_: object) -> None: ...

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_handler, "JsonDecoder", RefusingDecoder)
        yield


class Suite(DataHandlerSuite):
    """The shipped suite with attributes in place of its fixtures."""

    HANDLERS: ClassVar[Sequence[DataHandler]] = ()
    DEFINITIONS: ClassVar[Definitions] = SAMPLES
    OBJECTS: ClassVar[Sequence[tuple[str, str, dict[str, Any]]]] = ()
    """Type, verb and values of each object."""
    BODIES: ClassVar[Sequence[Sample]] = ()
    MALFORMED: ClassVar[Sequence[bytes]] = ()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if self.HANDLERS and "handler" in metafunc.fixturenames:
            metafunc.parametrize("handler", self.HANDLERS)

    @pytest.fixture
    def objects(self) -> Sequence[BusinessObject]:
        return [BusinessObject(self.DEFINITIONS, *one) for one in self.OBJECTS]

    @pytest.fixture
    def samples(self) -> Sequence[Sample]:
        return self.BODIES

    @pytest.fixture
    def malformed(self) -> Sequence[bytes]:
        return self.MALFORMED
