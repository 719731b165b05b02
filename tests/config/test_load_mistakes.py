"""Mistakes in a subscription with ``load`` or ``dataframe``, each with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connector.sinks.load.settings import DataframeEntry, LoadEntry
from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample

P = "    process: processes:store_customer\n"
FILES = "format: parquet, path: ./lake"


def put(deployment: Sample, entry: str, *, name: str = "Customer") -> None:
    deployment.replace("adapter.yaml", "  - object: Customer\n", f"  - object: {name}\n")
    deployment.replace("adapter.yaml", P, "".join(f"    {line}\n" for line in entry.split("\n")))


def test_the_defaults(deployment: Sample) -> None:
    put(deployment, f"dataframe: {{{FILES}}}")
    assert deployment.check() == []
    entry = deployment.configuration.subscriptions[0]
    assert isinstance(entry, DataframeEntry)
    assert (entry.size, entry.every, entry.retry_later.rules().attempts) == (10_000, 60.0, 10)
    assert (entry.name, entry.sends_to) == ("Customer ./lake", None)


def test_a_function_with_all_keys(deployment: Sample) -> None:
    put(deployment, "load: processes:store_customer\nsize: 5000\nevery: 30s\nretry_later: {attempts: 3}")
    assert deployment.check() == []
    entry = deployment.configuration.subscriptions[0]
    assert isinstance(entry, LoadEntry)
    assert (entry.size, entry.every, entry.retry_later.attempts) == (5000, 30.0, 3)


@rows(
    "entry, path, text",
    [
        ("load: processes:store_custmer", "load", "did you mean 'processes:store_customer'?"),
        ("load: processes", "load", "module:function"),
        ("load: processes:store_customer\nsize: 0", "size", "a whole number from 1 up"),
        ("load: processes:store_customer\nevery: 5", "every", "a duration such as"),
        ("load: processes:store_customer\nmime_type: text/xml", "mime_type", "it with a destination only"),
        (f"dataframe: {{{FILES}}}\nformat: X", "format", "format of a dataframe"),
        (f"dataframe: {{{FILES}}}\nreply: true", "reply", "reply of a dataframe"),
        ("dataframe: {format: avro, path: ./lake}", "dataframe.format", "parquet | orc | json"),
        ("dataframe: {format: parquet}", "dataframe.path", "format: parquet without a path"),
        (f"dataframe: {{{FILES}, table: a.b}}", "dataframe.table", "table with format: parquet"),
        (
            f"dataframe: {{{FILES}, partition_by: CustomerID}}",
            "dataframe.partition_by",
            "did you mean 'CustomerId'?",
        ),
        (f"dataframe: {{{FILES}, partition_by: [Address]}}", "dataframe.partition_by", "'Address'"),
        (f"dataframe: {{{FILES}, options: {{txnVersion: 1}}}}", "dataframe.options.txnVersion", "sets"),
        ("dataframe: {format: delta, path: x, options: {a: b}}", "dataframe.options", "with format: delta"),
        ("dataframe: {format: table, table: shop.c}", "dataframe.format", "without a column for Address"),
        ("dataframe: {format: table}", "dataframe.table", "no table"),
        ("dataframe: {format: table, table: orders}", "dataframe.table", "DATABASE.TABLE"),
        ("dataframe: {format: table, table: shp.orders}", "dataframe", "did you mean 'shop'?"),
    ],
)
def test_each_mistake_has_its_place(deployment: Sample, entry: str, path: str, text: str) -> None:
    is_flat = "format: table" in entry and "shop.c" not in entry
    put(deployment, entry, name="Order" if is_flat else "Customer")
    if is_flat:
        deployment.replace("adapter.yaml", "    verbs: [Create, Update]\n", "")
    (problem,) = deployment.check()
    assert problem.path == f"subscriptions[0].{path}"
    assert text in str(problem)


def test_a_pattern_has_no_columns(deployment: Sample) -> None:
    put(deployment, f"dataframe: {{{FILES}}}", name="Cust*")
    (problem,) = deployment.check()
    assert (problem.path, problem.expected) == ("subscriptions[0].object", "the name of one object")


def test_a_path_of_this_machine_is_no_place_for_a_cluster(deployment: Sample) -> None:
    put(deployment, f"dataframe: {{{FILES}}}")
    deployment.replace("adapter.yaml", "master: local[*]", "master: spark://host:7077")
    (problem,) = [one for one in deployment.check() if "dataframe" in one.path]
    assert (problem.path, problem.warning) == ("subscriptions[0].dataframe.path", True)
