"""Turns a configuration into the parts of an adapter: provider, settings of tasks, requests and events."""

from __future__ import annotations

import dataclasses
import functools
import os
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from connector.businessobjects.metadata import read_delivery_delay
from connector.businessobjects.rules import StaticMetaObject
from connector.config.loading import Configuration, place_of
from connector.declare.connector_section import Connector
from connector.declare.input_entry import InputEntry
from connector.declare.plain_section import plain
from connector.events.claim.polled_input import InputSettings
from connector.events.run.task_settings import TaskSettings
from connector.events.settings import EventSettings
from connector.formats.catalogue import discover, spec_for_class
from connector.formats.handlers import Handlers, HandlerSpec, normal_mime_type
from connector.messaging.access import AccessSpec
from connector.messaging.provider import Provider
from connector.messaging.provider_kind import PROVIDERS, AcceptedRoot, AdapterProvider
from connector.messaging.subscription import TopicSubscription
from connector.operate.control import Targets
from connector.operate.own_history import OwnHistory
from connector.operate.tracer import Tracer, open_exporter
from connector.requests.settings import RequestSettings
from connector.sinks.mapped_entry import MappedEntry
from connector.sinks.subscription_model import PreparedEntry, SinkEntry
from connector.sinks.subscriptions import Subscription
from connector.spark.section import Spark

if TYPE_CHECKING:
    from connector.requests.spec import RequestClientSpec
    from connector.service.database_check import DatabaseFinding
    from connector.workbench.explain import Explainer


def make_provider(configuration: Configuration) -> AdapterProvider:
    """Returns the provider of a deployment.

    Raises:
        ConnectorError: the package of the provider cannot be imported.
    """
    section = configuration.provider
    kind = PROVIDERS.load(section.type)
    with PROVIDERS.blame(section.type, ImportError):
        return kind.make(section, configuration.paths)


def with_poll_quantity(configuration: Configuration, messages: int) -> Configuration:
    """Returns a configuration for a client that takes at most ``messages``, and fetches no more ahead."""
    inputs = tuple(one.model_copy(update={"poll_quantity": None}) for one in configuration.connector.inputs)
    connector = configuration.connector.model_copy(update={"poll_quantity": messages, "inputs": inputs})
    return dataclasses.replace(configuration, connector=connector)


def accept_root(configuration: Configuration) -> AcceptedRoot | None:
    """Accepts the present root of the provider. Returns None if the deployment records no root.

    Raises:
        ProviderError: the root cannot be made or recorded.
    """
    section = configuration.provider
    return PROVIDERS.load(section.type).accept_root(section, configuration.paths)


# long: one table, from each setting of a task to its source
def make_task_settings(
    configuration: Configuration,
    provider: Provider,
    access: AccessSpec,
    requests: RequestClientSpec | None = None,
    *,
    client_id: str = "",
    instance: str = "",
    debug: bool = False,
) -> TaskSettings:
    """Returns the settings of the tasks of a deployment.

    Args:
        requests: lets business processes make requests. None = they cannot.
        instance: of the adapter. Empty = the configured one, if any.
        debug: whether the tracebacks that workers log have all frames.

    Raises:
        ConfigurationError: a data handler is missing or its options are wrong.
    """
    # the same objects as in the requests: the settings travel with every job, and have them once
    shared = requests.settings if requests is not None else _conversion(configuration, provider)
    return TaskSettings(
        connector=shared.connector,
        definitions=shared.definitions,
        rules=shared.rules,
        handlers=shared.handlers,
        default_handler=shared.default_handler,
        persistent=shared.persistent,
        own_names=shared.own_names,
        subscriptions=tuple(_complete(entry, configuration) for entry in configuration.subscriptions),
        access=access,
        requests=requests,
        logging=configuration.logging.settings(debug=debug),
        databases=configuration.databases,
        client_id=client_id,
        instance=instance or configuration.connector.instance or "",
        history=plain(configuration.history),
        by_input={named: _without_inputs(one) for named, one in configuration.connector.by_input.items()},
        sample=None if configuration.tracing is None else configuration.tracing.sample,
    )


