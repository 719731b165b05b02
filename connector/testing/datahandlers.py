"""The suite that every data handler passes.

Subclass it in a test module. Define fixtures for the handler, for objects that its format can hold, and for
some bodies::

    class TestCsv(DataHandlerSuite):
        @pytest.fixture
        def handler(self):
            return CsvHandler({"delimiter": ","}, sample_definitions())

        @pytest.fixture
        def objects(self):
            return [BusinessObject(sample_definitions(), "Customer", "Create", {"CustomerId": "C1"})]

        @pytest.fixture
        def samples(self):
            return [Sample(b"CustomerId\\nC1\\n", Hint("Customer", "Create"), {"CustomerId": "C1"})]

        @pytest.fixture
        def malformed(self):
            return [b"Custom"]

A handler that only reads says ``writes = False`` and needs no objects. One that only writes says
``reads = False`` and needs no bodies. Then the suite has only the tests for what the handler does.
:func:`definitions_of` reads definitions of your own.

Every test checks one sentence of :class:`connector.formats.datahandler.DataHandler`. The suite needs
pytest and hypothesis: ``pip install 'event-connector[dev]'``.
"""

from __future__ import annotations

import inspect
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.dynamic import fill_dynamic
from connector.businessobjects.facets import Facets
from connector.businessobjects.instance import BusinessObject, check
from connector.businessobjects.types import TEXTS
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.catalogue import discover
from connector.formats.datahandler import DataHandler, Hint, Option, message_body
from connector.messaging.message import Message
from connector.testing.definitions import definitions_of

__all__ = ["DataHandlerSuite", "Sample", "definitions_of", "objects_of", "sample_definitions"]

_FUZZ = settings(max_examples=100, deadline=None, database=None)
_BIG = 1 << 20
_PIECES = (b"[", b"{", b'{"a":', b"<a>", b"<", b'"', b"\0", b"\xff", b"a,", b"&a;", b"9")
_SECONDS = 5.0
_Test = TypeVar("_Test", bound=Callable[..., None])


@dataclass(frozen=True)
class Sample:
    """A body and the expected meaning.

    Args:
        hint: object and verb of a rule. None = no rule.
        values: the expected result of ``as_dict()``.
        type, verb: the expected object and verb. None = the hint's.
    """

    body: bytes
    hint: Hint | None
    values: Mapping[str, Any]
    type: str | None = None
    verb: str | None = None


# long: one table of definitions
def sample_definitions() -> Definitions:
    """Returns definitions of objects for tests.

    ``Customer`` has every type, children of both cardinalities and a dynamic meta-object ``Meta``. ``Note``
    has a ``Text``. ``Article`` has exact numbers and lists of values. All have the verbs Create and Update.
    """
    verbs = {name: Verb(name) for name in ("Create", "Update")}

    def define(name: str, *attributes: Attribute, info: str = "") -> Definition:
        return Definition(name, "1.0.0", info, {a.name: a for a in attributes}, verbs)

    return Definitions(
        {
            definition.name: definition
            for definition in (
                define(
                    "Customer",
                    Attribute("CustomerId", "String", is_key=True, is_required=True, max_length=20),
                    Attribute("Name", "String"),
                    Attribute("Notes", "LongText"),
                    Attribute("Active", "Boolean"),
                    Attribute("Rating", "Integer"),
                    Attribute("Discount", "Float"),
                    Attribute("Limit", "Double", default=0.0),
                    Attribute("Since", "Date"),
                    Attribute("Home", "Address"),
                    Attribute("Address", "Address", cardinality="n"),
                    Attribute("Meta", "CustomerMeta"),
                    info="cw_mo_conn=Meta",
                ),
                define(
                    "Address",
                    Attribute("AddressID", "Integer"),
                    Attribute("City", "String", is_required=True),
                    Attribute("Before", "Address"),
                ),
                define(
                    "Note",
                    Attribute("Text", "LongText"),
                    Attribute("Meta", "CustomerMeta"),
                    info="cw_mo_conn=Meta",
                ),
                define(
                    "Article",
                    Attribute("ArticleId", "String", is_key=True, max_length=20),
                    Attribute("Tag", "String", cardinality="n", max_length=30),
                    Attribute("Size", "Integer", cardinality="n"),
                    Attribute("InStock", "Boolean", cardinality="n"),
                    Attribute("Weight", "Double", cardinality="n"),
                    Attribute("Sold", "Date", cardinality="n"),
                    Attribute("Price", "Decimal", max_length=30),
                    Attribute("Rebate", "Decimal", cardinality="n", max_length=30),
                    Attribute("Part", "Article", cardinality="n"),
                    Attribute("Name", "String", max_length=30),
                ),
                define(
                    "CustomerMeta",
                    Attribute("MessageID", "String"),
                    Attribute("CorrelationID", "String"),
                    Attribute("Priority", "Integer"),
                    Attribute("JMSProperties", "CustomerProperties"),
                ),
                define(
                    "CustomerProperties",
                    Attribute("Region", "String", app_specific_info="name=region;type=String"),
                ),
            )
        }
    )


