"""Pipelines: projects of Spark Declarative Pipelines, run once or continuously, and watched."""
