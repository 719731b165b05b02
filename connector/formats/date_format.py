"""Dates in the form of a country, such as ``31.05.2024``: the option and the tag ``date_format``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from connector.businessobjects.types import describe, is_date

DATE_FORMAT: Final = "date_format"
"""The tag of an attribute whose dates have a form of their own."""

_PATTERNS: Final = {
    "d": "[0-9]{1,2}",
    "m": "[0-9]{1,2}",
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",
    "H": "[0-9]{1,2}",
    "I": "[0-9]{1,2}",
    "M": "[0-9]{1,2}",
    "S": "[0-9]{1,2}",
    "f": "[0-9]{1,6}",
    "p": "[AaPp][Mm]",
    "z": "Z|[+-][0-9]{2}:?[0-9]{2}",
}
"""The parts of a format, as in ``strftime``, and what each may be in a text."""
_WIDTHS: Final = {"Y": 4, "f": 6, "z": 5}
"""Characters that are written for a part. 2 for the others."""
_FORMAT: Final = re.compile(r"%(.?)|([^%]+)", re.DOTALL)
_ISO: Final = re.compile(
    r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})"
    r"(T([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2})(?:[.,]([0-9]+))?)?)?)?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_FIRST_YEAR: Final = 1969
"""The first year that two digits mean, as in POSIX. The last one is 2068."""
_XML_SPACE: Final = " \t\r\n"


class DateFormat:
    """Reads and writes dates in one form. A value is a date or a time in ISO 8601, as the type Date has it.

    Args:
        text: with the parts ``%d %m %Y %y %H %I %p %M %S %f %z`` and ``%%``, as in ``strftime``.

    Raises:
        ValueError: a part is unknown, or stands twice, or one is missing.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts: list[tuple[str, str]] = []
        for found in _FORMAT.finditer(text):
            part, literal = found[1], found[2]
            if part is not None and part != "%" and part not in _PATTERNS:
                raise ValueError(f"date_format: found %{part}, expected one of %{' %'.join(_PATTERNS)} %%")
            self._parts.append(("", literal or "%") if part in (None, "%") else (part, ""))
        given = [part for part, _ in self._parts if part]
        self._given = set(given)
        if len(self._given) < len(given):
            raise ValueError(f"date_format: found a part twice in {text!r}, expected each once")
        self._check()
        self.width = sum(_WIDTHS.get(part, 2) if part else len(literal) for part, literal in self._parts)
        """The characters of a date that is written."""
        self._pattern = re.compile("".join(self._patterns()), re.ASCII)

    def _check(self) -> None:
        has = self._given
        year = ("Y" in has) != ("y" in has)
        if not year or not {"d", "m"} <= has:
            raise ValueError("date_format: expected %d, %m and one of %Y and %y")
        if ("I" in has) != ("p" in has) or {"H", "I"} <= has:
            raise ValueError("date_format: expected %H, or %I with %p")
        if (
            ("M" in has and not has & {"H", "I"})
            or ("S" in has and "M" not in has)
            or ("f" in has and "S" not in has)
        ):
            raise ValueError("date_format: expected hours before minutes, seconds and their fractions")

    def _patterns(self) -> list[str]:
        """Returns the patterns of the parts. A number beside another number has all its digits."""
        patterns = []
        digits = [
            part not in ("", "p", "z") or (not part and literal[:1].isdigit())
            for part, literal in self._parts
        ]
        for index, (part, literal) in enumerate(self._parts):
            if not part:
                patterns.append(re.escape(literal))
                continue
            beside = digits[index] and any(digits[max(index - 1, 0) : index] + digits[index + 1 : index + 2])
            width = _WIDTHS.get(part, 2)
            patterns.append(f"(?P<{part}>{f'[0-9]{{{width}}}' if beside else _PATTERNS[part]})")
        return patterns

    def read(self, text: Any) -> str:
        """Returns a date in ISO 8601. A blank text stays blank.

        Raises:
            ValueError: the text has another form, or there is no such date.
        """
        if not text:
            return ""
        found = self._pattern.fullmatch(text.strip(_XML_SPACE))
        iso = "" if found is None else self._iso({part: found[part] for part in self._given})
        if not iso or not is_date(iso):
            raise ValueError(f"found {describe(text)}, expected a date as {self.text}")
        return iso

    def _iso(self, parts: dict[str, str]) -> str:
        year = parts.get("Y") or str(_year(int(parts["y"])))
        iso = f"{year}-{int(parts['m']):02}-{int(parts['d']):02}"
        if self._has_time:
            hour = int(parts.get("H") or 0)
            if "I" in parts:
                hour = int(parts["I"]) % 12 + (12 if parts["p"].upper() == "PM" else 0)
                if not 1 <= int(parts["I"]) <= 12:
                    return ""
            iso += f"T{hour:02}:{int(parts.get('M', 0)):02}:{int(parts.get('S', 0)):02}"
            fraction = parts.get("f", "").rstrip("0")
            iso += f".{fraction}" if fraction else ""
        if "z" in parts:
            zone = parts["z"]
            iso += "Z" if zone == "Z" or not zone.strip("+-0:") else f"{zone[:3]}:{zone[-2:]}"
        return iso

    @property
    def _has_time(self) -> bool:
        return bool(self._given & {"H", "I"})

    def write(self, value: str) -> str:
        """Returns a value of a Date in this form.

        Raises:
            ValueError: the form cannot hold the value.
        """
        if not value:
            return ""
        found = _ISO.fullmatch(value)
        if found is None:
            raise ValueError(f"found {describe(value)}, expected a date")
        year, month, day, time, *clock, zone = found.groups()
        hour, minute, second, fraction = (one or "" for one in clock)
        fraction = fraction.rstrip("0")
        self._refuse(value, time, zone, minute, second, fraction)
        number = int(hour or 0)
        if ("y" in self._given and _year(int(year) % 100) != int(year)) or number > 23:
            raise ValueError(f"found {describe(value)}, which {self.text} cannot hold")
        texts = {
            "Y": year,
            "y": year[2:],
            "m": month,
            "d": day,
            "H": hour,
            "M": minute or "00",
            "I": f"{number % 12 or 12:02}",
            "p": "PM" if number > 11 else "AM",
            "S": second or "00",
            "f": fraction.ljust(6, "0"),
            "z": _zone(zone or ""),
        }
        return "".join(texts[part] if part else literal for part, literal in self._parts)

    def _refuse(self, value: str, time: str, zone: str, minute: str, second: str, fraction: str) -> None:
        """Raises ValueError if the form and a value do not have the same parts."""
        has, lost = self._given, ""
        if bool(time) != self._has_time:
            lost = "with a time" if self._has_time else "without a time"
        elif bool(zone) != ("z" in has):
            lost = "with a zone" if "z" in has else "without a zone"
        elif minute.strip("0") and "M" not in has:
            lost = "without minutes"
        elif second.strip("0") and "S" not in has:
            lost = "without seconds"
        elif (fraction and "f" not in has) or len(fraction) > 6:
            lost = "without such a part of a second"
        if lost:
            raise ValueError(f"found {describe(value)}, expected one {lost}, as in {self.text}")


