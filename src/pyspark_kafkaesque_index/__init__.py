"""Where Spark looks for the format `kafkaesque-index`: in packages named pyspark_*."""

from kafkaesque.spark.logs.index_sink import IndexSource as DefaultSource

__all__ = ["DefaultSource"]
