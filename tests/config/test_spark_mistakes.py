"""What ``check`` finds in the section ``spark``: the master, and settings that belong to the event job."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from connector.service.assembly import spark_section
from connector.spark.settings import split_options
from tests.config.mistakes import A, Mistake, case
from tests.tables import rows, texts

if TYPE_CHECKING:
    from tests.config.conftest import Sample

MASTER = "  master: local[*]\n"


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


def setting(key: str, value: str, words: str, nearest: str | None = None) -> Mistake:
    """Returns a mistake at the key of a setting."""
    text = f"{MASTER}  conf:\n    §{key}: {value}\n"
    return case(f"{key} {value}", A, MASTER, text, f"spark.conf.{key}", words, nearest=nearest)


MISTAKES = [
    setting("executor.memory", "1g", "no Spark setting", nearest="spark.executor.memory"),
    *(master(text, words) for words, wrong in WRONG_MASTERS.items() for text in texts(wrong)),
    master("local[2,x]", "expected local[*]", "local[*]"),
    master("local[]", "expected local[*]", "local[*]"),
    master("Local[*]", "did you mean 'local[*]'?", "local[*]"),
    # what the adapter sets itself in a local Spark
    setting("spark.authenticate", '"false"', "could command a local Spark"),
    setting("spark.authenticate", "no", "true, or nothing"),
    setting("spark.authenticate.secret", "hush", "it left out"),
    setting("spark.storage.blockManagerHeartbeatTimeoutMs", "5s", "a machine that sleeps"),
    case("Python that is not on the path", A, MASTER, "  python: §python9.99\n", "spark.python", "there is no program 'python9.99'"),
]  # fmt: skip
MASTERS = """
    local   local[*]   local[16]   local[*,4]   local[2, 1]   yarn   spark://a.b-c:7077
    spark://[::1]:7077,10.0.0.1:7078   k8s://https://10.0.0.1:6443   k8s://api.example.com/cluster
"""
SETTINGS = """
    spark.authenticate: true
    spark.executor.memory: 1T
    spark.task.cpus: 2
    spark.my.own.setting: x
"""


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


def test_settings_of_the_user_are_no_mistake(deployment: Sample) -> None:
    deployment.replace(A, MASTER, f"{MASTER}  conf:\n{SETTINGS}")
    assert deployment.check() == []


def test_a_password_among_options_that_cannot_be_split_is_not_shown() -> None:
    with pytest.raises(ValueError, match="no closing quotation") as raised:
        split_options("-Djavax.net.ssl.keyStorePassword='hush hush")
    assert "hush" not in str(raised.value)
