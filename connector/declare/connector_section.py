"""The section ``connector`` of ``adapter.yaml``. Each key is declared once, here.

The alias of a field is the name in the file. CamelCase names come from WBI Adapter for JMS, lower_snake_case
names are ours. The description says "ours" for every default that WBI Adapter for JMS does not record.

The parts of an adapter read their keys from the section itself. What travels to a worker holds
:func:`~connector.declare.plain_section.plain` of the section.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from connector.cron import Cron
from connector.declare.cron_type import POLL_FREQUENCY
from connector.declare.destinations import (
    ANSWERED_BY,
    CORRELATION_ID,
    FORMAT,
    IN_PROGRESS,
    MESSAGE_ID,
    PROPERTY,
    REPLIES,
    REQUESTED_BY,
)
from connector.declare.input_entry import (
    CopiesName,
    DuplicateKey,
    InputEntry,
    OrderName,
    Parallel,
    UnpackName,
    given_destinations,
    split_inputs,
)
from connector.declare.section import Section
from connector.declare.value_types import (
    CONTAINER_MANAGED,
    Boolean,
    DirectoryName,
    Minutes,
    Size,
    Text,
    TimeOfDay,
    choice,
    duration,
    integer,
    size,
)
from connector.messaging.copy_destinations import CopyDestinations
from connector.messaging.destination import Destination
from connector.messaging.input import Input
from connector.messaging.message import Message
from connector.messaging.selector import may_match


class ReplyMatching(Section):
    """Headers or properties that match a reply with its request, for requests made and requests served."""

    request: Annotated[str, REQUESTED_BY] = Field(default=MESSAGE_ID, description="Identifies a request.")
    reply: Annotated[str, ANSWERED_BY] = Field(
        default=CORRELATION_ID, description="Identifies the request in replies."
    )


class Connector(Section):
    """Polling, the handling of messages, and requests."""

    application_name: DirectoryName = Field(
        alias="ApplicationName",
        description="Name of the adapter. All its instances share the work and the duplicate window.",
    )
    inputs: Annotated[
        tuple[InputEntry, ...],
        BeforeValidator(split_inputs),
        PlainSerializer(lambda value: [entry.short_form() for entry in value]),
    ] = Field(
        default=(),
        alias="InputDestination",
        description="A list, or one text with `;` between names, polled round robin in this order. None: "
        "requests only.",
    )
    poll_frequency: Annotated[int | Cron | None, POLL_FREQUENCY] = Field(
        default=10000,
        alias="PollFrequency",
        description="Time from the end of a poll to the next. `no`: never polls by itself. "
        "`cron 0 6 * * mon-fri`: polls at these local times until nothing waits. The fields are those of "
        "crontab(5). Between these times only events that come again later are taken, when they are due.",
    )
    wake: Boolean = Field(
        default=True,
        description="`true`: a poll begins at once when a message has come, or when the last poll took "
        "`PollQuantity` messages of a destination. `PollFrequency` is then the longest wait. `false`: every "
        "poll waits `PollFrequency`, as in WBI Adapter for JMS. Between the times of a cron no message "
        "begins a poll.",
    )
    poll_quantity: Annotated[int, integer(1, "messages")] = Field(
        default=1,
        alias="PollQuantity",
        description="Largest number of messages that a poll takes of each input. An input may have its own.",
    )
    poll_start_time: TimeOfDay | None = Field(
        default=None,
        alias="PollStartTime",
        description="Start of the daily window for polls, local time. Needs `PollEndTime`. May cross "
        "midnight. `--once` and `--drain` ignore the window.",
    )
    poll_end_time: TimeOfDay | None = Field(
        default=None, alias="PollEndTime", description="End of the daily window. Needs `PollStartTime`."
    )
    order: OrderName = Field(
        default="destination",
        description="Events that are published one after the other: those of a destination, of a "
        "JMSXGroupID, or none. The order holds within an instance. With the provider `sql`, the order of a "
        "JMSXGroupID holds across instances, too. An event that comes again later (`retry_later`) holds all "
        "events of its destination, or of its group, until then.",
    )
    parallel: Parallel = Field(
        default=1,
        description="Events that an instance delivers at the same time, in threads, whatever the number of "
        "cores. For processes that wait for others. 1: one on each core, each in a process of its own. Not "
        "with `order: destination`. An input may have its own.",
    )
    max_body: Size = Field(
        default=16 << 20,
        description="A larger body is not read, and the event fails. Counts the bytes of an unpacked body.",
    )
    unpack: UnpackName = Field(
        default="none",
        description="`gzip`: all bodies of all inputs are gzip, and are unpacked. An input may have its own. "
        "A message whose property `content_encoding` is `gzip` is unpacked in any case.",
    )
    max_attempts: Annotated[int, integer(1, "deliveries")] = Field(
        default=5, description="Number of begun deliveries after which an event fails."
    )
    max_hops: Annotated[int, integer(0, "hops")] = Field(
        default=20,
        description="A message that was sent on more often has failed, with the kind `loop`. The property "
        "`connector_hops` counts, also over several applications.",
    )
    convert_timeout: Annotated[float, duration()] = Field(
        default=10.0,
        description="Longest time for everything between claim and first delivery of one event: rule, name "
        "handler, data handler, schema, template. Reading the body does not count. Then the event has "
        "failed. The same limit holds for the conversion of a reply.",
    )
    worker_memory: Annotated[int | None, size(none="none", least=128 << 20)] = Field(
        default=2 << 30,
        description="Memory of the process in which a task converts and delivers. An event that needs more "
        "has failed. A process that keeps three quarters of it is replaced between two events. `none`: no "
        "limit.",
    )
    worker_events: Annotated[int, integer(1, "events")] = Field(
        default=100_000,
        description="Events after which the process that converts and delivers is replaced, between two "
        "events. So memory that a business process or a library forgets to free comes back.",
    )
    in_progress_destination: Annotated[Destination, IN_PROGRESS] | None = Field(
        default=None,
        alias="InProgressDestination",
        description="Queue of the messages in progress, so that in-doubt events can be recognized.",
    )
    in_doubt_events: Annotated[
        Literal["Reprocess", "FailOnStartup", "Ignore", "LogError"],
        choice("Reprocess", "FailOnStartup", "Ignore", "LogError"),
    ] = Field(
        default="Reprocess",
        alias="InDoubtEvents",
        description="Handling of messages found in the `InProgressDestination`.",
    )
    archive_destination: CopiesName | None = Field(
        default=None,
        alias="ArchiveDestination",
        description="Queue for copies of published messages. None: no copies.",
    )
    error_destination: CopiesName | None = Field(
        default=None,
        alias="ErrorDestination",
        description="Queue for copies of failed messages. None: no copies.",
    )
    unsubscribed_destination: CopiesName | None = Field(
        default=None,
        alias="UnsubscribedDestination",
        description="Queue for copies of messages without a subscription. None: no copies.",
    )
    keep_archive: Annotated[float | None, duration(none="forever")] = Field(
        default=None,
        description="A copy is removed from the `ArchiveDestination` after this, also from that of an input. "
        "This key and the two below remove only copies made by adapters, and no copy that a client has "
        "taken.",
    )
    keep_error: Annotated[float | None, duration(none="forever")] = Field(
        default=None, description="The same for the `ErrorDestination`."
    )
    keep_unsubscribed: Annotated[float | None, duration(none="forever")] = Field(
        default=None,
        description="The same for the `UnsubscribedDestination`. If two of these queues are one, the longer "
        "time counts.",
    )
    duplicate_event_elimination: Boolean = Field(
        default=False,
        alias="DuplicateEventElimination",
        description="A message that was published already is not published again.",
    )
    duplicate_window: Annotated[int, integer(1, "message ids")] = Field(
        default=100_000, description="Remembered published ids (WBI Adapter for JMS: one)."
    )
    duplicate_key: DuplicateKey | None = Field(
        default=None,
        description="What makes two messages of one input one event, so that only one is published, with or "
        "without `DuplicateEventElimination`. `name`: the name of their file, the property "
        '`connector_file_name`. A message that came in no file counts by its id. `"{OrderId}"`: attributes '
        "of the object, beside the id. Object and verb count, too. An object that lacks such an attribute "
        "has failed. `body`: the body, beside the id. Left out: the id, with `DuplicateEventElimination`.",
    )
    container_managed_events: Annotated[bool, CONTAINER_MANAGED] = Field(
        default=False,
        alias="ContainerManagedEvents",
        description="`JMS`: one transaction takes, publishes and settles an event, and is rolled back after "
        "any failure. Every subscription is a destination, or in the database of the provider. Every input "
        "is a queue.",
    )
    configuration_meta_object: Text | None = Field(
        default=None,
        alias="ConfigurationMetaObject",
        description="The static meta-object: the rules that say which business object a message means.",
    )
    data_handler_mime_type: Text = Field(
        default="text/xml",
        alias="DataHandlerMimeType",
        description="The default data handler (default value of related WBI adapters).",
    )
    data_handler_config_mo: Text = Field(
        default="MO_DataHandler_Default",
        alias="DataHandlerConfigMO",
        description="The data-handler meta-object with the options of all data handlers. Without this key "
        "and without a meta-object of the default name, all options have their defaults.",
    )
    data_handler_class_name: Text | None = Field(
        default=None,
        alias="DataHandlerClassName",
        description="The default data handler as `module:Class`. Then no options are read.",
    )
    message_format_property: Annotated[str, FORMAT] = Field(
        default="JMSType",
        alias="MessageFormatProperty",
        description="The header or property that holds `InputFormat` and `OutputFormat` (default ours).",
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
        description="Queue for replies to requests, unless a meta-object names another. None: a temporary "
        "queue. Adapters and other programs may share the queue, and each takes its own replies. Replies to "
        "an ended process stay until they expire.",
    )
    message_response_result_property: Annotated[str, PROPERTY] = Field(
        default="ResponseResult",
        alias="MessageResponseResultProperty",
        description="The property of a reply that holds the result of the request: `SUCCESS`, `VALCHANGE`, "
        "`FAIL` ... (default ours).",
    )
    reply_matching: ReplyMatching = Field(
        default=ReplyMatching(), description="Matches a reply with the request."
    )
    session_pool_size_for_requests: Annotated[int, integer(1, "requests", maximum=10_000)] = Field(
        default=10,
        alias="SessionPoolSizeForRequests",
        description="Synchronous requests in flight at a time. Other requests wait for their turn.",
    )
    pool_timeout: Annotated[float, duration(zero=True)] = Field(
        default=30.0,
        description="Longest wait of a request for its turn. Then the request fails, and is not sent.",
    )
    late_replies: Annotated[Literal["error", "archive", "discard"], choice("error", "archive", "discard")] = (
        Field(
            default="error",
            description="Handling of late and repeated replies while the requesting process goes on. "
            "`error`: a copy in the `ErrorDestination`, if there is one. `archive`: a copy in the "
            "`ArchiveDestination`. `discard`: no copy. Such replies are always counted and logged.",
        )
    )
    late_replies_for: Annotated[float, duration(zero=True)] = Field(
        default=60.0,
        description="Time after a time-out in which a late reply still gets its copy. For a broker and a "
        "`ReplyToDestination`: a later reply stays there. Other providers know no limit.",
    )
    response_selector_quoting: Annotated[Literal["quoted", "raw"], choice("quoted", "raw")] = Field(
        default="quoted",
        description="Form of values in a `response_selector`. `quoted`: literals. `raw`: unchanged, as in "
        "WBI Adapter for JMS, so that a value may change the meaning of the selector.",
    )
    restart_retry_count: Annotated[int | None, integer(0, "attempts")] = Field(
        default=None,
        alias="RestartRetryCount",
        description="Reconnections after APPRESPONSETIMEOUT, and attempts to reach a provider that is away "
        "when a service starts. 0: end at once. Left out: the service tries for ever, with pauses that grow "
        "from half a second to `RestartRetryInterval`.",
    )
    restart_retry_interval: Minutes = Field(
        default=1.0,
        alias="RestartRetryInterval",
        description="Minutes between two attempts to reconnect, a second at least. The first attempt comes "
        "at once. Without `RestartRetryCount`: the longest pause.",
    )
    agent_trace_level: Annotated[int, integer(0, "level", maximum=5)] = Field(
        default=0,
        alias="AgentTraceLevel",
        description="Detail of the log. Each level includes all lower levels. 0: nothing. 1: each message "
        "detected and the outcome of each event. 2: each business object handed to a subscriber, requests "
        "sent and answered. 3: conversions, messages sent to destinations. 4: the steps of a poll with "
        "their durations. 5: properties at the start, messages taken and put, dumps of business objects. "
        "Secrets and attributes of type Ciphertext are masked.",
    )
    stop_timeout: Annotated[float, duration(zero=True)] = Field(
        default=30.0, description="Longest time for work in flight after the adapter is told to stop."
    )
    instance: DirectoryName | None = Field(
        default=None,
        description="Name of this instance, stable across restarts. Default: the name of the host, with a "
        "number if several run.",
    )

    @property
    def default_handler(self) -> str:
        """The default data handler, by class if there is one, else by its MIME type as written."""
        return self.data_handler_class_name or self.data_handler_mime_type

    @property
    def by_input(self) -> dict[Input, Connector]:
        """The section as it holds for each input that has keys of its own. The one reading of those keys.

        For an input that is missing here the section itself holds.
        """
        return {entry.input: self._of(own) for entry in self.inputs if (own := self._own(entry))}

    @staticmethod
    def _own(entry: InputEntry) -> dict[str, Any]:
        """Returns the values of the keys that this section has, too, and that an entry says for itself."""
        shared = InputEntry.model_fields.keys() & Connector.model_fields.keys()
        return {name: value for name in shared if (value := getattr(entry, name)) is not None}

    def _of(self, own: dict[str, Any]) -> Connector:
        if "data_handler_mime_type" in own:  # it is nearer than a class that the connector names
            own["data_handler_class_name"] = None
        if own.get("order") == "destination":  # its events never run side by side
            own.setdefault("parallel", 1)
        return self.model_copy(update={**own, "inputs": ()})

    def of(self, named: Input | None) -> Connector:
        """Returns the section as it holds for an input. An input that is not configured has no own keys."""
        return self.by_input.get(named, self) if named is not None else self

    def input_of(self, destination: Destination, message: Message) -> Input | None:
        """Returns the first input of a destination that would take a message. None = there is none."""
        found = [one for one in self.inputs if one.destination == destination]
        if len(found) > 1:
            found = [one for one in found if may_match(one.selector or "", message)]
        return found[0].input if found else None

    @property
    def copies(self) -> CopyDestinations:
        """The destinations of messages that are settled or in progress, of all inputs."""
        found = CopyDestinations(
            self.archive_destination,
            self.error_destination,
            self.unsubscribed_destination,
            self.in_progress_destination,
        )
        own = {named: one.copies for named, one in self.by_input.items()}
        others = {named: copies for named, copies in own.items() if copies != found}
        return dataclasses.replace(found, inputs=others) if others else found

    @property
    def own_destinations(self) -> dict[str, Destination]:
        """The destinations beside the inputs, by their keys. Inputs may have destinations of their own."""
        return given_destinations(
            InProgressDestination=self.in_progress_destination,
            ArchiveDestination=self.archive_destination,
            ErrorDestination=self.error_destination,
            UnsubscribedDestination=self.unsubscribed_destination,
            ReplyToDestination=self.reply_to_destination,
        )

    @property
    def all_destinations(self) -> Sequence[tuple[str, Destination]]:
        """The destinations beside the inputs, with their keys: the connector's, then those of inputs."""
        of_inputs = (pair for one in self.inputs for pair in one.own_destinations.items())
        return [*self.own_destinations.items(), *of_inputs]
