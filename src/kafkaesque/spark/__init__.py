"""The connector to Apache Spark: topics as tables and streams, written exactly once."""
