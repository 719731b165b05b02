"""The page about the metrics has each metric, and the alerts and the dashboard ask for no other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import parser

from connector.operate.activity import Activity
from connector.operate.gauges import Gauges
from connector.operate.metrics import InstanceMetrics

ROOT = Path(__file__).resolve().parents[2] / "docs/reference"
_NAME = re.compile(r"\bconnector_\w+")
_SELECTOR = re.compile(r"(connector_\w+)(?:\{([^}]*)\})?")


def _families() -> dict[str, tuple[str, set[str]]]:
    """Each metric by its name on the page: type and labels."""
    activity = Activity()
    activity.count_outcome("queue://a", "failed", 1, "refused", "no shelf")
    activity.count_batch(0.1, 1)
    activity.conversions.add("Order", 0.1)
    activity.deliveries.add("store", 0.1)
    activity.add_request("Customer", "SUCCEED", 0.1)
    gauges = Gauges(
        version="1",
        application="shop",
        inputs={"queue://a": (1, 1.0)},
        error_waiting=1,
        paused=["queue://a"],
        resting=["store"],
        databases={"shop": True},
        disk_free=1,
        disk_wanted=1,
        last_good_poll=1.0,
    )
    text, _ = InstanceMetrics(activity, lambda: gauges).text("")
    found = {}
    for family in parser.text_string_to_metric_families(text.decode()):
        assert family.samples, family.name
        assert family.documentation, family.name
        labels = set().union(*(sample.labels for sample in family.samples)) - {"le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = family.type, labels
    return found


def test_the_page_has_each_metric_with_its_type_and_labels() -> None:
    shown = {}
    kind = ""
    for line in (ROOT / "metrics.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in ("counter", "histogram", "gauge"):
            kind = cells[0]
        elif cells[0].startswith("`connector_"):
            shown[cells[0].strip("`")] = kind, set(re.findall(r"`(\w+)`", cells[1]))
    assert shown == _families()


def _expressions() -> list[str]:
    rules = yaml.safe_load((ROOT / "monitoring/alerts.yaml").read_text("utf-8"))
    dashboard: dict[str, Any] = json.loads((ROOT / "monitoring/dashboard.json").read_text("utf-8"))
    alerts = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    panels = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(alerts) > 8
    assert len(panels) > 20
    return alerts + panels


def test_alerts_and_dashboard_ask_only_for_metrics_and_labels_that_there_are() -> None:
    families = _families()
    for expression in _expressions():
        assert expression.count("(") == expression.count(")"), expression
        for name, selector in _SELECTOR.findall(expression):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in families or families.get(base, ("",))[0] == "histogram", expression
            labels = families.get(name, families.get(base, ("", set())))[1]
            for label in re.findall(r"(\w+)\s*=", selector):
                assert label in labels | {"job", "instance"}, expression
        for names in re.findall(r"by \(([^)]*)\)", expression):
            metric = _NAME.search(expression[expression.index(f"by ({names})") :])
            assert metric is not None
            base = re.sub(r"_(bucket|sum|count)$", "", metric[0])
            labels = families.get(metric[0], families.get(base, ("", set())))[1]
            assert set(names.split(", ")) <= labels | {"job", "instance", "le"}, expression


def test_the_panels_of_the_dashboard_lie_side_by_side() -> None:
    dashboard = json.loads((ROOT / "monitoring/dashboard.json").read_text("utf-8"))
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
