"""What can go wrong with a table; each message is one sentence for people."""

from kafkaesque.spark.errors import ConnectorError


class TableError(ConnectorError):
    """A table cannot be read or written as it is."""


class Overlap(TableError):
    """Rows that the table has already, or whose successors it has, were to be appended."""


class NotRepeated(TableError):
    """A micro-batch comes again and is not what it was."""


class Busy(TableError):
    """Others commit to the table so often that this commit found no place between theirs."""
