"""The files of a JSON Schema: where references lead to, and what the engine makes of the files.

A reference leads into the same file, or to a file in the directory of the first file or below. An address on
the web as ``$id`` of a file stands for the place of that file. So an address relative to it leads to a file
beside. Any other address leads to the file or the embedded schema below the directory that has the address as
its ``$id``. Nothing is fetched from a network.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit

import jsonschema_rs
import msgspec

from connector.formats.ecmascript import translate
from connector.regular_file import read_regular
from connector.text.names import shown

ALTERNATIVES: Final = "connector-alternatives"
"""The member of a schema in place of ``anyOf`` and ``oneOf`` that has their name."""

_PATTERNS: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=1_000_000)
"""The steps back in the comparison of one text with a pattern. They take some 0.1 s."""
_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_OLD_DRAFTS: Final = ("json-schema.org/draft-04/schema", "json-schema.org/draft-06/schema")
"""The drafts without ``if``."""
_OLDEST_DRAFT: Final = _OLD_DRAFTS[0]
"""The draft with ``id`` in place of ``$id``."""
_DRAFTS: Final = (
    *_OLD_DRAFTS,
    "json-schema.org/draft-07/schema",
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft/2020-12/schema",
)
_VALUES: Final = ("const", "enum", "default", "examples")
"""Keywords whose values are no schemas."""
_MAPPINGS: Final = (
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
)
"""Keywords whose values are mappings of schemas."""
_MOST_FILES: Final = 10_000

_parse: Final = msgspec.json.Decoder(float_hook=Decimal).decode


class SchemaFiles:
    """The files of a schema.

    Args:
        path: the first file, absolute and without links.

    Raises:
        ValueError: the file cannot be read, or is no schema.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._contents: dict[Path, Any] = {}
        self._bases: dict[str, Path] = {}
        """Directories by their addresses."""
        self._places: dict[str, Path] = {}
        """Files by their addresses."""
        self._embedded: dict[str, tuple[Path, Any]] | None = None
        """The schemas below the directory by their ``$id``. None = not looked for yet."""
        self._failures: list[str] = []
        """Addresses that lead to no schema, and why."""
        self.originals: dict[str, str] = {}
        """Patterns as they stand in the files, by their notation in the engine."""
        self._draft = _DRAFT
        root = self._read(path)
        if isinstance(root, dict):
            self._draft = root.get("$schema", _DRAFT)

    def validator(self, *, brief: bool = False) -> Any:
        """Returns a validator of the engine.

        Args:
            brief: a mistake of ``anyOf`` and ``oneOf`` does not hold the mistakes of the alternatives, which
                may be very many.

        Raises:
            ValueError: a file is no schema, or a reference leads to nothing.
        """
        self._failures.clear()
        try:
            return jsonschema_rs.validator_for(
                self._schema(self._path, self._read(self._path), brief, self._path.as_uri()),
                retriever=lambda uri: self._retrieve(uri, brief),
                base_uri=self._path.as_uri(),
                validate_formats=False,
                pattern_options=_PATTERNS,
            )
        except jsonschema_rs.ValidationError as error:
            if self._failures:
                raise ValueError(f"{self._path}: the reference {self._failures[0]}") from None
            if error.kind.name == "$ref":
                raise ValueError(f"{self._path}: the reference leads to nothing: {error.message}") from None
            place = json_path(error.instance_path)
            raise ValueError(f"{self._path} is no JSON Schema: {place}: {error.message[:200]}") from None

    def _retrieve(self, uri: str, brief: bool) -> Any:
        """Returns the schema at an address.

        Raises:
            ValueError: there is none.
        """
        try:
            path = self._place(uri)
            if path is not None:
                return self._schema(path, self._read(path), brief, uri)
            if self._embedded is None:
                self._embedded = dict(self._all_ids())
            if uri not in self._embedded:
                raise ValueError(
                    "expected a file in the directory of the schema or its $id, because nothing is fetched"
                )
            path, contents = self._embedded[uri]
            return self._schema(path, contents, brief, uri)
        except ValueError as error:
            self._failures.append(f"{shown(uri)}: {error}")
            raise

    def canonical(self, uri: str) -> str:
        """Returns the address that the file at an address gives itself, by which the engine has to know it.

        Any other address is returned as it is.
        """
        try:
            path = self._place(uri)
            given = _id(self._read(path), self._draft) if path is not None else ""
        except ValueError:
            return uri  # the engine asks for the file, and gets the reason
        if path is None or not given:
            return uri
        address = urljoin(uri, given)
        self._places.setdefault(address, path)
        return address

    def _place(self, uri: str) -> Path | None:
        """Returns the file at an address. None = an address tells no place, or there is no such file."""
        path = self._places.get(uri)
        if path is not None:
            return path
        parts = urlsplit(uri)
        is_file = parts.scheme == "file" and not parts.netloc
        if is_file:
            path = Path(unquote(parts.path))
        for base in sorted(filter(uri.startswith, self._bases), key=len):
            beside = self._bases[base] / unquote(uri[len(base) :])
            if path is None or beside.exists():
                path = beside
        if path is None:
            return None
        try:
            path = path.resolve()
        except RuntimeError as error:
            raise ValueError(f"{path}: {error}") from None
        if not path.is_relative_to(self._path.parent):
            raise ValueError(f"{path} is outside of the directory of the schema")
        return path if is_file or path.exists() else None

    def _read(self, path: Path) -> Any:
        """Returns what stands in a file, and remembers the address that the file gives itself."""
        if path in self._contents:
            return self._contents[path]
        try:
            contents = _parse(read_regular(path).removeprefix(b"\xef\xbb\xbf"))
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from None
        except (msgspec.MsgspecError, ArithmeticError, RecursionError, UnicodeError) as error:
            raise ValueError(f"{path} is no JSON: {error}") from None
        if not isinstance(contents, dict | bool):
            raise ValueError(f"{path} is no JSON Schema: found no object")
        self._contents[path] = contents
        address = _id(contents, self._draft)
        if address:
            address = urljoin(path.as_uri(), address)
            self._places.setdefault(address, path)
            self._bases.setdefault(address.rpartition("/")[0] + "/", path.parent)
        return contents

    def _all_ids(self) -> Iterator[tuple[str, tuple[Path, Any]]]:
        """Returns each schema below the directory that has an ``$id``, with its address and file."""
        directory = self._path.parent
        for number, file in enumerate(sorted(directory.rglob("*.json"))):
            if number == _MOST_FILES:
                break
            path = file.resolve()
            if not path.is_relative_to(directory):
                continue
            try:
                contents = self._read(path)
            except ValueError:
                continue  # a file of another kind
            yield from ((uri, (path, schema)) for uri, schema in self._ids(contents, path))

    def _ids(self, contents: Any, path: Path) -> Iterator[tuple[str, Any]]:
        """Returns each schema with an ``$id`` within a file, with its address."""
        draft = contents.get("$schema", self._draft) if isinstance(contents, dict) else self._draft
        waiting = [(contents, path.as_uri())]
        while waiting:
            one, base = waiting.pop()
            if isinstance(one, list):
                waiting.extend((inner, base) for inner in one)
            elif isinstance(one, dict):
                given = _id(one, draft)
                if given:
                    base = urljoin(base, given)
                    yield base, one
                waiting.extend((inner, base) for keyword, inner in one.items() if keyword not in _VALUES)

    def _schema(self, path: Path, contents: Any, brief: bool, uri: str) -> Any:
        """Returns the schema at an address as the engine reads it.

        Raises:
            ValueError: the file is no schema.
        """
        if not isinstance(contents, dict):
            return contents
        contents = {"$schema": self._draft, **contents}
        draft = contents["$schema"]
        is_known = isinstance(draft, str) and draft.partition("://")[2].removesuffix("#") in _DRAFTS
        if not is_known and not (isinstance(draft, str) and self._has(draft)):
            raise ValueError(f"{path}: found the $schema {draft!r}, expected a draft such as {_DRAFT}")
        schema = _Copy(self, path, draft, brief).of(contents, uri, ())
        if is_known:
            try:
                jsonschema_rs.meta.validate(schema)
            except jsonschema_rs.ValidationError as error:
                place = json_path(error.instance_path)
                raise ValueError(f"{path} is no JSON Schema: {place}: {error.message[:200]}") from None
        return schema

    def _has(self, uri: str) -> bool:
        try:
            return self._place(uri) is not None
        except ValueError:
            return False


