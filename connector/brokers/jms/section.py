"""The section ``provider`` with ``type: jms``."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from connector.brokers.engine.broker import ASSUMED_DELIVERIES
from connector.brokers.jars.locked import COORDINATES
from connector.declare.section import ProviderSection
from connector.declare.value_types import Size, Text, ValueType, integer, leaf, one_or_list, refuse
from connector.errors import DestinationError
from connector.messaging.destination import parse_destination

_EXPECTED_PACKAGE: Final = "Maven coordinates GROUP:ARTIFACT:VERSION"


def _read_package(value: object) -> str:
    text = leaf(value, _EXPECTED_PACKAGE)
    if COORDINATES.fullmatch(text) is None:
        raise refuse(
            repr(str(text)), f"{_EXPECTED_PACKAGE}, for example org.apache.qpid:qpid-jms-client:2.10.0"
        )
    return str(text)


def _read_commit_queue(value: object) -> str:
    text = str(leaf(value, "a queue, or none"))
    if text == NO_COMMIT_QUEUE:
        return text
    try:
        queue = parse_destination(text)
    except DestinationError as error:
        raise refuse(repr(text), f"a queue, or none ({error})") from None
    if not queue.is_queue or queue.view:
        raise refuse(repr(text), "a queue, or none")
    return str(queue)


NO_COMMIT_QUEUE: Final = "none"
_TEXT: Final[dict[str, Any]] = {"type": "string"}
_Texts = Annotated[tuple[Text, ...], BeforeValidator(one_or_list)]
_Package = Annotated[str, ValueType(_read_package, str, _TEXT, "Maven coordinates")]
_Packages = Annotated[tuple[_Package, ...], BeforeValidator(one_or_list)]
_CommitQueue = Annotated[str, ValueType(_read_commit_queue, str, _TEXT, "queue or `none`")]


class JmsSection(ProviderSection):
    """A broker, through its own JMS client library in the adapter's process.

    Needs the extra `jms`. The library comes from Maven (`packages`, fetched by `connector jars --resolve`) or
    from jars of your own (`classpath`). Journals, published ids and instance locks lie in `state.directory`,
    which all instances of an application share, otherwise in `.connector/state` beside this file.
    """

    factory: Text = Field(description="Java class of the connection factory.")
    url: Text | None = Field(
        default=None,
        description="URL of the broker, as the factory reads URLs: in its constructor, or with its setter "
        "(`setBrokerURL`, `setUri` and the like). Needed without `properties`. For Qpid JMS, the adapter "
        "adds `jms.prefetchPolicy.all` with PollQuantity unless the URL has a prefetch policy, "
        "`jms.receiveLocalOnly`, `jms.receiveNoWaitLocalOnly`, `jms.validatePropertyNames`, and time-outs of "
        "30 s (`jms.sendTimeout`, `jms.requestTimeout`). For `failover:(...)` also "
        "`failover.startupMaxReconnectAttempts` with 1, so that a new connection tries each host once. For "
        "the client of ActiveMQ Classic the same prefetch and rounds, `jms.alwaysSyncSend`, "
        "`jms.sendTimeout`, and in `jms.redeliveryPolicy` neither limit nor delays. For that of ActiveMQ "
        "Artemis `consumerWindowSize`, 1 KiB for each message of PollQuantity.",
    )
    properties: dict[str, Text] = Field(
        default_factory=dict,
        description="Properties of the factory, by the names of its setters: `HostName: h` calls "
        "`setHostName`. A value is a text, a whole number, or true or false, as the setter wants it. "
        "`prefetchPolicy.all` is the property `all` of the object that `getPrefetchPolicy` returns.",
    )
    ApplicationUserName: Text | None = Field(
        default=None, description="User of the broker. Default: the user of the URL, if any."
    )
    ApplicationPassword: Text | None = Field(
        default=None, description="Password of that user, as `${NAME}` from the environment."
    )
    packages: _Packages = Field(
        default=(), description="Maven coordinates of the client library, `GROUP:ARTIFACT:VERSION`."
    )
    classpath: _Texts = Field(
        default=(), description="Jars, with `*` and `?` for several, relative to this file. Before packages."
    )
    java_options: _Texts = Field(
        default=(), description="Options of the Java virtual machine, such as `-Xmx256m`."
    )
    batch: Annotated[int | None, integer(1, "messages", maximum=250)] = Field(
        default=None,
        description="Most messages of one transaction. Default: `PollQuantity`, at most 250.",
    )
    batch_bytes: Size = Field(
        default=16 << 20, description="Bytes of bodies after which a transaction gets no more messages."
    )
    redelivery_limit: Annotated[int | None, integer(1, "deliveries", none="none")] = Field(
        default=ASSUMED_DELIVERIES,
        description="Deliveries after which the broker puts a message aside, the lowest limit of all inputs. "
        "Before the last delivery the adapter moves the message to the queue `connector.APPLICATION.held`, "
        "and takes it from there. `none`: the broker has no limit.",
    )
    commit_queue: _CommitQueue | None = Field(
        default=None,
        description="Queue with a small message for each session of an adapter, which shows the last commit. "
        "Default: `connector.APPLICATION.commits`. `none`: after a lost answer to a commit, its events may "
        "run again.",
    )
