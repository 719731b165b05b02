"""``connector init``: writes a deployment to begin with."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

from connector import own_files
from connector.cli.common import BadArgument, JsonOption, answer, answer_json
from connector.cli.hints import command_line
from connector.printable import printable

_TEMPLATE: Final = Path(__file__).parents[1] / "template"
_COMMANDS: Final = (
    "check",
    "send orders --body order.json",
    "run --drain",
    "browse archive",
)


def init(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory of the deployment, made if missing.")
    ],
    json: JsonOption = False,
) -> None:
    """Writes a deployment that runs without changes, with a message to send.

    Overwrites nothing. A file that exists already is an error, and nothing is written.
    """
    names = sorted(
        str(path.relative_to(_TEMPLATE))
        for path in _TEMPLATE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    in_the_way = [name for name in names if os.path.lexists(directory / name)]
    if in_the_way:
        raise BadArgument(f"{directory}: there is {', '.join(in_the_way)} already; nothing was written")
    try:
        for name in names:
            path = directory / name
            own_files.make_directories(path.parent)
            with open(path, "xb", opener=own_files.opener) as file:
                file.write((_TEMPLATE / name).read_bytes())
    except OSError as error:
        raise BadArgument(f"cannot write {error.filename}: {error.strerror}") from None
    if json:
        answer_json({"directory": os.path.abspath(directory), "files": names})
        return
    answer(f"wrote {', '.join(names)}")
    answer("Next:")
    if directory.resolve() != Path.cwd():
        answer(f"  cd {printable(shlex.quote(str(directory)))}")
    for command in _COMMANDS:
        answer(f"  {printable(command_line(command))}")