def objects_of(definitions: Definitions, name: str, depth: int = 2) -> st.SearchStrategy[BusinessObject]:
    """Returns objects with any values, with ``depth`` levels of children, without meta-objects."""
    definition = definitions[name]
    optional = {
        attribute.name: _values_of(definitions, attribute, depth)
        for attribute in definition.attributes.values()
        if attribute.name not in definition.metaobject_attributes and (depth or not attribute.is_child)
    }
    values = st.fixed_dictionaries({}, optional=optional)
    verbs: list[str | None] = [*definition.verbs]
    verb = st.sampled_from(verbs or [None])
    return st.builds(lambda v, w: BusinessObject(definitions, name, v, w), verb, values)


def _values_of(definitions: Definitions, attribute: Attribute, depth: int) -> st.SearchStrategy[Any]:
    values: st.SearchStrategy[Any]
    if attribute.is_child:
        values = objects_of(definitions, attribute.type, depth - 1)
    else:
        values = _VALUES.get(attribute.type, st.text(max_size=attribute.max_length or 20))
    return st.lists(values, max_size=3) if attribute.is_many else values


_VALUES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "Boolean": st.booleans() | st.just(""),
    "Integer": st.integers(-(1 << 31), (1 << 31) - 1) | st.just(""),
    "Float": st.floats(width=32, allow_nan=False, allow_infinity=False) | st.just(""),
    "Double": st.floats(allow_nan=False, allow_infinity=False) | st.just(""),
    "Decimal": st.decimals(-(10**20), 10**20, places=5)
    | st.integers(-(10**25), 10**25).map(Decimal)
    | st.just(""),
    "Date": st.dates().map(str) | st.datetimes().map(lambda time: f"{time.isoformat()}Z") | st.just(""),
}


_ROUND_TRIPS: Final[set[object]] = set()
"""The tests that read what the handler has written."""


def _round_trip(test: _Test) -> _Test:
    _ROUND_TRIPS.add(test)
    return test


