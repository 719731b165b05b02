"""The sections of ``adapter.yaml``. Each field is declared once, here.

From these classes come the reading of the file, the errors, the resolved configuration, the JSON
Schema and the generated reference. The alias of a field is the name in the file. CamelCase names come from
WBI Adapter for JMS, lower_snake_case names are ours. The description says "ours" for every default that WBI
Adapter for JMS does not record.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from connector.config.destinations import COPIES, IN_PROGRESS, INPUT, REPLIES, SELECTOR
from connector.config.http_model import Http
from connector.config.kinds import (
    CONTAINER_MANAGED,
    Boolean,
    DirectoryName,
    Minutes,
    PathName,
    Size,
    Text,
    TimeOfDay,
    choice,
    duration,
    integer,
    one_or_list,
    split_list,
)
from connector.config.request_model import FORMAT, PROPERTY, ReplyMatching
from connector.config.section import ProviderSection, Section
from connector.config.tree import Leaf
from connector.messaging.destination import Destination

Copies = Annotated[Destination, COPIES]


class InputEntry(Section):
    """One destination that is polled. Written as its name alone, or as a mapping."""

    destination: Annotated[Destination, INPUT] = Field(
        description="A queue, a topic, or what a queue could not deliver: `orders~EXPIRED`, "
        "`orders~REJECT-ERROR`."
    )
    selector: Annotated[str, SELECTOR] | None = Field(
        default=None,
        description="Only messages that match; those of a queue that do not stay there for others, those of "
        "a topic never get into the subscription.",
    )
    subscription: Text | None = Field(
        default=None,
        description="Topics only, which need it: name of the durable subscription. Its client id is the "
        "`ApplicationName`, and the instances of that name share it.",
    )
    shared: Boolean = Field(
        default=False,
        description="Topics only: it is a shared durable subscription, as made by `connector subscribe "
        "--shared`. Only instances of this `ApplicationName` can consume it all the same: that is its client "
        "id, and they hold it.",
    )
    no_local: Boolean = Field(
        default=False, description="Topics only: not what this adapter has sent itself."
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"destination": value} if isinstance(value, Leaf) else value

    def __str__(self) -> str:
        """Returns the destination, with the text that distinguishes two inputs of one destination."""
        text = str(self.destination)
        if self.subscription is not None:
            text += f" (subscription {self.subscription!r})"
        elif self.selector is not None:
            text += f" (selector {self.selector!r})"
        return text

    def written(self) -> str | dict[str, Any]:
        """Returns the input in the shortest form for the file."""
        options = self.model_dump(exclude={"destination"}, exclude_defaults=True)
        return {"destination": str(self.destination), **options} if options else str(self.destination)


class Connector(Section):
    """What is polled, how often, and what becomes of the messages; requests."""

    application_name: DirectoryName = Field(
        alias="ApplicationName",
        description="One name = one adapter: its instances share the work and the duplicate window.",
    )
    inputs: Annotated[
        tuple[InputEntry, ...],
        BeforeValidator(split_list),
        PlainSerializer(lambda value: [entry.written() for entry in value]),
    ] = Field(
        default=(),
        alias="InputDestination",
        description="A list, or one text with `;` between names; polled round-robin in this order. None: "
        "requests only.",
    )
    poll_frequency: Annotated[int | None, integer(0, "milliseconds", none="no")] = Field(
        default=10000,
        alias="PollFrequency",
        description="From the end of a poll to the start of the next; `no`: never by itself.",
    )
    wake: Boolean = Field(
        default=True,
        description="`true`: a poll begins at once when the provider says that a message has come, and when "
        "the poll before it took `PollQuantity` of a destination. `PollFrequency` is then the longest wait. "
        "`false`: every poll waits `PollFrequency`, as in the source.",
    )
    poll_quantity: Annotated[int, integer(1, "messages")] = Field(
        default=1, alias="PollQuantity", description="At most so many messages of each destination in a poll."
    )
    poll_start_time: TimeOfDay | None = Field(
        default=None,
        alias="PollStartTime",
        description="Start of the daily window for polls, local time; needs `PollEndTime`. May cross "
        "midnight. `--once` and `--drain` ignore it.",
    )
    poll_end_time: TimeOfDay | None = Field(
        default=None, alias="PollEndTime", description="End of the daily window; needs `PollStartTime`."
    )
    order: Annotated[Literal["destination", "group", "none"], choice("destination", "group", "none")] = Field(
        default="destination",
        description="What is published one after the other: the events of a destination, of a JMSXGroupID, "
        "or nothing.",
    )
    max_body: Size = Field(default=16 << 20, description="A larger body is not read: the event has failed.")
    max_attempts: Annotated[int, integer(1, "deliveries")] = Field(
        default=5, description="Deliveries begun for one event, then it has failed."
    )
    in_progress_destination: Annotated[Destination, IN_PROGRESS] | None = Field(
        default=None,
        alias="InProgressDestination",
        description="Where a message is while it is worked on, so that in-doubt events can be told apart.",
    )
    in_doubt_events: Annotated[
        Literal["Reprocess", "FailOnStartup", "Ignore", "LogError"],
        choice("Reprocess", "FailOnStartup", "Ignore", "LogError"),
    ] = Field(
        default="Reprocess",
        alias="InDoubtEvents",
        description="What becomes of messages found in the `InProgressDestination`.",
    )
    archive_destination: Copies | None = Field(
        default=None,
        alias="ArchiveDestination",
        description="Copies of published messages; none: no copy is kept.",
    )
    error_destination: Copies | None = Field(
        default=None,
        alias="ErrorDestination",
        description="Copies of failed messages; none: no copy is kept.",
    )
    unsubscribed_destination: Copies | None = Field(
        default=None,
        alias="UnsubscribedDestination",
        description="Copies of messages that nobody wants; none: no copy is kept.",
    )
    keep_archive: Annotated[float | None, duration(none="forever")] = Field(
        default=None,
        description="A copy is removed from the `ArchiveDestination` after this. So with the two below: "
        "only copies of adapters are, no other message and none that somebody has taken.",
    )
    keep_error: Annotated[float | None, duration(none="forever")] = Field(
        default=None, description="The same for the `ErrorDestination`."
    )
    keep_unsubscribed: Annotated[float | None, duration(none="forever")] = Field(
        default=None,
        description="The same for the `UnsubscribedDestination`. Where two of them are one queue, the longer "
        "time counts.",
    )
    duplicate_event_elimination: Boolean = Field(
        default=False,
        alias="DuplicateEventElimination",
        description="A message that was published already is not published again.",
    )
    duplicate_window: Annotated[int, integer(1, "message ids")] = Field(
        default=100_000, description="Published ids remembered (the source remembers one)."
    )
    container_managed_events: Annotated[bool, CONTAINER_MANAGED] = Field(
        default=False,
        alias="ContainerManagedEvents",
        description="`JMS`: an event is taken, published and settled in one transaction, rolled back where "
        "anything fails; every subscription is a destination, every input a queue.",
    )
    configuration_meta_object: Text | None = Field(
        default=None,
        alias="ConfigurationMetaObject",
        description="The static meta-object: the rules that say which business object a message means.",
    )
    data_handler_mime_type: Text = Field(
        default="text/xml",
        alias="DataHandlerMimeType",
        description="The default data handler (the default value is that of the source's sibling adapters).",
    )
    data_handler_config_mo: Text = Field(
        default="MO_DataHandler_Default",
        alias="DataHandlerConfigMO",
        description="The data-handler meta-object with the options of all data handlers; one that is not "
        "named and not there means that all options have their defaults.",
    )
    data_handler_class_name: Text | None = Field(
        default=None,
        alias="DataHandlerClassName",
        description="The default data handler named directly, `module:Class`; then no options are read.",
    )
    message_format_property: Annotated[str, FORMAT] = Field(
        default="JMSType",
        alias="MessageFormatProperty",
        description="The header or property that `InputFormat` and `OutputFormat` mean (default ours).",
    )
    default_verb: Text = Field(
        default="Create", alias="DefaultVerb", description="Verb of events whose rule and body name none."
    )
    use_defaults: Boolean = Field(
        default=False,
        alias="UseDefaults",
        description="`true`: the default of an attribute satisfies `required`.",
    )
    reply_to_destination: Annotated[Destination, REPLIES] | None = Field(
        default=None,
        alias="ReplyToDestination",
        description="Where replies to requests are awaited, unless a meta-object says otherwise; none: a "
        "temporary queue. Several adapters may share it, and others may use it: each takes its own replies. "
        "Those to a process that has ended stay until they expire.",
    )
    message_response_result_property: Annotated[str, PROPERTY] = Field(
        default="ResponseResult",
        alias="MessageResponseResultProperty",
        description="The property of a reply that says what became of its request: `SUCCESS`, `VALCHANGE`, "
        "`FAIL` ... (default ours).",
    )
    reply_matching: ReplyMatching = Field(
        default=ReplyMatching(), description="How a reply says which request it answers."
    )
    session_pool_size_for_requests: Annotated[int, integer(1, "requests", maximum=10_000)] = Field(
        default=10,
        alias="SessionPoolSizeForRequests",
        description="Synchronous requests in flight at a time; the others wait for their turn.",
    )
    pool_timeout: Annotated[float, duration(zero=True)] = Field(
        default=30.0,
        description="How long a request waits for its turn; then it has failed, and is not sent.",
    )
    late_replies: Annotated[Literal["error", "archive", "discard"], choice("error", "archive", "discard")] = (
        Field(
            default="error",
            description="What becomes of replies that nobody awaits any more, second ones among them, while "
            "the process that has asked goes on: a copy in the `ErrorDestination` (none where there is none) "
            "or the `ArchiveDestination`, or nothing. They are counted and logged in any case.",
        )
    )
    response_selector_quoting: Annotated[Literal["quoted", "raw"], choice("quoted", "raw")] = Field(
        default="quoted",
        description="Values that are substituted into a `response_selector`: as literals of the selector, or "
        "`raw` as the source has it, where a value may change what the selector means.",
    )
    restart_retry_count: Annotated[int, integer(0, "attempts")] = Field(
        default=3,
        alias="RestartRetryCount",
        description="Reconnections after APPRESPONSETIMEOUT; 0: end at once.",
    )
    restart_retry_interval: Minutes = Field(
        default=1.0,
        alias="RestartRetryInterval",
        description="Minutes between two attempts to reconnect; the first one comes at once.",
    )
    agent_trace_level: Annotated[int, integer(0, "level", maximum=5)] = Field(
        default=0,
        alias="AgentTraceLevel",
        description="What the log traces; a level has all below it. 0: nothing. 1: each message detected and "
        "the outcome of each event. 2: each business object handed to a subscriber, requests sent and "
        "answered. 3: conversions, messages sent to destinations. 4: the steps of a poll with their "
        "durations. 5: properties at the start, messages taken and put, dumps of business objects. "
        "Secrets and attributes of type Ciphertext are masked.",
    )
    stop_timeout: Annotated[float, duration(zero=True)] = Field(
        default=30.0, description="How long what is in flight may take once the adapter was told to stop."
    )
    instance: DirectoryName | None = Field(
        default=None,
        description="Name of this instance, stable across restarts; default: the name of the host (with a "
        "number where several run).",
    )

    @property
    def own_destinations(self) -> dict[str, Destination]:
        """The destinations beside the inputs, by their keys."""
        found = {
            "InProgressDestination": self.in_progress_destination,
            "ArchiveDestination": self.archive_destination,
            "ErrorDestination": self.error_destination,
            "UnsubscribedDestination": self.unsubscribed_destination,
            "ReplyToDestination": self.reply_to_destination,
        }
        return {key: destination for key, destination in found.items() if destination is not None}


class Spark(Section):
    """Where the events are processed."""

    master: Text | None = Field(
        default=None,
        description="`local[4]`, `local[*]`, `spark://HOST:PORT` (`,HOST:PORT` for each further master), "
        "`yarn` or `k8s://HOST:PORT`. None: that of the given session or of spark-submit, else `local[*]`.",
    )
    max_jobs: Annotated[int, integer(1, "jobs")] | None = Field(
        default=None,
        description="Batches of events that run side by side. None: the cores of the application.",
    )
    python: Text | None = Field(
        default=None, description="The workers' Python; default: the one that runs the adapter."
    )
    ship: Annotated[tuple[PathName, ...] | None, BeforeValidator(one_or_list)] = Field(
        default=None,
        description="Files and directories sent to the workers of a cluster; default: `*.py` and "
        "`datahandlers` beside this file.",
    )
    conf: dict[str, Text] = Field(
        default_factory=dict,
        repr=False,
        description="Any Spark setting but those that the event job owns. A name one or two letters "
        "away from a setting of Spark is a mistake, and so is a value that Spark cannot read.",
    )


class Logging(Section):
    """Logs, on the standard error stream."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], choice("debug", "info", "warning", "error")
    ] = Field(default="info", description="The least level that is written.")
    format: Annotated[Literal["console", "json"], choice("console", "json")] = Field(
        default="console", description="For people or for programs."
    )


