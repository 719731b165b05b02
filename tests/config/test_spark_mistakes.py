"""What Spark refuses without asking anybody is found by ``check``, in the section ``spark``."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

from typing import TYPE_CHECKING

from connector.service.assembly import spark_section
from connector.spark.settings import known_settings, misspelt_setting
from tests.config.mistakes import A, Mistake, case
from tests.tables import rows, texts

if TYPE_CHECKING:
    from tests.config.conftest import Sample

MASTER = "  master: local[*]\n"
JAVA = "spark.driver.extraJavaOptions"


WRONG_MASTERS = {
    "expected local[*]": "yarn-client   mesos://host:5050",
    "the API server": "k8s://   k8s://ftp://host:6443   k8s://a host",
    "Spark Connect": "sc://host:15002",
    "N from 1 to 9999": "local[0]   local[10000]   local[*,0]",
    "a host is missing": "spark://   spark://a:7077,",
    "a port is missing": "spark://host   spark://host:   spark://a:7077,b",
    "'0' is no port": "spark://host:0",
    "'65536' is no port": "spark://host:65536",
    "'7077/' is no port": "spark://host:7077/",
    "'my_host' is no name of a host": "spark://my_host:7077",
    "'user@host' is no name of a host": "spark://user@host:7077",
}


def master(text: str, words: str, nearest: str | None = None) -> Mistake:
    return case(f"master {text}", A, MASTER, f'  master: §"{text}"\n', "spark.master", words, nearest=nearest)


def setting(
    key: str, value: str, words: str = "", mark: str = "", more: str = "", nearest: str | None = None
) -> Mistake:
    """Returns a mistake in one setting. The problem is at its key if ``mark`` is ``key``, else at its value."""
    written = f"§{key}: {value}" if mark == "key" else f"{key}: §{value}"
    text = f"{MASTER}  conf:\n    {written}\n{more}"
    return case(f"{key} {value}", A, MASTER, text, f"spark.conf.{key}", words, nearest=nearest)


MISTAKES = [
    *(master(text, words) for words, wrong in WRONG_MASTERS.items() for text in texts(wrong)),
    master("local[2,x]", "expected local[*]", "local[*]"),
    master("local[]", "expected local[*]", "local[*]"),
    master("Local[*]", "did you mean 'local[*]'?", "local[*]"),
    # a letter or two from a setting that Spark knows
    *(
        setting(key, "1", mark="key", nearest=near)
        for key, near in (
            ("spark.exector.memory", "spark.executor.memory"),
            ("spark.driver.maxResultSizes", "spark.driver.maxResultSize"),
            ("spark.sql.shuffle.partition", "spark.sql.shuffle.partitions"),
            ("sparc.executor.cores", "spark.executor.cores"),
        )
    ),
    # what the adapter sets itself in a local Spark
    setting("spark.authenticate", '"false"', "could command a local Spark", mark="key"),
    setting("spark.authenticate", "no", "true, or nothing", mark="key"),
    setting("spark.authenticate.secret", "hush", "it left out", mark="key"),
    setting("spark.storage.blockManagerHeartbeatTimeoutMs", "5s", "a machine that sleeps", mark="key"),
    # values that Spark cannot read, or with which it does not start
    setting("spark.driver.memory", "2gb5", "'2gb5', expected a size such as"),
    setting("spark.executor.heartbeatInterval", '"5 s"', "a duration"),
    setting("spark.kryoserializer.buffer.max", "64 m", "a size"),
    setting("spark.driver.memory", "400m", "too little for Spark to start"),
    setting("spark.executor.memory", "300", "too little for Spark to start"),
    setting("spark.files", "processes.py,nothing.txt", "nothing.txt"),
    setting("spark.archives", "nothing.zip#there", "nothing.zip"),
    setting("spark.eventLog.dir", "file:/no/such", "there is no directory /no/such", more="    spark.eventLog.enabled: true\n"),
    setting("spark.driver.extraJavaOptions", '-Da="b', "no closing quotation"),
    case("Python that is not on the path", A, MASTER, "  python: §python9.99\n", "spark.python", "there is no program 'python9.99'"),
]  # fmt: skip
MASTERS = """
    local   local[*]   local[16]   local[*,4]   local[2, 1]   yarn   spark://a.b-c:7077
    spark://[::1]:7077,10.0.0.1:7078   k8s://https://10.0.0.1:6443   k8s://api.example.com/cluster
