"""Plain text: the whole body is one attribute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import text_of
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import DataHandler, Hint, Option, charset
from connector.formats.single_attribute import TEXT, unfit
from connector.text.encoding import decode, encode


class TextHandler(DataHandler):
    """Text without any structure.

    The whole body becomes one attribute, unchanged. An empty body makes the attribute blank. Text names no
    business object, so a rule has to. Only that attribute is written. If the attribute is not set, the body
    is empty.
    """

    mime_types = ("text/plain",)
    options = (
        Option("attribute", str, "Text", "The attribute that holds the body."),
        Option("charset", str, "", "The character set. Empty: by the byte order mark, else UTF-8.", charset),
    )

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        self._definitions = definitions
        self._attribute: str = options["attribute"]
        self._charset: str = options["charset"]

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        if hint is None:
            raise UnknownBusinessObject(
                "plain text names no business object, and no rule or more than one rule matches the message"
            )
        bo = BusinessObject(self._definitions, hint.object, hint.verb)
        self._check(bo)
        bo.set_text(self._attribute, decode(body, self._charset))
        return bo

    def to_body(self, bo: BusinessObject) -> bytes:
        self._check(bo)
        value = bo.value(self._attribute)
        try:
            return encode("" if value is None else text_of(value), self._charset)
        except MalformedData as error:
            raise MalformedData(f"{bo.type}: {self._attribute}: {error}") from None

    def _check(self, bo: BusinessObject) -> None:
        reason = unfit(bo.definition, self._attribute, TEXT)
        if reason:
            raise MalformedData(reason)
