"""docs/metrics.md and the metrics that are registered are the same: names, types, labels."""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module

import pytest
from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase

import adapters
import fleet
import policies
import virtualnode

# What prometheus-client brings along.
OF_PYTHON = re.compile(r"(python|process)_")


@pytest.fixture(scope="module")
def registered():
    """(type, labels) by the name that stands in the text format, of every metric of ours."""
    for package in (fleet, adapters, virtualnode, policies):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    found = {}
    for collector in list(REGISTRY._collector_to_names):
        if not isinstance(collector, MetricWrapperBase):
            names = [each.name for each in collector.collect()]
            assert all(map(OF_PYTHON.match, names)), f"{names}: not a metric this test can read"
            continue
        (described,) = collector.describe()
        suffix = "_total" if described.type == "counter" else ""
        found[described.name + suffix] = (described.type, list(collector._labelnames))
    return found


def test_every_metric_is_in_the_reference_with_its_type_and_labels(registered, page, code):
    documented = {
        code(row["Metric"])[0]: (row["Type"], code(row["Labels"]))
        for row in page("metrics.md").rows()
    }
    assert documented == registered


def test_every_label_is_explained(registered, page):
    text = page("metrics.md").text
    for name, (_, labels) in registered.items():
        for label in labels:
            assert label == "member" or re.search(rf"^- `{label}` is ", text, re.M), (name, label)


def test_every_metric_in_an_expression_exists(registered, page):
    for name in re.findall(r"\bfleet_[a-z_]+", page("metrics.md").text):
        assert name in registered


def test_every_metric_begins_with_the_projects_name(registered):
    assert all(name.startswith("fleet_") for name in registered)
