"""JSON (RFC 8259): a business object is an object, an attribute a member of the same name."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import orjson

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import describe
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import Hint, Option, SplittingHandler, charset
from connector.formats.json_decoder import JsonDecoder, count_members
from connector.formats.json_places import duplicate_key, place_of_depth, place_of_path
from connector.formats.json_plan import JsonPlans
from connector.formats.plan import MAX_DEPTH, TOO_DEEP, UNDEFINED
from connector.formats.splitting import in_record, read_one, refuse_joint_body, write_each
from connector.limits import stages
from connector.text.encoding import decode, encode
from connector.text.json_text import from_json, to_json
from connector.text.places import place

if TYPE_CHECKING:
    from connector.formats.json_schema import JsonSchema

_PARSER_LIMIT: Final = "depth limit exceeded"
"""The text by which the parser refuses nesting beyond 1,024 levels, which may be valid JSON."""
_TYPE_KEY: Final = "BusinessObject"
_VERB_KEY: Final = "Verb"
_SPACE: Final = b" \t\r\n"
_BOM: Final = b"\xef\xbb\xbf"
_OTHER_BOMS: Final = (
    codecs.BOM_UTF16_LE,
    codecs.BOM_UTF16_BE,
    codecs.BOM_UTF32_LE,
    codecs.BOM_UTF32_BE,
)


class _Named(msgspec.Struct):
    name: str = msgspec.field(name=_TYPE_KEY)


_decode_exactly: Final = msgspec.json.Decoder(float_hook=Decimal).decode
_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_name: Final = msgspec.json.Decoder(_Named).decode


class JsonHandler(SplittingHandler):
    """JSON objects.

    Numbers stand for Integer, Float and Double. Strings stand for String, LongText and Date. true and false
    stand for Boolean, a list of objects for an n-cardinality child. null leaves an attribute unset, but
    with the option ``null: value`` sets it to null. ``""`` is blank. The keys ``BusinessObject`` and ``Verb``
    name type and verb if no rule does. An attribute of the same name is set as well.

    A key is the name of an attribute, or the name in the application-specific information of the attribute:
    the tag ``name=``, ``elem_name=`` or ``attr_name=``.

    The body is UTF-8, with or without a byte order mark. With the byte order mark of UTF-16 or UTF-32 it is
    that. These are errors: duplicate keys, NaN and infinity, text after the object, nesting deeper than 200,
    attributes that are not defined.

    With the option ``schema``, bodies that are read or written are checked against a JSON Schema.

    With the option ``split`` a body is a list, and each object of the list is an object of its own. The
    schema is that of each object.
    """

    mime_types = ("application/json",)
    options = (
        Option("split", bool, False, "A body is a list, and each object in it is an object of its own."),
        Option("IgnoreUndefinedAttributes", bool, False, "Pass over keys that the definition lacks."),
        Option(
            "null",
            str,
            "ignore",
            "`value`: null is null, and is written again. `ignore`: not set.",
            choices=("ignore", "value"),
        ),
        Option(
            "write_type", bool, True, "Write the keys BusinessObject and Verb, so that no rule is needed."
        ),
        Option("schema", Path, "", "A file with the JSON Schema of the bodies. Empty: none."),
        Option("charset", str, "", "The character set. Empty: by the byte order mark, else UTF-8.", charset),
    )

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        self._definitions = definitions
        self._plans = JsonPlans(definitions)
        # Other handlers may use this one, without the options that came later.
        self._keeps_null = options.get("null") == "value"
        self._decoder = JsonDecoder(self._plans, (_TYPE_KEY, _VERB_KEY), keeps_null=self._keeps_null)
        self._ignore_undefined: bool = options["IgnoreUndefinedAttributes"]
        self._write_type: bool = options["write_type"]
        self.splits: bool = options.get("split", False)
        self._charset: str = options.get("charset", "")
        self._schema: JsonSchema | None = None
        self._at_schema = stages.Stage("schema", Path(options.get("schema") or "").name)
        if options.get("schema"):
            try:
                from connector.formats.json_schema import JsonSchema
            except ModuleNotFoundError as error:
                raise ValueError(
                    "schema needs the package jsonschema-rs: pip install 'event-connector[json-schema]'"
                ) from error

            self._schema = JsonSchema(Path(options["schema"]))

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        text = utf8(body, self._charset)
        if text.lstrip(_SPACE).startswith(b"["):
            if self.splits:
                objects = self.to_business_objects(text, hint)
                return read_one(objects, objects)
            _parse(text, list)
            raise MalformedData("the body is a list, expected a JSON object; or set the option split")
        return self.read(text, hint)

    def to_business_objects(self, body: bytes | str, hint: Hint | None) -> Iterator[BusinessObject]:
        text = utf8(body, self._charset)
        documents = _parse(text, list)
        if not documents:
            raise MalformedData("the list is empty, expected an object in it")
        parts = _decode_list(text)
        for index, (document, part) in enumerate(zip(documents, parts, strict=True)):
            try:
                if type(document) is not dict:
                    raise MalformedData(f"found {describe(document)}, expected a JSON object")
                bo = self.read(bytes(part), hint)
            except MalformedData as error:
                raise in_record(index + 1, self._placed(error, text, parts[: index + 1], hint)) from None
            yield bo

    def _placed(
        self, error: MalformedData, text: bytes, parts: list[msgspec.Raw], hint: Hint | None
    ) -> MalformedData:
        """Returns the error for the last of the parts of a list, with its place in the whole body."""
        start = end = 0
        for part in map(bytes, parts):
            start = text.index(part, end)
            end = start + len(part)
        before = text[:start].decode()
        if not text.startswith(b"{", start):
            return MalformedData(f"{error}: {place(before, len(before))}")
        try:  # blanks before the part give its mistake the right place
            self.read(re.sub(r"[^\r\n]", " ", before).encode() + text[start:end], hint)
        except MalformedData as placed:
            return placed
        return error

    def read(self, body: bytes, hint: Hint | None) -> BusinessObject:
        """Reads a body in UTF-8, without a byte order mark, as :meth:`to_business_object` does."""
        if self._schema is not None:
            _parse(body)
            document = _parse_exactly(body)
            with self._at_schema:
                self._schema.check(document, "the body")
        bo = self._decode_body(body, hint)
        return self._parse_body(body, hint) if bo is None else bo

    def _decode_body(self, body: bytes, hint: Hint | None) -> BusinessObject | None:
        """Returns the object of a body that the decoder accepts, else None."""
        try:
            name = hint.object if hint is not None else _decode_name(body).name
        except (ValueError, RecursionError):
            return None
        decoded = self._decoder.decode(name, body)
        if decoded is None:
            return None
        bo, said = decoded
        bo.verb = (hint is not None and hint.verb) or said.get(_VERB_KEY) or None
        return bo

    def _parse_body(self, body: bytes, hint: Hint | None) -> BusinessObject:
        """Returns the object of any body, with errors that name the mistake."""
        document = _parse(body)
        name = document.get(_TYPE_KEY, "") if hint is None else hint.object
        try:
            return self._object_of(document, hint)
        except MalformedData as error:
            where = place_of_path(body, self._plans.get(name), error.path) if error.path else ""
            if not where:
                raise
            advice = UNDEFINED if error.is_unknown else ""
            raise MalformedData(f"{error}{advice}: {where}") from None

    def _object_of(self, document: dict[str, Any], hint: Hint | None) -> BusinessObject:
        if hint is not None:
            bo = BusinessObject(self._definitions, hint.object)
        else:
            name = document.get(_TYPE_KEY)
            if name is None:
                raise UnknownBusinessObject(
                    f"neither a rule nor the key {_TYPE_KEY!r} of the body names a business object"
                )
            if not isinstance(name, str):
                raise MalformedData(f"{_TYPE_KEY}: found {describe(name)}, expected a text")
            bo = BusinessObject(self._definitions, name)
        verb = document.get(_VERB_KEY)
        if hint is not None and hint.verb:
            bo.verb = hint.verb
        elif verb is None or isinstance(verb, str):
            bo.verb = verb or None
        else:
            raise MalformedData(f"{bo.type}: {_VERB_KEY}: found {describe(verb)}, expected a text")
        plan = self._plans.get(bo.type)
        for key in (_TYPE_KEY, _VERB_KEY):
            if key not in plan.by_name:
                document.pop(key, None)
        if not plan.is_plain:
            document = plan.to_attributes(document, self._ignore_undefined, bo.type)
        bo.set_values(
            document,
            ignore_undefined=self._ignore_undefined,
            body_only=True,
            keeps_null=self._keeps_null,
        )
        return bo

    def to_body(self, bo: BusinessObject) -> bytes:
        document: dict[str, Any] = {}
        if self._write_type:
            document[_TYPE_KEY] = bo.type
            if bo.verb:
                document[_VERB_KEY] = bo.verb
        plan = self._plans.get(bo.type)
        try:
            values = bo.as_dict(body_only=True, keeps_null=self._keeps_null)
            document.update(values if plan.is_plain else plan.to_members(values))
            if self._schema is not None:
                with self._at_schema:
                    self._schema.check(document, bo.type)
            body = to_json(document)
        except (TypeError, RecursionError) as error:  # half a surrogate pair, nesting
            raise MalformedData(f"{bo.type} cannot be written as JSON: {error}") from None
        return encode(body.decode(), self._charset) if self._charset else body

    def to_joint_body(self, bos: Sequence[BusinessObject]) -> bytes:
        if not self.splits:
            refuse_joint_body(bos, self.mime_types[0])
        parts = [utf8(body, self._charset) for body in write_each(bos, self.to_body)]
        body = b"[" + b",\n".join(parts) + b"]\n"
        return encode(body.decode(), self._charset) if self._charset else body


def parse_object(body: bytes | str) -> dict[str, Any]:
    """Returns the JSON object in a body, read as strictly as :class:`JsonHandler` reads.

    Raises:
        MalformedData: the body is no JSON object. The text names the mistake, the line and the column.
    """
    document: dict[str, Any] = _parse(utf8(body))
    return document


def parse_objects(body: bytes | str) -> list[dict[str, Any]]:
    """Returns the JSON objects of a list in a body, as the option ``split`` reads them.

    Raises:
        MalformedData: the body is no such list.
    """
    documents: list[dict[str, Any]] = _parse(utf8(body), list)
    if not documents:
        raise MalformedData("the list is empty, expected an object in it")
    for number, document in enumerate(documents, 1):
        if type(document) is not dict:
            raise MalformedData(f"record {number}: found {describe(document)}, expected a JSON object")
    return documents


def _parse(body: bytes, kind: type = dict) -> Any:
    """Returns the value in a body, an object or a list."""
    try:
        document = from_json(body)
    except orjson.JSONDecodeError as error:
        raise _not_json(body, error) from None
    except RecursionError:
        raise _too_deep(body) from None
    if type(document) is not kind:
        expected = "a JSON object" if kind is dict else "a list of JSON objects; the option split is set"
        raise MalformedData(f"the body is {describe(document)}, expected {expected}")
    try:
        keys = _count_keys(document, 1)
    except RecursionError:
        raise _too_deep(body) from None
    # The parser keeps the last of two equal keys without a warning. Every key has one colon outside of texts.
    if body.count(b":") != keys and count_members(body) != keys:
        raise MalformedData(duplicate_key(body.decode("utf-8")))
    return document


def _parse_exactly(body: bytes) -> Any:
    """Returns the value in a body that is JSON. Numbers keep all digits: integers, and Decimals.

    Raises:
        MalformedData: a number has more digits than Python takes.
    """
    try:
        return _decode_exactly(body)
    except (msgspec.MsgspecError, ArithmeticError, ValueError):
        raise MalformedData(
            "the body has an integer of more than 4300 digits, or an exponent of more than 18"
        ) from None


def utf8(body: bytes | str, charset: str = "") -> bytes:
    """Returns a body in UTF-8, without a byte order mark. A body that is UTF-8 is not checked.

    Without ``charset`` the byte order mark says what the body is, else it is UTF-8.

    Raises:
        MalformedData: the body is not valid in the character set. The text names the offset of the byte.
    """
    if isinstance(body, bytes) and not charset and not body.startswith(_OTHER_BOMS):
        return body.removeprefix(_BOM)
    try:
        return decode(body, charset).encode("utf-8")
    except UnicodeEncodeError as error:
        raise MalformedData(f"the body is no valid Unicode: character {error.start}") from None


def _not_json(body: bytes, error: orjson.JSONDecodeError) -> MalformedData:
    if not body.strip():
        return MalformedData("the body is empty, expected a JSON object")
    try:
        decode(body)
    except MalformedData as undecodable:
        return undecodable
    if error.msg == _PARSER_LIMIT:
        return _too_deep(body)
    return MalformedData(f"the body is no JSON: {error.msg}: line {error.lineno} column {error.colno}")


def _too_deep(body: bytes) -> MalformedData:
    return MalformedData(f"the body is {TOO_DEEP}: {place_of_depth(body)}")


def _count_keys(value: Any, depth: int) -> int:
    """Returns the number of keys at all levels.

    Raises:
        RecursionError: the value is nested too deeply.
    """
    if depth > MAX_DEPTH:
        raise RecursionError
    if type(value) is dict:
        count = len(value)
        value = value.values()
    else:
        count = 0
    for element in value:
        if type(element) is dict or type(element) is list:
            count += _count_keys(element, depth + 1)
    return count
