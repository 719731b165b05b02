"""Checking the sections of ``adapter.yaml`` against one another and against ``metaobjects/``."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from connector.businessobjects.catalogue import Catalogue
from connector.config.destination_lint import check_destinations
from connector.config.http_lint import check_http
from connector.config.metaobject_lint import check_config_mo, check_handler_class, check_mime_type
from connector.config.metaobjects import Collected, MetaObjects
from connector.config.model import AdapterFile, Connector, Spark
from connector.config.places import Places
from connector.config.problems import nearest, shown
from connector.config.provider_model import Dropbox, Memory, Provider
from connector.config.python_names import LookupProblem, check_process
from connector.config.reading import Reading, find
from connector.config.spark_owned import owner_reason
from connector.config.subscription_model import Subscription
from connector.config.tree import Table

_FIXED = {"spark.task.maxFailures": "1", "spark.speculation": "false"}
"""Owned settings that may be written down with the value that they have anyway (design, section 4)."""


@dataclass(slots=True)
class Lint:
    """One pass over a configuration.

    Args:
        places: ``adapter.yaml`` as it stands; gets what is wrong.
        reading, file: what could be read of it.
        directory: of ``adapter.yaml``.
        in_process: whether the deployment runs in one process, without Spark.
    """

    places: Places
    reading: Reading[AdapterFile]
    file: AdapterFile
    metaobjects: MetaObjects
    collected: Collected
    catalogue: Catalogue | None
    directory: Path
    in_process: bool = False

    def run(self) -> None:
        connector = self.file.connector
        self._provider(self.file.provider)
        self._window(connector)
        static = self.metaobjects.static.get(connector.configuration_meta_object or "")
        check_destinations(self.file, self.reading, static, self.collected, self.places)
        self._meta_objects(connector)
        self._requests(connector)
        names: dict[str, int] = {}
        for index, subscription in self._subscriptions():
            self._subscription(index, subscription, names)
        self._answered_twice()
        self._spark(self.file.spark)
        check_http(self.file.http, self.places)
        if self.file.datahandlers is not None and not self.file.datahandlers.exists():
            self.places.add(("datahandlers",), f"there is no {self.file.datahandlers}", "a file or directory")

    def _subscriptions(self) -> Iterator[tuple[int, Subscription]]:
        """The subscriptions that could be read, each with its position in the file."""
        yield from zip(self.reading.kept("subscriptions"), self.file.subscriptions, strict=False)

    # --- provider and polling ----------------------------------------------------------------

    def _provider(self, provider: Provider) -> None:
        if isinstance(provider, Memory) and not self.in_process:
            self.places.add(
                ("provider", "type"),
                "memory is that of one process, and the adapter, its workers and every command are several",
                "dropbox; memory is for tests without Spark (connector.testing.deployment)",
            )
        if not isinstance(provider, Dropbox):
            return
        if provider.root.exists() and not provider.root.is_dir():
            self.places.add(("provider", "root"), f"{provider.root} is not a directory", "a directory")
        incoming, outgoing = provider.incoming_directory, provider.outgoing_directory
        if outgoing is not None and (incoming == "") != (outgoing == ""):
            self.places.add(
                ("provider", "outgoing_directory"),
                f"{shown(outgoing)} with the incoming_directory {shown(incoming)}",
                "two names, or '' for both",
            )

    def _window(self, connector: Connector) -> None:
        start, end = connector.poll_start_time, connector.poll_end_time
        given = [key for key in ("PollStartTime", "PollEndTime") if self.places.leaf("connector", key)]
        if len(given) == 1:
            other = "PollEndTime" if given[0] == "PollStartTime" else "PollStartTime"
            self.places.add(("connector", given[0]), f"{given[0]} without {other}", "both or none")
        elif start is not None and start == end:
            self.places.add(
                ("connector", "PollEndTime"), "an empty window: it ends when it starts", "another time"
            )

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
            self.places.add(
                ("connector", "ConfigurationMetaObject"),
                f"there is no static meta-object {shown(name)}",
                "the name of a static_metaobject",
                nearest(name, known),
            )
        if self.places.leaf("connector", "DataHandlerConfigMO"):
            _, mark, path = find(self.places.tree, ("connector", "DataHandlerConfigMO"))
            check_config_mo(
                connector.data_handler_config_mo, mark, path, self.collected, self.places.problems
            )
        if connector.data_handler_class_name is not None:
            _, mark, path = find(self.places.tree, ("connector", "DataHandlerClassName"))
            check_handler_class(
                connector.data_handler_class_name, mark, path, self.directory, self.places.problems
            )
        if self.places.leaf("connector", "DataHandlerMimeType"):
            _, mark, path = find(self.places.tree, ("connector", "DataHandlerMimeType"))
            check_mime_type(
                connector.data_handler_mime_type, mark, path, self.catalogue, self.places.problems
            )
        self._default_verb(connector)
        polled = {entry.destination for entry in connector.inputs}
        for rule in static.rules if static is not None and polled else ():
            if rule.input_destination is not None and rule.input_destination not in polled:
                document = self.collected.documents[name or ""]
                location = ("rules", rule.name, "InputDestination")
                mark, path = document.place(*location)
                self.places.problems.add(
                    mark,
                    path,
                    f"{rule.input_destination} is not polled: this rule never matches",
                    "one of InputDestination in adapter.yaml",
                    nearest(str(rule.input_destination), [str(destination) for destination in polled]),
                    warning=True,
                )

    def _default_verb(self, connector: Connector) -> None:
        verbs = {verb for definition in self.metaobjects.definitions.values() for verb in definition.verbs}
        verb = connector.default_verb
        given = self.places.leaf("connector", "DefaultVerb")
        if given and verbs and verb not in verbs and not self.collected.incomplete:
            self.places.add(
                ("connector", "DefaultVerb"),
                f"no business object has the verb {shown(verb)}",
                "a verb of a business object",
                nearest(verb, verbs),
            )

    # --- requests ----------------------------------------------------------------------------

    def _requests(self, connector: Connector) -> None:
        if connector.late_replies == "archive" and connector.archive_destination is None:
            self.places.add(
                ("connector", "late_replies"),
                "archive without ArchiveDestination",
                "an ArchiveDestination, or error | discard",
            )
        if connector.response_selector_quoting == "raw":
            self.places.add(
                ("connector", "response_selector_quoting"),
                "raw: a value with a quote in it can make a request take the reply to another",
                "quoted",
                warning=True,
            )

    # --- subscriptions -----------------------------------------------------------------------

    def _subscription(self, index: int, subscription: Subscription, names: dict[str, int]) -> None:
        here = ("subscriptions", index)
        self._objects(index, subscription)
        entries = find(self.places.tree, here)[0]
        written = set(entries.entries) if isinstance(entries, Table) else set()
        sinks = written & {"process", "destination"}
        if len(sinks) == 2:
            self.places.add(
                (*here, "destination"), "a process and a destination", "two subscriptions, one for each"
            )
        elif not sinks and not written & {"http", "table"}:
            self.places.add(
                here, "neither process nor destination", "one of them: who gets the business object"
            )
        if len(sinks) == 1:
            self._foreign_keys(index, written, next(iter(sinks)), subscription)
        if subscription.process is not None:
            try:
                check_process(subscription.process, self.directory)
            except LookupProblem as error:
                self.places.add((*here, "process"), error.found, error.expected, error.near)
        if subscription.mime_type is not None:
            _, mark, path = find(self.places.tree, (*here, "mime_type"))
            check_mime_type(subscription.mime_type, mark, path, self.catalogue, self.places.problems)
        first = names.setdefault(subscription_name(subscription), index)
        if first != index and sinks:
            _, mark, _ = find(self.places.tree, ("subscriptions", first))
            location = (*here, "name") if "name" in written else here
            self.places.add(
                location,
                f"a second subscription named {subscription_name(subscription)!r}, first in line {mark.line}",
                "a name of its own: name: ...",
            )

    def _foreign_keys(self, index: int, written: set[str], sink: str, subscription: Subscription) -> None:
        """Keys that mean nothing for the kind of sink that a subscription has."""
        foreign: tuple[str, ...] = ()
        if sink == "destination":
            foreign, expected = ("timeout", "retries", "reply"), "it with a process only"
        elif not subscription.reply:
            foreign, expected = ("mime_type", "format"), "it with a destination, or with reply: true"
        for key in foreign:
            if key in written:
                self.places.add(("subscriptions", index, key), f"{key} of a {sink}", expected)

    def _answered_twice(self) -> None:
        """Several processes that reply to one request."""
        first: dict[tuple[str, str], int] = {}
        for index, subscription in self._subscriptions():
            for name, definition in self.metaobjects.definitions.items() if subscription.reply else ():
                if not fnmatch.fnmatchcase(name, subscription.object):
                    continue
                for verb in definition.verbs if subscription.verbs is None else subscription.verbs:
                    other = first.setdefault((name, verb), index)
                    if other != index:
                        line = self.places.mark("subscriptions", other).line
                        self.places.add(
                            ("subscriptions", index, "reply"),
                            f"{name}.{verb} is answered by the subscription in line {line} too: whoever asks "
                            "takes the first reply",
                            "one process that replies",
                            warning=True,
                        )
                        return

    def _objects(self, index: int, subscription: Subscription) -> None:
        definitions = self.metaobjects.definitions
        pattern = subscription.object
        matching = [name for name in definitions if fnmatch.fnmatchcase(name, pattern)]
        if self.collected.incomplete:
            return
        if not matching:
            expected = "a business object or a pattern that fits one"
            if not definitions:
                expected = "business objects in metaobjects"
            self.places.add(
                ("subscriptions", index, "object"),
                f"no business object fits {shown(pattern)}",
                expected,
                nearest(pattern, definitions),
            )
            return
        verbs = {verb for name in matching for verb in definitions[name].verbs}
        node, _, _ = find(self.places.tree, ("subscriptions", index, "verbs"))
        listed = getattr(node, "items", None)
        for verb in subscription.verbs or ():
            if verb in verbs:
                continue
            position = (listed.index(verb),) if listed is not None and verb in listed else ()
            self.places.add(
                ("subscriptions", index, "verbs", *position),
                f"{pattern} has no verb {shown(verb)}",
                f"one of {', '.join(sorted(verbs))}" if verbs else "verbs in its definition",
                nearest(verb, verbs),
            )

    # --- Spark -------------------------------------------------------------------------------

    def _spark(self, spark: Spark) -> None:
        self._master(spark.master)
        for key, value in spark.conf.items():
            location = ("spark", "conf", key)
            mark = self.places.key_mark("spark", "conf", key)
            reason = owner_reason(key)
            if reason is not None and _FIXED.get(key) != value.casefold():
                expected = f"{_FIXED[key]}, or nothing" if key in _FIXED else "it left out"
                self.places.add(location, f"the event job owns this setting: {reason}", expected, mark=mark)
            elif not key.startswith("spark."):
                expected = "a name that begins with 'spark.'"
                self.places.add(location, "no Spark setting", expected, f"spark.{key}", mark=mark)
        for index, path in enumerate(spark.ship or ()):
            if not path.exists():
                self.places.add(("spark", "ship", index), f"there is no {path}", "a file or directory")
        python = spark.python
        if python is not None and "/" in python and spark.master.startswith("local"):
            found = self.directory / python
            if not found.is_file() or not os.access(found, os.X_OK):
                self.places.add(
                    ("spark", "python"), f"there is no program {shown(python)}", "a Python interpreter"
                )

    def _master(self, master: str) -> None:
        local = re.fullmatch(r"local(?:\[(\*|[1-9][0-9]{0,3})(?:,\s*([0-9]+))?\])?", master)
        if local is not None:
            if local[2] is not None and local[2] != "1":
                self.places.add(
                    ("spark", "master"),
                    f"{shown(master)} lets Spark repeat a failed task",
                    f"local[{local[1]}]: a failed task is repeated from the outcome journal",
                )
            return
        if not re.fullmatch(r"spark://[^\s/:,]+:[0-9]{1,5}(?:,[^\s/:,]+:[0-9]{1,5})*|yarn|k8s://\S+", master):
            self.places.add(
                ("spark", "master"), shown(master), "local[*], local[4], spark://host:7077, yarn or k8s://..."
            )


def subscription_name(subscription: Subscription) -> str:
    """The name of a subscription: its own, or the object and the process or destination."""
    return subscription.name or f"{subscription.object} {subscription.process or subscription.destination}"
