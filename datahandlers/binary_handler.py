"""Binary data: the whole body is one attribute, as base64 (RFC 4648) or hexadecimal text."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import DataHandler, Hint, Option
from connector.formats.single_attribute import BYTES, unfit
from connector.text.names import shown

_WRONG: Final = {"base64": re.compile(r"[^A-Za-z0-9+/=]"), "hex": re.compile(r"[^0-9A-Fa-f]")}


class BinaryHandler(DataHandler):
    """Bytes without any structure.

    The body becomes one attribute of a text type, as base64 or hexadecimal digits. An empty body makes the
    attribute blank. The body names no business object, so a rule has to. Only that attribute is written. If
    the attribute is not set, the body is empty.
    """

    mime_types = ("application/octet-stream",)
    options = (
        Option("attribute", str, "Data", "The attribute that holds the body."),
        Option("encoding", str, "base64", "The text of the attribute.", choices=("base64", "hex")),
    )

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        self._definitions = definitions
        self._attribute: str = options["attribute"]
        self._is_hex = options["encoding"] == "hex"

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        if hint is None:
            raise UnknownBusinessObject("bytes name no business object, and no rule does")
        if isinstance(body, str):
            try:
                body = body.encode("utf-8")
            except UnicodeEncodeError as error:
                raise MalformedData(f"the body is no valid Unicode: character {error.start}") from None
        bo = BusinessObject(self._definitions, hint.object, hint.verb)
        self._check(bo)
        bo.set_text(self._attribute, body.hex() if self._is_hex else base64.b64encode(body).decode())
        return bo

    def to_body(self, bo: BusinessObject) -> bytes:
        self._check(bo)
        text = str(bo[self._attribute] or "")
        kind = "hex" if self._is_hex else "base64"
        wrong = _WRONG[kind].search(text)
        if wrong is not None:
            raise MalformedData(
                f"{bo.type}: {self._attribute}: character {wrong.start() + 1} is {shown(wrong.group())}, "
                f"expected {kind} text"
            )
        try:
            body = bytes.fromhex(text) if self._is_hex else base64.b64decode(text, validate=True)
        except (ValueError, binascii.Error) as error:
            raise MalformedData(f"{bo.type}: {self._attribute} is no {kind} text: {error}") from None
        if not self._is_hex and base64.b64encode(body).decode() != text:
            reason = "the last character has bits beyond the last byte"
            raise MalformedData(f"{bo.type}: {self._attribute} is no base64 text: {reason}")
        return body

    def _check(self, bo: BusinessObject) -> None:
        reason = unfit(bo.definition, self._attribute, BYTES)
        if reason:
            raise MalformedData(reason)
