"""Where Spark looks for the format `lakehouse`: packages named pyspark_* are searched for it."""

from kafkaesque.spark.lakehouse.data_source import LakehouseDataSource as DefaultSource

__all__ = ["DefaultSource"]