"""
UNKNOWN = """
    spark.my.own.setting: x   spark.hadoop.fs.s3a.endpoint: x   spark.executorEnv.OMP_NUM_THREAD: x
    spark.sql.catalog.mine: x   spark.shuffle.io.maxRetries: x   spark.ssl.enabled: x   spark.url: x
    spark.kubernetes.driver.label.a: x
"""
"""Settings that Spark does not know, and that resemble none."""
READ = """
    spark.driver.memory: 2gb   spark.driver.memory: 2048   spark.executor.memory: 1T
    spark.network.timeout: 2min   spark.network.timeout: 300   spark.executor.heartbeatInterval: 500MS
    spark.executor.pyspark.memory: 0   spark.kryoserializer.buffer.max: 2047
    spark.kryoserializer.buffer.max: 2047m   spark.sql.autoBroadcastJoinThreshold: -1
    spark.rdd.compress: TRUE   spark.driver.maxResultSize: "$${spark.driver.memory}"
    spark.driver.extraJavaOptions: --add-opens java.base/java.lang=ALL-UNNAMED -Xmx1g -Da='b c'
"""
"""Values that Spark reads."""
STARTS = """
    spark.files: "processes.py,hdfs://host/file,*.txt"   spark.task.cpus: 2   spark.driver.host: 127.0.0.1
    spark.jars: /no/such.jar   spark.network.timeout: 30   spark.authenticate: true
    spark.network.crypto.enabled: true   spark.eventLog.enabled: true   spark.eventLog.dir: metaobjects
"""
"""Settings with which Spark starts. It starts without a jar that is missing, too."""


@rows("mistake", MISTAKES)
def test_what_spark_refuses_is_found_where_it_stands(deployment: Sample, mistake: Mistake) -> None:
    mistake.assert_alone(deployment)


@rows("master", texts(MASTERS))
def test_a_master_that_run_takes_is_no_mistake(deployment: Sample, master: str) -> None:
    deployment.replace(A, MASTER, f'  master: "{master}"\n')
    assert deployment.check() == []


@rows("master", ["yarn", "spark://host:7077", "k8s://host:6443"])
def test_a_cluster_has_a_secret_of_its_own(deployment: Sample, master: str) -> None:
    written = "spark.authenticate: false, spark.authenticate.secret: hush"
    deployment.replace(A, MASTER, f'  master: "{master}"\n  conf: {{{written}}}\n')
    assert deployment.check() == []
    assert spark_section(deployment.load()).conf["spark.authenticate"] == "false"


@rows("settings", [*([one] for one in texts(UNKNOWN + READ)), texts(STARTS)])
def test_settings_that_spark_takes_are_no_mistake(deployment: Sample, settings: list[str]) -> None:
    written = "".join(f"    {setting}\n" for setting in settings)
    deployment.replace(A, MASTER, f"{MASTER}  conf:\n{written}")
    assert deployment.check() == []


def test_a_password_among_options_that_cannot_be_split_is_not_shown(deployment: Sample) -> None:
    options = '"-Djavax.net.ssl.keyStorePassword=\'hush hush"'
    deployment.replace(A, MASTER, f"{MASTER}  conf:\n    {JAVA}: {options}\n")
    (problem,) = deployment.check()
    assert "hush" not in str(problem)


def test_what_the_installed_spark_knows_is_not_misspelt() -> None:
    known = known_settings()
    assert len(known) > 1500
    assert {"spark.driver.memory", "spark.sql.shuffle.partitions", "spark.kubernetes.namespace"} <= set(known)
    assert [name for name in known if misspelt_setting(name)] == []
