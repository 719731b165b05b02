"""An application in a process of its own, that answers until its standard input ends.

    python -m tests.requests.echo ROOT [--twice N]

Answers every request with its own number, each N-th of them twice. Says ``ready``, and at its end how many
requests it had, and how many replies it has sent.
"""

from __future__ import annotations

import argparse
import sys

from connector.messaging.client import ReceivedMessage
from connector.stores.dropbox.provider import DropboxProvider
from tests.requests.world import Application, Replying, greet


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("root")
    parser.add_argument("--twice", type=int, default=0, help="0 = never")
    options = parser.parse_args()
    requests = replies = 0

    def answer(request: ReceivedMessage, replying: Replying) -> None:
        nonlocal requests, replies
        requests += 1
        for _ in range(2 if options.twice and requests % options.twice == 0 else 1):
            greet(request, replying)
            replies += 1

    application = Application(DropboxProvider(options.root, create=True, durable=False), answer)
    print("ready", flush=True)
    sys.stdin.read()
    application.end()
    print(requests, replies, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
