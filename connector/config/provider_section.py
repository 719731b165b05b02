"""Reads and checks the section ``provider``, with the model that the provider's package registers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from connector.declare.pipeline_section import PipelineSection
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.problems import Problems
from connector.declare.reading import SectionReader, fields_by_key
from connector.declare.section import DEFAULT_PROVIDER, ProviderSection
from connector.declare.tree import Leaf, Table, is_absent
from connector.declare.value_types import as_found
from connector.errors import ConnectorError
from connector.messaging.provider import Capabilities
from connector.messaging.provider_kind import PROVIDERS, DeploymentPaths, ProviderKind
from connector.own_files import open_to_others
from connector.plugins import PlugInError
from connector.state.file_systems import obstacle
from connector.text.names import nearest, shown

_log = logging.getLogger("connector.config")

_OTHER_NAMES: Final = {
    **dict.fromkeys(("sqlite", "postgres", "postgresql", "database", "db"), "sql"),
    **dict.fromkeys(("directory", "dir", "file", "files", "folder"), "dropbox"),
    **dict.fromkeys(("amqps", "qpid", "artemis", "activemq", "rabbitmq", "servicebus"), "amqp"),
    **dict.fromkeys(("mq", "ibmmq", "wmq", "websphere", "solace", "broker"), "jms"),
}
"""Names that users may expect for the providers."""

_SUBSTITUTE: Final = "unknown"


def read_provider(root: Table, reader: SectionReader, *, substitute: bool = False) -> ProviderSection | None:
    """Reads the section. Returns None if it cannot be read, and then reports every mistake.

    Args:
        root: the tree of ``adapter.yaml``, with a mapping as ``provider``.
        substitute: whether a required text that is missing or wrong is replaced, for who does not need it.
    """
    node = root.entries["provider"]
    assert isinstance(node, Table)
    name = _name(node, reader.problems)
    if name is None:
        return None
    model = reader.model_of(lambda: _model(name), node.entries.get("type", node).position, "provider.type")
    if model is None:
        return None
    required = [key for key, field in fields_by_key(model).items() if substitute and field.is_required()]
    absent = [key for key in required if is_absent(node.entries.get(key))]
    return reader.read(
        model,
        node,
        "provider",
        instead={(key,): _SUBSTITUTE for key in required},
        given={key: Leaf.of(_SUBSTITUTE, node.position) for key in absent},
        missing_at=root.keys["provider"].position,
    ).section


def adopt_keys(root: Table, problems: Problems) -> None:
    """Moves keys of the section ``connector`` into the section ``provider``, if the provider takes them.

    Args:
        root: the tree of ``adapter.yaml``. Its two sections are replaced.
    """
    provider, connector = root.entries.get("provider"), root.entries.get("connector")
    if not isinstance(provider, Table) or not isinstance(connector, Table):
        return
    try:
        model = _model(str(provider.entries.get("type", DEFAULT_PROVIDER)))
    except (PlugInError, KeyError):
        return  # reported where the section is read
    adopted = [key for key in connector.keys if model.adopts(key)]
    if not adopted:
        return
    given = provider.entries.keys() & set(adopted)
    provider = Table(provider.position, dict(provider.entries), dict(provider.keys))
    for key in adopted:
        if key in given:
            text = f"{key} also stands under provider"
            problems.add(connector.keys[key].position, f"connector.{key}", text, "one of the two")
        else:
            provider.put(connector.keys[key], connector.entries[key])
    root.put(root.keys["provider"], provider)
    root.put(root.keys["connector"], connector.only(connector.keys.keys() - set(adopted)))


def _model(name: str) -> type[ProviderSection]:
    """Returns the model of the section of a provider.

    Raises:
        PlugInError: the package cannot be imported, or registers another kind of object.
    """
    kind = PROVIDERS.load(name)
    with PROVIDERS.blame(name):
        model = kind.section()
        if not issubclass(model, ProviderSection):
            raise TypeError(f"{model.__name__} is no ProviderSection")
    return model


def provider_sections() -> dict[str, type[ProviderSection]]:
    """Returns the models of the sections of all installed providers, the default provider first.

    A provider whose package cannot be imported is left out, with a warning in the log.
    """
    found = {}
    for name in PROVIDERS.names:
        try:
            found[name] = _model(name)
        except PlugInError as error:
            fields = {"provider": name, "reason": error.text}
            _log.warning("an installed provider cannot be imported", extra=fields)
    return dict(sorted(found.items(), key=lambda one: (one[0] != DEFAULT_PROVIDER, one[0])))


def _name(node: Table, problems: Problems) -> str | None:
    """Returns the provider that ``type`` names. None, and a problem, when there is no such provider."""
    found = PROVIDERS.names
    given = node.entries.get("type")
    if isinstance(given, Leaf) and given.is_absent:
        if given.from_environment:
            return None  # reported already that the variable is not set
        given = None
    name = DEFAULT_PROVIDER if given is None else str(given)
    if name in found:
        return name
    position = node.position if given is None else given.position
    text = shown(name) if given is None else as_found(given)
    expected = " | ".join(found) or "an installed provider, and there is none: install the connector anew"
    near = _OTHER_NAMES.get(name.casefold()) or nearest(name, found)
    problems.add(position, "provider.type", text, expected, near)
    return None


def check_provider(
    section: ProviderSection,
    paths: DeploymentPaths,
    reporter: ProblemReporter,
    *,
    pipeline: PipelineSection,
    in_process: bool,
    makes: bool,
    finds_lacks: bool,
) -> Capabilities | None:
    """Reports the mistakes that the model of the section cannot see. Returns the capabilities.

    Args:
        in_process: whether the deployment runs in one process, without Spark.
        makes: whether the provider is made, to know its capabilities. It connects to nothing. If it is not
            made, None is returned.
        finds_lacks: whether parts that this machine lacks are mistakes, too.
    """
    name = section.type
    kind = PROVIDERS.load(name)
    try:
        with PROVIDERS.blame(name):
            found = list(kind.check(section, paths))
            if finds_lacks:
                found += kind.lacks(section, paths)
    except PlugInError as error:
        reporter.add(("provider", "type"), error.text, "")
        return None
    if not in_process:
        _check_reach(name, kind, section, pipeline, reporter)
    if paths.state is not None:
        _check_state(name, kind, paths.state, reporter)
    for problem in found:
        place = ("provider", *problem.location)
        reporter.add(place, problem.found, problem.expected, problem.nearest, warning=problem.warning)
    if not makes:
        return None
    try:
        with PROVIDERS.blame(name, ImportError):
            return kind.make(section, paths).capabilities
    except (ConnectorError, ValueError) as error:  # a section with mistakes may make no provider
        if all(problem.warning for problem in found):
            reporter.add(("provider", "type"), str(error), "")
        return None


def _check_reach(
    name: str,
    kind: ProviderKind,
    section: ProviderSection,
    pipeline: PipelineSection,
    reporter: ProblemReporter,
) -> None:
    """Reports a provider that not all processes of a deployment reach."""
    if kind.one_process:
        reporter.add(
            ("provider", "type"),
            f"the messages of {name} are in one process, and the adapter, its workers and every command are "
            "several",
            f"{DEFAULT_PROVIDER}; {name} is for tests without Spark (connector.testing.deployment)",
        )
    if kind.one_machine(section) and pipeline.elsewhere is not None:
        found_there, remedy = pipeline.elsewhere
        reporter.add(
            ("provider", "type"),
            f"the messages of this {name} are on one machine, and {found_there}",
            f"{remedy}, or a provider that every machine reaches",
        )


def _check_state(name: str, kind: ProviderKind, directory: Path, reporter: ProblemReporter) -> None:
    """Reports a ``state.directory`` that cannot be used."""
    if kind.own_state:
        reporter.add(
            ("state",),
            f"a {name} keeps journals, duplicate window and locks {kind.own_state}",
            "it left out",
            position=reporter.key_position("state"),
        )
    elif reason := obstacle(directory):
        reporter.add(("state", "directory"), reason, "a directory, or a place for a new one")
    elif open_state := open_to_others(directory):
        reporter.add(("state", "directory"), *open_state, warning=True)


def has_own_names(root: Table) -> bool:
    """Whether the provider of a file is a server with names of destinations of its own.

    The section may have mistakes, which are reported where it is read.
    """
    node = root.entries.get("provider")
    name = str(node.entries.get("type", DEFAULT_PROVIDER)) if isinstance(node, Table) else DEFAULT_PROVIDER
    try:
        return name in PROVIDERS.names and PROVIDERS.load(name).own_names
    except PlugInError:
        return False