class DataHandlerSuite:
    """The tests of a data handler. Override the four fixtures as the module shows."""

    can_be_blank: ClassVar[bool] = True
    """False if the format cannot tell blank from not set."""

    reads: ClassVar[bool] = True
    """False if the handler only writes. Then it needs neither ``samples`` nor ``malformed``."""

    writes: ClassVar[bool] = True
    """False if the handler only reads. Then it needs no ``objects``."""

    is_exact: ClassVar[bool] = True
    """False if some values come back changed, such as texts without the spaces at their ends."""

    @pytest.fixture
    def handler(self) -> DataHandler:
        """The handler under test."""
        raise NotImplementedError("override the fixture 'handler'")

    @pytest.fixture
    def objects(self) -> Sequence[BusinessObject]:
        """At least one object that the format can hold completely."""
        raise NotImplementedError("override the fixture 'objects'")

    @pytest.fixture
    def samples(self) -> Sequence[Sample]:
        """At least one body with the expected meaning."""
        raise NotImplementedError("override the fixture 'samples'")

    @pytest.fixture
    def malformed(self) -> Sequence[bytes]:
        """At least one body that is wrong for the type of the first sample."""
        raise NotImplementedError("override the fixture 'malformed'")

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Takes away the tests that a handler cannot pass that only reads or only writes."""
        super().__init_subclass__(**arguments)
        given = {"objects": cls.writes, "samples": cls.reads, "malformed": cls.reads}
        for name, test in vars(DataHandlerSuite).items():
            if not name.startswith("test_") or getattr(cls, name) is not test:
                continue
            needed = [given[one] for one in inspect.signature(test).parameters if one in given]
            if not all(needed) or (test in _ROUND_TRIPS and not (cls.reads and cls.writes)):
                setattr(cls, name, None)  # pytest collects functions

    # --- the class ----------------------------------------------------------------------------

    def test_the_class_names_its_mime_types_in_lower_case_and_without_parameters(
        self, handler: DataHandler
    ) -> None:
        assert handler.mime_types
        for mime_type in handler.mime_types:
            assert "/" in mime_type
            assert ";" not in mime_type
            assert mime_type == mime_type.strip().lower()

    def test_every_option_has_a_line_of_documentation_and_a_default_that_it_accepts(
        self, handler: DataHandler
    ) -> None:
        names = [option.name for option in handler.options]
        assert len(set(names)) == len(names)
        for option in handler.options:
            assert isinstance(option, Option)
            assert option.doc
            assert "\n" not in option.doc
            assert option.read(option.default) == option.default

    def test_mime_types_and_options_are_found_without_running_the_module(self, handler: DataHandler) -> None:
        file = Path(inspect.getfile(type(handler)))
        found = [
            info for info in discover(file.parent, file).handlers if info.class_name == type(handler).__name__
        ]
        info = found[-1]
        assert set(info.mime_types) == set(handler.mime_types)
        assert info.options is not None
        assert [(o.name, o.type, o.default) for o in info.options] == [
            (o.name, o.type, o.default) for o in handler.options
        ]

    def test_what_a_handler_does_not_do_is_refused_with_a_reason(self, handler: DataHandler) -> None:
        definition = Definition("Thing", "1.0.0", "", {"Id": Attribute("Id", "String", is_key=True)})
        bo = BusinessObject(Definitions({"Thing": definition}), "Thing", None, {"Id": "1"})
        if not self.writes:
            with pytest.raises(MalformedData, match=r"."):
                handler.to_body(bo)
        if not self.reads:
            with pytest.raises(MalformedData, match=r"."):
                handler.to_business_object(b"1", None)

    # --- reading and writing ------------------------------------------------------------------

    def test_a_sample_reads_as_what_it_means(self, handler: DataHandler, samples: Sequence[Sample]) -> None:
        assert samples
        for sample in samples:
            bo = handler.to_business_object(sample.body, sample.hint)
            assert bo.as_dict() == sample.values
            assert bo.type == (sample.type or (sample.hint and sample.hint.object))
            assert bo.verb == (sample.verb or (sample.hint and sample.hint.verb))

    @_round_trip
    def test_what_was_written_reads_back_as_it_was(
        self, handler: DataHandler, objects: Sequence[BusinessObject]
    ) -> None:
        assert objects
        for bo in objects:
            again = handler.to_business_object(handler.to_body(bo), Hint(bo.type, bo.verb))
            assert again == bo

    def test_any_object_reads_back_or_cannot_be_written(
        self, handler: DataHandler, objects: Sequence[BusinessObject]
    ) -> None:
        definitions = objects[0].definitions
        types = sorted({bo.type for bo in objects})

        @_FUZZ
        @given(bo=st.one_of([objects_of(definitions, name) for name in types]))
        def write(bo: BusinessObject) -> None:
            try:
                body = handler.to_body(bo)
            except MalformedData:
                return
            assert isinstance(body, str | bytes)
            if not self.reads:
                return
            hint = Hint(bo.type, bo.verb)
            if self.is_exact:
                again = handler.to_business_object(body, hint)
                assert _comparable(again, self.can_be_blank) == _comparable(bo, self.can_be_blank)
            else:
                _read_or_refuse(handler, message_body(body)[1], hint)

        write()

    @_round_trip
    def test_text_reads_as_its_bytes_do(
        self, handler: DataHandler, objects: Sequence[BusinessObject]
    ) -> None:
        for bo in objects:
            kind, body = message_body(handler.to_body(bo))
            if kind == "T":
                hint = Hint(bo.type, bo.verb)
                assert handler.to_business_object(body.decode(), hint) == handler.to_business_object(
                    body, hint
                )

    def test_writing_changes_nothing_and_says_the_same_twice(
        self, handler: DataHandler, objects: Sequence[BusinessObject]
    ) -> None:
        for bo in objects:
            before = bo.as_dict()
            assert handler.to_body(bo) == handler.to_body(bo)
            assert bo.as_dict() == before

    @_round_trip
    def test_what_a_rule_dictates_wins_over_the_body(
        self, handler: DataHandler, objects: Sequence[BusinessObject]
    ) -> None:
        for bo in objects:
            for verb in bo.definition.verbs:
                again = handler.to_business_object(handler.to_body(bo), Hint(bo.type, verb))
                assert (again.type, again.verb) == (bo.type, verb)

    @_round_trip
    def test_without_a_rule_a_body_names_its_object_or_is_unknown(
        self, handler: DataHandler, objects: Sequence[BusinessObject]
    ) -> None:
        for bo in objects:
            body = handler.to_body(bo)
            try:
                again = handler.to_business_object(body, None)
            except UnknownBusinessObject:
                continue
            assert again == bo

    def test_an_object_that_is_not_defined_is_unknown(
        self, handler: DataHandler, samples: Sequence[Sample]
    ) -> None:
        with pytest.raises(UnknownBusinessObject):
            handler.to_business_object(samples[0].body, Hint("No_such_object", "Create"))

    @_round_trip
    def test_blank_stays_blank_and_unset_stays_unset(
        self, handler: DataHandler, objects: Sequence[BusinessObject]
    ) -> None:
        for bo in objects:
            unset = [
                name for name, a in bo.definition.attributes.items() if not a.is_child and name not in bo
            ]
            single = [name for name in bo if not bo.definition.attributes[name].is_many]
            texts = [name for name in single if bo.definition.attributes[name].type in TEXTS]
            if not self.can_be_blank or not texts:
                continue
            bo[texts[0]] = ""
            again = handler.to_business_object(handler.to_body(bo), Hint(bo.type, bo.verb))
            assert again[texts[0]] == ""
            assert [name for name in unset if name in again] == []

    def test_the_dynamic_meta_object_is_neither_written_nor_read(
        self, handler: DataHandler, objects: Sequence[BusinessObject]
    ) -> None:
        for bo in objects:
            holder = bo.definition.dynamic_metaobject
            if holder is None:
                continue
            plain = handler.to_body(bo)
            message = Message(message_id="ID:never-in-a-body", correlation_id="never-in-a-body")
            fill_dynamic(bo, message, message_format="never", input_destination="queue://never")
            assert bo[holder] is not None
            assert handler.to_body(bo) == plain
            if not self.reads:
                continue
            assert holder not in handler.to_business_object(plain, Hint(bo.type, bo.verb))

    # --- bodies from strangers ----------------------------------------------------------------

    def test_a_malformed_body_is_refused_with_a_reason(
        self, handler: DataHandler, samples: Sequence[Sample], malformed: Sequence[bytes]
    ) -> None:
        assert malformed
        for body in malformed:
            with pytest.raises(MalformedData) as refused:
                handler.to_business_object(body, samples[0].hint)
            assert str(refused.value)
            assert len(str(refused.value)) < 1000

    def test_any_bytes_are_an_object_or_malformed(
        self, handler: DataHandler, samples: Sequence[Sample]
    ) -> None:
        @_FUZZ
        @given(body=st.binary(max_size=200))
        def read(body: bytes) -> None:
            for hint in (samples[0].hint, None):
                _read_or_refuse(handler, body, hint)

        read()

    def test_a_damaged_body_is_an_object_or_malformed(
        self, handler: DataHandler, samples: Sequence[Sample]
    ) -> None:
        @_FUZZ
        @given(seed=st.integers(0, 1 << 32))
        def read(seed: int) -> None:
            chance = random.Random(seed)
            sample = chance.choice(samples)
            _read_or_refuse(handler, _damage(sample.body, chance), sample.hint)

        read()

    def test_a_huge_body_of_one_piece_is_done_with_in_seconds(
        self, handler: DataHandler, samples: Sequence[Sample]
    ) -> None:
        slow = []
        for piece in _PIECES:
            begun = time.process_time()
            _read_or_refuse(handler, piece * (_BIG // len(piece)), samples[0].hint)
            if time.process_time() - begun >= _SECONDS:
                slow.append(piece)
        assert slow == []

    def test_a_sample_cut_off_anywhere_is_an_object_or_malformed(
        self, handler: DataHandler, samples: Sequence[Sample]
    ) -> None:
        for sample in samples:
            for end in range(len(sample.body)):
                _read_or_refuse(handler, sample.body[:end], sample.hint)

    @_round_trip
    def test_facets_hold_for_what_is_read(
        self, handler: DataHandler, objects: Sequence[BusinessObject]
    ) -> None:
        for bo in objects:
            again = handler.to_business_object(handler.to_body(bo), Hint(bo.type, bo.verb))
            for name, attribute in again.definition.attributes.items():
                if attribute.type not in TEXTS or not again[name]:
                    continue
                strict = replace(attribute, facets=Facets(values=("another value",)))
                attributes = {**again.definition.attributes, name: strict}
                made = replace(again.definition, attributes=attributes)
                known = Definitions({**again.definitions, bo.type: made})
                with pytest.raises(MalformedData, match=f"{name}.*expected one of another value"):
                    check(BusinessObject(known, bo.type, bo.verb, again.as_dict()))

    @_round_trip
    def test_a_big_text_arrives_whole(self, handler: DataHandler, objects: Sequence[BusinessObject]) -> None:
        for bo in objects:
            for name in bo:
                attribute = bo.definition.attributes[name]
                if attribute.type in TEXTS and not attribute.max_length and not attribute.is_many:
                    bo[name] = "0123456789 text" * (_BIG // 15)
                    assert handler.to_business_object(handler.to_body(bo), Hint(bo.type, bo.verb)) == bo
                    return

    # --- a long life --------------------------------------------------------------------------

    def test_nothing_of_a_refused_body_is_left_for_the_next(
        self, handler: DataHandler, samples: Sequence[Sample], malformed: Sequence[bytes]
    ) -> None:
        for sample in samples:
            for body in malformed:
                with pytest.raises(MalformedData):
                    handler.to_business_object(body, samples[0].hint)
                assert handler.to_business_object(sample.body, sample.hint).as_dict() == sample.values

    def test_two_objects_of_one_body_share_nothing(
        self, handler: DataHandler, samples: Sequence[Sample]
    ) -> None:
        for sample in samples:
            first = handler.to_business_object(sample.body, sample.hint)
            for name in list(first):
                del first[name]
            assert handler.to_business_object(sample.body, sample.hint).as_dict() == sample.values

    def test_one_thread_after_the_other_may_use_it(
        self, handler: DataHandler, samples: Sequence[Sample]
    ) -> None:
        read: list[dict[str, Any]] = []
        for sample in samples:
            thread = threading.Thread(
                target=lambda s=sample: read.append(handler.to_business_object(s.body, s.hint).as_dict())
            )
            thread.start()
            thread.join()
        assert read == [sample.values for sample in samples]


def _comparable(bo: BusinessObject, can_be_blank: bool) -> dict[str, Any]:
    """Returns the values of an object. An attribute that is not set and an empty list are the same."""

    def clean(values: Any) -> Any:
        if isinstance(values, dict):
            return {
                name: clean(value)
                for name, value in values.items()
                if value != [] and (can_be_blank or value != "")
            }
        return [clean(value) for value in values] if isinstance(values, list) else values

    result: dict[str, Any] = clean(bo.as_dict())
    return result


def _damage(original: bytes, chance: random.Random) -> bytes:
    body = bytearray(original)
    for _ in range(chance.randint(1, 4)):
        position = chance.randint(0, len(body))
        match chance.randint(0, 3):
            case 0:
                del body[position:]
            case 1:
                body[position : position + 1] = bytes([chance.randint(0, 255)])
            case 2:
                del body[position : position + chance.randint(1, 8)]
            case _:
                start = chance.randint(0, len(body))
                body[position:position] = body[start : start + chance.randint(1, 20)]
    return bytes(body)


def _read_or_refuse(handler: DataHandler, body: bytes, hint: Hint | None) -> None:
    """Reads a body. Any exception but MalformedData fails the test."""
    try:
        bo = handler.to_business_object(body, hint)
    except MalformedData as refused:
        if not str(refused):
            raise AssertionError("MalformedData without a reason") from refused
        return
    assert isinstance(bo, BusinessObject)
    assert hint is None or bo.type == hint.object
