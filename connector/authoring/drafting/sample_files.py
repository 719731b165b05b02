"""The files with the samples of one draft."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from lxml import etree

from connector.errors import MalformedData
from connector.text.encoding import decode
from connector.text.xml_parser import parse_xml

MAX_BYTES: Final = 16 << 20
"""The largest sample that is read, in bytes."""


class Counter(Protocol):
    """What has to know which sample is read."""

    number: int


def read_sample(path: Path) -> bytes:
    """Returns the content of a sample.

    Raises:
        MalformedData: the file cannot be read, is empty or too large.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise MalformedData(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > MAX_BYTES:
        raise MalformedData(f"is larger than {MAX_BYTES >> 20} MiB")
    if not content.strip():
        raise MalformedData("is empty, expected a body or a schema")
    return content


class Samples:
    """Bodies of one shape, or one schema.

    Args:
        files: path and content of each, at least one.
        charset: the character set. Empty = as each body says.
        has_header: whether the first record of separated values has the names of the attributes.

    Attributes:
        current: the file that is read, for errors.
    """

    def __init__(
        self, files: Sequence[tuple[Path, bytes]], charset: str = "", *, has_header: bool = True
    ) -> None:
        self._files = files
        self.charset = charset
        self.has_header = has_header
        self.current = files[0][0]

    @property
    def path(self) -> Path:
        """The first file."""
        return self._files[0][0]

    @property
    def content(self) -> bytes:
        """The content of the first file."""
        return self._files[0][1]

    def each(self, counter: Counter) -> Iterator[str]:
        """Iterates over the texts of the bodies. ``counter`` gets the number of each body.

        Raises:
            MalformedData: a body is not valid in the character set.
        """
        for content in self.contents(counter):
            yield decode(content, self.charset)

    def roots(self, counter: Counter) -> Iterator[etree._Element]:
        """Iterates over the root elements of the bodies. ``counter`` gets the number of each body.

        Raises:
            MalformedData: a body is no XML.
        """
        for content in self.contents(counter):
            yield parse_xml(content, self.charset, may_have_doctype=True)

    def contents(self, counter: Counter) -> Iterator[bytes]:
        """Iterates over the bodies. ``counter`` gets the number of each body."""
        for number, (path, content) in enumerate(self._files):
            self.current, counter.number = path, number
            yield content

    def expect(self, what: str, found: str, expected: str) -> None:
        """Checks that the body has what the first body has.

        Raises:
            MalformedData: it has not.
        """
        if found != expected:
            raise MalformedData(f"found {what} {found}, expected {expected} as in {self.path.name}")
