"""Kafkaesque's own brokers as a side of a measurement."""

from __future__ import annotations

from collections.abc import Mapping

from tests.clients.cluster import KafkaesqueCluster


class Kafkaesque(KafkaesqueCluster):
    """A cluster of ours, started as the client suite starts it."""

    name = "Kafkaesque"

    @staticmethod
    def topic_options(*, sync: bool) -> Mapping[str, str]:
        """Return the options of a topic whose acknowledgements wait, or not, for the disk."""
        return {"write.caching": "false" if sync else "true"}
