"""Connections that outlive a task: Spark's Python workers run one task after the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafkaesque.spark.cluster import Cluster, ClusterOptions

#: A worker speaks with few clusters.
CLUSTERS_MAX = 4

_kept: dict[ClusterOptions, Cluster] = {}


@contextmanager
def borrowed_cluster(options: ClusterOptions) -> Iterator[Cluster]:
    """Lend a cluster whose connections may be open already; not to two at a time.

    They are closed when the block fails or leaves an answer unread.
    """
    cluster = _kept.pop(options, None) or Cluster(options)
    try:
        yield cluster
    except BaseException:
        cluster.close()
        raise
    if cluster.is_waiting or len(_kept) >= CLUSTERS_MAX:
        cluster.close()
    elif options in _kept:
        cluster.close()
    else:
        _kept[options] = cluster
