"""The entry of the command, also for ``python -m connector``.

A service manager may stop a service right after the start, and a user a request. So ``run`` and ``request``
block signals before all other imports. The signals wait until the verb can handle them and end cleanly.
Ctrl-C ends any other verb at once while the modules load (:mod:`connector.cli.interrupts`).
"""

from __future__ import annotations

import gc
import signal
import sys

from connector.cli.interrupts import end_at_once


def main() -> None:
    """Runs the command. Ends the process with the exit status of the command."""
    signal.signal(signal.SIGINT, end_at_once)
    verb = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "")
    if verb in ("run", "request"):
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    if verb == "run":
        from connector.spark import early_java

        early_java.begin(sys.argv[1:])
    else:
        gc.set_threshold(50_000)  # the collector would go through the loaded modules again and again
    from connector.cli.app import main as command

    command()


if __name__ == "__main__":
    main()
