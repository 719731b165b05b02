"""Unpacks bodies of gzip (RFC 1952) within a limit."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Final

from connector.errors import BodyTooLarge, MalformedData

_MAGIC: Final = b"\x1f\x8b"


def unpack(body: bytes, limit: int, said_by: str) -> bytes:
    """Returns the content of a gzip of one member or several.

    Args:
        limit: bytes of the content. No more of a larger one is unpacked.
        said_by: what says that the body is gzip, for the text of an error.

    Raises:
        BodyTooLarge: the content is larger.
        MalformedData: the body is no gzip, is damaged, or ends too early.
    """
    if not body.startswith(_MAGIC):
        raise MalformedData(f"the body is no gzip, although {said_by} says so")
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            content = file.read(limit + 1)
    except EOFError:
        raise MalformedData("the gzip of the body ends too early") from None
    except (OSError, zlib.error) as error:
        raise MalformedData(f"the gzip of the body is damaged: {error}") from None
    if len(content) > limit:
        raise BodyTooLarge(f"the unpacked body has more than max_body ({limit} bytes)")
    return content


def packed_limit(limit: int) -> int:
    """Returns the most bytes of a gzip whose content may have ``limit`` bytes."""
    return limit + limit // 1000 + 1024


def with_hint(error: MalformedData, body: bytes) -> MalformedData:
    """Returns an error that also names how to unpack a body, if the body begins as if it were packed."""
    if type(error) is not MalformedData or not body.startswith(_MAGIC):
        return error
    hint = "the body begins like gzip, which `unpack: gzip` of the input or content_encoding=gzip unpacks"
    return MalformedData(f"{error}; {hint}")