class DateFormats:
    """Reads and writes dates in one of several forms. The first that fits counts.

    Args:
        texts: the forms, as :class:`DateFormat` takes them.

    Raises:
        ValueError: a form is wrong, or stands twice.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        if len(set(texts)) < len(texts):
            raise ValueError(f"date_format: found a form twice in {', '.join(texts)}, expected each once")
        self._formats = [DateFormat(text) for text in texts]
        self.width = max(one.width for one in self._formats)
        """The characters of the longest date that is written."""

    def read(self, text: Any) -> str:
        """Returns a date in ISO 8601. A blank text stays blank.

        Raises:
            ValueError: the text has none of the forms, or there is no such date.
        """
        for one in self._formats:
            try:
                return one.read(text)
            except ValueError:
                continue
        raise ValueError(f"found {describe(text)}, expected a date as {self._names}")

    def write(self, value: str) -> str:
        """Returns a value of a Date in the first form that can hold it.

        Raises:
            ValueError: no form can hold the value.
        """
        reason = ValueError("no form")
        for one in self._formats:
            try:
                return one.write(value)
            except ValueError as error:
                reason = error
        if len(self._formats) == 1:
            raise reason
        raise ValueError(f"found {describe(value)}, which no form can hold: {self._names}")

    @property
    def _names(self) -> str:
        return " or ".join(one.text for one in self._formats)


def _year(number: int) -> int:
    """Returns the year that two digits mean."""
    return number + (2000 if number < _FIRST_YEAR % 100 else 1900)


def _zone(text: str) -> str:
    """Returns the zone of ISO 8601 as ``+0200``."""
    digits = text[1:].replace(":", "")
    return "+0000" if text in ("", "Z") else f"{text[0]}{digits:<04}"
