"""The master: what ``spark.master`` may say, and whether a cluster's master answers."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass

from connector.errors import PipelineError

_LOCAL = re.compile(r"local(?:\[(\*|[1-9]\d*)\])?")
_STANDALONE = re.compile(r"spark://(.+)")
_CONNECT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Master:
    """A parsed ``spark.master``.

    Args:
        url: as configured.
        cores: tasks that ``local`` runs at a time; 0 where Spark counts them itself (``*``, a cluster).
        addresses: host and port of each master of a cluster; empty for ``local``.
    """

    url: str
    cores: int
    addresses: tuple[tuple[str, int], ...] = ()

    @property
    def local(self) -> bool:
        return not self.addresses


def parse_master(text: str) -> Master:
    """Reads ``local``, ``local[4]``, ``local[*]`` or ``spark://host:port[,host:port]``.

    Raises:
        PipelineError: it is something else. ``local[n,failures]`` is refused: it asks Spark to run
            a failed task again.
    """
    if match := _LOCAL.fullmatch(text):
        count = match.group(1) or "1"
        return Master(text, 0 if count == "*" else int(count))
    if match := _STANDALONE.fullmatch(text):
        addresses = []
        for part in match.group(1).split(","):
            host, _, port = part.rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 65536:
                break
            addresses.append((host.strip("[]"), int(port)))
        else:
            return Master(text, 0, tuple(addresses))
    raise PipelineError(f"spark.master is {text!r}, expected local[*], local[4] or spark://HOST:PORT")


def reach(master: Master) -> str:
    """The address of this machine that a cluster's master sees.

    Raises:
        PipelineError: none of the masters answers.
    """
    failures = []
    for host, port in master.addresses:
        try:
            with socket.create_connection((host, port), _CONNECT_SECONDS) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    raise PipelineError(
        f"no Spark master answers ({'; '.join(failures)}). Start it, or correct spark.master in adapter.yaml"
    )