class _Copy:
    """Copies a schema for the engine.

    Patterns are in the notation of the engine. References that leave the schema are the addresses by which
    the engine knows files. Alternatives may be without their mistakes.

    Args:
        brief: as for :meth:`SchemaFiles.validator`.
    """

    def __init__(self, files: SchemaFiles, path: Path, draft: str, brief: bool) -> None:
        self._files = files
        self._path = path
        self._draft = draft
        self._is_brief = brief

    def of(self, schema: Any, base: str, place: tuple[str | int, ...]) -> Any:
        """Returns the copy of a schema. ``base`` is the address that references count from.

        Raises:
            ValueError: a pattern is no regular expression.
        """
        if isinstance(schema, list):
            return [self.of(one, base, (*place, number)) for number, one in enumerate(schema)]
        if not isinstance(schema, dict):
            return schema
        if not ("$ref" in schema and "/draft-0" in self._draft):  # where nothing beside $ref counts
            base = urljoin(base, _id(schema, self._draft))
        copy: dict[str, Any] = {}
        for keyword, value in schema.items():
            here = (*place, keyword)
            if keyword in _VALUES:
                copy[keyword] = value
            elif keyword == "pattern" and isinstance(value, str):
                copy[keyword] = self._pattern(value, here)
            elif keyword in ("$ref", "$dynamicRef") and isinstance(value, str):
                copy[keyword] = self._reference(value, base)
            elif keyword in _MAPPINGS and isinstance(value, dict):
                are_patterns = keyword == "patternProperties"
                copy[keyword] = {
                    self._pattern(name, here) if are_patterns else name: self.of(one, base, (*here, name))
                    for name, one in value.items()
                }
            else:
                copy[keyword] = self.of(value, base, here)
        dynamic = copy.get("$dynamicRef")
        if isinstance(dynamic, str) and not dynamic.startswith("#"):
            # The engine only looks for the files of $ref.
            copy["$defs"] = {**copy.get("$defs", {}), dynamic: {"$ref": dynamic.partition("#")[0]}}
        return self._without_mistakes(copy) if self._is_brief else copy

    def _reference(self, reference: str, base: str) -> str:
        address, mark, fragment = reference.partition("#")
        try:
            uri = urljoin(base, address)
        except ValueError as error:
            raise ValueError(f"{self._path}: the reference {shown(address)}: {error}") from None
        if not address or not urlsplit(uri).scheme:
            return reference
        return f"{self._files.canonical(uri)}{mark}{fragment}"

    def _pattern(self, pattern: str, place: tuple[str | int, ...]) -> str:
        reason = ""
        try:
            translated = translate(pattern)
            jsonschema_rs.validator_for({"pattern": translated}, pattern_options=_PATTERNS)
        except jsonschema_rs.ValidationError:
            reason = "is no regular expression of ECMA-262, or a huge one"
        except ValueError as error:
            reason = f"is no regular expression of ECMA-262: {error}"
        if reason:
            where = f"{self._path} is no JSON Schema: {json_path(place)}"
            raise ValueError(f"{where}: {shown(pattern)} {reason}")
        if translated != pattern:
            self._files.originals[translated] = pattern
        return translated

    def _without_mistakes(self, schema: dict[str, Any]) -> dict[str, Any]:
        for keyword in ("anyOf", "oneOf"):
            if not isinstance(schema.get(keyword), list):
                continue
            alternatives = {keyword: schema.pop(keyword)}
            instead = {"not": {ALTERNATIVES: keyword, "not": alternatives}}
            if not any(one in self._draft for one in _OLD_DRAFTS):  # passes on what they have evaluated
                instead = {"if": alternatives, "else": {"not": {ALTERNATIVES: keyword}}}
            schema["allOf"] = [*schema.get("allOf", ()), instead]
        return schema


def _id(schema: Any, draft: object) -> str:
    """Returns the address that a schema gives itself, without its fragment. Empty = none."""
    if not isinstance(schema, dict):
        return ""
    is_old = isinstance(draft := schema.get("$schema", draft), str) and _OLDEST_DRAFT in draft
    given = schema.get("id" if is_old else "$id")
    return given.partition("#")[0] if isinstance(given, str) else ""


def json_path(names: Any) -> str:
    """Returns a place in a JSON document: ``$.Line[1]['unit price']``."""
    path = "$"
    for name in names:
        if isinstance(name, int):
            path += f"[{name}]"
        else:
            path += f".{name}" if name.replace("$", "_").isidentifier() else f"[{name!r}]"
    return path
