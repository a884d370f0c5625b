"""HTTP statuses of what brokers refuse."""

from typing import Final

from kafkaesque.access import errors as access
from kafkaesque.model import errors
from kafkaesque.model.errors import RequestRefused
from kafkaesque.routing.exchanges import errors as routing

_STATUSES: Final[tuple[tuple[type[RequestRefused], int], ...]] = (
    (errors.NotAuthorized, 403),
    (errors.UnknownTopicOrPartition, 404),
    (errors.UnknownTopicId, 404),
    (errors.TopicExists, 409),
    (errors.TopicNameTaken, 409),
    (errors.UnknownQueue, 404),
    (errors.QueueExists, 409),
    (access.UserUnknown, 404),
    (access.RoleUnknown, 404),
    (access.CredentialUnknown, 404),
    (routing.NoSuchVhost, 404),
    (routing.NoSuchExchange, 404),
    (routing.NoSuchQueue, 404),
    (routing.NoSuchTopic, 404),
    (routing.NoSuchTransformation, 404),
    (routing.TransformationInUse, 409),
    (routing.ExchangeReserved, 403),
    (routing.InequivalentExchange, 409),
    (routing.ExchangeInUse, 409),
    (errors.OffsetOutOfRange, 416),
    (errors.MessageTooLarge, 413),
    (errors.TopicDeletionDisabled, 403),
    (errors.LeaderNotAvailable, 503),
    (errors.NotLeader, 503),
    (errors.NotEnoughReplicas, 503),
    (errors.OffsetNotAvailable, 503),
    (errors.StorageFailed, 503),
    (errors.OverBound, 503),
    (errors.RequestTimedOut, 504),
)


def status_of(refusal: RequestRefused) -> int:
    """Return the status for a refusal; 400 where the client can only ask for something else."""
    return next((status for kind, status in _STATUSES if isinstance(refusal, kind)), 400)
