"""The command ``connector``.

:mod:`connector.cli.verbs` lists the verbs. Only the module of the verb in the command line is imported,
so that an answer comes in half a second. Answers go to stdout, all other output to stderr.

Exit status: the verb's own, 2 for a wrong call or configuration, 1 for any other failure.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import typer
from typer.core import TyperGroup

from connector import __version__
from connector.cli.common import CannotAnswer, answer, complain, flush
from connector.cli.hints import command_line, extra_argument, missing_argument, other_command
from connector.cli.interrupts import interruptible
from connector.cli.verbs import GROUPS, ROOM_VERBS, VERBS, find_verbs
from connector.errors import ConfigurationError, ConnectorError
from connector.log import LogSettings, set_up_logging

_DEBUG: Final = "--debug"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command. Ends the process with the exit status of the command."""
    if sys.getfilesystemencoding() == "ascii":
        complain("connector: Python names files in ASCII here: remove PYTHONUTF8=0, or set LC_ALL=C.UTF-8")
        sys.exit(2)
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = _DEBUG in _split(arguments)[0]
    set_up_logging(LogSettings(level="warning", debug=debug))
    sys.exit(run(arguments))


def run(arguments: Sequence[str]) -> int:
    """Runs the command and returns the exit status."""
    ours, rest = _split(arguments)
    debug = _DEBUG in ours
    arguments = [argument for argument in ours if argument != _DEBUG] + rest
    if text := _mistake(arguments):
        complain(f"connector: {text}")
        return 2
    try:
        application = _application(arguments)
        with interruptible():
            status = application(args=arguments, prog_name="connector", standalone_mode=False, obj=debug)
            flush()
        return status if isinstance(status, int) else 0
    except CannotAnswer as error:
        _give_up_stdout()
        complain(f"connector: {error}")
        return error.exit_code
    except typer.TyperException as error:
        return _refuse(error, arguments)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        _give_up_stdout()
        return 1
    except Exception as error:
        if debug:
            raise
        return _fail(error)


def _mistake(arguments: Sequence[str]) -> str:
    """Returns what is wrong with the words of a command line that is not parsed yet. Empty = nothing."""
    if arguments and arguments[0] in ("-c", "--config"):
        known = {*VERBS, *ROOM_VERBS.names}
        verb = next((argument for argument in arguments if argument in known), "run")
        return f"the verb comes first: connector {verb} {' '.join(arguments[:2])}"
    wanted = _verb_of(arguments)
    text = other_command(wanted or "")
    return "" if text is None or wanted in ROOM_VERBS.names else text


def _refuse(error: typer.TyperException, arguments: Sequence[str]) -> int:
    """Tells why a command line is refused. Returns the exit status."""
    show = getattr(error, "show", None)  # only errors that know the usage of the verb have this method
    if show is None:
        complain(f"connector: {_one_line(error)}")
        if hint := missing_argument(_verb_of(arguments) or "", _one_line(error)):
            complain(f"connector: {hint}")
        return int(error.exit_code)
    show(file=sys.stderr)
    verb, message = _verb_of(arguments) or "", error.format_message()
    if hint := extra_argument(verb, arguments, message) or missing_argument(verb, message):
        complain(f"connector: {hint}")
    return int(error.exit_code)


def _fail(error: Exception) -> int:
    """Tells why a verb has failed. Returns the exit status."""
    if isinstance(error, ConfigurationError):
        for problem in error.problems:
            complain(str(problem))
        return 2
    if isinstance(error, ConnectorError):
        complain(f"connector: {_one_line(error)}")
        return error.exit_status
    text = f"{type(error).__name__}: {_one_line(error)}{_module_of(error)}"
    complain(f"connector: {text} ({_DEBUG} shows where)")
    return 1


def _module_of(error: Exception) -> str:
    """Returns where a module lies that lacks a name: one of PYTHONPATH may hide another."""
    file = getattr(getattr(error, "obj", None), "__file__", None) or getattr(error, "path", None)
    return f" in {file}" if file and isinstance(error, AttributeError | ImportError) else ""


def _give_up_stdout() -> None:
    """Drops the unwritten output. Otherwise Python complains when the exit flushes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits the arguments before ``--``. From ``--`` on no argument is an option."""
    position = list(arguments).index("--") if "--" in arguments else len(arguments)
    return list(arguments[:position]), list(arguments[position:])


def _application(arguments: Sequence[str]) -> Callable[..., Any]:
    wanted = _verb_of(arguments)
    verbs = find_verbs(wanted)

    class Grouped(TyperGroup):
        """Shows the verbs in their groups."""

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            for group in GROUPS:
                rows = [(name, verb.help) for name, verb in verbs.items() if verb.group == group]
                with formatter.section(group):
                    formatter.write_dl(rows)

    application = typer.Typer(
        cls=Grouped,
        add_completion=False,
        epilog=f"Begin with: {command_line('init shop')}. It names the next commands. "
        "Each command has --help.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    application.callback()(_connector)
    for name, verb in verbs.items():
        application.command(name, short_help=verb.help)(verb.load() if name == wanted else _not_loaded)
    return application


def _verb_of(arguments: Sequence[str]) -> str | None:
    """Returns the verb of a command line, as written."""
    return next((argument for argument in arguments if not argument.startswith("-")), None)


def _not_loaded() -> None:
    """A placeholder for the verbs that are not called."""


def _version(wanted: bool) -> None:
    if wanted:
        answer(f"connector {__version__}")
        raise typer.Exit


def _connector(
    debug: bool = typer.Option(
        False, _DEBUG, help="Shows the traceback of a failure. Valid anywhere in the line."
    ),
    version: bool = typer.Option(
        False, "--version", help="Shows the version.", callback=_version, is_eager=True
    ),
) -> None:
    """Turns messages into business objects, and hands them to business processes."""


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


if __name__ == "__main__":
    main()
