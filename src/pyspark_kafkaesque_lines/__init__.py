"""Where Spark looks for the format `kafkaesque-lines`: in packages named pyspark_*."""

from kafkaesque.spark.logs.file_source import LinesSource as DefaultSource

__all__ = ["DefaultSource"]
