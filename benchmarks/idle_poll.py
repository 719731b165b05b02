"""What a poll of 1,000 empty destinations costs; beside a bare listing of the same directories.

``python -m benchmarks.idle_poll [--runs N]``
"""

from __future__ import annotations

import argparse
import os
import time

from benchmarks.common import machine, scratch, spread
from connector.events.claim.intake import claim_round_robin
from connector.events.claim.polled_input import InputSettings, PolledInput
from connector.messaging.claim import Claim
from connector.messaging.destination import parse_destination
from connector.messaging.input import Input
from connector.stores.dropbox.provider import DropboxProvider

DESTINATIONS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    arguments = parser.parse_args()
    print(machine())
    with scratch() as directory:
        connection = DropboxProvider(directory, create=True).connect()
        names = [f"in{number}" for number in range(DESTINATIONS)]
        inputs = [PolledInput(InputSettings(Input(parse_destination(name)), quantity=25)) for name in names]
        for one in inputs:
            one.open(connection, None)
        folders = [f"{directory}/{name}/incoming/target" for name in names]
        for pause, what in ((0.0, "again at once"), (1.05, "after a second")):
            polls, listings = [], []
            for number in range(arguments.runs if not pause else max(3, arguments.runs // 10)):
                time.sleep(pause)
                started = time.perf_counter()
                claims: list[Claim] = []
                claim_round_robin(inputs, claims, number + 1, 0)
                polls.append((time.perf_counter() - started) * 1000)
                assert not claims
                started = time.perf_counter()
                for folder in folders:
                    os.listdir(folder)
                listings.append((time.perf_counter() - started) * 1000)
            print(f"{what}: poll {spread(polls, 1)} ms, bare listdir {spread(listings, 1)} ms")
        connection.close()


if __name__ == "__main__":
    main()
