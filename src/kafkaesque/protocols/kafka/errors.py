"""What a peer that speaks Kafka's protocol can get wrong on the wire."""

from kafkaesque.model.errors import RequestRefused


class MalformedRequest(RequestRefused):
    """The bytes are not a message of the kind and version that they claim to be."""


class UnsupportedApi(RequestRefused):
    """The API key, or this version of it, is not spoken here; the header was read in full."""

    def __init__(self, api_key: int, api_version: int, correlation_id: int) -> None:
        super().__init__(f"API {api_key} version {api_version} is not supported")
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id


class UnsupportedApiKey(UnsupportedApi):
    """No such API here: the connection cannot be kept, as no form of answer is known."""


class UnsupportedApiVersion(UnsupportedApi):
    """The API is known, in other versions; for ApiVersions the answer is v0 with error 35."""
