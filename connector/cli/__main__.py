"""The command's way in; ``python -m connector.cli``.

A service manager may stop a service that has only just been started. So before anything else is
imported, ``run`` lets signals wait until it can handle them: it ends in order, whenever they come.
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Runs the command; ends the process with its exit status."""
    verb = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "")
    if verb == "run":
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    from connector.cli.app import main as command

    command()


if __name__ == "__main__":
    main()