def _complete(entry: SinkEntry, configuration: Configuration) -> Subscription:
    """Returns a subscription with its condition and its map."""
    subscription = entry.subscription()
    if entry.when is not None:
        subscription = dataclasses.replace(subscription, when=configuration.conditions[entry.name])
    if isinstance(entry, MappedEntry) and entry.map is not None:
        subscription = dataclasses.replace(subscription, map=configuration.metaobjects.maps[entry.map])
    return subscription


def make_tracer(configuration: Configuration) -> Tracer | None:
    """Returns the exporter of the spans of a deployment. None = there is no tracing."""
    tracing = configuration.tracing
    if tracing is None:
        return None
    settings = configuration.connector
    service = tracing.service or os.environ.get("OTEL_SERVICE_NAME") or settings.application_name
    return Tracer(
        functools.partial(open_exporter, tracing.endpoint),
        service,
        settings.instance or socket.gethostname(),
        configuration.provider.type,
    )


def make_handlers(configuration: Configuration) -> tuple[Handlers, str]:
    """Returns the data handlers of a deployment, and the MIME type or class of the default one.

    Raises:
        ConfigurationError: a data handler is missing or its options are wrong.
    """
    definitions = configuration.metaobjects.definitions
    handlers = Handlers(_handler_specs(configuration), definitions, configuration.directory)
    return handlers, _default_handler(configuration.connector)


def make_explainer(configuration: Configuration) -> Explainer:
    """Returns the explainer of a deployment.

    Raises:
        ConfigurationError: a data handler or a sink cannot be made.
    """
    from connector.workbench.explain import Explainer  # most commands explain nothing

    prepared = [entry.name for entry in configuration.subscriptions if isinstance(entry, PreparedEntry)]
    return Explainer(
        make_task_settings(configuration, make_provider(configuration), _NO_ACCESS),
        str(configuration.directory),
        prepared,
        input_of=configuration.connector.input_of,
    )


_NO_ACCESS: Any = None  # an explainer reads no stored message


def check_databases(configuration: Configuration, *, makes: bool) -> Iterator[DatabaseFinding]:
    """Checks the databases of a deployment (see :func:`connector.service.database_check.check_databases`).

    The problem of a table begins with the place of its subscription in adapter.yaml.
    """
    if not configuration.databases:
        return
    from connector.service.database_check import check_databases  # SQLAlchemy, which most adapters never need

    subscriptions = [entry.subscription() for entry in configuration.subscriptions]
    definitions = configuration.metaobjects.definitions
    for found in check_databases(configuration.databases, subscriptions, definitions, makes=makes):
        if found.problem and found.subscription is not None:
            place = place_of(configuration.file, ("subscriptions", found.subscription, "table"))
            yield found._replace(problem=f"{place}: {found.problem}")
        else:
            yield found


# long: one table, from each setting of requests to its source
def make_requests(configuration: Configuration, provider: Provider | None = None) -> RequestClientSpec:
    """Returns the recipe by which a driver, a command or a Spark worker makes requests.

    Args:
        provider: the provider of an adapter in this process. None = a new provider. A provider of one process
            only works in this process.

    Raises:
        ConfigurationError: a data handler is missing or its options are wrong.
    """
    # imported here, because most commands make no requests
    from connector.requests.request_history import HistorySpec
    from connector.requests.spec import RequestClientSpec

    if provider is None:
        provider = make_provider(configuration)
    # requests are local to the adapter, for inputs with no_local
    origin = make_event_settings(configuration, provider, "").client_id
    settings, kept = _conversion(configuration, provider), configuration.history
    history = HistorySpec(provider.state, settings.connector, plain(kept)) if kept.keep else None
    return RequestClientSpec(
        settings,
        functools.partial(provider.connect, origin=origin),
        provider.capabilities,
        history,
    )


def make_targets(configuration: Configuration) -> Targets:
    """Returns what can be paused in a deployment."""
    settings = configuration.connector
    return Targets(
        [str(one.destination) for one in settings.inputs],
        [one.subscription().name for one in configuration.subscriptions],
        is_managed=settings.container_managed_events,
    )


