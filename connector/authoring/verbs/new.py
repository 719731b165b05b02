"""``connector new``: drafts a business object, a data handler or a name handler."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from connector.cli.common import DEFAULT_CONFIG, BadArgument, ConfigOption, JsonOption


class DraftKind(str, Enum):
    """What is drafted."""

    BUSINESSOBJECT = "businessobject"
    DATAHANDLER = "datahandler"
    NAMEHANDLER = "namehandler"


# long: more than half declares the options
def new(
    kind: Annotated[
        DraftKind,
        typer.Argument(metavar="businessobject|datahandler|namehandler", help="What is drafted."),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")],
    from_sample: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A body or a schema that the business object is for."),
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="json, xml, csv, delimited, namevalue, xsd or json-schema. Left out: by suffix and content.",
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory, made if missing. Left out: the one that the configuration names.",
            show_default=False,
        ),
    ] = None,
    schema_directory: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Files that a schema includes or imports lie in DIR or below. Left out: the directory of "
            "the configuration with the schema in it, else the one above that of the schema.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replaces a file of the same name.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    json: JsonOption = False,
) -> None:
    """Drafts a business object, from a sample if there is one, a data handler or a name handler.

    Prints the path of the file, and what a person has to look at. Overwrites nothing without --force.
    Exit status 2 when the sample cannot be read, or the name or the file exists already.
    """
    if kind is DraftKind.BUSINESSOBJECT:
        from connector.authoring.verbs.new_businessobject import new_businessobject

        new_businessobject(
            name, from_sample, format_name, schema_directory, into, config, force=force, as_json=json
        )
        return
    if from_sample is not None or format_name is not None or schema_directory is not None:
        raise BadArgument("--from-sample, --format and --schema-directory are for a business object")
    if kind is DraftKind.NAMEHANDLER:
        from connector.authoring.verbs.new_namehandler import new_namehandler

        new_namehandler(name, config, into, force=force, as_json=json)
        return
    from connector.authoring.verbs.new_datahandler import new_datahandler

    new_datahandler(name, config, into, force=force, as_json=json)
