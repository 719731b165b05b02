"""Recognises the secrets of a configuration by their names and places, and hides them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final
from urllib.parse import urlsplit

MASK: Final = "********"
SHORTEST: Final = 4
"""Characters of a secret that are recognised within another text."""

_WORDS: Final = (
    r"passw|passphrase|passcode|pass(?![a-z])|pwd|secret|token|credential|signature|pin.?code"
    r"|(?<![a-z])(?:sig|sas|pin|jwt)(?![a-z])|(?-i:(?<=[a-z])(?:Pin|Sas|Sig)(?![a-z]))"
    r"|(?:private|access|account|api|auth|shared|storage|signing|subscription).?key"
    r"|(?:encryption|decryption|master).?key(?![a-z])"
)
"""What the name of a secret has in it."""
_SECRET: Final = re.compile(_WORDS, re.IGNORECASE)
_KEY: Final = rf"[\w.-]*(?:{_WORDS})[\w.-]*"
_NAME: Final = rf"(?:(?<![\w.-]){_KEY}|(?<=[?&;])key)"
_QUOTED: Final = r"\\?\"[^\"]*\"?|'[^']*'?|\{[^}]*\}?"
_OPTION: Final = re.compile(
    rf"({_NAME}\\?[\"']?\s*(?:=|%3D|(?<=[\"']):|(?<=[\"']\s):)\s*|(?<!\S)--?{_KEY}\s+)({_QUOTED}|\S+)",
    re.IGNORECASE,
)
"""A secret within a text of options: ``-Dx.keyStorePassword=...``, ``"token": "..."``, ``--password ...``."""
_PART: Final = re.compile(rf"({_NAME}\s*=\s*)({_QUOTED}|[^;]*)", re.IGNORECASE)
"""The same in a URL of JDBC or ODBC, whose values may have blanks."""
_SCHEME: Final = r"((?<![a-z0-9+.-])[a-z][a-z0-9+.-]*://)"
_PORT: Final = r"\d{1,5}(?:[/?#,)\s]|\Z)"
_BEFORE_PATH: Final = rf"(?=[^/?#\s@]+:(?!{_PORT}))\S*@"
"""A user whose password has a slash, which is not valid."""
_IN_URL: Final = re.compile(rf"{_SCHEME}(?:[^/?#]*@|{_BEFORE_PATH})|(jdbc:oracle:\w+:)(?!@).*@", re.I)
"""User and password in a value that is a URL. A password may have blanks."""
_IN_TEXT: Final = re.compile(rf"{_SCHEME}(?:[^/?#\s]*@|{_BEFORE_PATH})|(jdbc:oracle:\w+:)(?!@)\S*@", re.I)
_IS_URL: Final = re.compile(r"[a-z][\w.+-]*:[^\s]", re.IGNORECASE)
_IS_PARTED: Final = re.compile(
    r"(?:jdbc|odbc):(?!postgresql|mysql|mariadb)|(?!-)[^=:\s]+=[^;]*;", re.IGNORECASE
)
"""A text whose options are parted by semicolons."""


def is_secret(key: str) -> bool:
    """Tells whether a key of this name holds a secret."""
    return _SECRET.search(key) is not None


def mask(value: Any, key: str = "") -> Any:
    """Returns the value, also a mapping or list of values, with every secret replaced by :data:`MASK`."""
    if isinstance(value, dict):
        return {name: mask(inner, name) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [mask(inner, key) for inner in value]
    if value is None or isinstance(value, bool):
        return value
    if is_secret(key):
        return MASK
    if not isinstance(value, str):
        return value
    users = _IN_URL if _IS_URL.match(value) else _IN_TEXT
    text = users.sub(lambda found: f"{found[1] or found[2]}{MASK}@", value)
    return (_PART if _IS_PARTED.match(value) else _OPTION).sub(rf"\g<1>{MASK}", text)


def mask_texts(value: Any, texts: Collection[str]) -> Any:
    """Returns the value, also a mapping or list of values, with :data:`MASK` for each of the texts.

    A short text counts only where the text is the whole value.
    """
    if isinstance(value, dict):
        return {name: mask_texts(inner, texts) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [mask_texts(inner, texts) for inner in value]
    if str(value).strip() in {text.strip() for text in texts}:
        return MASK
    if isinstance(value, str):
        for text in sorted(texts, key=len, reverse=True):
            if len(text.strip()) >= SHORTEST:
                value = value.replace(text, MASK).replace(text.strip(), MASK)
    return value


def mask_path(url: str) -> str:
    """Returns a URL without what stands behind its origin, which may hold a secret."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return url if url.rstrip("/") == origin else f"{origin}/{MASK}"
