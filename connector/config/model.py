"""The sections of ``adapter.yaml``. Each field is declared once, here, or where its section is imported from.

From these classes come the reading of the file, the errors, the resolved configuration, the JSON
Schema and the generated reference.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from connector.config.database_url import DATABASE_URL
from connector.config.http_model import Http
from connector.config.timer_model import TimerEntry
from connector.config.tracing_model import Tracing
from connector.declare.connector_section import Connector
from connector.declare.history_section import HistorySection
from connector.declare.pipeline_section import Pipeline
from connector.declare.section import ProviderSection, Section
from connector.declare.value_types import (
    MIN_FREE,
    PathName,
    choice,
    one_or_list,
)
from connector.limits.free_space import MinFree
from connector.log import LogSettings
from connector.operate.health_section import Health

_Level = Annotated[Literal["debug", "info", "warning", "error"], choice("debug", "info", "warning", "error")]


class Logging(Section):
    """Logs, on the standard error stream."""

    level: _Level = Field(default="info", description="The lowest level that is written.")
    format: Annotated[Literal["console", "json"], choice("console", "json")] = Field(
        default="console", description="For people or for programs."
    )
    loggers: dict[str, _Level] = Field(
        default_factory=dict,
        description="Levels of single loggers, by name, instead of `level`: of your processes, of libraries "
        "and of the connector.",
        examples=[{"shop": "debug"}],
    )

    def settings(self, *, debug: bool) -> LogSettings:
        """Returns the settings of the log, for the adapter and its workers."""
        return LogSettings(self.level, self.format, debug, dict(self.loggers))


class State(Section):
    """The directory of the journals, published ids and instance locks.

    Only for a provider that does not keep them itself.
    """

    directory: PathName = Field(
        description="Every instance of the `ApplicationName` sees the directory under this path."
    )


class DatabaseSection(Section):
    """A database with business data, for subscriptions with `transaction`, `table` or `dataframe`.

    Tested with SQLite and PostgreSQL. Any dialect of SQLAlchemy may work.
    """

    url: Annotated[str, DATABASE_URL] = Field(
        repr=False,
        description="Of the database, as SQLAlchemy reads it. A SQLite file is relative to this file. "
        "PostgreSQL needs the extra `postgresql`. Give the password as `${NAME}` from the environment.",
    )


class AdapterFile(Section):
    """``adapter.yaml`` as a whole, before its parts are checked against one another."""

    # read earlier, by the provider's own model (provider_section.py), None = not valid
    provider: ProviderSection | None = Field(description="Holds the messages.")
    connector: Connector = Field(description="Polling, handling of messages, and requests.")
    subscriptions: tuple[dict[str, Any], ...] = Field(
        default=(), description="Subscriptions to business objects."
    )
    """Each entry is read by :mod:`connector.config.subscription_reading`, with the model of its sink."""

    timers: tuple[TimerEntry, ...] = Field(
        default=(), description="Messages that the adapter sends when their times come."
    )
    metaobjects: Annotated[tuple[PathName, ...], BeforeValidator(one_or_list)] = Field(
        default=(),
        description="Business objects and meta-objects: a directory (its `*.yaml`), or a list of "
        "files and directories.",
    )
    datahandlers: PathName | None = Field(
        default=None, description="Your own data handlers: a file or directory, loaded by path."
    )
    spark: Pipeline = Field(
        default=Pipeline.model_validate({}), description="Spark, which processes the events."
    )
    logging: Logging = Field(default=Logging(), description="Logs.")
    state: State | None = Field(
        default=None, description="Journals, published ids and locks. Left out: the provider decides."
    )
    min_free: Annotated[MinFree, MIN_FREE] = Field(
        default=MinFree(percent=1.0),
        description="Of the disk of the messages: a share, or a size such as `500MB`. While less is free, "
        "the inputs are not claimed. For a dropbox and a SQLite file only. `0`: no limit.",
    )
    history: HistorySection = Field(
        default=HistorySection(), description="What happened to each event and request."
    )
    health: Health = Field(default=Health(), description="Limits beyond which the adapter is not well.")
    http: Http | None = Field(default=None, description="Requests over HTTP. Left out: no server.")
    tracing: Tracing | None = Field(default=None, description="Traces. Left out: no spans.")
    databases: dict[str, DatabaseSection] = Field(
        default_factory=dict, description="Databases for `transaction` and `table`, each under a name."
    )
