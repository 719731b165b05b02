"""Checks the sections of ``adapter.yaml`` against each other and against ``metaobjects/``."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from connector.businessobjects.rules import Rule, StaticMetaObject
from connector.config.destination_lint import check_destinations
from connector.config.duplicate_key_lint import check_duplicate_keys
from connector.config.expression_lint import find_mistakes
from connector.config.handler_lint import check_handlers
from connector.config.http_model import check_http
from connector.config.metaobjects import KINDS, Collected, MetaObjects
from connector.config.model import AdapterFile
from connector.config.order_lint import check_retries_in_order
from connector.config.subscription_reading import ReadEntry
from connector.config.tracing_model import check_tracing
from connector.cron import Cron
from connector.declare.connector_section import Connector
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.reading import Location, Reading, find, is_misspelt, node_at
from connector.declare.tree import Items, Table
from connector.formats.catalogue import SHIPPED, Catalogue
from connector.formats.checks import NEVER_JSON, check_single_attribute
from connector.formats.handlers import OPTIONS_KEY, choose_handler, normal_mime_type
from connector.sinks.mapped_entry import MappedEntry
from connector.sinks.subscription_model import CommonEntry, EntryCheck, PreparedEntry, SinkEntry
from connector.text.names import nearest, shown

_INPUTS = ("connector", "InputDestination")
_MIME_TYPE = "DataHandlerMimeType"


@dataclass(slots=True)
class Lint:
    """A check of a whole configuration."""

    reporter: ProblemReporter
    reading: Reading[AdapterFile]
    file: AdapterFile
    entries: Sequence[ReadEntry]
    metaobjects: MetaObjects
    collected: Collected
    catalogue: Catalogue | None
    directory: Path

    def run(self) -> None:
        connector = self.file.connector
        self._window(connector)
        self._keeping(connector)
        self._parallel(connector)
        static = self.metaobjects.static.get(connector.configuration_meta_object or "")
        check_destinations(
            self.file, self.reading, self.entries, static, self.metaobjects, self.collected, self.reporter
        )
        check_retries_in_order(connector, self.entries, static, self.reporter)
        check_duplicate_keys(
            connector,
            self.reading.positions(*_INPUTS),
            self.entries,
            static,
            None if self.collected.incomplete else self.metaobjects.definitions,
            self.reporter,
        )
        self._meta_objects(connector)
        self._requests(connector)
        names: dict[str, int] = {}
        for one in self.entries:
            self._subscription(one, names)
        self._check_repliers()
        self.file.spark.check(self.directory, self.reporter)
        check_http(self.file.http, connector, self.reporter)
        check_tracing(self.file.tracing, self.reporter)
        if self.file.datahandlers is not None and not self.file.datahandlers.exists():
            self.reporter.add(
                ("datahandlers",), f"there is no {self.file.datahandlers}", "a file or directory"
            )

    # --- polling -----------------------------------------------------------------------------

    def _window(self, connector: Connector) -> None:
        start, end = connector.poll_start_time, connector.poll_end_time
        given = [key for key in ("PollStartTime", "PollEndTime") if self.reporter.leaf("connector", key)]
        if len(given) == 1:
            other = "PollEndTime" if given[0] == "PollStartTime" else "PollStartTime"
            self.reporter.add(("connector", given[0]), f"{given[0]} without {other}", "both or none")
        elif start is not None and start == end:
            self.reporter.add(
                ("connector", "PollEndTime"), "an empty window: it ends when it starts", "another time"
            )
        elif given and isinstance(connector.poll_frequency, Cron):
            self.reporter.add(
                ("connector", given[0]),
                f"{given[0]} with a cron as PollFrequency, whose times are the window",
                "one of them",
            )
        elif given and connector.poll_frequency is None:
            self.reporter.add(
                ("connector", given[0]),
                f"{given[0]} with PollFrequency: no, which never polls by itself",
                "a PollFrequency in milliseconds, or no window",
                warning=True,
            )

    def _keeping(self, connector: Connector) -> None:
        for key, role, destination in (
            ("keep_archive", "ArchiveDestination", connector.archive_destination),
            ("keep_error", "ErrorDestination", connector.error_destination),
            ("keep_unsubscribed", "UnsubscribedDestination", connector.unsubscribed_destination),
        ):
            if not self.reporter.leaf("connector", key):
                continue
            where = ("connector", key)
            if not any(self.reporter.leaf(*place, role) for place in (("connector",), *self._inputs())):
                self.reporter.add(where, f"{key} without {role}", f"{role}, or no {key}")
            elif destination is not None and not connector.inputs:
                self.reporter.add(
                    where,
                    f"{key} without InputDestination: who only makes requests removes nothing",
                    "an InputDestination",
                    warning=True,
                )

    def _parallel(self, connector: Connector) -> None:
        """Reports events that are to run side by side although each waits for the one before."""
        entries = connector.inputs
        said = [
            ((*place, "parallel"), one.parallel, [one])
            for place, one in zip(self._inputs(), entries, strict=False)
        ]
        shared = [one for one in entries if one.order is None and one.parallel is None]
        for where, parallel, concerned in [*said, (("connector", "parallel"), connector.parallel, shared)]:
            if (parallel or 1) > 1 and any(
                (one.order or connector.order) == "destination" for one in concerned
            ):
                self.reporter.add(
                    where,
                    f"parallel: {parallel} with order: destination, where an event waits for the one before",
                    "order: group, or order: none, or parallel: 1",
                )

    def _inputs(self) -> Iterator[tuple[str, str, int]]:
        """Yields the places of the inputs in the file."""
        for index, _ in zip(self.reading.positions(*_INPUTS), self.file.connector.inputs, strict=False):
            yield *_INPUTS, index

    # --- meta-objects ------------------------------------------------------------------------

    def _meta_objects(self, connector: Connector) -> None:
        name = connector.configuration_meta_object
        static = self.metaobjects.static.get(name or "")
        known = [
            document.name
            for document in self.collected.documents.values()
            if document.kind == "static_metaobject"
        ]
        if name is not None and name not in known and not self.collected.incomplete:
            self.reporter.add(
                ("connector", "ConfigurationMetaObject"),
                f"there is no static meta-object {shown(name)}",
                "the name of a static_metaobject",
                nearest(name, known),
            )
        handler = {
            key: text
            for key in ("DataHandlerConfigMO", "DataHandlerClassName", _MIME_TYPE)
            if (text := self.reporter.leaf("connector", key)) is not None
        }
        check_handlers(handler, ("connector",), self.collected, self.catalogue, self.directory, self.reporter)
        self._default_verb(connector.default_verb, ("connector",))
        for place, entry in zip(self._inputs(), connector.inputs, strict=False):
            if mime_type := self.reporter.leaf(*place, _MIME_TYPE):
                of_input = {_MIME_TYPE: mime_type}
                check_handlers(of_input, place, self.collected, self.catalogue, self.directory, self.reporter)
            self._default_verb(entry.default_verb, place)
        if static is not None:
            self._unread_options(static, connector)
            self._single_attributes(static, connector)
            self._unfit_expressions(static)
        polled = {entry.destination for entry in connector.inputs}
        for rule in static.rules if static is not None and polled else ():
            if rule.input_destination is not None and rule.input_destination not in polled:
                self.collected.documents[name or ""].add(
                    ("rules", rule.id, "InputDestination"),
                    f"{rule.input_destination} is not polled: this rule never matches",
                    "one of InputDestination in adapter.yaml",
                    nearest(str(rule.input_destination), [str(destination) for destination in polled]),
                    warning=True,
                )

    def _default_of(self, rule: Rule) -> str:
        """Returns the default data handler of the messages of a rule: of its input, else the connector's."""
        connector = self.file.connector
        found = [one.input for one in connector.inputs if one.destination == rule.input_destination]
        return connector.of(found[0] if found else None).default_handler

    def _unread_options(self, static: StaticMetaObject, connector: Connector) -> None:
        """Reports options of a handler that is named by class. Such a handler has no options."""
        default = connector.default_handler
        texts = self.collected.rules[static.name]
        handlers = {
            rule.id: choose_handler((rule.handler,), self._default_of(rule))[0] for rule in static.rules
        }
        unread: list[tuple[tuple[str, ...], str]] = []
        unread += [
            (("rules", one), named) for one, named in handlers.items() if OPTIONS_KEY in texts.rules[one]
        ]
        if OPTIONS_KEY in texts.defaults and all(":" in handler for handler in handlers.values()):
            unread.append((("Default",), choose_handler((static.defaults,), default)[0]))
        document = self.collected.documents[static.name]
        for location, handler in unread:
            if ":" not in handler:
                continue
            document.add(
                (*location, OPTIONS_KEY),
                f"the data handler is named by its class, {handler}: these options are not read",
                "a DataHandlerMimeType, or no options",
                warning=True,
            )

    def _single_attributes(self, static: StaticMetaObject, connector: Connector) -> None:
        """Reports rules whose objects cannot hold a body that is one attribute."""
        for rule in static.rules:
            mime_type, config = choose_handler((rule.handler,), self._default_of(rule))
            options = self.metaobjects.handler_options.get(config or connector.data_handler_config_mo, {})
            check_single_attribute(
                mime_type,
                options.get(normal_mime_type(mime_type), {}),
                self.metaobjects.definitions[rule.object],
                ("rules", rule.id),
                self.catalogue,
                self.collected.documents[static.name],
            )

    def _unfit_expressions(self, static: StaticMetaObject) -> None:
        """Reports rules whose expression asks for JSON in the body of another format."""
        for rule in static.rules:
            mime_type = normal_mime_type(choose_handler((rule.handler,), self._default_of(rule))[0])
            handler = self.catalogue.find(mime_type) if self.catalogue is not None else None
            if rule.jmespath is None or mime_type not in NEVER_JSON or handler is None:
                continue
            if handler.origin == SHIPPED:
                self.collected.documents[static.name].add(
                    ("rules", rule.id, "jmespath"),
                    f"the bodies of this rule are {mime_type}, and the expression is for JSON: this rule "
                    "never matches",
                    "a selector or another match key, or a data handler for JSON",
                    warning=True,
                )

    def _default_verb(self, verb: str | None, place: Location) -> None:
        verbs = {verb for definition in self.metaobjects.definitions.values() for verb in definition.verbs}
        given = self.reporter.leaf(*place, "DefaultVerb")
        if given and verb and verbs and verb not in verbs and not self.collected.incomplete:
            self.reporter.add(
                (*place, "DefaultVerb"),
                f"no business object has the verb {shown(verb)}",
                "a verb of a business object",
                nearest(verb, verbs),
            )

    # --- requests ----------------------------------------------------------------------------

    def _requests(self, connector: Connector) -> None:
        if connector.late_replies == "archive" and connector.archive_destination is None:
            self.reporter.add(
                ("connector", "late_replies"),
                "archive without ArchiveDestination",
                "an ArchiveDestination, or error | discard",
            )
        if connector.response_selector_quoting == "raw":
            self.reporter.add(
                ("connector", "response_selector_quoting"),
                "raw: a value with a quote in it can make a request take the reply to another",
                "quoted",
                warning=True,
            )

    # --- subscriptions -----------------------------------------------------------------------

    def _subscription(self, one: ReadEntry, names: dict[str, int]) -> None:
        here = ("subscriptions", one.index)
        self._objects(one.index, one.entry)
        if one.entry.when is not None:
            self._when(one.entry.when, one.entry.object, (*here, "when"))
        if not isinstance(one.entry, SinkEntry):
            return
        definitions = None if self.collected.incomplete else self.metaobjects.definitions
        if isinstance(one.entry, MappedEntry) and one.entry.map is not None:
            self._map(one.entry, one.entry.map, (*here, "map"))
        one.entry.check(
            EntryCheck(
                self.reporter,
                here,
                one.key,
                self.directory,
                self.catalogue,
                self.file.spark.runs_here,
                definitions,
            )
        )
        self._single_attribute_of(one.entry, here)
        self._database(one, here)
        first = names.setdefault(one.name, one.index)
        if first != one.index:
            _, position, _ = find(self.reporter.tree, ("subscriptions", first))
            location = (*here, "name") if one.entry.name else here
            self.reporter.add(
                location,
                f"a second subscription named {one.name!r}, first in line {position.line}",
                "a name of its own: name: ...",
            )

    def _when(self, text: str, pattern: str, where: Location) -> None:
        definitions = self.metaobjects.definitions
        names = [name for name in definitions if fnmatch.fnmatchcase(name, pattern)]
        found = find_mistakes(text, self.directory, definitions, () if self.collected.incomplete else names)
        for mistake in found:
            self.reporter.add(where, *mistake)

    def _map(self, entry: MappedEntry, name: str, where: Location) -> None:
        """Reports a map that is not there, or is for other objects."""
        known = [one.name for one in self.collected.documents.values() if one.kind not in KINDS]
        found = self.metaobjects.maps.get(name)
        if name not in known and not self.collected.incomplete:
            expected = f"one of {', '.join(known)}" if known else "a map in metaobjects"
            self.reporter.add(where, f"there is no map {shown(name)}", expected, nearest(name, known))
        names = [
            one
            for one, definition in self.metaobjects.definitions.items()
            if definition.verbs and fnmatch.fnmatchcase(one, entry.object)  # others are no events
        ]
        other = next((one for one in names if found is not None and one != found.source), None)
        if found is not None and other is not None:
            self.reporter.add(where, f"{name} takes {found.source}, not {other}", f"a map from {other}")

    def _single_attribute_of(self, entry: SinkEntry, here: tuple[str, int]) -> None:
        """Reports messages that cannot be made, because their body is one attribute that is missing."""
        definition = self.metaobjects.definitions.get(entry.delivered_object)
        if isinstance(entry, PreparedEntry) and entry.mime_type is not None and definition is not None:
            config = self.metaobjects.handler_options.get(self.file.connector.data_handler_config_mo, {})
            options = config.get(normal_mime_type(entry.mime_type), {})
            where = (*here, "mime_type")
            check_single_attribute(entry.mime_type, options, definition, where, self.catalogue, self.reporter)

    def _database(self, one: ReadEntry, here: tuple[str, int]) -> None:
        """Reports a database that the file does not have."""
        name = one.entry.database if isinstance(one.entry, SinkEntry) else None
        # A wrong URL leaves out its database, which is there all the same.
        node = node_at(self.reporter.tree, ("databases",))
        known = list(node.entries) if isinstance(node, Table) else []
        if is_misspelt("databases", self.reporter.tree, AdapterFile.model_fields):
            return
        if name is None or name in self.file.databases or name in known:
            return
        self.reporter.add(
            (*here, one.key if one.key in ("table", "dataframe") else "transaction"),
            f"there is no database {shown(name)}",
            f"one of databases: {', '.join(known)}" if known else "databases: with its name and its url",
            nearest(name, known),
        )

    def _check_repliers(self) -> None:
        """Reports requests that several sinks would reply to."""
        first: dict[tuple[str, str], int] = {}
        for one in self.entries:
            index, subscription = one.index, one.entry
            if not (isinstance(subscription, SinkEntry) and subscription.replies):
                continue
            for name, definition in self.metaobjects.definitions.items():
                if not fnmatch.fnmatchcase(name, subscription.object):
                    continue
                for verb in definition.verbs if subscription.verbs is None else subscription.verbs:
                    other = first.setdefault((name, verb), index)
                    if other != index:
                        line = self.reporter.position("subscriptions", other).line
                        self.reporter.add(
                            ("subscriptions", index, "reply"),
                            f"{name}.{verb} is answered by the subscription in line {line} too: whoever asks "
                            "takes the first reply",
                            "one process that replies",
                            warning=True,
                        )
                        return

    def _objects(self, index: int, subscription: CommonEntry) -> None:
        definitions = self.metaobjects.definitions
        pattern = subscription.object
        matching = [name for name in definitions if fnmatch.fnmatchcase(name, pattern)]
        if self.collected.incomplete:
            return
        if not matching:
            expected = "a business object or a pattern that fits one"
            if not definitions:
                expected = "business objects in metaobjects"
            self.reporter.add(
                ("subscriptions", index, "object"),
                f"no business object fits {shown(pattern)}",
                expected,
                nearest(pattern, definitions),
            )
            return
        verbs = {verb for name in matching for verb in definitions[name].verbs}
        node = node_at(self.reporter.tree, ("subscriptions", index, "verbs"))
        listed = node.items if isinstance(node, Items) else None
        for verb in subscription.verbs or ():
            if verb in verbs:
                continue
            position = [index for index, one in enumerate(listed or ()) if one == verb][:1]
            self.reporter.add(
                ("subscriptions", index, "verbs", *position),
                f"{pattern} has no verb {shown(verb)}",
                f"one of {', '.join(sorted(verbs))}" if verbs else "verbs in its definition",
                nearest(verb, verbs),
            )
