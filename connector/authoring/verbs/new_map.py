"""``connector new map``: drafts a map with what has the same name in both objects."""

from __future__ import annotations

from pathlib import Path

from connector.authoring.drafting.map_draft import draft_map
from connector.authoring.metaobject_files import SUFFIX, Neighbours, surroundings, write_files
from connector.businessobjects.definition import Definitions
from connector.cli.common import BadArgument, answer, answer_json, counted
from connector.errors import UnknownBusinessObject


def new_map(source: str, target: str, into: Path | None, config: str, *, force: bool, as_json: bool) -> None:
    """Writes the draft.

    Args:
        into: the directory. None = the one that the configuration names.
        config: path of ``adapter.yaml``. Need not exist. Then the directory ``metaobjects`` counts.

    Raises:
        BadArgument: an object is not defined, or the map or its file exists.
    """
    place = surroundings(config)
    home = place.home if into is None else (into, str(into))
    name = f"{source}To{target}"
    file = f"{name}{SUFFIX}"
    neighbours = Neighbours(place, home, [file] if force else [])
    if (taken := neighbours.names().get(name)) is not None:
        raise BadArgument(f"there is {name} already, in {taken}")
    definitions = Definitions(neighbours.definitions)
    try:
        draft = draft_map(name, definitions.schema(source), definitions.schema(target))
    except UnknownBusinessObject as error:
        raise BadArgument(str(error)) from None
    shown = neighbours.display(file)
    try:
        write_files(home[0], {file: draft.text}, force=force)
    except FileExistsError:
        raise BadArgument(f"there is {shown} already; --force replaces the file") from None
    except OSError as error:
        raise BadArgument(f"cannot write {error.filename}: {error.strerror}") from None
    if as_json:
        answer_json({"file": shown, "map": name, "missing": list(draft.missing)})
        return
    answer(f"wrote {shown}: the map {name}, {counted(len(draft.missing), 'attribute')} without an expression")
    for text in draft.missing:
        answer(f"  {text}")
