"""Clusters for users' own tests: seeded and in the process, with faults on demand."""

from kafkaesque.model.errors import ConfigError
from kafkaesque.testing.faults import Faults
from kafkaesque.testing.live import LiveCluster
from kafkaesque.testing.simulated import Message, Refused, SimulatedCluster, TimedOut

__all__ = [
    "ConfigError",
    "Faults",
    "LiveCluster",
    "Message",
    "Refused",
    "SimulatedCluster",
    "TimedOut",
]
