"""From a configuration to the parts of an adapter: which provider, which plan, which settings."""

from __future__ import annotations

from typing import Protocol

from connector.broker.subscriptions import Subscription
from connector.businessobjects.catalogue import discover, spec_for_class
from connector.businessobjects.handlers import HandlerSpec, normal_mime_type
from connector.config.loading import Configuration
from connector.config.model import InputEntry
from connector.config.provider_model import Dropbox, Memory
from connector.events.cycle import PollSettings
from connector.events.plan import EventPlan
from connector.events.polling import EventSettings, Input
from connector.events.recovery import InDoubtPolicy
from connector.events.settling import CopyDestinations
from connector.messaging.provider import AccessSpec, Connection, Provider, TopicSubscription
from connector.providers.dropbox.connection import DropboxProvider
from connector.state.instances import InstanceLock


class AdapterProvider(Provider, Protocol):
    """What an adapter and its commands need of a provider beside messages."""

    def instance(self, application: str, wanted: str | None) -> InstanceLock:
        """The name of this instance of an adapter, held until closed.

        Raises:
            ProviderError: the configured name is taken, or it cannot be held.
        """

    def existing(self) -> Connection:
        """A connection that only looks: it makes nothing.

        Raises:
            ProviderError: there is nothing to look at.
        """


def make_provider(configuration: Configuration) -> AdapterProvider:
    """The provider of a deployment."""
    settings = configuration.provider
    if isinstance(settings, Memory):
        from connector.providers.memory.provider import MemoryProvider

        return MemoryProvider(
            max_bytes=settings.max_bytes,
            send_timeout=settings.send_timeout,
            accept_persistent=settings.accept_persistent,
            redelivery_limit=settings.redelivery_limit,
        )
    assert isinstance(settings, Dropbox)
    return DropboxProvider(
        settings.root,
        incoming=settings.incoming_directory,
        outgoing=settings.outgoing_directory,
        durable=settings.durability != "none",
        keep_processed=settings.keep_processed,
        redelivery_limit=settings.redelivery_limit,
        lease=settings.lease,
    )


def make_plan(configuration: Configuration, provider: Provider, access: AccessSpec) -> EventPlan:
    """What the tasks of a deployment need to know.

    Raises:
        ConfigurationError: a data handler is missing or its options are wrong.
    """
    settings = configuration.connector
    metaobjects = configuration.metaobjects
    rules = (
        metaobjects.static[settings.configuration_meta_object] if settings.configuration_meta_object else None
    )
    default = settings.data_handler_class_name or normal_mime_type(settings.data_handler_mime_type)
    in_progress = settings.in_progress_destination
    return EventPlan(
        application=settings.application_name,
        definitions=metaobjects.definitions,
        rules=rules,
        handlers=tuple(_handler_specs(configuration)),
        default_handler=default,
        subscriptions=tuple(
            Subscription(
                name=entry.name,
                object=entry.object,
                verbs=entry.verbs,
                process=entry.process,
                destination=entry.destination,
                timeout=entry.timeout,
                retries=entry.retries,
                mime_type=entry.mime_type,
                format=entry.format,
            )
            for entry in configuration.subscriptions
        ),
        default_verb=settings.default_verb or None,
        use_defaults=settings.use_defaults,
        max_body=settings.max_body,
        max_attempts=settings.max_attempts,
        format_property=settings.message_format_property,
        access=access,
        rerun=in_progress is None or settings.in_doubt_events == InDoubtPolicy.REPROCESS.value,
        stop_timeout=settings.stop_timeout,
        persistent=provider.capabilities.reliable,
        managed=settings.container_managed_events,
    )


def _handler_specs(configuration: Configuration) -> list[HandlerSpec]:
    """Every data handler that an event can ask for."""
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
    for static in configuration.metaobjects.static.values():
        for rule in static.rules:
            class_name = rule.properties.get("DataHandlerClassName")
            if class_name:
                found[class_name, ""] = spec_for_class(class_name, directory)
            config = rule.properties.get("DataHandlerConfigMO")
            if config:
                mime_type = rule.properties.get("DataHandlerMimeType", settings.data_handler_mime_type)
                mime_type = normal_mime_type(mime_type)
                found[mime_type, config] = catalogue.spec(
                    mime_type, options.get(config, {}).get(mime_type), config
                )
    return list(found.values())


def make_settings(configuration: Configuration, instance: str) -> EventSettings:
    """The inbound side, as configured."""
    settings = configuration.connector
    return EventSettings(
        application=settings.application_name,
        instance=instance,
        inputs=tuple(_input(entry, settings.application_name) for entry in settings.inputs),
        copies=CopyDestinations(
            settings.archive_destination, settings.error_destination, settings.unsubscribed_destination
        ),
        in_progress=settings.in_progress_destination,
        policy=InDoubtPolicy(settings.in_doubt_events),
        duplicate_window=settings.duplicate_window if settings.duplicate_event_elimination else 0,
        poll=PollSettings(settings.poll_quantity, settings.order, settings.max_attempts),
        stop_timeout=settings.stop_timeout,
    )


def _input(entry: InputEntry, application: str) -> Input:
    if entry.subscription is None:
        return Input(entry.destination, entry.selector or "")
    return Input(
        TopicSubscription(
            entry.destination,
            entry.subscription,
            client_id=application,
            durable=True,
            shared=entry.shared,
            selector=entry.selector or "",
            no_local=entry.no_local,
        )
    )