def needs_delays(configuration: Configuration) -> bool:
    """Whether a rule gives its messages a delivery delay."""
    rules = _rules(configuration)
    said = () if rules is None else (rules.defaults, *(entry.properties for entry in rules.entries))
    return any(read_delivery_delay(one.get("DeliveryDelay", "0")) for one in said)


def _conversion(configuration: Configuration, provider: Provider) -> RequestSettings:
    return RequestSettings(
        connector=_without_inputs(configuration.connector),
        definitions=configuration.metaobjects.definitions,
        rules=_rules(configuration),
        handlers=_handler_specs(configuration),
        default_handler=_default_handler(configuration.connector),
        persistent=provider.capabilities.reliable,
        own_names=provider.capabilities.own_names,
    )


def _without_inputs(connector: Connector) -> Connector:
    """Returns the section as a worker has it."""
    return plain(connector, without=("inputs", "by_input", "own_destinations", "all_destinations"))


def _rules(configuration: Configuration) -> StaticMetaObject | None:
    name = configuration.connector.configuration_meta_object
    return configuration.metaobjects.static[name] if name else None


def _default_handler(settings: Connector) -> str:
    return settings.data_handler_class_name or normal_mime_type(settings.default_handler)


def _handler_specs(configuration: Configuration) -> tuple[HandlerSpec, ...]:
    """Returns every data handler that an event or a request can ask for."""
    settings = configuration.connector
    directory = configuration.directory
    catalogue = discover(directory, configuration.datahandlers)
    options = configuration.metaobjects.handler_options
    found: dict[tuple[str, str], HandlerSpec] = {}
    if settings.data_handler_class_name:
        found[settings.data_handler_class_name, ""] = spec_for_class(
            settings.data_handler_class_name, directory
        )
    for mime_type in catalogue.mime_types:
        given = options.get(settings.data_handler_config_mo, {}).get(mime_type)
        found[mime_type, ""] = catalogue.spec(mime_type, given)
    for config, given_by_type in options.items():  # a dynamic meta-object may name any of these
        for mime_type in catalogue.mime_types:
            found[mime_type, config] = catalogue.spec(mime_type, given_by_type.get(mime_type), config)
    for static in configuration.metaobjects.static.values():
        for properties in (static.defaults, *(rule.handler for rule in static.rules)):
            class_name = properties.get("DataHandlerClassName", "").strip()
            if class_name:
                found[class_name, ""] = spec_for_class(class_name, directory)
    return tuple(found.values())


def spark_section(configuration: Configuration) -> Spark:
    """Returns the section of Spark, the pipeline of an adapter."""
    assert isinstance(configuration.spark, Spark)
    return configuration.spark


def make_event_settings(configuration: Configuration, provider: Provider, instance: str) -> EventSettings:
    """Returns the settings of the inbound side."""
    connector = configuration.connector
    by_input = connector.by_input
    client_id = connector.application_name if provider.capabilities.shares_client_ids else ""
    return EventSettings(
        connector,
        instance,
        tuple(_input(entry, by_input.get(entry.input, connector), client_id) for entry in connector.inputs),
        configuration.history,
        spark_section(configuration).max_jobs,
    )


def own_history(configuration: Configuration) -> OwnHistory:
    """Returns what says whose history of a message counts that an operator moves."""
    connector = configuration.connector
    return OwnHistory(connector.application_name, frozenset(map(str, connector.copies.all)))


def _input(entry: InputEntry, settings: Connector, shared_client_id: str) -> InputSettings:
    """Returns the settings of an input.

    Args:
        settings: as they hold for this input.
        shared_client_id: of the subscriptions of all instances. Empty = a client id belongs to one
            connection. Then a subscription without no_local is shared, and has no client id.
    """
    subscription = None
    if entry.subscription is not None:
        is_shared = entry.shared or not (shared_client_id or entry.no_local)
        subscription = TopicSubscription(
            entry.destination,
            entry.subscription,
            client_id=shared_client_id if is_shared else settings.application_name,
            durable=True,
            shared=is_shared,
            selector=entry.selector or "",
            no_local=entry.no_local,
        )
    return InputSettings(entry.input, subscription, **entry.options(settings))
