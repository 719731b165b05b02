"""Loading and checking a deployment: ``adapter.yaml`` and all that it names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connector.businessobjects.catalogue import Catalogue, discover
from connector.config.environment import fill_in
from connector.config.http_model import Http
from connector.config.kinds import resolve
from connector.config.later import LATER, PROVIDERS, REFUSED, not_yet
from connector.config.lint import Lint, subscription_name
from connector.config.metaobject_lint import check_metaobjects
from connector.config.metaobjects import MetaObjects, collect
from connector.config.model import FILES, AdapterFile, Connector, Logging, Spark
from connector.config.places import Places
from connector.config.problems import Mark, Problems, nearest
from connector.config.provider_model import Provider
from connector.config.reading import find, read_section
from connector.config.spark_owned import owner_reason
from connector.config.subscription_model import Subscription
from connector.config.tree import Items, Leaf, Table, kind_of, read_file
from connector.errors import ConfigurationError, Problem


@dataclass(frozen=True, slots=True)
class Configuration:
    """A deployment, complete and checked. Picklable.

    Attributes:
        file: ``adapter.yaml``, absolute.
        directory: where it stands; relative paths count from here, and processes are found here.
        provider, connector, spark, logging: its sections (:mod:`connector.config.model`).
        subscriptions: in the order of the file, each with a name.
        metaobjects: business objects, rules and options of data handlers.
        metaobject_paths: the files and directories that they were read from.
        datahandlers: plug-ins of the deployment; None = none.
        http: the HTTP server; None = none.
    """

    file: Path
    directory: Path
    provider: Provider
    connector: Connector
    subscriptions: tuple[Subscription, ...]
    metaobjects: MetaObjects
    metaobject_paths: tuple[Path, ...]
    datahandlers: Path | None
    spark: Spark
    logging: Logging
    http: Http | None = None


def load(
    path: str | Path = "adapter.yaml",
    environment: Mapping[str, str] | None = None,
    *,
    in_process: bool = False,
) -> Configuration:
    """Reads a deployment. Runs no user code and makes no file.

    Args:
        path: of ``adapter.yaml``.
        environment: for ``${NAME}``; default: that of the process.
        in_process: whether it will run in this process, without Spark; then the provider may be ``memory``.

    Raises:
        ConfigurationError: with every mistake. Warnings alone do not raise.
    """
    problems = Problems()
    configuration = _read(path, environment, problems, in_process=in_process)
    if configuration is None or problems.errors:
        raise ConfigurationError(problems.sorted())
    return configuration


def _without_owned(spark: Spark) -> Spark:
    """Leaves out what the event job sets anyway, and was written down with the same value."""
    conf = {key: value for key, value in spark.conf.items() if owner_reason(key) is None}
    return spark.model_copy(update={"conf": conf})


def check(path: str | Path = "adapter.yaml", environment: Mapping[str, str] | None = None) -> list[Problem]:
    """Every mistake in a deployment, and every warning, by file and place; as :func:`load` otherwise."""
    problems = Problems()
    _read(path, environment, problems)
    return problems.sorted()


def _read(
    path: str | Path,
    environment: Mapping[str, str] | None,
    problems: Problems,
    *,
    in_process: bool = False,
) -> Configuration | None:
    display = str(path)
    documents = read_file(Path(path), display, problems)
    if documents is None:
        return None
    if not documents:
        problems.add(Mark(display), "", "is empty", "the sections provider and connector")
        return None
    if len(documents) > 1:
        problems.add(documents[1].mark, "", "a second document", "one document in this file")
    root = documents[0]
    if not isinstance(root, Table):
        problems.add(root.mark, "", kind_of(root), "a mapping with the sections provider and connector")
        return None
    filled = fill_in(root, os.environ if environment is None else environment, problems)
    assert isinstance(filled, Table)
    file = Path(os.path.abspath(path))
    directory = file.parent
    kind = _provider_type(filled)
    needed = {"provider": _NEEDED[kind], "connector": {"ApplicationName": "unnamed"}}
    complete = _complete(filled, needed, problems)
    reading = read_section(
        FILES[kind],
        complete,
        problems,
        directory=directory,
        refused=LATER | REFUSED,
        instead={(section, key): text for section, keys in needed.items() for key, text in keys.items()},
    )
    read = reading.section
    if read is None:
        return None
    collected = collect(_metaobject_sources(complete, directory, display), problems)
    # Under a misspelt key may stand what all the rest refers to.
    misspelt = any(nearest(key, ["metaobjects"]) for key in filled.entries if key not in _SECTIONS)
    collected.incomplete |= misspelt
    catalogue = _catalogue(complete, read, directory, problems)
    quoting = read.connector.response_selector_quoting
    metaobjects = check_metaobjects(collected, catalogue, directory, problems, quoting)
    Lint(
        Places(complete, problems), reading, read, metaobjects, collected, catalogue, directory, in_process
    ).run()
    subscriptions = tuple(
        subscription.model_copy(update={"name": subscription_name(subscription)})
        for subscription in read.subscriptions
    )
    return Configuration(
        file=file,
        directory=directory,
        provider=read.provider,
        connector=read.connector,
        subscriptions=subscriptions,
        metaobjects=metaobjects,
        metaobject_paths=read.metaobjects,
        datahandlers=read.datahandlers,
        spark=_without_owned(read.spark),
        logging=read.logging,
        http=read.http,
    )


_NEEDED: Final = {"dropbox": {"root": "./data"}, "memory": {"type": "memory"}}
"""What the section of each type of provider needs, and what stands in for it where it is missing."""


def _provider_type(root: Table) -> str:
    """The type that decides how the file is read; ``dropbox`` where it is none that this version has."""
    provider = root.entries.get("provider")
    kind = provider.entries.get("type") if isinstance(provider, Table) else None
    return str(kind) if isinstance(kind, Leaf) and kind in FILES else "dropbox"


def _complete(root: Table, needed: Mapping[str, Mapping[str, str]], problems: Problems) -> Table:
    """The tree with what is missing made up, so that all the rest is checked in the same go."""
    complete = Table(root.mark, dict(root.entries), dict(root.keys))
    for section, keys in needed.items():
        node = complete.entries.get(section)
        if node is None or (isinstance(node, Leaf) and node.is_absent):
            # Where a misspelt section stands, its unknown key says enough.
            if not any(nearest(key, [section]) for key in complete.entries if key not in _SECTIONS):
                mark = complete.keys[section].mark if section in complete.keys else root.mark
                problems.add(mark, section, f"{section} is missing", f"the section {section}")
            node = Table(Mark(root.mark.file))  # no line: made up
            for key, value in keys.items():
                node.put(Leaf.of(key, root.mark), Leaf.of(value, root.mark))
        elif not isinstance(node, Table):
            problems.add(node.mark, section, kind_of(node), "a mapping")
            node = Table(node.mark)
            for key, value in keys.items():
                node.put(Leaf.of(key, node.mark), Leaf.of(value, node.mark))
        elif section == "provider" and _is_later(node, problems):
            # It has keys of its own, which nobody knows yet.
            node = Table(
                node.mark, {"root": Leaf.of("./data", node.mark)}, {"root": Leaf.of("root", node.mark)}
            )
        else:
            node = _complete_section(section, node, keys, complete.keys[section].mark, problems)
        complete.put(complete.keys.get(section, Leaf.of(section, root.mark)), node)
    return complete


_SECTIONS = tuple(AdapterFile.model_fields)


def _complete_section(
    section: str, node: Table, needed: Mapping[str, str], mark: Mark, problems: Problems
) -> Table:
    node = Table(node.mark, dict(node.entries), dict(node.keys))
    for key, value in needed.items():
        given = node.entries.get(key)
        if given is None or (isinstance(given, Leaf) and given.is_absent):
            # An unset variable has been noted already, and a misspelt key is.
            failed = isinstance(given, Leaf) and given.from_environment
            if not failed and not any(nearest(other, [key]) for other in node.entries):
                problems.add(mark, f"{section}.{key}", f"{key} is missing", f"{key}: ...")
            node.put(node.keys.get(key, Leaf.of(key, mark)), Leaf.of(value, mark))
    return node


def _is_later(provider: Table, problems: Problems) -> bool:
    kind = provider.entries.get("type")
    if isinstance(kind, Leaf) and kind in PROVIDERS:
        problems.add(kind.mark, "provider.type", not_yet(f"the provider {str(kind)!r}"), "dropbox")
        return True
    return False


def _metaobject_sources(tree: Table, directory: Path, display: str) -> list[tuple[Path, str, Mark, str]]:
    node = tree.entries.get("metaobjects")
    beside = os.path.dirname(display)
    sources = []
    items = node.items if isinstance(node, Items) else [node]
    for index, item in enumerate(items):
        if isinstance(item, Leaf) and item.strip():
            _, mark, path = find(
                tree, ("metaobjects", index) if isinstance(node, Items) else ("metaobjects",)
            )
            shown_path = os.path.normpath(os.path.join(beside, os.path.expanduser(item)))
            sources.append((resolve(item, directory), shown_path, mark, path))
    return sources


def _catalogue(tree: Table, read: AdapterFile, directory: Path, problems: Problems) -> Catalogue | None:
    """The data handlers; None where those of the deployment cannot be told."""
    plugins = read.datahandlers
    if plugins is not None and not plugins.exists():
        return None  # noted by the lint
    _, mark, path = find(tree, ("datahandlers",))
    try:
        catalogue = discover(directory, plugins)
    except ConfigurationError as error:
        for problem in error.problems:
            problems.add(mark, path, problem.found, problem.expected, problem.nearest)
        return None
    for text in catalogue.warnings:
        problems.add(mark, path, text, "", warning=True)
    return catalogue
