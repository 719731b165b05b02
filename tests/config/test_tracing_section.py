"""The section ``tracing``: where spans go, and what they need."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

import pytest

from connector.config.resolved import as_document
from connector.errors import ConnectorError
from connector.service.assembly import make_tracer
from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample

A = "adapter.yaml"
NO_URL = "the URL of a collector, such as http://localhost:4318"


def add(deployment: Sample, section: str) -> None:
    deployment.write(A, deployment.read(A) + f"\n{section}\n")


def test_without_the_section_there_are_no_traces(deployment: Sample) -> None:
    assert deployment.load().tracing is None
    assert make_tracer(deployment.load()) is None


def test_an_empty_section_exports_all_traces(deployment: Sample) -> None:
    add(deployment, "tracing: {}")
    tracing = deployment.load().tracing
    assert tracing is not None
    assert (tracing.endpoint, tracing.service, tracing.sample) == (None, None, 1.0)
    assert as_document(deployment.load())["tracing"] == {"sample": 1.0}


@rows("text, share", [("0", 0.0), ("1", 1.0), ("0.25", 0.25), ("1.0", 1.0)])
def test_a_sample_is_a_share(deployment: Sample, text: str, share: float) -> None:
    add(deployment, f"tracing: {{sample: {text}}}")
    tracing = deployment.load().tracing
    assert tracing is not None
    assert tracing.sample == share


@rows(
    "section, key, expected",
    [
        ("endpoint: localhost:4318", "endpoint", NO_URL),
        ("endpoint: 'grpc://collector:4317'", "endpoint", NO_URL),
        ("endpoint: 'http://'", "endpoint", NO_URL),
        ("endpoint: 'http://collector:99999'", "endpoint", NO_URL),
        ("endpoint: 'http://u:s3cr3t@collector'", "endpoint", "OTEL_EXPORTER_OTLP_HEADERS"),
        ("sample: 2", "sample", "a share from 0 to 1"),
        ("sample: -0.1", "sample", "a share from 0 to 1"),
        ("sample: 10%", "sample", "a share from 0 to 1"),
        ("endpont: http://collector", "endpont", "did you mean 'endpoint'?"),
    ],
)
def test_a_mistake_has_its_place(deployment: Sample, section: str, key: str, expected: str) -> None:
    add(deployment, f"tracing: {{{section}}}")
    (problem,) = deployment.check()
    assert problem.path == f"tracing.{key}"
    assert problem.line
    assert expected in str(problem)
    assert "s3cr3t" not in str(problem)


def test_the_packages_are_looked_for(deployment: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    add(deployment, "tracing: {}")
    find = importlib.util.find_spec

    def find_others(name: str, *more: Any) -> Any:
        return None if name.startswith("opentelemetry") else find(name, *more)

    monkeypatch.setattr("connector.config.tracing_model.find_spec", find_others)
    (problem,) = deployment.check()
    assert (problem.path, problem.expected) == ("tracing", "pip install 'event-connector[otel]'")


def test_a_start_without_the_packages_says_what_to_install(
    deployment: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(deployment, "tracing: {}")
    tracer = make_tracer(deployment.load())
    assert tracer is not None
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConnectorError, match=r"pip install 'event-connector\[otel\]'"):
        tracer.open()
