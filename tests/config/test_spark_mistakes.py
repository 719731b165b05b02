"""What Spark refuses without asking anybody is found by ``check``, in the section ``spark``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
import pytest

from connector.errors import Problem
from connector.spark.settings import FILE, expected_value, known_settings, misspelt_setting

if TYPE_CHECKING:
    from conftest import Deployment


def found(deployment: Deployment, master: str = "local[2]", **conf: str) -> list[Problem]:
    """The problems of a deployment with this master and these settings (``__`` for a dot)."""
    written = "".join(f"    {key}: {value}\n" for key, value in conf.items())
    text = f'  master: "{master}"\n' + (f"  conf:\n{written}" if written else "")
    deployment.replace("adapter.yaml", "  master: local[*]\n", text)
    return deployment.check()


@pytest.mark.parametrize(
    ("master", "words"),
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
def test_a_master_that_run_refuses_is_a_mistake(deployment: Deployment, master: str, words: str) -> None:
    (problem,) = found(deployment, master)
    assert (problem.path, problem.line, problem.warning) == ("spark.master", 30, False)
    assert words in str(problem)


@pytest.mark.parametrize(
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
def test_a_master_that_run_takes_is_none(deployment: Deployment, master: str) -> None:
    assert found(deployment, master) == []


@pytest.mark.parametrize(
    ("key", "near"),
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
    deployment: Deployment, key: str, near: str
) -> None:
    (problem,) = found(deployment, **{key: "1"})
    assert (problem.path, problem.line, problem.column) == (f"spark.conf.{key}", 32, 5)
    assert (problem.nearest, problem.warning) == (near, False)


@pytest.mark.parametrize(
    "key",
    [
        "spark.my.own.setting",
        "spark.hadoop.fs.s3a.endpoint",
        "spark.executorEnv.OMP_NUM_THREAD",
        "spark.sql.catalog.mine",
        "spark.shuffle.io.maxRetries",
        "spark.ssl.enabled",
    ],
)
def test_another_setting_that_spark_does_not_know_is_none(deployment: Deployment, key: str) -> None:
    assert found(deployment, **{key: "x"}) == []


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("spark.driver.memory", "2gb5", "'2gb5', expected a size such as"),
        ("spark.driver.maxResultSize", "5x", "a size"),
        ("spark.executor.heartbeatInterval", '"5 s"', "a duration"),
        ("spark.rdd.compress", '"on"', "true or false"),
        ("spark.ui.retainedJobs", "many", "a whole number of 32 bits"),
        ("spark.ui.retainedJobs", "3000000000", "a whole number of 32 bits"),
        ("spark.cores.max", "0", "1 or more"),
        ("spark.driver.port", "99999", "a port from 1024 to 65535"),
        ("spark.memory.fraction", "half", "a number"),
        ("spark.scheduler.mode", "FIRST", "one of FAIR, FIFO, NONE"),
        ("spark.executor.instances", "-1", "1 or more"),
        ("spark.executor.instances", "0", "1 or more"),
        ("spark.executor.pyspark.memory", "-1", "0 or more"),
        ("spark.rpc.message.maxSize", "5000", "1 to 2047"),
        ("spark.rpc.message.maxSize", "0", "1 to 2047"),
        ("spark.kryoserializer.buffer.max", "5g", "0 to 2047m"),
        ("spark.kryoserializer.buffer.max", "2048", "0 to 2047m"),
        ("spark.kryoserializer.buffer", "2g", "0 to 2047m"),
        ("spark.broadcast.blockSize", "0", "1k to 2047m"),
        ("spark.broadcast.blockSize", "1000b", "1k to 2047m"),
        ("spark.log.level", "LOUD", "one of ALL, DEBUG, ERROR, FATAL, INFO, OFF, TRACE, WARN"),
        ("spark.io.compression.codec", "nonsense", "lz4, lzf, snappy, zstd, or a class with its package"),
        ("spark.shuffle.manager", "nope", "sort, tungsten-sort, or a class with its package"),
        ("spark.serializer", "KryoSerializer", "expected a class with its package"),
    ],
)
def test_a_value_that_spark_cannot_read_is_a_mistake(
    deployment: Deployment, key: str, value: str, words: str
) -> None:
    (problem,) = found(deployment, **{key: value})
    assert (problem.path, problem.line, problem.column) == (f"spark.conf.{key}", 32, 7 + len(key))
    assert words in str(problem)
    assert not problem.warning


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.driver.memory", "2gb"),
        ("spark.driver.memory", "2048"),
        ("spark.executor.memory", "1T"),
        ("spark.network.timeout", "2min"),
        ("spark.network.timeout", "300"),
        ("spark.rdd.compress", "TRUE"),
        ("spark.memory.fraction", "0.5"),
        ("spark.scheduler.mode", "fair"),
        ("spark.executor.instances", "1"),
        ("spark.executor.pyspark.memory", "0"),
        ("spark.rpc.message.maxSize", "2047"),
        ("spark.kryoserializer.buffer.max", "2047"),
        ("spark.kryoserializer.buffer.max", "2047m"),
        ("spark.broadcast.blockSize", "1"),
        ("spark.log.level", "warn"),
        ("spark.io.compression.codec", "LZ4"),
        ("spark.io.compression.codec", "org.apache.spark.io.ZStdCompressionCodec"),
        ("spark.shuffle.manager", "Tungsten-Sort"),
        ("spark.serializer", "org.apache.spark.serializer.KryoSerializer"),
        ("spark.driver.maxResultSize", '"$${spark.driver.memory}"'),
    ],
)
def test_a_value_that_spark_can_read_is_none(deployment: Deployment, key: str, value: str) -> None:
    assert found(deployment, **{key: value}) == []


@pytest.mark.parametrize(
    ("conf", "path", "words"),
    [
        ({"spark.driver.memory": "400m"}, "spark.driver.memory", "too little for Spark to start"),
        ({"spark.executor.memory": "300"}, "spark.executor.memory", "too little for Spark to start"),
        ({"spark.memory.fraction": "2"}, "spark.memory.fraction", "from 0 to 1"),
        ({"spark.task.cpus": "5"}, "spark.task.cpus", "5 cores a task under local[2]"),
        ({"spark.task.cpus": "0"}, "spark.task.cpus", "a number above 0"),
        (
            {"spark.executor.heartbeatInterval": "200s"},
            "spark.executor.heartbeatInterval",
            "is 200s and spark.network.timeout is 120s",
        ),
        (
            {"spark.network.timeout": "10"},
            "spark.network.timeout",
            "heartbeatInterval is 10s and spark.network.timeout is 10",
        ),
        (
            {"spark.network.crypto.enabled": "true"},
            "spark.network.crypto.enabled",
            "spark.authenticate: true",
        ),
        ({"spark.files": "processes.py,nothing.txt"}, "spark.files", "nothing.txt"),
        ({"spark.driver.host": "no such host"}, "spark.driver.host", "is no name of a host"),
        ({"spark.driver.host": "my_host"}, "spark.driver.host", "is no name of a host"),
        ({"spark.archives": "nothing.zip#there"}, "spark.archives", "nothing.zip"),
        (
            {"spark.eventLog.enabled": "true", "spark.eventLog.dir": "file:/no/such"},
            "spark.eventLog.dir",
            "there is no directory /no/such",
        ),
    ],
)
def test_what_spark_refuses_at_its_start_is_a_mistake(
    deployment: Deployment, conf: dict[str, str], path: str, words: str
) -> None:
    (problem,) = found(deployment, **conf)
    assert problem.path == f"spark.conf.{path}"
    assert words in str(problem)
    assert not problem.warning


def test_a_task_that_takes_more_cores_than_the_machine_has_is_a_mistake(deployment: Deployment) -> None:
    (problem,) = found(deployment, "local[*]", **{"spark.task.cpus": "9999"})
    assert problem.path == "spark.conf.spark.task.cpus"
    assert "9999 cores a task under local[*]" in str(problem)


def test_what_spark_takes_at_its_start_is_none(deployment: Deployment) -> None:
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


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        (
            {"spark.driver.extraJavaOptions": "-XX:+UseG1GC -XX:+UseParallelGC"},
            "several garbage collectors: -XX:+UseG1GC, -XX:+UseParallelGC",
        ),
        (
            {
                "spark.executor.defaultJavaOptions": "-XX:+UseG1GC",
                "spark.executor.extraJavaOptions": "-XX:+UseZGC",
            },
            "several garbage collectors",
        ),
        ({"spark.driver.extraJavaOptions": "-Da=1 Xmx1g"}, "word 2 is no option of Java"),
        ({"spark.driver.extraJavaOptions": '-Da="b'}, "no closing quotation"),
        ({"spark.driver.extraJavaOptions": "-Xms5g -Xmx1g"}, "an initial heap of at most -Xmx"),
        ({"spark.driver.extraJavaOptions": "-Xms600m"}, "at most spark.driver.memory"),
        (
            {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": "-Xms2g"},
            "a greatest (spark.driver.memory) of 1073741824",
        ),
        (
            {"spark.driver.defaultJavaOptions": "-Xmx1g", "spark.driver.extraJavaOptions": "-Xms2g"},
            "an initial heap (-Xms) of 2147483648 bytes and a greatest (-Xmx) of 1073741824",
        ),
        ({"spark.executor.extraJavaOptions": "-Xms2g"}, "at most spark.executor.memory"),
        ({"spark.driver.extraJavaOptions": "-Xmx300m"}, "too little for Spark to start"),
        ({"spark.driver.extraJavaOptions": "-Xms1"}, "expected 1m or more"),
        ({"spark.driver.extraJavaOptions": "-Xss1"}, "expected 136k or more"),
        ({"spark.driver.extraJavaOptions": "-Xss1x"}, "'-Xss1x' has no size that Java can read"),
        ({"spark.driver.extraJavaOptions": "-Xss"}, "'-Xss' has no size that Java can read"),
        ({"spark.driver.extraJavaOptions": "-Xss2g"}, "expected 1g or less"),
        ({"spark.executor.extraJavaOptions": "-Xmx1g"}, "expected spark.executor.memory"),
        ({"spark.executor.extraJavaOptions": "-Dspark.ui.enabled=true"}, "expected it under spark.conf"),
    ],
)
def test_options_that_java_or_spark_refuse_are_a_mistake(
    deployment: Deployment, conf: dict[str, str], words: str
) -> None:
    (problem,) = found(deployment, **conf)
    assert problem.path == f"spark.conf.{list(conf)[-1]}"
    assert words in str(problem)


@pytest.mark.parametrize(
    "options",
    [
        "-XX:+UseG1GC",
        "-XX:+UseParallelGC -XX:-UseParallelGC -XX:+UseZGC",
        "--add-opens java.base/java.lang=ALL-UNNAMED -Xmx1g @more",
        "-Xms512m -Xss0 -Xss1M",
        "-Xmx1g -Xmx6g -Xms5g",
        "-Xms5g -XX:MaxHeapSize=6g",
    ],
)
def test_options_that_java_takes_are_none(deployment: Deployment, options: str) -> None:
    assert found(deployment, **{"spark.driver.extraJavaOptions": options}) == []


def test_a_password_among_options_that_cannot_be_split_is_not_shown(deployment: Deployment) -> None:
    options = '"-Djavax.net.ssl.keyStorePassword=\'hush hush"'
    (problem,) = found(deployment, **{"spark.driver.extraJavaOptions": options})
    assert "hush" not in str(problem)


def test_a_python_that_is_not_on_the_path_is_a_mistake(deployment: Deployment) -> None:
    deployment.replace("adapter.yaml", "  master: local[*]\n", "  python: python9.99\n")
    (problem,) = deployment.check()
    assert (problem.path, problem.line) == ("spark.python", 30)
    assert "there is no program 'python9.99'" in problem.found


def test_the_known_settings_are_those_of_the_spark_that_is_installed() -> None:
    assert FILE.read_text("utf-8").startswith(f"# The settings of Apache Spark {pyspark.__version__} (")


def test_what_spark_knows_is_not_misspelt_and_the_kinds_are_understood() -> None:
    known = known_settings()
    assert len(known) > 1500
    assert [name for name in known if misspelt_setting(name)] == []
    assert [name for name in known if not isinstance(expected_value(name, "§"), str | None)] == []
