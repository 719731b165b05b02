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
from connector.config.metaobject_lint import check_config_mo, check_handler_class, check_mime_type
from connector.config.metaobjects import Collected, MetaObjects
from connector.config.model import AdapterFile, Connector, Spark, Subscription
from connector.config.places import Places
from connector.config.problems import Mark, Problems, nearest, shown
from connector.config.provider_model import Dropbox, Memory, Provider
from connector.config.python_names import LookupProblem, check_process
from connector.config.reading import Location, Reading, find
from connector.config.spark_owned import owner_reason
from connector.config.tree import Leaf, Table

_FIXED = {"spark.task.maxFailures": "1", "spark.speculation": "false"}
"""Owned settings that may be written down with the value that they have anyway (design, section 4)."""


@dataclass(slots=True)
class Lint:
    """One pass over a configuration; what is wrong goes to ``problems``.

    Args:
        tree: ``adapter.yaml`` as it stands.
        reading, file: what could be read of it.
        directory: of ``adapter.yaml``.
        in_process: whether the deployment runs in one process, without Spark.
    """

    tree: Table
    reading: Reading[AdapterFile]
    file: AdapterFile
    metaobjects: MetaObjects
    collected: Collected
    catalogue: Catalogue | None
    directory: Path
    problems: Problems
    in_process: bool = False

    def run(self) -> None:
        connector = self.file.connector
        self._provider(self.file.provider)
        self._window(connector)
        check_destinations(self.file, self.reading, Places(self.tree, self.problems))
        self._meta_objects(connector)
        names: dict[str, int] = {}
        for index, subscription in self._subscriptions():
            self._subscription(index, subscription, names)
        self._spark(self.file.spark)
        if self.file.datahandlers is not None and not self.file.datahandlers.exists():
            self._add(("datahandlers",), f"there is no {self.file.datahandlers}", "a file or directory")

    # --- places ------------------------------------------------------------------------------

    def _add(
        self,
        location: Location,
        found: str,
        expected: str,
        near: str | None = None,
        *,
        mark: Mark | None = None,
        warning: bool = False,
    ) -> None:
        Places(self.tree, self.problems).add(location, found, expected, near, mark=mark, warning=warning)

    def _leaf(self, *location: int | str) -> Leaf | None:
        return Places(self.tree, self.problems).leaf(*location)

    def _subscriptions(self) -> Iterator[tuple[int, Subscription]]:
        """The subscriptions that could be read, each with its position in the file."""
        yield from zip(self.reading.kept("subscriptions"), self.file.subscriptions, strict=False)

    # --- provider and polling ----------------------------------------------------------------

    def _provider(self, provider: Provider) -> None:
        if isinstance(provider, Memory) and not self.in_process:
            self._add(
                ("provider", "type"),
                "memory is that of one process, and the adapter, its workers and every command are several",
                "dropbox; memory is for tests without Spark (connector.testing.deployment)",
            )
        if not isinstance(provider, Dropbox):
            return
        if provider.root.exists() and not provider.root.is_dir():
            self._add(("provider", "root"), f"{provider.root} is not a directory", "a directory")
        for key in ("incoming_directory", "outgoing_directory"):
            name = getattr(provider, key)
            if name is not None and ("/" in name or name.startswith(".") or name == "dropboxmq"):
                self._add(("provider", key), shown(name), "the name of a directory, without / and first dot")

    def _window(self, connector: Connector) -> None:
        start, end = connector.poll_start_time, connector.poll_end_time
        given = [key for key in ("PollStartTime", "PollEndTime") if self._leaf("connector", key)]
        if len(given) == 1:
            other = "PollEndTime" if given[0] == "PollStartTime" else "PollStartTime"
            self._add(("connector", given[0]), f"{given[0]} without {other}", "both or none")
        elif start is not None and start == end:
            self._add(("connector", "PollEndTime"), "an empty window: it ends when it starts", "another time")

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
            self._add(
                ("connector", "ConfigurationMetaObject"),
                f"there is no static meta-object {shown(name)}",
                "the name of a static_metaobject",
                nearest(name, known),
            )
        if self._leaf("connector", "DataHandlerConfigMO"):
            _, mark, path = find(self.tree, ("connector", "DataHandlerConfigMO"))
            check_config_mo(connector.data_handler_config_mo, mark, path, self.collected, self.problems)
        if connector.data_handler_class_name is not None:
            _, mark, path = find(self.tree, ("connector", "DataHandlerClassName"))
            check_handler_class(connector.data_handler_class_name, mark, path, self.directory, self.problems)
        if self._leaf("connector", "DataHandlerMimeType"):
            _, mark, path = find(self.tree, ("connector", "DataHandlerMimeType"))
            check_mime_type(connector.data_handler_mime_type, mark, path, self.catalogue, self.problems)
        self._default_verb(connector)
        polled = {entry.destination for entry in connector.inputs}
        for rule in static.rules if static is not None and polled else ():
            if rule.input_destination is not None and rule.input_destination not in polled:
                document = self.collected.documents[name or ""]
                location = ("rules", rule.name, "InputDestination")
                mark, path = document.place(*location)
                self.problems.add(
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
        given = self._leaf("connector", "DefaultVerb")
        if given and verbs and verb not in verbs and not self.collected.incomplete:
            self._add(
                ("connector", "DefaultVerb"),
                f"no business object has the verb {shown(verb)}",
                "a verb of a business object",
                nearest(verb, verbs),
            )

    # --- subscriptions -----------------------------------------------------------------------

    def _subscription(self, index: int, subscription: Subscription, names: dict[str, int]) -> None:
        here = ("subscriptions", index)
        self._objects(index, subscription)
        entries = find(self.tree, here)[0]
        written = set(entries.entries) if isinstance(entries, Table) else set()
        sinks = written & {"process", "destination"}
        if len(sinks) == 2:
            self._add(
                (*here, "destination"), "a process and a destination", "two subscriptions, one for each"
            )
        elif not sinks and not written & {"http", "table"}:
            self._add(here, "neither process nor destination", "one of them: who gets the business object")
        foreign = ("timeout", "retries") if sinks == {"destination"} else ("mime_type", "format")
        for key in foreign if len(sinks) == 1 else ():
            if key in written:
                kind = "process" if key in ("timeout", "retries") else "destination"
                self._add((*here, key), f"{key} of a {next(iter(sinks))}", f"it with a {kind} only")
        if subscription.process is not None:
            try:
                check_process(subscription.process, self.directory)
            except LookupProblem as error:
                self._add((*here, "process"), error.found, error.expected, error.near)
        if subscription.mime_type is not None:
            _, mark, path = find(self.tree, (*here, "mime_type"))
            check_mime_type(subscription.mime_type, mark, path, self.catalogue, self.problems)
        first = names.setdefault(subscription_name(subscription), index)
        if first != index and sinks:
            _, mark, _ = find(self.tree, ("subscriptions", first))
            location = (*here, "name") if "name" in written else here
            self._add(
                location,
                f"a second subscription named {subscription_name(subscription)!r}, first in line {mark.line}",
                "a name of its own: name: ...",
            )

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
            self._add(
                ("subscriptions", index, "object"),
                f"no business object fits {shown(pattern)}",
                expected,
                nearest(pattern, definitions),
            )
            return
        verbs = {verb for name in matching for verb in definitions[name].verbs}
        node, _, _ = find(self.tree, ("subscriptions", index, "verbs"))
        listed = getattr(node, "items", None)
        for verb in subscription.verbs or ():
            if verb in verbs:
                continue
            position = (listed.index(verb),) if listed is not None and verb in listed else ()
            self._add(
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
            mark = Places(self.tree, self.problems).key_mark("spark", "conf", key)
            reason = owner_reason(key)
            if reason is not None and _FIXED.get(key) != value.casefold():
                expected = f"{_FIXED[key]}, or nothing" if key in _FIXED else "it left out"
                self._add(location, f"the event job owns this setting: {reason}", expected, mark=mark)
            elif not key.startswith("spark."):
                expected = "a name that begins with 'spark.'"
                self._add(location, "no Spark setting", expected, f"spark.{key}", mark=mark)
        for index, path in enumerate(spark.ship or ()):
            if not path.exists():
                self._add(("spark", "ship", index), f"there is no {path}", "a file or directory")
        python = spark.python
        if python is not None and "/" in python and spark.master.startswith("local"):
            found = self.directory / python
            if not found.is_file() or not os.access(found, os.X_OK):
                self._add(("spark", "python"), f"there is no program {shown(python)}", "a Python interpreter")

    def _master(self, master: str) -> None:
        local = re.fullmatch(r"local(?:\[(\*|[1-9][0-9]{0,3})(?:,\s*([0-9]+))?\])?", master)
        if local is not None:
            if local[2] is not None and local[2] != "1":
                self._add(
                    ("spark", "master"),
                    f"{shown(master)} lets Spark repeat a failed task",
                    f"local[{local[1]}]: a failed task is repeated from the outcome journal",
                )
            return
        if not re.fullmatch(r"spark://[^\s/:,]+:[0-9]{1,5}(?:,[^\s/:,]+:[0-9]{1,5})*|yarn|k8s://\S+", master):
            self._add(
                ("spark", "master"), shown(master), "local[*], local[4], spark://host:7077, yarn or k8s://..."
            )


def subscription_name(subscription: Subscription) -> str:
    """The name of a subscription: its own, or the object and the process or destination."""
    return subscription.name or f"{subscription.object} {subscription.process or subscription.destination}"
