"""What the benchmarks share: a deployment on tmpfs, messages, medians, the machine."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

METAOBJECTS = """
business_object: Customer
verbs: {Create: , Update: }
attributes:
  CustomerId: {type: String, key: true, required: true, max_length: 20}
  Name: String
  Limit: {type: Double, default: 0}
  Since: Date
  Notes: LongText
  Address: {type: Address, cardinality: n}
---
business_object: Address
verbs: {Create: , Update: }
attributes:
  Street: String
  City: String
  Country: String
---
static_metaobject: MO_Config
rules:
  Customer_Create: {InputFormat: CUST_IN}
"""

PROCESSES = """
count = 0


def take(customer, event):
    global count
    count += 1
    if not customer["CustomerId"]:
        raise ValueError("no id")
"""


def machine() -> str:
    """One line about where this was measured."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    system = f"{platform.system()} {platform.release()}"
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {system}, load {load}"


@contextmanager
def scratch(where: str = "/dev/shm") -> Iterator[Path]:
    """A directory that is gone afterwards; on tmpfs unless told otherwise."""
    base = where if os.path.isdir(where) else None
    path = Path(tempfile.mkdtemp(prefix="benchmark-", dir=base))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def deployment(
    directory: Path,
    queues: Sequence[str],
    *,
    quantity: int = 1000,
    mime_type: str = "application/json",
    master: str = "local[2]",
    durability: str = "batch",
    provider: str = "",
) -> Path:
    """Writes a deployment; returns its adapter.yaml.

    Args:
        provider: its section in YAML, in braces; empty = a dropbox with ``durability``.
    """
    provider = provider or f"{{type: dropbox, root: ./data, create: true, durability: {durability}}}"
    (directory / "metaobjects").mkdir(parents=True, exist_ok=True)
    (directory / "metaobjects" / "objects.yaml").write_text(METAOBJECTS)
    (directory / "processes.py").write_text(PROCESSES)
    file = directory / "adapter.yaml"
    file.write_text(
        textwrap.dedent(f"""\
        provider: {provider}
        connector:
          ApplicationName: benchmark
          InputDestination: [{", ".join(f"queue://{name}" for name in queues)}]
          PollQuantity: {quantity}
          ArchiveDestination: queue://archive
          ErrorDestination: queue://error
          UnsubscribedDestination: queue://unsubscribed
          DuplicateEventElimination: true
          ConfigurationMetaObject: MO_Config
          DataHandlerMimeType: {mime_type}
        subscriptions:
          - object: Customer
            process: processes:take
        metaobjects: ./metaobjects
        spark: {{master: "{master}"}}
        logging: {{level: warning}}
        """)
    )
    return file


def json_body(number: int) -> bytes:
    """A customer of about 1 KiB."""
    addresses = ",".join(
        f'{{"Street":"{street} Harbour Street","City":"Hamburg","Country":"DE"}}' for street in range(3)
    )
    head = (
        f'{{"CustomerId":"{number}","Name":"Customer {number}","Limit":{number % 1000}.5,'
        f'"Since":"2026-01-31","Address":[{addresses}],"Notes":"'
    )
    return (head + "n" * (1022 - len(head)) + '"}').encode()


def xml_body(number: int) -> bytes:
    """The same as XML."""
    addresses = "".join(
        f"<Address><Street>{street} Harbour Street</Street>"
        "<City>Hamburg</City><Country>DE</Country></Address>"
        for street in range(3)
    )
    head = (
        f'<Customer verb="Create"><CustomerId>{number}</CustomerId><Name>Customer {number}</Name>'
        f"<Limit>{number % 1000}.5</Limit><Since>2026-01-31</Since><Notes>"
    )
    tail = f"</Notes>{addresses}</Customer>"
    return (head + "n" * max(1, 1024 - len(head) - len(tail)) + tail).encode()


def fill(root: Path, queue: str, count: int, body: Callable[[int], bytes], start: int = 0) -> None:
    """Puts messages into a queue, without syncing. An adapter may wait for them meanwhile."""
    target = root / queue / "incoming" / "target"
    working = target.parent / "working"
    for folder in ("working", "target", "processing", "processed", "expired", "error"):
        (target.parent / folder).mkdir(parents=True, exist_ok=True)
    micros = time.time_ns() // 1000
    for number in range(start, start + count):
        name = f"4.{micros + number:016d}-{number}.T....CUST_IN"
        with open(f"{working}/{name}", "wb") as file:
            file.write(body(number))
        os.rename(f"{working}/{name}", f"{target}/{name}")


def cpu_of_trees(roots: list[int]) -> float:
    """Seconds of processor time of processes and all their descendants, also those that have ended."""
    parents, times = {}, {}
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
            parents[int(directory.name)] = int(fields[1])
            times[int(directory.name)] = sum(map(int, fields[11:15]))
    total = 0
    for pid, ticks in times.items():
        ancestor = pid
        while ancestor not in roots and ancestor in parents:
            ancestor = parents[ancestor]
        total += ticks * (ancestor in roots)
    return total / os.sysconf("SC_CLK_TCK")


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Median, with the smallest and largest."""
    if not values:
        return "-"
    median = statistics.median(values)
    return f"{median:,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"
