"""The CSV files that ``lookup`` of an expression reads: from the first column to the second.

The files are read once, with the configuration. Their values travel to the workers.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connector.regular_file import read_regular
from connector.text.names import shown


@dataclass(frozen=True, slots=True)
class Lookups:
    """The tables of an expression, by the name of the file as the expression has it.

    Args:
        digest: of the tables. Two of these objects are equal if their digests are.
    """

    digest: str
    tables: Mapping[str, Mapping[str, str]] = field(compare=False, repr=False)


NO_LOOKUPS: Final = Lookups("", {})


def read_lookups(files: Iterable[str], directory: Path) -> Lookups:
    """Reads the files of an expression.

    Args:
        files: relative paths count from ``directory``.

    Raises:
        ValueError: a file cannot be used. The text names the file, the found and the expected.
    """
    tables = {file: _read(file, directory) for file in files}
    if not tables:
        return NO_LOOKUPS
    digest = hashlib.sha256(repr(tables).encode("utf-8", "surrogatepass")).hexdigest()
    return Lookups(digest, tables)


def _read(file: str, directory: Path) -> dict[str, str]:
    try:
        text = read_regular(directory / file).decode("utf-8-sig")
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}, expected a CSV file beside the expression") from None
    except ValueError:
        raise ValueError(f"{file}: found bytes that are no UTF-8, expected a CSV file in UTF-8") from None
    table: dict[str, str] = {}
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        next(reader, None)  # the header
        for row in reader:
            if not row:
                continue
            if len(row) < 2:
                found = f"found {len(row)} column"
                raise ValueError(f"{file}:{reader.line_num}: {found}, expected two, separated by a comma")
            if table.setdefault(row[0], row[1]) != row[1]:
                found = f"found a second value for {shown(row[0])}"
                raise ValueError(f"{file}:{reader.line_num}: {found}, expected one row for each key")
    except csv.Error as error:
        raise ValueError(f"{file}:{reader.line_num}: {error}, expected a CSV file") from None
    return table
