"""``connector jars``: lists and fetches the jars of ``provider.packages``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from connector.brokers.jars.locked import Jars
from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, answer, answer_json, note
from connector.cli.deployment import load_for
from connector.config.loading import PACKAGES, read_packages
from connector.messaging.provider_kind import PROVIDERS


def jars(
    config: ConfigOption = DEFAULT_CONFIG,
    resolve: Annotated[
        bool, typer.Option("--resolve", help="Fetches the jars, and writes connector-jars.lock.")
    ] = False,
    repository: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A Maven repository, instead of Maven Central. Repeatable."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Lists the jars of provider.packages: each is there, missing, or changed.

    With --resolve fetches the packages and everything they need into the cache of this user, and writes their
    sums to connector-jars.lock beside adapter.yaml. No other command downloads. A mistake elsewhere in
    adapter.yaml stops nothing: only provider.type and provider.packages have to be right. Exit status 1 when
    a jar is missing or changed.
    """
    packages = read_packages(config)
    if packages is None:
        section = load_for(config, PACKAGES).provider  # tells what is wrong
        packages = PROVIDERS.load(section.type).packages(section)
    found = Jars(packages, Path(config).absolute().parent)
    if resolve and packages:
        _resolve(found, repository or ())
    notes = found.notes()
    for one in notes:
        if json:
            answer_json({"jar": one.name, "path": str(one.path), "state": one.state})
        else:
            answer(f"{one.state:8} {one.path}")
    if not packages:
        note("provider.packages names no packages")
    elif not notes:
        note(f"{found.file.name} is missing or for other packages: run connector jars --resolve")
    complete = all(one.state == "there" for one in notes) and bool(notes or not packages)
    raise typer.Exit(0 if complete else 1)


def _resolve(jars: Jars, repositories: list[str] | tuple[str, ...]) -> None:
    from connector.brokers.jars.resolver import CENTRAL, fetch
    from connector.java import find_java
    from connector.spark.settings import spark_jars

    jars.drop_changed()
    paths = fetch(
        jars.packages,
        jars.cache,
        java=find_java().executable,
        spark_jars=spark_jars(),
        repositories=tuple(repositories) or (CENTRAL,),
    )
    jars.write(paths)
