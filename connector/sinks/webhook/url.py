"""The URL of a webhook: a template whose values change neither the host nor the structure of the URL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote

from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import text_of
from connector.errors import ObjectRefused, WrongValue
from connector.sinks.template import NAME, find_value
from connector.sinks.webhook.network import split_authority

URL_EXPECTED: Final = "https://HOST/PATH, with {Attribute} in the path or the query"
_URL: Final = re.compile(r"https?://([^/?#]*)(.*)", re.DOTALL)
_PLACEHOLDER: Final = re.compile(rf"\{{({NAME})\}}")
_AFTER_HOST: Final = re.compile(
    rf"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{{2}}|{_PLACEHOLDER.pattern})*\Z"
)


@dataclass(frozen=True, slots=True)
class UrlTemplate:
    """A URL with placeholders in its path and its query.

    Args:
        text: the template. Raises :class:`WrongValue`.
    """

    text: str = field(repr=False)
    origin: str = field(init=False)
    """Scheme, host and port: the part for texts. A path or a query may hold a secret."""

    def __post_init__(self) -> None:
        match = _URL.match(self.text)
        if match is None:
            raise WrongValue("a text that begins neither with https:// nor with http://", URL_EXPECTED)
        authority, rest = match.groups()
        if "{" in authority or "}" in authority:
            raise WrongValue("a placeholder before the path", "a host without placeholders")
        if "@" in authority:
            raise WrongValue("a URL with a user", "a URL without one, and headers: {Authorization: ...}")
        if split_authority(authority) is None:
            raise WrongValue("a URL without a valid host and port", URL_EXPECTED)
        if "#" in rest:
            raise WrongValue("a URL with a fragment, which no server gets", "a URL without '#'")
        if not _AFTER_HOST.match(rest):
            raise WrongValue("a character or a brace that a URL cannot have", "%XX, or {Attribute}")
        if has_dot_segment(_PLACEHOLDER.sub("x", rest)):
            raise WrongValue("a path with the segment '.' or '..'", "a path without them")
        object.__setattr__(self, "origin", self.text.removesuffix(rest))

    @property
    def names(self) -> list[str]:
        """The attributes of the placeholders."""
        return _PLACEHOLDER.findall(self.text)

    @property
    def constants(self) -> Iterator[str]:
        """The parts of the path and the query that no attribute gives. They may be secrets."""
        path, _, query = self.text.removeprefix(self.origin).partition("?")
        parts = [*path.split("/"), *(value for _, value in parse_qsl(query))]
        return (part for part in parts if "{" not in part)

    def fill(self, objects: Sequence[BusinessObject]) -> str:
        """Returns the URL for objects, see :func:`.find_value`. Every value is percent-encoded.

        Raises:
            ObjectRefused: an attribute has no single value, or the value makes a segment ``.`` or ``..``.
        """
        url = _PLACEHOLDER.sub(lambda match: _encode(objects, match[1]), self.text)
        if has_dot_segment(url.removeprefix(self.origin)):
            raise ObjectRefused(f"{', '.join(self.names)} would make a segment '.' or '..' in the URL")
        return url


def has_dot_segment(rest: str) -> bool:
    """Whether the path before the query has a segment that means another path, also as %2E."""
    segments = rest.partition("?")[0].lower().replace("%2e", ".").split("/")
    return "." in segments or ".." in segments


def _encode(objects: Sequence[BusinessObject], name: str) -> str:
    value = find_value(objects, name)[1]
    if value is None or value == "":
        raise ObjectRefused(f"the URL needs {name}, which has no value")
    try:
        return quote(text_of(value), safe="")
    except UnicodeEncodeError:
        raise ObjectRefused(f"the URL needs {name}, which holds half a surrogate pair") from None
