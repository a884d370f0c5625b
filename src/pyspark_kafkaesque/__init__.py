"""Where Spark looks for the format `kafkaesque`: packages named pyspark_* are searched for it."""

from kafkaesque.spark.data_source import KafkaesqueDataSource as DefaultSource

__all__ = ["DefaultSource"]
