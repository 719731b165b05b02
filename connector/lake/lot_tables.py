"""The tables that lots of objects are written to, and how each of them knows a lot again.

A lot has an *application id* (``app_id``) and a number. Both are the same whenever the lot is loaded again.
So a table that remembers them holds each lot once:

* Files: a lot is one directory ``lot=APP_ID-NUMBER``, which is replaced as a whole.
* Delta: a commit has the transaction of the lot, txnAppId and txnVersion. A second one is skipped.
* A database: the transaction with the rows also writes the number of the lot into ``connector_lot``.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote

from connector import faults
from connector.databases.settings import DatabaseSettings
from connector.own_files import sync_directory
from connector.spark.reasons import java_reason
from connector.text.names import cut
from connector.tracebacks import error_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ROWS_OF_A_FILE: Final = 10_000
"""Rows for which another file is worth its while."""
_LONGEST_REASON: Final = 2000
_CAUSE: Final = re.compile(r"^Caused by: (.*)$", re.MULTILINE)
_AWAY: Final = re.compile(
    r"java\.net\.\w+Exception|java\.nio\.channels\.\w*Closed\w*Exception|java\.sql\.SQL(Transient|Recoverable"
    r"|NonTransientConnection)\w*|TimeoutException|Connection (refused|reset)|SafeModeException"
)
"""What a Java exception says if a server is away."""


@dataclass(frozen=True, slots=True)
class LoadLot:
    """A lot that is loaded, as a function sees it.

    Args:
        number: from 1, rising. Equal whenever the same objects are loaded again, and never used for others.
        app_id: names the sequence of the numbers. A sequence that is made anew has another one.
        attempt: 1 at the first load of the lot. A higher number says that the lot may be in the table.
    """

    number: int
    app_id: str
    attempt: int
    count: int
    subscription: str


class LotWriter(Protocol):
    """Writes lots to one table. For one thread."""

    def last_number(self, session: SparkSession, app_id: str) -> int:
        """Returns the highest number that the table holds of a sequence. 0 = it holds none."""

    def write(self, frame: DataFrame, lot: LoadLot) -> None:
        """Writes the rows of a lot. A lot that was written before is in the table once afterwards."""

    def withdraw(self, empty: DataFrame, lot: LoadLot) -> bool:
        """Makes certain that the table holds no row of a lot, and that the table can be written.

        Args:
            empty: has the columns of the lot, and no row.

        Returns:
            whether that is certain.

        Raises:
            Exception: the table cannot be written or read now.
        """


class FunctionWriter(LotWriter):
    """A function of the user, which may have written a lot whose load failed.

    Args:
        function: gets the DataFrame and the lot.
    """

    def __init__(self, function: Callable[[Any, LoadLot], object]) -> None:
        self.function = function

    def last_number(self, session: SparkSession, app_id: str) -> int:
        return 0

    def write(self, frame: DataFrame, lot: LoadLot) -> None:
        self.function(frame, lot)

    def withdraw(self, empty: DataFrame, lot: LoadLot) -> bool:
        return False


class FilesWriter(LotWriter):
    """A directory of files, in which each lot is one directory.

    Spark reads all of them as one table. Its column ``lot`` says which lot a row came with.

    Args:
        format: ``parquet``, ``orc``, ``json`` or ``csv``.
        path: absolute, or with a scheme.
        partition_by: columns whose values are directories.
    """

    def __init__(
        self,
        format: str,
        path: str,
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._format = format
        self._directory = "" if "://" in path else path
        self._url = f"file://{path}" if self._directory else path.rstrip("/")
        self._partition_by = tuple(partition_by)
        self._options = dict(options or {})

    def last_number(self, session: SparkSession, app_id: str) -> int:
        start = f"lot={quote(app_id, safe='')}-"
        names = os.listdir(self._directory) if os.path.isdir(self._directory) else []
        if not self._directory:
            names = list(self._names_of_files(session, start))
        found = [name.removeprefix(start) for name in names if name.startswith(start)]
        return max((int(number) for number in found if number.isdecimal()), default=0)

    def _names_of_files(self, session: SparkSession, start: str) -> Iterator[str]:
        """Yields the parts of the paths of files in directories of lots."""
        from pyspark.errors import AnalysisException

        reader = session.read.format("binaryFile").option("recursiveFileLookup", "true")
        try:
            found = reader.load(f"{self._url}/{start}*").select("path").collect()
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return
        for (path,) in found:
            yield from path.split("/")

    def write(self, frame: DataFrame, lot: LoadLot) -> None:
        """Writes a lot. On this machine its directory appears as a whole, and stays after a power cut.

        The last step is one of this process. So the Java of a dead process cannot add to the directory.
        """
        name = f"lot={quote(lot.app_id, safe='')}-{lot.number}"
        if not self._directory:
            self._save(frame, f"{self._url}/{name}")
            return
        target, new = Path(self._directory, name), Path(self._directory, f".{name}.new")
        old = target.with_name(f".{name}.old")
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)
        part = new / secrets.token_hex(4)  # a dead process may still write to another one
        self._save(frame, f"file://{part}")
        _sync(part)
        faults.point("load.saved")
        if target.exists():
            target.rename(old)
        part.rename(target)
        sync_directory(self._directory)
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)

    def _save(self, frame: DataFrame, url: str) -> None:
        writer = frame.write.mode("overwrite").format(self._format).options(**self._options)
        writer = writer.option("partitionOverwriteMode", "static")
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.save(url)

    def withdraw(self, empty: DataFrame, lot: LoadLot) -> bool:
        self.write(empty, lot)
        return True


def _sync(directory: Path) -> None:
    """Brings all files below a directory to the disk."""
    for path, _, names in os.walk(directory):
        for name in names:
            with open(os.path.join(path, name), "rb") as file:
                os.fsync(file.fileno())
        sync_directory(path)


class DeltaWriter(LotWriter):
    """A Delta table, written by the package ``deltalake``.

    Args:
        path: absolute, or with a scheme.
        partition_by: columns whose values are directories.
    """

    def __init__(self, path: str, partition_by: Sequence[str] = ()) -> None:
        self._path = path
        self._partition_by = list(partition_by) or None

    def last_number(self, session: SparkSession, app_id: str) -> int:
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self._path):
            return 0
        return DeltaTable(self._path).transaction_version(app_id) or 0

    def write(self, frame: DataFrame, lot: LoadLot) -> None:
        from deltalake import CommitProperties, Transaction

        if self.last_number(frame.sparkSession, lot.app_id) < lot.number:
            self._append(frame, CommitProperties(app_transactions=[Transaction(lot.app_id, lot.number)]))

    def _append(self, frame: DataFrame, properties: Any) -> None:
        from deltalake import write_deltalake

        if not os.path.isdir(self._path) and "://" not in self._path:
            os.makedirs(self._path)
        write_deltalake(
            self._path,
            frame.toArrow(),
            mode="append",
            partition_by=self._partition_by,
            commit_properties=properties,
        )

    def withdraw(self, empty: DataFrame, lot: LoadLot) -> bool:
        self._append(empty, None)
        return self.last_number(empty.sparkSession, lot.app_id) < lot.number


class DatabaseWriter(LotWriter):
    """A table of a database. The rows and the number of their lot are one transaction.

    Args:
        table: TABLE or SCHEMA.TABLE. Its columns have the names of the attributes.
    """

    def __init__(self, settings: DatabaseSettings, table: str) -> None:
        from connector.lake.lot_rows import LotRows  # SQLAlchemy, which most adapters never need

        self._rows = LotRows(settings, table)

    def last_number(self, session: SparkSession, app_id: str) -> int:
        return self._rows.last_number(app_id)

    def write(self, frame: DataFrame, lot: LoadLot) -> None:
        self._rows.write((row.asDict() for row in frame.toLocalIterator()), lot.app_id, lot.number)

    def withdraw(self, empty: DataFrame, lot: LoadLot) -> bool:
        return self._rows.is_missing(lot.app_id, lot.number)


def make_frame(session: SparkSession, schema: StructType, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    """Returns the DataFrame of rows that fit a schema. Few rows get few partitions, and so few files."""
    frame = session.createDataFrame(rows, schema, verifySchema=False)
    return frame.coalesce(1 + len(rows) // _ROWS_OF_A_FILE)


@contextlib.contextmanager
def describing(session: SparkSession, tags: Sequence[str], description: str) -> Iterator[None]:
    """Gives the Spark jobs of this thread tags and a description for a while."""
    context = session.sparkContext
    for tag in tags:
        context.addJobTag(tag)
    context.setJobDescription(description)
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # Java may have ended
            context.setJobDescription(None)
            for tag in tags:
                context.removeJobTag(tag)


def load_reason(error: BaseException) -> str:
    """Returns type and text of an exception, without the stack trace of Java, and its first cause."""
    from py4j.protocol import Py4JJavaError

    if not isinstance(error, Py4JJavaError):
        return cut(error_text(error), _LONGEST_REASON)
    causes = _CAUSE.findall(str(error))
    reason = java_reason(error) or type(error).__name__
    return cut(f"{reason} ({causes[-1]})" if causes else reason, _LONGEST_REASON)


def is_away(error: BaseException) -> bool:
    """Whether an exception of Spark says that a server could not be reached, or that Java has ended."""
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    if isinstance(error, Py4JNetworkError):
        return True
    return isinstance(error, Py4JError | PySparkException) and _AWAY.search(str(error)) is not None
