"""What is no session for an adapter, and the private names of PySpark."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from connector.errors import PipelineError
from connector.spark.pipeline import SparkPipeline
from tests.spark.conftest import Settings, deployment

ROOT = Path(__file__).parents[2]


class ConnectSession:
    """Stands for a session of Spark Connect: a real one needs packages that are not installed."""


ConnectSession.__module__ = "pyspark.sql.connect.session"


@pytest.mark.parametrize(
    ("session", "words"), [(ConnectSession(), "Spark Connect"), ("spark", "builtins.str is no SparkSession")]
)
def test_what_is_no_session_that_can_run_jobs_is_refused(session: object, words: str, tmp_path: Path) -> None:
    pipeline = SparkPipeline(Settings(), deployment(tmp_path), "test", session=session)
    pipeline.launch()  # starts no Java
    with pytest.raises(PipelineError, match=words):
        pipeline.start()


PRIVATE = {
    *("SparkContext._gateway", "SparkContext._jvm", "SparkContext._lock", "SparkContext._jsc"),
    *("SparkContext._active_spark_context", "SparkContext._ensure_initialized"),
    *("SparkContext._accumulatorServer", "_PYSPARK_DRIVER_CONN_INFO_PATH", "PYSPARK_GATEWAY_PORT"),
    *("PYSPARK_GATEWAY_SECRET", "PYSPARK_PIN_THREAD"),
}
"""The private names of PySpark that the fast start uses. No other file uses any."""


def test_the_private_names_of_pyspark_are_in_one_file_and_all_named_here() -> None:
    from pyspark import SparkContext, core, java_gateway

    source = Path(core.context.__file__).read_text() + Path(java_gateway.__file__).read_text()
    of_pyspark = {*dir(SparkContext), *re.findall(r"self\.(\w+)", source)}
    for name in PRIVATE:
        assert name.rpartition(".")[2] in source, f"PySpark has no {name} any more"
    found = {}
    for file in (ROOT / "connector").rglob("*.py"):
        own: set[str] = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in of_pyspark:
                if node.attr.startswith("_") and not node.attr.startswith("__") and _is_of_pyspark(node):
                    own.add(f"SparkContext.{node.attr}")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                own |= {node.value} & PRIVATE
        if own:
            found[file.name] = own
    submitted = found.pop("session.py")
    assert submitted == {"PYSPARK_GATEWAY_PORT"}, "it is only asked whether spark-submit has set it"
    assert found == {"fast_start.py": PRIVATE}


def _is_of_pyspark(node: ast.Attribute) -> bool:
    """Whether it belongs to a context, and not to an object of ours."""
    return not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