class State(Section):
    """What the instances of an application keep beside messages: journals, published ids, instance locks.

    Only for a provider that does not keep them itself.
    """

    directory: PathName = Field(
        description="Directory for them. Every instance of the `ApplicationName` sees it under this path."
    )


class AdapterFile(Section):
    """``adapter.yaml`` as a whole, before its parts are checked against one another."""

    # read earlier, by the provider's own model (provider_section.py), None = not valid
    provider: ProviderSection | None = Field(description="Where messages live.")
    connector: Connector = Field(description="What is polled, and what becomes of it.")
    subscriptions: tuple[dict[str, Any], ...] = Field(default=(), description="The integration broker.")
    """Each entry is read by :mod:`connector.config.subscription_reading`, with the model of its sink."""

    metaobjects: Annotated[tuple[PathName, ...], BeforeValidator(one_or_list)] = Field(
        default=(),
        description="Business objects and meta-objects: a directory (its `*.yaml`), or a list of "
        "files and directories.",
    )
    datahandlers: PathName | None = Field(
        default=None, description="Data handlers of one's own: a file or directory, loaded by path."
    )
    spark: Spark = Field(default=Spark(), description="Where the events are processed.")
    logging: Logging = Field(default=Logging(), description="Logs.")
    state: State | None = Field(
        default=None, description="Journals, published ids and locks; left out: the provider decides."
    )
    http: Http | None = Field(default=None, description="Requests over HTTP; left out: no server.")
