"""Secrets of a configuration are shown nowhere, and what is none stays readable."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from connector.config.loading import check
from connector.config.resolved import as_document, as_yaml, explained
from connector.declare.masking import MASK, mask
from connector.operate.tracer import _Losses
from connector.testing.deployment import Deployment
from tests.tables import rows, texts

SECRETS = r"""
    fs.azure.sas.box.acc.dfs.core.windows.net: SEKRET  fs.azure.sas.fixed.token.acc: SEKRET
    fs.azure.account.key.acc: SEKRET  fs.s3a.encryption.key: SEKRET  fs.s3a.server-side-encryption.key: SEKRET
    fs.s3a.secret.key: SEKRET  fs.s3a.session.token: SEKRET  fs.gs.auth.service.account.private.key: SEKRET
    es.net.http.auth.pass: SEKRET  my.pin: SEKRET  userPin: SEKRET  db_pass: SEKRET  dbPwd: SEKRET
    signing_key: SEKRET  spark.ssl.keyPassword: SEKRET  spark.fs.encryption.key: SEKRET
    o: -Dmy.pin=SEKRET -Dc=d  o: -Dmy.pwd=SEKRET;SEKRET -Dc=d
    o: -DdbPass='SEKRET SEKRET' -Dc=d  o: --password SEKRET -x
    o: org.Module required username="u" password="SEKRET SEKRET";
    o: {"type": "x", "private_key": "SEKRET SEKRET", "id": 1}  o: {\"api_key\": \"SEKRET\"}
    u: postgresql+psycopg://usr:SEKRET05 SEKRET@host/db  u: postgresql+psycopg://usr:SE@KRET SEKRET@host/db
    u: mongodb://usr:SEKRET/x@host/db  u: amqp://u:SEKRET@h:5672
    u: failover:(amqp://u:SEKRET SEKRET@h:1,amqp://u:SEKRET@h:2)?jms.password=SEKRET
    u: tcp://h:61616?user=u;password=SEKRET/x  u: jdbc:sqlserver://h;password={SEK;RET};encrypt=true
    u: jdbc:sqlserver://h:1433;database=d;user=u;pwd=SEKRET SEKRET;encrypt=true
    u: jdbc:oracle:thin:scott/SEKRET@//h:1521/x  u: jdbc:oracle:thin:scott/"SEK@RET SEKRET"@h:1521:x
    u: jdbc:oracle:oci8:scott/SEKRET@db  u: jdbc:mysql://u:SEKRET@h/d?password=SEKRET&ssl=true
    u: jdbc:mysql://(host=h,user=u,password=SEKRET)/d
    u: mssql+pyodbc:///?odbc_connect=Driver%3D%7Bx%7D%3BUID%3Du%3BPWD%3DSEKRET
    u: Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey=SEKRET=
    u: DefaultEndpointsProtocol=https;AccountName=a;AccountKey=SEKRET==
    u: https://h.example/x?api-version=1&sig=SEKRET%2B&sp=r  u: https://h.example/x?key=SEKRET
"""
OPEN = """
    spark.io.encryption.keySizeBits: 256  ftp.passive: true  spark.pinned: true
    o: jdbc:oracle:thin:@//h:1521/x  o: jdbc:sqlserver://h:1433;database=d;encrypt=true
    o: https://h.example:8443/a@b/c  o: https://repo.example/maven2/x  o: -Da=b -Xmx1g  o: monkey=banana
    o: Could not connect to tcp://localhost:61616: user x@y is unknown
"""


@rows("entry", texts(SECRETS))
def test_a_secret_is_masked(entry: str) -> None:
    key, _, value = entry.partition(": ")
    shown = json.dumps(mask({key: value}))
    assert MASK in shown
    assert not any(part in shown for part in ("SEK", "RET", "KRET")), shown


@rows("entry", texts(OPEN))
def test_what_is_no_secret_is_shown(entry: str) -> None:
    key, _, value = entry.partition(": ")
    assert mask({key: value}) == {key: value}


ADAPTER = """\
provider:
  type: jms
  factory: a.B
  url: "amqp://u:SEKRET01 x@h"
  packages: ["a:b:1"]
  ApplicationUserName: u
  ApplicationPassword: "${PW}"
  properties: {Password: SEKRET03, Url: "tcp://h?password=SEKRET04"}
  java_options: ["-Dmy.pin=SEKRET05"]
connector: {ApplicationName: a, InputDestination: queue://in}
metaobjects: ./metaobjects
databases: {shop: {url: "postgresql+psycopg://u:SEKRET06 x@h/d"}}
spark:
  master: spark://a:7077
  conf:
    spark.hadoop.fs.azure.sas.a.b: SEKRET07
    spark.url: http://user:${PW}@host/
    spark.authenticate.secret: "${PW}"
    spark.executor.extraJavaOptions: -Da=b -Djavax.net.ssl.keyStorePassword=SEKRET08 -Dc=d
http: {listen: "127.0.0.1:0", tokens: [{token: SEKRET09-aaaaaaaaaaaaaaaa}]}
tracing: {endpoint: "https://c.example:4318/SEKRET10/x"}
subscriptions:
  - object: Note
    webhook:
      url: "https://hooks.example/services/SEKRET11/{Text}?key=SEKRET12"
      headers: {X-Any: SEKRET13}
"""


def test_no_output_of_a_configuration_shows_a_secret(tmp_path: Path) -> None:
    objects = "business_object: Note\nverbs: {Create: }\nattributes: {Text: {type: String}}\n"
    environment = {"PW": "SEKRET02"}
    deployment = Deployment(tmp_path, adapter=ADAPTER, metaobjects=objects, environment=environment)
    configuration = deployment.configuration
    shown = [
        as_yaml(as_document(configuration)),
        json.dumps(as_document(configuration)),
        repr(explained(configuration)),
        repr(configuration),
        str(configuration.provider),
    ]
    for text in shown:
        assert "SEKRET" not in text, text
    for text in (
        *("endpoint: https://c.example:4318/********", "postgresql+psycopg://********@h/d"),
        *("url: https://hooks.example/********", "X-Any: '********'", "http://********@host/"),
        "-Da=b -Djavax.net.ssl.keyStorePassword=******** -Dc=d",
    ):
        assert text in shown[0]
    assert configuration.subscriptions[0].name == "Note https://hooks.example"


def test_the_content_of_a_file_is_a_secret_at_every_place(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for name, content in (("db", b"SEKRET01\r\n"), ("pin", b"77\n"), ("two", b"SEKRET02\nSEKRET03\n\n")):
        (tmp_path / "run" / name).write_bytes(content)
    adapter = (
        "provider: {type: memory}\n"
        "connector: {ApplicationName: '${file:run/db}', PollQuantity: '${file:run/pin}'}\n"
        "metaobjects: ./metaobjects\n"
        "spark: {conf: {spark.a: 'x ${file:./run/two} $${NAME}'}}\n"
    )
    deployment = Deployment(
        tmp_path, adapter=adapter, metaobjects="business_object: Note\nverbs: {Create: }\n"
    )
    configuration = deployment.configuration
    connector = configuration.connector
    assert (connector.application_name, connector.poll_quantity) == ("SEKRET01", 77)
    assert dict(configuration.spark.conf) == {"spark.a": "x SEKRET02\nSEKRET03\n ${NAME}"}  # type: ignore[attr-defined]
    document = as_document(configuration)
    assert (document["connector"]["ApplicationName"], document["connector"]["PollQuantity"]) == (MASK, MASK)
    for text in (as_yaml(document), repr(explained(configuration))):
        assert "SEKRET" not in text


@rows("content", [b"\xff", b"x" * ((1 << 20) + 1)])
def test_a_file_that_is_no_text_is_a_mistake(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "secret").write_bytes(content)
    (tmp_path / "adapter.yaml").write_text(
        "provider: {type: '${file:secret}'}\nconnector: {ApplicationName: a}\n"
    )
    (problem,) = [one for one in check(tmp_path / "adapter.yaml", {}) if one.path == "provider.type"]
    assert problem.found.startswith("the file 'secret' is ")


def test_a_mistake_does_not_show_the_content_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("SEKRET\n")
    (tmp_path / "adapter.yaml").write_text(
        "provider: {type: memory}\nconnector: {ApplicationName: a, order: '${file:secret}'}\n"
    )
    (problem,) = [one for one in check(tmp_path / "adapter.yaml", {}) if one.path == "connector.order"]
    assert "SEKRET" not in str(problem)
    assert "${file:secret}" in problem.found


def test_the_log_shows_no_secret_of_a_collector(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20SEKRET-header")
    endpoint = "https://c.example:4318/SEK1/SEKRET%20path/v1/traces"
    for text in (
        f"cannot send to {endpoint}",
        "HTTPSConnectionPool(host='c.example'): Max retries exceeded with url: /SEK1/SEKRET%20path/v1/traces",
        "Failed to export span batch code: 401, reason: no SEKRET path, no bearer SEKRET-hea",
    ):
        losses = _Losses(endpoint)
        losses.emit(logging.LogRecord("opentelemetry", logging.WARNING, "", 0, text, None, None))
        reason = vars(caplog.records[-1])["reason"]
        assert MASK in reason
        assert "SEK" not in reason, reason
