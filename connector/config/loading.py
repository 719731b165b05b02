"""Loads and checks a deployment: ``adapter.yaml`` and all files that it names."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from connector.config.capability_lint import check_capabilities, check_delays
from connector.config.destination_lint import check_selectors
from connector.config.expression_lint import read_conditions
from connector.config.handler_lint import check_handler_imports, check_made
from connector.config.hidden_modules import check_hidden_modules
from connector.config.homes import home_of
from connector.config.http_model import Http
from connector.config.lint import Lint
from connector.config.metaobject_lint import check_metaobjects
from connector.config.metaobjects import MetaObjects, collect
from connector.config.model import AdapterFile, Logging, State
from connector.config.provider_section import adopt_keys, check_provider, has_own_names, read_provider
from connector.config.subscription_reading import ReadEntry, SubscriptionReader
from connector.config.timer_lint import TimerReader
from connector.config.timer_model import TimerEntry
from connector.config.tracing_model import Tracing
from connector.databases.settings import DatabaseSettings
from connector.declare.connector_section import Connector
from connector.declare.environment import References, fill_in
from connector.declare.history_section import HistorySection
from connector.declare.pipeline_section import PipelineSection
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.problems import Position, Problems
from connector.declare.reading import (
    UNKNOWN_KEY,
    Location,
    SectionReader,
    field_names,
    fields_by_key,
    find,
    is_misspelt,
    report_missing,
)
from connector.declare.section import ProviderSection
from connector.declare.tree import Items, Leaf, Table, is_absent, kind_of, read_file
from connector.declare.value_types import resolve
from connector.errors import ConfigurationError, PipelineError, Problem
from connector.formats.catalogue import Catalogue, discover
from connector.java import find_java
from connector.limits.free_space import MinFree
from connector.local_time import unknown_zone
from connector.messaging.destination import Destination, names_of, parse_destination
from connector.messaging.provider_kind import PROVIDERS, DeploymentPaths
from connector.operate.health_section import Health
from connector.sinks.subscription_model import SinkEntry
from connector.state.file_systems import file_obstacle

if TYPE_CHECKING:
    from connector.businessobjects.condition import Condition

_HISTORY: Final = HistorySection()

MESSAGES: Final = frozenset(
    {"provider", "state"}
    | {
        f"connector.{key}"
        for key in fields_by_key(Connector)
        if key.endswith("Destination") or key in ("ApplicationName", "PollQuantity", "max_body")
    }
)
"""The parts without which nobody finds the messages of a deployment (see :func:`load_parts`)."""

CONVERSION: Final = frozenset({"provider", "state", "connector", "metaobjects", "datahandlers"})
"""The parts of who converts bodies or makes requests."""

PACKAGES: Final = frozenset({"provider.type", "provider.packages"})
"""The parts of who fetches the jars of the provider (see :func:`read_packages`)."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A deployment, complete and checked. Picklable.

    Attributes:
        file: the absolute path of ``adapter.yaml``.
        directory: the directory of the file. Relative paths count from here, and processes are found here.
        subscriptions: in the order of the file, each with a name.
        timers: in the order of the file. The data of their objects have the types of the attributes.
        metaobject_paths: the files and directories that the meta-objects were read from.
        datahandlers: plug-ins of the deployment. None = no plug-ins.
        state: the place of journals, published ids and locks. None = the provider decides.
        min_free: of the disk of a local provider.
        tracing: of events and requests. None = no spans.
        databases: for transactional sinks, with absolute paths.
        file_contents: of ``${file:PATH}``. No output shows them.
        conditions: the ``when`` of subscriptions, by their names. One whose files cannot be read is left out.
    """

    file: Path
    directory: Path
    provider: ProviderSection
    connector: Connector
    subscriptions: tuple[SinkEntry, ...]
    metaobjects: MetaObjects
    metaobject_paths: tuple[Path, ...]
    datahandlers: Path | None
    spark: PipelineSection
    logging: Logging
    min_free: MinFree
    health: Health
    state: State | None = None
    http: Http | None = None
    tracing: Tracing | None = None
    databases: tuple[DatabaseSettings, ...] = ()
    history: HistorySection = _HISTORY
    timers: tuple[TimerEntry, ...] = ()
    file_contents: frozenset[str] = field(default=frozenset(), repr=False)
    conditions: Mapping[str, Condition] = field(default_factory=dict)

    @property
    def own_names(self) -> bool:
        """Whether names of destinations are those of a server."""
        return PROVIDERS.load(self.provider.type).own_names

    def destination(self, text: str) -> Destination:
        """Returns the destination that a text names at the provider.

        Raises:
            DestinationError: the text names no destination.
        """
        return parse_destination(text, own_names=self.own_names)

    @property
    def paths(self) -> DeploymentPaths:
        """The directories and limits that the provider needs."""
        return _paths(self.directory, self.state, self.connector)


def load(
    path: str | Path = "adapter.yaml",
    environment: Mapping[str, str] | None = None,
    *,
    in_process: bool = False,
    thorough: bool = False,
) -> Configuration:
    """Reads a deployment. Runs no user code and makes no file.

    Args:
        environment: for ``${NAME}``. None = the environment of the process.
        in_process: whether the deployment will run in this process, without Spark. A provider that lives in
            one process needs that.
        thorough: whether the deployment will be started. Then the files that options of data handlers name
            and the abilities of the provider are checked, too.

    Raises:
        ConfigurationError: with every mistake. Warnings alone do not raise.
    """
    problems = Problems()
    configuration = _read(path, environment, problems, _Scope(in_process, thorough))
    if configuration is None or problems.errors:
        raise ConfigurationError(problems.sorted())
    return configuration


def load_valid_parts(
    path: str | Path, *, in_process: bool = True, thorough: bool = False
) -> tuple[Configuration | None, list[Problem]]:
    """Reads a deployment as far as that is possible.

    Args:
        in_process, thorough: as of :func:`load`.

    Returns:
        the deployment without the wrong parts, and the mistakes. None = not even the sections can be read.
    """
    problems = Problems()
    configuration = _read(path, None, problems, _Scope(in_process, thorough))
    return configuration, [one for one in problems.sorted() if not one.warning]


def load_parts(
    path: str | Path,
    parts: Collection[str] = MESSAGES,
    *,
    in_process: bool = False,
    thorough: bool = False,
) -> tuple[Configuration, list[Problem]]:
    """Reads a deployment for who needs some of its parts. Mistakes in other parts do not raise.

    Args:
        parts: sections of the file, and ``connector.KEY`` for a key of the section connector.
        in_process, thorough: as of :func:`load`.

    Returns:
        the deployment without the wrong parts, and the mistakes in parts that are not needed.

    Raises:
        ConfigurationError: with every mistake in ``parts``, or that concerns the file as a whole.
    """
    configuration, found = load_valid_parts(path, in_process=in_process, thorough=thorough)
    needed = [one for one in found if _concerns(one, str(path), parts)]
    if configuration is None or needed:
        raise ConfigurationError(needed or found)
    return configuration, found


def read_packages(path: str | Path) -> Sequence[str] | None:
    """Returns the Maven coordinates of the jars that the provider needs, whatever else is wrong in the file.

    Returns:
        None = the type of the provider or the packages are wrong. :func:`load_parts` with :data:`PACKAGES`
        then tells the mistakes.
    """
    problems = Problems()
    root = _read_root(path, None, problems)
    if root is None or not isinstance(root.entries.get("provider"), Table):
        return None
    section = read_provider(root, SectionReader(problems), substitute=True)
    if section is None or any(_concerns(one, str(path), PACKAGES) for one in problems.sorted()):
        return None
    return PROVIDERS.load(section.type).packages(section)


def _concerns(problem: Problem, file: str, parts: Collection[str]) -> bool:
    """Tells whether a mistake spoils one of the parts."""
    if problem.file != file:
        return "metaobjects" in parts
    steps = [step for step in re.split(r"[.\[\]]+", problem.path) if step]
    if problem.found == UNKNOWN_KEY and problem.nearest is not None:
        steps[-1] = problem.nearest  # the key that is meant is absent
    if not steps or steps[0] in parts:
        return True
    if len(steps) == 1:
        return any(part.startswith(f"{steps[0]}.") for part in parts)
    return f"{steps[0]}.{steps[1]}" in parts


def place_of(file: Path, location: Location) -> str:
    """Returns the place of a value in ``adapter.yaml``, for the text of an error: ``FILE:LINE:COLUMN: PATH``.

    Args:
        file: the absolute path. The text has a path that works in the working directory.
    """
    relative = os.path.relpath(file)
    display = str(file) if relative.startswith(os.pardir) else relative
    documents = read_file(file, display, Problems()) or [Table(Position(display))]
    _, position, path = find(documents[0], location)
    return ":".join(str(part) for part in (*position, f" {path}") if part)


def _paths(directory: Path, state: State | None, connector: Connector) -> DeploymentPaths:
    by_input = connector.by_input
    resolved = [by_input.get(one.input, connector) for one in connector.inputs]
    return DeploymentPaths(
        directory,
        state.directory if state is not None else None,
        poll_quantity=max((one.poll_quantity for one in resolved), default=connector.poll_quantity),
        max_body=max([connector.max_body, *(one.max_body for one in resolved)]),
    )


def check(path: str | Path = "adapter.yaml", environment: Mapping[str, str] | None = None) -> list[Problem]:
    """Returns every mistake and every warning in a deployment, by file and place.

    Reads like :func:`load`. Also looks for the Java that Spark needs, and the parts that the provider needs.
    """
    problems = Problems()
    _read(path, environment, problems, _Scope(thorough=True, machine=True))
    return problems.sorted()


def _check_machine(read: AdapterFile, directory: Path, display: str, reporter: ProblemReporter) -> None:
    """Reports what is wrong with this machine: its Java, files of SQLite, and zone."""
    if read.connector.inputs:
        try:
            find_java()
        except PipelineError as error:
            reporter.add(("connector", "InputDestination"), f"Spark cannot be started: {error}", "")
    _check_databases(read, directory, reporter)
    if zone := unknown_zone():
        found = f"TZ is {zone}, which is no zone of this machine: local time is that of UTC"
        reporter.problems.add(Position(display), "", found, "a zone of the package tzdata", warning=True)


def _check_databases(read: AdapterFile, directory: Path, reporter: ProblemReporter) -> None:
    """Reports files of SQLite that cannot be databases."""
    for name, one in read.databases.items():
        url = DatabaseSettings(name, one.url).at(directory).parsed
        if url.get_backend_name() != "sqlite" or not url.database:
            continue
        reason = file_obstacle(Path(url.database))
        if reason is not None:
            expected = "a database of SQLite, or a place for a new one"
            reporter.add(("databases", name, "url"), reason, expected)


def _read_root(path: str | Path, environment: Mapping[str, str] | None, problems: Problems) -> Table | None:
    """Returns the tree of the file with all references filled in. None = the file has no such tree."""
    display = str(path)
    documents = read_file(Path(path), display, problems)
    if documents is None:
        return None
    if not documents:
        problems.add(Position(display), "", "is empty", "the sections provider and connector")
        return None
    if len(documents) > 1:
        problems.add(documents[1].position, "", "a second document", "one document in this file")
    root = documents[0]
    if not isinstance(root, Table):
        problems.add(root.position, "", kind_of(root), "a mapping with the sections provider and connector")
        return None
    directory = Path(os.path.abspath(path)).parent
    variables = os.environ if environment is None else environment
    filled = fill_in(root, References(variables, directory), problems)
    assert isinstance(filled, Table)
    return filled


class _Scope(NamedTuple):
    """How far a deployment is checked. The first two as of :func:`load`.

    Args:
        machine: whether also this machine is checked.
    """

    in_process: bool = False
    thorough: bool = False
    machine: bool = False


def _read(
    path: str | Path, environment: Mapping[str, str] | None, problems: Problems, scope: _Scope
) -> Configuration | None:
    display = str(path)
    filled = _read_root(path, environment, problems)
    if filled is None:
        return None
    file = Path(os.path.abspath(path))
    directory = file.parent
    adopt_keys(filled, problems)
    complete = _complete(filled, problems)
    has_provider = isinstance(filled.entries.get("provider"), Table)
    reader = SectionReader(problems, directory, home_of)
    provider = read_provider(filled, reader) if has_provider else None
    with names_of(own_names=has_own_names(filled)):
        return _read_parts(display, file, filled, complete, reader, provider, scope)


def _read_parts(
    display: str,
    file: Path,
    filled: Table,
    complete: Table,
    reader: SectionReader,
    provider: ProviderSection | None,
    scope: _Scope,
) -> Configuration | None:
    """Reads all but the section of the provider, which says what the names of destinations are."""
    problems, directory = reader.problems, file.parent
    instead: dict[Location, str] = {("connector", key): text for key, text in _NEEDED["connector"].items()}
    given = {"provider": provider}
    reading = reader.read(AdapterFile, complete, refused=_REFUSED, instead=instead, given=given)
    read = reading.section
    if read is None:
        return None
    collected = collect(_metaobject_sources(complete, directory, display), problems, home_of)
    # A misspelt key may hold the definitions that other sections refer to.
    collected.incomplete |= is_misspelt("metaobjects", filled, _SECTIONS)
    catalogue = _catalogue(complete, read, directory, problems)
    quoting, use_defaults = read.connector.response_selector_quoting, read.connector.use_defaults
    metaobjects = check_metaobjects(collected, catalogue, directory, quoting, use_defaults=use_defaults)
    entries = list(SubscriptionReader(reader).read(complete.entries.get("subscriptions"), metaobjects.maps))
    check_hidden_modules(directory, display, read.spark.shipped, problems)
    reporter = ProblemReporter(complete, problems)
    lint = Lint(reporter, reading, read, entries, metaobjects, collected, catalogue, directory)
    lint.run()
    timers = TimerReader(lint, makes=scope.thorough).read()
    _check_more(lint, scope, display)
    own_selectors = provider is not None and PROVIDERS.load(provider.type).own_selectors
    check_selectors(read, reading, reporter, own_selectors=own_selectors)
    if provider is None:
        return None
    capabilities = check_provider(
        provider,
        _paths(directory, read.state, read.connector),
        reporter,
        pipeline=read.spark,
        in_process=scope.in_process,
        makes=scope.thorough,
        finds_lacks=scope.machine,
    )
    if capabilities is not None:
        check_capabilities(provider.type, capabilities, read, reading, entries, reporter)
        static = metaobjects.static.get(read.connector.configuration_meta_object or "")
        check_delays(provider.type, capabilities, static, collected)
    return _configuration(file, read, provider, entries, timers, metaobjects, problems.file_contents)


def _check_more(lint: Lint, scope: _Scope, display: str) -> None:
    """Reports what needs a look at the code of data handlers, their files, or this machine."""
    collected, catalogue, directory = lint.collected, lint.catalogue, lint.directory
    if lint.file.spark.runs_here:
        check_handler_imports(collected, catalogue, directory, lint.reporter)
    if scope.thorough:
        check_made(collected, catalogue, lint.metaobjects.definitions, directory)
    if scope.machine:
        _check_machine(lint.file, directory, display, lint.reporter)


def _configuration(
    file: Path,
    read: AdapterFile,
    provider: ProviderSection,
    entries: Sequence[ReadEntry],
    timers: tuple[TimerEntry, ...],
    metaobjects: MetaObjects,
    file_contents: frozenset[str],
) -> Configuration:
    directory = file.parent
    subscriptions = tuple(
        read_entry.entry.model_copy(update={"name": read_entry.name})
        for read_entry in entries
        if isinstance(read_entry.entry, SinkEntry)
    )
    return Configuration(
        file=file,
        directory=directory,
        provider=provider,
        connector=read.connector,
        subscriptions=subscriptions,
        metaobjects=metaobjects,
        metaobject_paths=read.metaobjects,
        datahandlers=read.datahandlers,
        spark=read.spark.effective(),
        logging=read.logging,
        state=read.state,
        min_free=read.min_free,
        health=read.health,
        http=read.http,
        tracing=read.tracing,
        databases=tuple(
            DatabaseSettings(name, one.url).at(directory) for name, one in read.databases.items()
        ),
        history=read.history,
        timers=timers,
        file_contents=file_contents,
        conditions=read_conditions(subscriptions, directory),
    )


_NEEDED: Final[Mapping[str, Mapping[str, str]]] = {
    "provider": {},
    "connector": {"ApplicationName": "unnamed"},
}
"""The sections that a file needs, and the substitutes for the keys that these sections need."""


def _complete(root: Table, problems: Problems) -> Table:
    """Returns the tree with substitutes for missing parts, so that one run checks all other parts, too."""
    complete = Table(root.position, dict(root.entries), dict(root.keys))
    for section, keys in _NEEDED.items():
        node = complete.entries.get(section)
        if isinstance(node, Table):
            node = Table(node.position, dict(node.entries), dict(node.keys))
            missing = [key for key in keys if is_absent(node.entries.get(key))]
            known, position = field_names(AdapterFile, (section,)), complete.keys[section].position
            for key in missing:
                report_missing(key, node, known, f"{section}.{key}", position, problems)
        elif node is None or is_absent(node):
            # A misspelt section is reported as an unknown key already.
            if not is_misspelt(section, complete, _SECTIONS):
                position = complete.keys[section].position if section in complete.keys else root.position
                problems.add(position, section, f"{section} is missing", f"the section {section}")
            # No line, because the file does not have it.
            node, missing = Table(Position(root.position.file)), [*keys]
        else:
            problems.add(node.position, section, kind_of(node), "a mapping")
            node, missing = Table(node.position), [*keys]
        for key in missing:
            position = node.position if node.position.line else root.position
            node.put(node.keys.get(key, Leaf.of(key, position)), Leaf.of(keys[key], position))
        complete.put(complete.keys.get(section, Leaf.of(section, root.position)), node)
    return complete


_SECTIONS = tuple(AdapterFile.model_fields)
_REFUSED: Final = {
    "InputDestination.client_id": ("the client id of an input is the ApplicationName", "it left out"),
}
"""Keys that users may expect but that will never exist, with the found and the expected text."""


def _metaobject_sources(tree: Table, directory: Path, display: str) -> list[tuple[Path, str, Position, str]]:
    node = tree.entries.get("metaobjects")
    beside = os.path.dirname(display)
    sources = []
    items = node.items if isinstance(node, Items) else [node]
    for index, item in enumerate(items):
        if isinstance(item, Leaf) and item.strip():
            _, position, path = find(
                tree, ("metaobjects", index) if isinstance(node, Items) else ("metaobjects",)
            )
            shown_path = os.path.normpath(os.path.join(beside, os.path.expanduser(item)))
            sources.append((resolve(item, directory), shown_path, position, path))
    return sources


def _catalogue(tree: Table, read: AdapterFile, directory: Path, problems: Problems) -> Catalogue | None:
    """Returns the data handlers. None = those of the deployment cannot be found."""
    plugins = read.datahandlers
    if plugins is not None and not plugins.exists():
        return None  # reported by Lint
    _, position, path = find(tree, ("datahandlers",))
    try:
        catalogue = discover(directory, plugins)
    except ConfigurationError as error:
        for problem in error.problems:
            problems.add(position, path, problem.found, problem.expected, problem.nearest)
        return None
    for text in catalogue.mistakes:
        problems.add(position, path, text, "a data handler that can be read")
    for text in catalogue.warnings:
        problems.add(position, path, text, "", warning=True)
    return catalogue
