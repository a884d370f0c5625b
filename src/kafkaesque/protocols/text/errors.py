"""What a person at the text port did wrong."""

from kafkaesque.model.errors import KafkaesqueError


class BadCommand(KafkaesqueError):
    """A line that cannot be done as it stands; says what is wrong and shows the right form."""

    def __init__(self, what: str, example: str) -> None:
        super().__init__(what)
        self.what = what
        self.example = example
