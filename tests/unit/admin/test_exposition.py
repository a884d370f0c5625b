"""What `/metrics` writes is what Prometheus's own parser reads."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafkaesque.admin import metric_table
from kafkaesque.admin.exposition import Sheet
from kafkaesque.admin.metric_table import SECTIONS, Kind
from kafkaesque.model.histogram import Histogram

METRICS = [metric for section in SECTIONS for metric in section.metrics]
STRANGE = 'a "b"\\c\nd{e="f"}, é'


def test_the_official_parser_reads_every_metric_back() -> None:
    sheet = Sheet()
    for number, metric in enumerate(METRICS):
        value: float | Histogram = number + 0.5
        if metric.kind is Kind.HISTOGRAM:
            value = Histogram((0.1, 1.0))
            for each in (0.05, 0.1, 0.5, 3.0):
                value.observe(each)
        sheet.add(metric, value, *[STRANGE for _ in metric.labels])
    families = {each.name: each for each in text_string_to_metric_families(sheet.write().decode())}
    for number, metric in enumerate(METRICS):
        family = families[metric.name.removesuffix("_total")]
        assert family.type == metric.kind.value
        assert family.documentation == metric.doc
        assert all(
            sample.labels.get(name) == STRANGE
            for sample in family.samples
            for name in metric.labels
        )
        if metric.kind is Kind.HISTOGRAM:
            buckets = [s.value for s in family.samples if s.name.endswith("_bucket")]
            assert buckets == [2, 3, 4]
            assert [s.value for s in family.samples if s.name.endswith("_sum")] == [3.65]
            assert [s.value for s in family.samples if s.name.endswith("_count")] == [4]
        else:
            assert [s.value for s in family.samples] == [number + 0.5]


def test_names_are_unique_and_end_as_prometheus_has_it() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
        assert "client" not in metric.labels


def test_a_sample_with_too_few_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="peer"):
        Sheet().add(metric_table.PEER_ALIVE, 1)


def test_a_value_on_a_bound_lies_below_it_and_one_above_all_in_the_last_bucket() -> None:
    histogram = Histogram((1, 2))
    for value in (0, 1, 1.5, 2, 99):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]
    assert (histogram.count, histogram.sum) == (5, 103.5)
