"""The pages for people who come from another system name what that system has, and what there is here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from connector.businessobjects.dynamic import HEADERS, PROPERTIES
from connector.businessobjects.metadata import READERS
from connector.config.http_model import Http
from connector.config.metaobject_model import RuleEntry
from connector.config.model import AdapterFile, Logging, State
from connector.config.provider_section import provider_sections
from connector.declare.connector_section import Connector, ReplyMatching
from connector.declare.input_entry import InputEntry
from connector.formats.catalogue import discover
from connector.spark.section import Spark
from tests.tables import rows

HOW_TO = Path(__file__).resolve().parents[2] / "docs/how-to"
WBI = (HOW_TO / "come-from-wbi-adapter.md").read_text("utf-8")

STANDARD = """
    AdapterHelpName AdminInQueue AdminOutQueue AgentConnections AgentTraceLevel ApplicationName
    BiDi.Application BiDi.Broker BiDi.Transformation BrokerType CharacterEncoding
    ConcurrentEventTriggeredFlows
    ContainerManagedEvents ControllerEventSequencing ControllerStoreAndForwardMode ControllerTraceLevel
    DeliveryQueue DeliveryTransport DuplicateEventElimination FaultQueue jms.FactoryClassName
    jms.MessageBrokerName jms.NumConcurrentRequests jms.Password jms.TransportOptimized jms.UserName
    JvmMaxHeapSize JvmMaxNativeStackSize JvmMinHeapSize ListenerConcurrency Locale LogAtInterchangeEnd
    MaxEventCapacity MessageFileName MonitorQueue OADAutoRestartAgent OADMaxNumRetry OADRetryTimeInterval
    ParallelProcessDegree PollEndTime PollFrequency PollQuantity PollStartTime RepositoryDirectory
    RequestQueue ResponseQueue RestartRetryCount RestartRetryInterval SourceQueue SynchronousRequestQueue
    SynchronousRequestTimeout SynchronousResponseQueue WireFormat XMLNameSpaceFormat
"""
ADAPTER = """
    ApplicationPassword ApplicationUserName ArchiveDestination ConfigurationMetaObject ConnectionFactoryName
    CTX_* DataHandlerClassName DataHandlerConfigMO DataHandlerMimeType DefaultVerb EnableMessageProducerCache
    ErrorDestination InDoubtEvents InProgressDestination InputDestination LookupDestinationsUsingJNDI
    MessageFormatProperty MessageResponseResultProperty PollQuantity ReplyToDestination
    SessionPoolSizeForRequests UnsubscribedDestination UseDefaults
"""
STATIC = """
    CollaborationName CorrelationID DataEncoding DataHandlerClassName DataHandlerConfigMO DataHandlerMimeType
    DeliveryMode InputDestination InputFormat OutputDestination OutputFormat Priority ReplyToDestination
    ResponseTimeout TimeoutFatal
"""
DYNAMIC = """
    AppID CorrelationID DataHandlerClassName DataHandlerConfigMO DataHandlerMimeType DeliveryCount
    DeliveryMode Destination Expiration GroupID GroupSeq InputDestination InputFormat JMSProperties MessageID
    OutputDestination OutputFormat Priority Redelivered ReplyToDestination ResponseTimeout TimeStamp
    TimeoutFatal Type UserID
