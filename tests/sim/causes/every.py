"""The whole table: the rooms of injections put theirs in as they are imported."""

from tests.sim.causes import hangs, logs, messages, readers, routes
from tests.sim.causes.table import INJECTIONS, draw, one_round

__all__ = ["INJECTIONS", "draw", "hangs", "logs", "messages", "one_round", "readers", "routes"]
