"""Makes texts of strangers harmless for a terminal, and for who reads a log line by line."""

from __future__ import annotations


def printable(text: str) -> str:
    """Escapes line ends and control characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
