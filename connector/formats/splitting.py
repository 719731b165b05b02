"""Bodies with many objects, for handlers that split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData, UnknownBusinessObject

_T = TypeVar("_T")


def read_one(objects: Iterator[BusinessObject], records: Iterator[object]) -> BusinessObject:
    """Returns the object of a body that may hold one object alone.

    Args:
        records: the records that ``objects`` reads. Those that are left are counted.

    Raises:
        MalformedData: there are more records.
    """
    bo = next(objects)
    rest = sum(1 for _ in records)
    if rest:
        raise MalformedData(f"found {rest + 1} records, expected one; set the option split")
    return bo


def write_each(bos: Sequence[BusinessObject], write: Callable[[BusinessObject], _T]) -> list[_T]:
    """Returns what ``write`` makes of each object.

    Raises:
        MalformedData: there is no object, or ``write`` raises. The text begins with the number of the record.
    """
    if not bos:
        raise MalformedData("found no object, expected at least one")
    records: list[_T] = []
    for bo in bos:
        try:
            records.append(write(bo))
        except MalformedData as error:
            raise in_record(len(records) + 1, error) from None
    return records


def refuse_joint_body(bos: Sequence[BusinessObject], mime_type: str) -> None:
    """Refuses to write several objects with a handler whose bodies hold one object.

    Raises:
        MalformedData: there is more than one object.
    """
    if len(bos) > 1:
        raise MalformedData(
            f"the body holds {len(bos)} objects, and a body of {mime_type} holds one; or set the option split"
        )


def in_record(number: int, error: MalformedData, text: str = "") -> MalformedData:
    """Returns an error that begins with the number of a record.

    Args:
        number: from 1.
        text: stands in place of the error's own text. Empty = the error's own.
    """
    kind = UnknownBusinessObject if isinstance(error, UnknownBusinessObject) else MalformedData
    return kind(f"record {number}: {text or error}")
