"""``connector new``: drafts a business object, a data handler, a map, a name handler or a sink, or types."""

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
    MAP = "map"
    NAMEHANDLER = "namehandler"
    SINK = "sink"
    TYPES = "types"


# long: more than half declares the options
def new(
    kind: Annotated[
        DraftKind,
        typer.Argument(
            metavar="businessobject|datahandler|map|namehandler|sink|types", help="What is drafted."
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Its name. Of a map: the object that it takes, and behind it the object that it makes. Of "
            "types: the file. Left out: business_objects.py beside the configuration.",
            show_default=False,
        ),
    ] = None,
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="Further samples.", show_default=False)
    ] = None,
    from_sample: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE...", help="Bodies of one shape, or a schema, that the business object is for."
        ),
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="json, jsonlines, xml, csv, delimited, namevalue, xsd or json-schema. Left out: by suffix "
            "and content.",
        ),
    ] = None,
    charset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Character set of the samples. Left out: as each body says."),
    ] = None,
    header: Annotated[
        str | None,
        typer.Option(
            metavar="yes|no", help="no: the first record of a CSV sample is no header. Left out: it is one."
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
    """Drafts a business object, from a sample if there is one, a data handler, map, name handler or sink.

    A map gets what has the same name in both objects: `connector new map Order Invoice`. A sink is a package.
    With `types`, writes a module of classes for the definitions, for editors and type checkers.
    Prints the path of the file, and what a person has to look at. Overwrites nothing without --force.
    Exit status 2 when the sample cannot be read, or the name or the file exists already.
    """
    if kind is DraftKind.TYPES:
        if more or any(one is not None for one in (into, from_sample, format_name, schema_directory)):
            raise BadArgument("connector new types takes a file, and no other option than --force and --json")
        from connector.authoring.verbs.new_types import new_types

        new_types(name, config, force=force, as_json=json)
        return
    if name is None:
        raise BadArgument(f"connector new {kind.value} needs a NAME")
    if kind is DraftKind.BUSINESSOBJECT:
        from connector.authoring.verbs.new_businessobject import SampleOptions, new_businessobject

        if more and not from_sample:
            raise BadArgument(f"found {more[0]} behind the name; samples stand behind --from-sample")
        files = [*(from_sample or ()), *(more or ())]
        samples = SampleOptions(files, format_name, charset, header, schema_directory)
        new_businessobject(name, samples, into, config, force=force, as_json=json)
        return
    options = (format_name, charset, header, schema_directory)
    if kind is DraftKind.MAP:
        if more is None or len(more) != 1 or from_sample or any(one is not None for one in options):
            raise BadArgument("connector new map takes two business objects: connector new map Order Invoice")
        from connector.authoring.verbs.new_map import new_map

        new_map(name, str(more[0]), into, config, force=force, as_json=json)
        return
    if more or from_sample or any(option is not None for option in options):
        raise BadArgument(
            "--from-sample, --format, --charset, --header and --schema-directory are for a business object"
        )
    if kind is DraftKind.NAMEHANDLER:
        from connector.authoring.verbs.new_namehandler import new_namehandler

        new_namehandler(name, config, into, force=force, as_json=json)
        return
    if kind is DraftKind.SINK:
        from connector.authoring.verbs.new_sink import new_sink

        new_sink(name, config, into, force=force, as_json=json)
        return
    from connector.authoring.verbs.new_datahandler import new_datahandler

    new_datahandler(name, config, into, force=force, as_json=json)
