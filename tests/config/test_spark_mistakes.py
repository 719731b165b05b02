"""What Spark refuses without asking anybody is found by ``check``, in the section ``spark``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connector.errors import Problem
from connector.spark.settings import known_settings, misspelt_setting
from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample


def found(deployment: Sample, master: str = "local[2]", **conf: str) -> list[Problem]:
    """The problems of a deployment with this master and these settings (``__`` for a dot)."""
    written = "".join(f"    {key}: {value}\n" for key, value in conf.items())
    text = f'  master: "{master}"\n' + (f"  conf:\n{written}" if written else "")
    deployment.replace("adapter.yaml", "  master: local[*]\n", text)
    return deployment.check()


@rows(
    "master, words",
    [
        ("yarn-client", "expected local[*]"),
        ("k8s://", "the API server"),
        ("k8s://ftp://host:6443", "the API server"),
        ("k8s://a host", "the API server"),
        ("sc://host:15002", "Spark Connect"),
        ("local[0]", "N from 1 to 9999"),
        ("local[10000]", "N from 1 to 9999"),
        ("local[*,0]", "N from 1 to 9999"),
        ("local[2,x]", "expected local[*]"),
        ("local[]", "expected local[*]"),
        ("Local[*]", "did you mean 'local[*]'?"),
        ("mesos://host:5050", "expected local[*]"),
        ("spark://", "a host is missing"),
        ("spark://host", "a port is missing"),
        ("spark://host:", "a port is missing"),
        ("spark://host:0", "'0' is no port"),
        ("spark://host:65536", "'65536' is no port"),
        ("spark://host:7077/", "'7077/' is no port"),
        ("spark://my_host:7077", "'my_host' is no name of a host"),
        ("spark://user@host:7077", "'user@host' is no name of a host"),
        ("spark://a:7077,", "a host is missing"),
        ("spark://a:7077,b", "a port is missing"),
    ],
)
def test_a_master_that_run_refuses_is_a_mistake(deployment: Sample, master: str, words: str) -> None:
    (problem,) = found(deployment, master)
    assert (problem.path, problem.line, problem.warning) == ("spark.master", 30, False)
    assert words in str(problem)


@rows(
    "master",
    [
        "local",
        "local[*]",
        "local[16]",
        "local[*,4]",
        "local[2, 1]",
        "spark://a.b-c:7077",
        "spark://[::1]:7077,10.0.0.1:7078",
        "yarn",
        "k8s://https://10.0.0.1:6443",
        "k8s://api.example.com/cluster",
    ],
)
def test_a_master_that_run_takes_is_none(deployment: Sample, master: str) -> None:
    assert found(deployment, master) == []


@rows(
    "key, near",
    [
        ("spark.exector.memory", "spark.executor.memory"),
        ("spark.driver.memroy", "spark.driver.memory"),
        ("spark.driver.maxResultSizes", "spark.driver.maxResultSize"),
        ("spark.Executor.Memory", "spark.executor.memory"),
        ("spark.sql.shuffle.partition", "spark.sql.shuffle.partitions"),
        ("sparc.executor.cores", "spark.executor.cores"),
        ("spark.speculatoin", "spark.speculation"),
    ],
)
def test_a_setting_a_letter_or_two_from_one_that_spark_knows_is_a_mistake(
    deployment: Sample, key: str, near: str
) -> None:
    (problem,) = found(deployment, **{key: "1"})
    assert (problem.path, problem.line, problem.column) == (f"spark.conf.{key}", 32, 5)
    assert (problem.nearest, problem.warning) == (near, False)


@rows(
    "key",
    [
        "spark.my.own.setting",
        "spark.hadoop.fs.s3a.endpoint",
        "spark.executorEnv.OMP_NUM_THREAD",
        "spark.sql.catalog.mine",
        "spark.shuffle.io.maxRetries",
        "spark.ssl.enabled",
        "spark.url",
        "spark.kubernetes.driver.label.a",
    ],
)
def test_another_setting_that_spark_does_not_know_is_none(deployment: Sample, key: str) -> None:
    assert found(deployment, **{key: "x"}) == []


@rows(
    "key, value, words",
    [
        ("spark.driver.memory", "2gb5", "'2gb5', expected a size such as"),
        ("spark.driver.maxResultSize", "5x", "a size"),
        ("spark.executor.heartbeatInterval", '"5 s"', "a duration"),
        ("spark.network.timeout", "2 minutes", "a duration"),
        ("spark.kryoserializer.buffer.max", "64 m", "a size"),
    ],
)
def test_a_value_that_spark_cannot_read_is_a_mistake(
    deployment: Sample, key: str, value: str, words: str
) -> None:
    (problem,) = found(deployment, **{key: value})
    assert (problem.path, problem.line, problem.column) == (f"spark.conf.{key}", 32, 7 + len(key))
    assert words in str(problem)
    assert not problem.warning


@rows(
    "key, value",
    [
        ("spark.driver.memory", "2gb"),
        ("spark.driver.memory", "2048"),
        ("spark.executor.memory", "1T"),
        ("spark.network.timeout", "2min"),
        ("spark.network.timeout", "300"),
        ("spark.executor.heartbeatInterval", "500MS"),
        ("spark.executor.pyspark.memory", "0"),
        ("spark.kryoserializer.buffer.max", "2047"),
        ("spark.kryoserializer.buffer.max", "2047m"),
        ("spark.sql.autoBroadcastJoinThreshold", "-1"),
        ("spark.rdd.compress", "TRUE"),
        ("spark.driver.maxResultSize", '"$${spark.driver.memory}"'),
    ],
)
def test_a_value_that_spark_can_read_is_none(deployment: Sample, key: str, value: str) -> None:
    assert found(deployment, **{key: value}) == []


@rows(
    "conf, path, words",
    [
        ({"spark.driver.memory": "400m"}, "spark.driver.memory", "too little for Spark to start"),
        ({"spark.executor.memory": "300"}, "spark.executor.memory", "too little for Spark to start"),
        ({"spark.files": "processes.py,nothing.txt"}, "spark.files", "nothing.txt"),
        ({"spark.archives": "nothing.zip#there"}, "spark.archives", "nothing.zip"),
        (
            {"spark.eventLog.enabled": "true", "spark.eventLog.dir": "file:/no/such"},
            "spark.eventLog.dir",
            "there is no directory /no/such",
        ),
    ],
)
def test_what_spark_refuses_at_its_start_is_a_mistake(
    deployment: Sample, conf: dict[str, str], path: str, words: str
) -> None:
    (problem,) = found(deployment, **conf)
    assert problem.path == f"spark.conf.{path}"
    assert words in str(problem)
    assert not problem.warning


def test_what_spark_takes_at_its_start_is_none(deployment: Sample) -> None:
    conf = {
        "spark.files": "processes.py,hdfs://host/file,*.txt",
        "spark.task.cpus": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.jars": "/no/such.jar",  # Spark starts without it
        "spark.network.timeout": "30",
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": "metaobjects",
    }
    assert found(deployment, **conf) == []


@rows("key", ["spark.driver.extraJavaOptions", "spark.executor.defaultJavaOptions"])
def test_options_of_java_that_cannot_be_split_are_a_mistake(deployment: Sample, key: str) -> None:
    (problem,) = found(deployment, **{key: '-Da="b'})
    assert problem.path == f"spark.conf.{key}"
    assert "no closing quotation" in str(problem)


def test_options_that_java_takes_are_none(deployment: Sample) -> None:
    options = "--add-opens java.base/java.lang=ALL-UNNAMED -Xmx1g -Da='b c'"
    assert found(deployment, **{"spark.driver.extraJavaOptions": options}) == []


def test_a_password_among_options_that_cannot_be_split_is_not_shown(deployment: Sample) -> None:
    options = '"-Djavax.net.ssl.keyStorePassword=\'hush hush"'
    (problem,) = found(deployment, **{"spark.driver.extraJavaOptions": options})
    assert "hush" not in str(problem)


def test_a_python_that_is_not_on_the_path_is_a_mistake(deployment: Sample) -> None:
    deployment.replace("adapter.yaml", "  master: local[*]\n", "  python: python9.99\n")
    (problem,) = deployment.check()
    assert (problem.path, problem.line) == ("spark.python", 30)
    assert "there is no program 'python9.99'" in problem.found


def test_what_the_installed_spark_knows_is_not_misspelt() -> None:
    known = known_settings()
    assert len(known) > 1500
    assert {"spark.driver.memory", "spark.sql.shuffle.partitions", "spark.kubernetes.namespace"} <= set(known)
    assert [name for name in known if misspelt_setting(name)] == []
