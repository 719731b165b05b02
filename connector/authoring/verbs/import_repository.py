"""``connector import-repository``: turns the definitions of a repository file into ``metaobjects/*.yaml``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from connector.authoring.metaobject_files import Neighbours, existing, surroundings, write_files
from connector.authoring.repository_import.conversion import (
    BUSINESS_OBJECT,
    HANDLERS,
    STATIC,
    Imported,
    check_named,
    convert,
    fit,
)
from connector.authoring.repository_import.reader import FileSection, read_repository
from connector.cli.common import (
    DEFAULT_CONFIG,
    BadArgument,
    ConfigOption,
    JsonOption,
    answer,
    answer_json,
    counted,
    note,
)
from connector.declare.problems import Problems
from connector.errors import ConfigurationError, Problem
from connector.formats.datahandler import charset as check_charset
from connector.printable import printable

_WORDS: Final = {
    BUSINESS_OBJECT: "business object",
    STATIC: "static meta-object",
    HANDLERS: "data-handler meta-object",
}
_KEYS: Final = {STATIC: "ConfigurationMetaObject", HANDLERS: "DataHandlerConfigMO"}
"""From the kind of a meta-object to the key of ``adapter.yaml`` that names it."""


def import_repository(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Repository files.")],
    into: Annotated[Path, typer.Option(metavar="DIR", help="Directory of the definitions, made if missing.")],
    static: Annotated[list[str], typer.Option(metavar="NAME", help="A static meta-object. Repeatable.")] = [],  # noqa: B006  # typer copies the default
    datahandlers: Annotated[
        list[str], typer.Option(metavar="NAME", help="A data-handler meta-object. Repeatable.")
    ] = [],  # noqa: B006  # typer copies the default
    charset: Annotated[
        str, typer.Option(metavar="NAME", help="Character set of the files. Left out: UTF-8.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replaces files of the same name.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    json: JsonOption = False,
) -> None:
    """Turns the definitions of repository files into YAML files, one for each object.

    What has no counterpart is left out, with a warning FILE:LINE: on stderr and a comment in the file. Writes
    all files or none. The definitions of the configuration, if there is one, may be types of children.
    Exit status 2 when a file is no repository, or a definition or a file exists already.
    """
    if charset and check_charset(charset) is not None:
        raise BadArgument(f"--charset {charset}: expected {check_charset(charset)}")
    problems = Problems()
    objects = _read(files, charset, problems)
    check_named(static, objects, "--static")
    check_named(datahandlers, objects, "--datahandlers")
    target = into, str(into)
    deployment = surroundings(config)
    names = [f"{name}.yaml" for name in objects]
    neighbours = Neighbours(deployment, target, names if force else ())
    imported = convert(
        objects, problems, neighbours.catalogue, static=set(static), handlers=set(datahandlers)
    )
    names = [one.file_name for one in imported]
    if not force and (taken := existing(into, names)):
        raise BadArgument(f"{into}: there is {', '.join(taken)} already; nothing was written")
    texts = fit(imported, neighbours, problems)
    try:
        write_files(into, texts, force=force)
    except OSError as error:
        raise BadArgument(f"cannot write {error.filename}: {error.strerror}") from None
    _show(imported, into, problems, as_json=json)


def _read(files: Sequence[Path], charset: str, problems: Problems) -> dict[str, FileSection]:
    objects: dict[str, FileSection] = {}
    for file in files:
        for name, section in read_repository(file, problems, charset=charset).items():
            first = objects.setdefault(name, section)
            if first is not section:
                place, other = section.place("Name"), first.place("Name")
                found = f"a second time, first in {other.file}:{other.line}"
                raise ConfigurationError([Problem(place.file, place.line, 0, name, found, "it once")])
    if not objects:
        raise BadArgument(f"{', '.join(map(str, files))}: there is no [BusinessObjectDefinition]")
    return objects


def _show(imported: Sequence[Imported], into: Path, problems: Problems, *, as_json: bool) -> None:
    warnings = problems.sorted()
    for problem in warnings:
        note(printable(str(problem)))
    documents = [one.document for one in imported]
    if as_json:
        answer_json(
            {
                "directory": os.path.abspath(into),
                "files": [
                    {"file": one.file_name, "kind": one.document.kind, "name": one.document.name}
                    for one in imported
                ],
                "warnings": [
                    {"file": one.file, "line": one.line, "path": one.path, "text": one.mistake}
                    for one in warnings
                ],
            }
        )
        return
    kinds = Counter(document.kind for document in documents)
    counts = ", ".join(counted(kinds[kind], words) for kind, words in _WORDS.items() if kinds[kind])
    answer(
        f"wrote {counted(len(documents), 'file')} to {into}: {counts}; {counted(len(warnings), 'warning')}"
    )
    answer("For adapter.yaml:")
    answer(f"  metaobjects: {into}")
    for document in documents:
        if document.kind in _KEYS:
            answer(f"  {_KEYS[document.kind]}: {document.name}")
