"""A request client in a process of its own, to be killed.

    python -m tests.requests.caller ROOT COUNT [--temporary]

Makes so many requests at once; prints ``sent`` when they are made, then a line for each that completes.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import as_completed

from connector.requests.client import RequestClient
from connector.stores.dropbox.provider import DropboxProvider
from tests.requests.world import REPOSITORY, customer, settings


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("root")
    parser.add_argument("count", type=int)
    parser.add_argument("--temporary", action="store_true", help="replies come to a temporary queue")
    options = parser.parse_args()
    provider = DropboxProvider(options.root, create=True, durable=False)
    requests = settings(reply_to=None) if options.temporary else settings()
    client = RequestClient(requests, provider.connect, provider.capabilities, str(REPOSITORY))
    futures = [
        client.request_async("Customer.Retrieve", customer(f"child-{number}"), timeout=120_000)
        for number in range(options.count)
    ]
    print("sent", flush=True)
    for future in as_completed(futures):
        result = future.result()
        print(result.status.name, result.object["Name"], flush=True)
    client.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
