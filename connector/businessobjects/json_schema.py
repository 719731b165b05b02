"""JSON Schema: checks JSON documents against a schema in a file.

The schemas are local. A reference leads into the same file, or to a file in the directory of the schema or
below. Nothing is fetched from a network.

Importing this module loads the package ``jsonschema``, which takes a fifth of a second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import orjson
from jsonschema import validators
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from connector.businessobjects.names import shown
from connector.errors import MalformedData

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_SHOWN: Final = 200
_NOTHING: Final[dict[str, Any]] = {"not": {}}
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


class JsonSchema:
    """A JSON Schema.

    ``$schema`` of the file names the draft. Without ``$schema`` the draft is 2020-12. All files have one
    draft. ``format`` is no rule, as in that draft. An address on the web as ``$id`` stands for the place of
    the file. A reference relative to that address leads to a file beside it.

    Args:
        path: the file.

    Raises:
        ValueError: a file cannot be read, is no schema, or refers to another place.
    """

    def __init__(self, path: Path) -> None:
        self._name = path.name
        files = _Files(path.resolve())
        bounded = {"anyOf": _any_of, "oneOf": _one_of, "uniqueItems": _unique_items}
        validator_class = validators.extend(files.validator_class, bounded)
        self._validator = validator_class({"$ref": files.address}, registry=files.load())
        try:
            next(self._validator.iter_errors(None), None)
        except RecursionError:
            raise ValueError(f"{path}: the schema refers to itself without end") from None

    def check(self, document: Any, subject: str) -> None:
        """Checks a document.

        Args:
            document: as a JSON parser makes it.
            subject: the document in the words of the error.

        Raises:
            MalformedData: the document breaks a rule of the schema. The text names the JSON path, the kind of
                the value and the rule, but no value.
        """
        try:
            error = next(self._validator.iter_errors(document), None)
        except RecursionError:
            raise MalformedData(f"{subject} is nested too deeply for the schema {self._name}") from None
        except Unresolvable as unresolvable:
            raise MalformedData(
                f"the schema {self._name} has a reference to nothing: {unresolvable}"
            ) from None
        if error is not None:
            best = best_match([error])
            place = _shortened(best.json_path)
            raise MalformedData(f"{subject} breaks the schema {self._name}: {place}: {_mistake(best)}")


class _Files:
    """The files of a schema.

    Args:
        path: the first file, absolute and without links.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._draft = _DRAFT
        self._contents: dict[Path, Any] = {}
        self._resources: dict[str, Resource[Any]] = {}
        self._bases: dict[str, Path] = {}
        """Directories by their addresses on the web."""
        self._places: dict[str, Path] = {}
        """Files by their addresses on the web."""
        root = self._read(path)
        if isinstance(root, dict):
            self._draft = root.get("$schema", _DRAFT)
        self.validator_class: Any = None
        if isinstance(self._draft, str):
            self.validator_class = validators.validator_for({"$schema": self._draft}, default=None)
        if self.validator_class is None:
            raise ValueError(f"{path}: found the $schema {self._draft!r}, expected a draft such as {_DRAFT}")
        self._specification = specification_with(self._draft)
        self.address = _address(root) or path.as_uri()
        """The address of the first file."""
        self._retrieve(self.address)

    def load(self) -> Registry[Any]:
        """Follows every reference. Returns all files by their addresses."""
        root = self._resources[self.address]
        registry: Registry[Any] = Registry(retrieve=self._retrieve).with_resource(self.address, root)
        waiting = [(root, registry.resolver(self.address))]
        seen: set[int] = set()
        while waiting:
            resource, resolver = waiting.pop()
            contents = resource.contents
            if id(contents) in seen:
                continue
            seen.add(id(contents))
            if isinstance(contents, dict):
                self._check_draft(contents)
                properties = contents.get("properties")
                if isinstance(properties, dict):
                    # The library does not name the path of a property that is false.
                    properties.update((name, _NOTHING) for name, rule in properties.items() if rule is False)
                for key in _REFERENCES:
                    if isinstance(contents.get(key), str):
                        waiting.append(self._follow(contents[key], resolver))
            waiting.extend((inner, resolver.in_subresource(inner)) for inner in resource.subresources())
        return Registry().with_resources(self._resources.items()).crawl()

    def _follow(self, reference: str, resolver: Any) -> tuple[Resource[Any], Any]:
        try:
            found = resolver.lookup(reference)
        except Unresolvable as error:
            cause = error.__cause__ and error.__cause__.__cause__
            reason = cause if isinstance(cause, ValueError) else "leads to nothing"
            raise ValueError(f"{self._path}: the reference {shown(reference)}: {reason}") from None
        return self._specification.create_resource(found.contents), found.resolver

    def _check_draft(self, contents: dict[str, Any]) -> None:
        """Removes ``$schema``, by which the library would change to a validator without bounds."""
        draft = contents.pop("$schema", self._draft)
        if not isinstance(draft, str) or draft.rstrip("#") != self._draft.rstrip("#"):
            raise ValueError(f"{self._path}: found the $schemas {self._draft!r} and {draft!r}, expected one")

    def _retrieve(self, uri: str) -> Resource[Any]:
        """Returns the file of an address.

        Raises:
            ValueError: there is no such file within the directory.
        """
        found = self._resources.get(uri)
        if found is None:
            path = self._place(uri)
            contents = self._read(path)
            try:
                self.validator_class.check_schema(contents)
            except SchemaError as error:
                place = _shortened(f"{error.json_path}: {error.message}")
                raise ValueError(f"{path} is no JSON Schema: {place}") from None
            found = self._resources[uri] = self._specification.create_resource(contents)
        return found

    def _place(self, uri: str) -> Path:
        parts = urlsplit(uri)
        path = self._places.get(uri)
        if path is not None:
            return path
        if parts.scheme == "file" and not parts.netloc:
            path = Path(unquote(parts.path))
        for base, directory in self._bases.items():
            if uri.startswith(base):
                path = directory / unquote(uri[len(base) :])
        if path is None:
            raise ValueError("expected a file in the directory of the schema, because nothing is fetched")
        path = path.resolve()
        if not path.is_relative_to(self._path.parent):
            raise ValueError(f"{path} is outside of the directory of the schema")
        return path

    def _read(self, path: Path) -> Any:
        if path in self._contents:
            return self._contents[path]
        try:
            contents = orjson.loads(path.read_bytes())
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from None
        except orjson.JSONDecodeError as error:
            raise ValueError(f"{path} is no JSON: {error}") from None
        if not isinstance(contents, dict | bool):
            raise ValueError(f"{path} is no JSON Schema: found no object")
        self._contents[path] = contents
        address = _address(contents)
        if address:
            self._bases[address.rpartition("/")[0] + "/"] = path.parent
            self._places[address] = path
        return contents