"""
SETTINGS = {
    "all": "ClassName DummyKey NameHandlerClass",
    "text/xml": (
        "BOPrefix DTDPath DefaultEscapeBehavior EntityResolver IgnoreUndefinedAttributes Parser Validation"
    ),
    "text/namevalue": "CxBlank CxBlankValue CxIgnore DefaultVerb SkipCxIgnore ValidateAttrCount",
    "text/delimited": "CxBlank CxIgnore Delimiter Escape OmitObjectEventId",
    "text/fixedwidth": (
        "Alignment BOCountSize BONameSize BOVerbSize CxBlank CxIgnore OmitObjectEventId "
        "PadCharacter Truncation"
    ),
    "text/requestresponse": "BOPrefix RequestDataHandlerMimeType ResponseDataHandlerMimeType",
}
"""What the manuals of WBI Adapter for JMS and of its data handlers list."""


def table(text: str, heading: str) -> list[list[str]]:
    """The cells of the rows under a heading, without the names of the columns."""
    part = re.split(r"^## ", text.partition(f"\n## {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    assert rows, heading
    return [[cell.strip(" |`") for cell in row] for row in rows[1:]]


def names(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def keys() -> Iterator[str]:
    """Every key of adapter.yaml and of a rule, with the section before it."""
    yield from names(AdapterFile)
    sections: list[tuple[str, type[BaseModel]]] = [
        *(("provider", model) for model in provider_sections().values()),
        ("connector", Connector),
        ("connector.reply_matching", ReplyMatching),
        ("spark", Spark),
        ("logging", Logging),
        ("state", State),
        ("http", Http),
        ("rules", RuleEntry),
    ]
    for section, model in sections:
        yield from (f"{section}.{name}" for name in names(model))


LISTED = {
    "Standard properties of a connector": STANDARD,
    "Properties of the adapter": ADAPTER,
    "Properties of the static meta-object": STATIC,
    "Attributes of the dynamic meta-object": DYNAMIC,
}


@rows("heading, listed", LISTED.items())
def test_the_page_for_wbi_has_every_property_once_and_says_what_became_of_it(
    heading: str, listed: str
) -> None:
    rows = table(WBI, heading)
    assert sorted(row[0] for row in rows) == sorted(listed.split())
    assert [row for row in rows if row[1] == "left out" and len(row) < 3] == []


def test_the_page_for_wbi_names_keys_of_the_configuration_and_all_in_the_spelling_of_wbi() -> None:
    standard, adapter, static = (
        {row[1] for row in table(WBI, heading)} - {"left out", "an option"} for heading in (*LISTED,)[:3]
    )
    mentioned = set(re.findall(r"`((?:provider|connector|spark|logging|state|http)\.\w+)", WBI))
    assert (standard | adapter | static | mentioned) - set(keys()) == set()
    theirs = {f"connector.{name}" for name in names(Connector) if name[0].isupper()}
    assert theirs - standard - adapter == set()


def test_an_attribute_of_the_dynamic_metaobject_that_the_page_for_wbi_names_is_one() -> None:
    ours = {*HEADERS, PROPERTIES, *READERS}
    assert {row[1] for row in table(WBI, "Attributes of the dynamic meta-object")} - ours == set()


def test_a_setting_that_the_page_for_wbi_names_is_an_option_of_that_data_handler(tmp_path: Path) -> None:
    options = {
        mime_type: {option.name for option in handler.options or ()}
        for handler in discover(tmp_path).handlers
        for mime_type in handler.mime_types
    }
    options["all"] = {"NameHandlerClass"}
    rows = table(WBI, "Settings of data handlers")
    listed = [(handler, setting) for handler, settings in SETTINGS.items() for setting in settings.split()]
    assert sorted((row[0], row[1]) for row in rows) == sorted(listed)
    for handler, setting, here, *why in rows:
        assert here in options[handler] or (here == "left out" and why), setting


DROPBOXMQ = """
    root clientId incomingDirectoryName outgoingDirectoryName redeliveryAttempts deleteProcessedMessages
    deleteExpiredMessages deleteCompleteTransactions preserveDeletedDropboxes consumeExpiredMessages
    pollingInterval targetScanTimeout messageTranscoderFactory queueConnectionFactories
    topicConnectionFactories destination acknowledgeMode maxPoolSize maxMessages messageSelector
    subscriptionDurability subscriptionName
"""
"""What the manual of DropboxMQ lists, for connection factories and for endpoints."""


def test_the_page_for_dropboxmq_has_every_property_once_and_keys_that_there_are() -> None:
    rows = table((HOW_TO / "come-from-dropboxmq.md").read_text("utf-8"), "Properties")
    assert [row[0] for row in rows] == DROPBOXMQ.split()
    entries = {f"connector.InputDestination[].{name}" for name in names(InputEntry)}
    assert {row[1] for row in rows} - {"left out"} - set(keys()) - entries == set()
    assert [row for row in rows if row[1] == "left out" and len(row) < 3] == []
