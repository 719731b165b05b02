"""The characters of a body: from bytes to text and back."""

from __future__ import annotations

import codecs
from typing import Final

from connector.errors import MalformedData
from connector.text.places import place

DEFAULT: Final = "utf-8"
MARK: Final = "\ufeff"
"""The byte order mark, as a character."""

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark this one begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


_LOOKED_AT: Final = 64
"""Bytes at the begin of a body that show UTF-16 without a byte order mark."""


def decode(body: bytes | str, charset: str = "", declared: str = "") -> str:
    """Returns the text of a body, without a byte order mark.

    Args:
        body: text is returned as it is, but for the mark.
        charset: the character set that the configuration names. Empty = none.
        declared: the character set that the body itself declares. Empty = none. Counts when there is neither
            ``charset`` nor a byte order mark. Without any of them the body is UTF-8.

    Raises:
        MalformedData: the bytes are not valid in the character set. The text names byte, line and column.
    """
    if isinstance(body, str):
        return body.removeprefix(MARK)
    mark, marked = next((one for one in _MARKS if body.startswith(one[0])), (b"", ""))
    name = charset or marked or declared or DEFAULT
    if name == DEFAULT and not charset and b"\0" in body[:4]:
        _refuse_wide(body[:_LOOKED_AT])
    skipped = 0 if charset else len(mark)
    try:
        text = (body[skipped:] if skipped else body).decode(name)
        return text if skipped else text.removeprefix(MARK)
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode(name, "replace")
        where = f"byte {error.start + skipped}, {place(before, len(before))}"
        raise MalformedData(
            f"the body is not {name}: {where}; the option charset names another character set"
        ) from None
    except UnicodeError as error:
        raise MalformedData(f"the body is not {name}: {error}") from None
    except LookupError:
        raise MalformedData(
            f"the body declares the character set {name[:40]!r}, which is not known"
        ) from None


def _refuse_wide(start: bytes) -> None:
    """Refuses a body that seems to be UTF-16 without a byte order mark: each second byte is NUL.

    Raises:
        MalformedData: it does.
    """
    even, odd = start[::2], start[1::2]
    for name, zeros, others in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if len(start) > 3 and not zeros.strip(b"\0") and b"\0" not in others:
            raise MalformedData(
                f"the body seems to be {name}, without a byte order mark; the option charset names it"
            )


def encode(text: str, charset: str = "") -> bytes:
    """Returns the bytes of a text that :func:`decode` reads back. Without ``charset`` they are UTF-8.

    Raises:
        MalformedData: the character set lacks a character. The text names the character.
    """
    name = charset or DEFAULT
    if text.startswith(MARK):
        text = MARK + text  # `decode` removes one mark
    try:
        return text.encode(name)
    except UnicodeEncodeError as error:
        character = ascii(error.object[error.start])
        raise MalformedData(f"the character {character} does not exist in {name}") from None
    except UnicodeError as error:
        raise MalformedData(f"the text cannot be written in {name}: {error}") from None