def _address(contents: Any) -> str:
    """Returns the address on the web that a file gives itself. Empty = none."""
    if not isinstance(contents, dict):
        return ""
    given = contents.get("$id", contents.get("id"))  # `id` until draft 4
    return given.partition("#")[0] if isinstance(given, str) and urlsplit(given).netloc else ""


# --- rules whose effort grows with the document, and not faster -------------------------------


def _any_of(validator: Any, schemas: Sequence[Any], instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """Like the rule of the library, but keeps one mistake of each schema."""
    mistakes = []
    for index, schema in enumerate(schemas):
        mistake = next(validator.descend(instance, schema, schema_path=index), None)
        if mistake is None:
            return
        mistakes.append(mistake)
    yield ValidationError("fits none", context=mistakes)


def _one_of(validator: Any, schemas: Sequence[Any], instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """Like the rule of the library, but keeps one mistake of each schema."""
    mistakes = []
    for index, schema in enumerate(schemas):
        mistake = next(validator.descend(instance, schema, schema_path=index), None)
        if mistake is not None:
            mistakes.append(mistake)
    fitting = len(schemas) - len(mistakes)
    if fitting == 0:
        yield ValidationError("fits none", context=mistakes)
    elif fitting > 1:
        yield ValidationError("fits several")


def _unique_items(validator: Any, wanted: bool, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """Like the rule of the library, which compares each two elements."""
    if wanted and validator.is_type(instance, "array"):
        seen = set()
        for element in instance:
            value = _comparable(element)
            if value in seen:
                yield ValidationError("has equal elements")
                return
            seen.add(value)


def _comparable(value: Any) -> Hashable:
    """Returns a value that is equal for equal JSON values. 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, dict):
        return frozenset((name, _comparable(member)) for name, member in value.items())
    if isinstance(value, list):
        return tuple(_comparable(element) for element in value)
    return ("boolean", value) if isinstance(value, bool) else ("", value)


# --- words ------------------------------------------------------------------------------------


def _mistake(error: ValidationError) -> str:
    """Returns the kind of the value, and the rule. The value itself may be a secret."""
    rule, wanted, instance = str(error.validator), error.validator_value, error.instance
    found = _kind(instance)
    if error.schema in (False, _NOTHING):
        return f"found {found}, expected nothing here"
    if isinstance(instance, dict):
        if rule == "required" and isinstance(wanted, list):
            missing = next(name for name in wanted if name not in instance)
            found = f"an object without {shown(missing)}"
        elif rule == "additionalProperties":
            known = error.schema.get("properties", {})
            patterns = error.schema.get("patternProperties", {})
            extra = (n for n in instance if n not in known and not any(re.search(p, n) for p in patterns))
            found = f"an object with {shown(next(extra))}"
    return f"found {found}, expected {rule}: {_shortened(json.dumps(wanted, ensure_ascii=False))}"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else "a number"


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
