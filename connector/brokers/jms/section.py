"""The section ``provider`` with ``type: jms``, and with ``type: amqp``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from connector.brokers.engine.broker import ASSUMED_DELIVERIES
from connector.brokers.jars.locked import COORDINATES
from connector.brokers.jms.naming import PREFIX
from connector.declare.section import ProviderSection
from connector.declare.value_types import Boolean, Size, Text, ValueType, integer, leaf, one_or_list, refuse
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
        queue = parse_destination(text, own_names=True)
    except DestinationError as error:
        raise refuse(repr(text), f"a queue, or none ({error})") from None
    if not queue.is_queue or queue.view:
        raise refuse(repr(text), "a queue, or none")
    return str(queue)


def _describe_free_keys(schema: dict[str, Any]) -> None:
    """Says in the JSON Schema that only keys for the initial context are free."""
    schema["patternProperties"] = {f"^{PREFIX}": _SINGLE}
    schema["additionalProperties"] = False


_OF_JNDI: Final = ("ConnectionFactoryName", "LookupDestinationsUsingJNDI")
_SINGLE: Final[dict[str, Any]] = {"type": ["string", "number", "boolean", "null"]}
QPID_PACKAGES: Final = ("org.apache.qpid:qpid-jms-client:2.10.0", "org.slf4j:slf4j-nop:2.0.17")
NO_COMMIT_QUEUE: Final = "none"
_TEXT: Final[dict[str, Any]] = {"type": "string"}
_Texts = Annotated[tuple[Text, ...], BeforeValidator(one_or_list)]
_Package = Annotated[str, ValueType(_read_package, str, _TEXT, "Maven coordinates")]
_Packages = Annotated[tuple[_Package, ...], BeforeValidator(one_or_list)]
_CommitQueue = Annotated[str, ValueType(_read_commit_queue, str, _TEXT, "queue or `none`")]


class FactorySection(ProviderSection):
    """The keys of a connection factory."""

    factory: Text | None = Field(
        default=None,
        description="Java class of the connection factory. Needed without `ConnectionFactoryName`.",
    )
    url: Text | None = Field(
        default=None,
        description="URL of the broker, as the factory reads URLs: in its constructor, or with its setter "
        "(`setBrokerURL`, `setUri` and the like). Needed without `properties`. For Qpid JMS, the adapter "
        "adds `jms.prefetchPolicy.all` with PollQuantity unless the URL has a prefetch policy, "
        "`jms.receiveLocalOnly`, `jms.validatePropertyNames`, and time-outs of 30 s (`jms.sendTimeout`, "
        "`jms.requestTimeout`, `amqp.drainTimeout`) and of 10 s (`jms.closeTimeout`). For `failover:(...)` "
        "also `failover.startupMaxReconnectAttempts` with 1, so that a new connection tries each host once, "
        "and "
        "`failover.maxReconnectAttempts` with 0, because the adapter itself makes a lost connection again. A "
        "limit of yours counts for new connections. For the client of ActiveMQ Classic the same prefetch and "
        "rounds, `jms.alwaysSyncSend`, `jms.sendTimeout`, and in `jms.redeliveryPolicy` neither limit nor "
        "delays. For that of ActiveMQ Artemis `consumerWindowSize`, 1 KiB for each message of PollQuantity.",
    )
    properties: dict[str, Text] = Field(
        default_factory=dict,
        description="Properties of the factory, by the names of its setters: `HostName: h` calls "
        "`setHostName`. A value is a text, a whole number, or true or false, as the setter wants it. "
        "`prefetchPolicy.all` is the property `all` of the object that `getPrefetchPolicy` returns.",
    )
    ConnectionFactoryName: Text | None = Field(
        default=None,
        description="Name of the connection factory in JNDI, in place of `factory` and `url`. `properties` "
        "are set after the look-up. A factory of Qpid JMS or of ActiveMQ Classic gets the options of the "
        "adapter that `url` names, in place of its own. Also under `connector`, as in WBI Adapter for JMS.",
    )
    CTX_InitialContextFactory: Text | None = Field(
        default=None,
        description="Java class that makes the initial context of JNDI. Every key `CTX_...` goes to the "
        "initial context: `CTX_SecurityPrincipal` and `CTX_SecurityCredentials` are the constants of "
        "`javax.naming.Context`, any other name is that of the environment, as in `CTX_queue.orders`. Also "
        "under `connector`, as in WBI Adapter for JMS.",
    )
    CTX_ProviderURL: Text | None = Field(
        default=None, description="URL of JNDI, such as `file:///etc/jndi` or `ldap://HOST/ou=jms`."
    )
    LookupDestinationsUsingJNDI: Boolean = Field(
        default=False,
        description="The name in a destination is a name in JNDI, and must be there. Not so the queues of "
        "the adapter (`connector.APPLICATION....`), and the destinations that messages name for replies. "
        "Also under `connector`, as in WBI Adapter for JMS.",
    )


class AddressSection(ProviderSection):
    """The address of a broker for AMQP 1.0."""

    url: Text = Field(
        description="`amqp://HOST:5672`, `amqps://HOST:5671` with TLS, or `failover:(...)` of several. All "
        "options of Qpid JMS may stand behind it, and the adapter adds the same options as for `jms`."
    )


class ClientSection(ProviderSection):
    """The keys of every client library."""

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
        description="Most messages of one transaction. Default: `PollQuantity`, at most 250. For a lot: 250.",
    )
    batch_bytes: Size = Field(
        default=16 << 20,
        description="Bytes of bodies after which a transaction gets no more messages. At most a "
        "sixteenth of the heap of Java. With Qpid JMS an input has about as many bytes fetched ahead.",
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

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        yield "type", self.type  # other values may contain passwords


class JmsSection(ClientSection, FactorySection):
    """A broker, through its own JMS client library in the adapter's process.

    Needs the extra `jms`. `factory` with `url` or `properties`, or `ConnectionFactoryName`, says how
    connections are made. The library comes from Maven (`packages`, fetched by `connector jars --resolve`) or
    from jars of your own (`classpath`). Journals, published ids and instance locks lie in `state.directory`,
    which all instances of an application share, otherwise in `.connector/state` beside this file.
    """

    model_config = ConfigDict(extra="allow", json_schema_extra=_describe_free_keys)
    __pydantic_extra__: dict[str, Text]

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, value: Any) -> Any:
        """Refuses what a section refuses without ``extra``. Keys for the initial context are free."""
        unknown = [key for key in value if key not in cls.model_fields and not key.startswith(PREFIX)]
        if unknown:
            details = [
                InitErrorDetails(type="extra_forbidden", loc=(key,), input=value[key]) for key in unknown
            ]
            raise ValidationError.from_exception_data(cls.__name__, details)
        return value

    @classmethod
    def adopts(cls, key: str) -> bool:
        return key.startswith(PREFIX) or key in _OF_JNDI

    @property
    def context(self) -> dict[str, str]:
        """The keys for the initial context, with their values."""
        return {key: value for key, value in self if key.startswith(PREFIX) and value is not None}


class AmqpSection(ClientSection, AddressSection):
    """A broker for AMQP 1.0: `jms` with the client library Qpid JMS.

    Needs the extra `jms`. `connector jars --resolve` fetches the library. State is kept as for `jms`.
    """

    packages: _Packages = Field(
        default=QPID_PACKAGES, description="Maven coordinates of Qpid JMS, for another version."
    )
