"""The configuration of subscriptions with ``load`` or ``dataframe``."""

from __future__ import annotations

from abc import abstractmethod
from importlib.util import find_spec
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from connector.businessobjects.definition import Schema
from connector.declare.python_names import LookupProblem, check_process, missing_imports
from connector.declare.section import Section
from connector.declare.value_types import Text, choice, duration, integer, one_or_list
from connector.lake.columns import column_mistake
from connector.lake.sink import LoadSpec
from connector.messaging.destination import Destination
from connector.sinks.mapped_entry import MappedEntry
from connector.sinks.subscription_model import EntryCheck, PreparedEntry, RetryLaterEntry
from connector.text.names import nearest, twins

_FILES: Final = ("parquet", "orc", "json", "csv")
_OPTIONS_OF_OURS: Final = ("path", "txnappid", "txnversion", "partitionoverwritemode")


class LotsEntry(PreparedEntry):
    """A subscription whose objects are loaded in lots, as rows of a DataFrame.

    The commit that settles an event moves its object to a queue of the adapter's own.
    """

    refused = frozenset({"mime_type", "format"})

    size: Annotated[int, integer(1, "objects")] = Field(
        default=10_000, description="A lot is loaded as soon as so many objects wait. No lot has more."
    )
    every: Annotated[float, duration()] = Field(
        default=60.0, description="A lot is loaded as soon as its oldest object has waited so long."
    )
    retry_later: RetryLaterEntry = Field(
        default=RetryLaterEntry(),
        description="When a lot whose load failed is loaded again, with the same number and the same "
        "objects. `on` names the exceptions of a function, as in other subscriptions.",
    )

    def sink(self) -> LoadSpec:
        return LoadSpec()

    @property
    def sends_to(self) -> Destination | None:
        """None, because the queue is the adapter's own, one for each instance."""
        return None

    @property
    def is_loaded(self) -> bool:
        return True

    def check(self, check: EntryCheck) -> None:
        """Reports keys of other prepared sinks, and an object that has no columns of its own."""
        for key in sorted(self.refused):
            if check.is_written(key):
                check.add(key, f"{key} of a {check.key}", "it with a destination only")
        if any(letter in self.object for letter in "*?"):
            check.add("object", f"the pattern {self.object} with a {check.key}", "the name of one object")
        elif check.definitions is not None and self.delivered_object in check.definitions:
            if mistake := column_mistake(check.definitions, self.delivered_object):
                check.add("object", mistake, "an object that has columns")
            self.check_columns(check.definitions.schema(self.delivered_object), check)

    @abstractmethod
    def check_columns(self, schema: Schema, check: EntryCheck) -> None:
        """Reports columns that are no attributes of the object."""


class LoadEntry(MappedEntry, LotsEntry):
    """A function that gets many objects as one DataFrame, `def orders(dataframe, lot)`."""

    load: Text = Field(
        description="The function, `module:function`, beside `adapter.yaml` or installed. It runs in the "
        "adapter's own process, and writes the DataFrame. `lot.number` makes that exactly once."
    )

    def target(self) -> str:
        return self.load

    def check(self, check: EntryCheck) -> None:
        """Reports a missing function, without running its module."""
        super().check(check)
        try:
            check_process(self.load, check.directory, "dataframe, lot")
        except LookupProblem as error:
            check.add("load", error.found, error.expected, error.near)
            return
        for found, expected in missing_imports(self.load, check.directory):
            check.add("load", found, expected, warning=True)

    def check_columns(self, schema: Schema, check: EntryCheck) -> None:
        """Reports nothing: the function chooses its columns."""


class Dataframe(Section):
    """The table that the rows are written to, exactly once."""

    format: Annotated[
        Literal["parquet", "orc", "json", "csv", "delta", "table"], choice(*_FILES, "delta", "table")
    ] = Field(
        description="Of the files. `delta`: a Delta table, with the package `deltalake`. `table`: a table of "
        "a database in `databases`."
    )
    path: Text | None = Field(
        default=None,
        description="The directory of the table. A path without a scheme is on this machine, and counts from "
        "this file.",
    )
    table: Text | None = Field(
        default=None, description="With `format: table`: DATABASE.TABLE or DATABASE.SCHEMA.TABLE."
    )
    partition_by: Annotated[tuple[Text, ...], BeforeValidator(one_or_list)] = Field(
        default=(), description="Attributes whose values are directories."
    )
    options: dict[str, Text] = Field(
        default_factory=dict, description="Options of Spark's writer, such as `compression`."
    )

    @property
    def is_files(self) -> bool:
        """Whether each lot is a directory of files."""
        return self.format in _FILES


class DataframeEntry(LotsEntry):
    """A table that gets many objects at a time, exactly once."""

    dataframe: Dataframe = Field(description="The table.")

    def target(self) -> str:
        return self.dataframe.table or self.dataframe.path or self.dataframe.format

    @property
    def database(self) -> str | None:
        name, dot, _ = (self.dataframe.table or "").partition(".")
        return name if dot and self.dataframe.format == "table" else None

    def check(self, check: EntryCheck) -> None:
        """Reports keys that the format lacks or does not have."""
        super().check(check)
        found = self.dataframe
        here = "dataframe."
        if found.format == "table":
            if found.table is None or found.table.count(".") not in (1, 2):
                check.add(
                    f"{here}table", found.table or "no table", "DATABASE.TABLE or DATABASE.SCHEMA.TABLE"
                )
            for key in ("path", "partition_by", "options"):
                if getattr(found, key):
                    check.add(here + key, f"{key} with format: table", "it with a format that has files")
            return
        if found.path is None:
            check.add(f"{here}path", f"format: {found.format} without a path", "the directory of the table")
        elif "://" not in found.path and not check.runs_here:
            check.add(
                f"{here}path",
                f"{found.path} on this machine, and workers elsewhere",
                "a path with a scheme, such as hdfs://, or a directory that all machines share",
                warning=True,
            )
        if found.table is not None:
            check.add(f"{here}table", f"table with format: {found.format}", "it with format: table")
        if found.format == "delta" and not (find_spec("deltalake") and find_spec("pyarrow")):
            install = "pip install 'event-connector[delta]'"
            check.add(f"{here}format", "delta without the packages deltalake and pyarrow", install)
        if found.format == "delta" and found.options:
            check.add(f"{here}options", "options with format: delta", "none")
        for earlier, option in twins(found.options):
            check.add(f"{here}options.{option}", f"{earlier} and {option}, one option", "one of the two")
        for option in found.options:
            if option.casefold() in _OPTIONS_OF_OURS:
                check.add(f"{here}options.{option}", f"{option}, which the connector sets", "no such option")

    def check_columns(self, schema: Schema, check: EntryCheck) -> None:
        attributes = schema.body_names
        fields = [schema.fields[name] for name in attributes]
        names = [one.name for one in fields if one.child is None and not one.many]
        nested = [name for name in attributes if name not in names]
        found = self.dataframe
        if found.format == "table" and nested:
            check.add(
                "dataframe.format", f"a table without a column for {', '.join(nested)}", "another format"
            )
        if found.is_files and "lot" in map(str.casefold, attributes):
            check.add("dataframe.format", "an attribute 'lot', and each lot is a directory lot=...", "delta")
        if found.partition_by and set(attributes) <= set(found.partition_by):
            check.add("dataframe.partition_by", "every attribute", "some of them")
        for name in self.dataframe.partition_by:
            if name not in names:
                check.add(
                    "dataframe.partition_by",
                    f"{schema.name} has no simple attribute {name!r}",
                    f"one of {', '.join(names)}",
                    nearest(name, names),
                )
