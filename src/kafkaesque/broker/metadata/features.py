"""What a cluster may use, so that brokers of two releases can run side by side.

A feature has a level. Each broker says at its registration which levels it knows; the cluster's
level is in the metadata, and no broker uses what a higher one brings. A new cluster begins with the
highest level that its first broker knows. It is raised by hand (UpdateFeatures) when every broker
has been replaced by one that knows it, and a broker that does not is refused from then on.
"""

from collections.abc import Mapping
from typing import Final

#: What the controller's log may hold. 1: as before levels. 2: replicas that move (ADR 17), and
#: the recovery of groups that lost their majority (ADR 16). 3: controllers that change (ADR 19).
#: 4: options of groups. 5: where each of a broker's listeners is.
#: 6: users, credentials and rules; keys of encrypted topics; gossip is sealed; queues;
#: virtual hosts, exchanges and bindings.
METADATA: Final = "kafkaesque.metadata.version"
LEVEL_WITH_MOVES: Final = 2
LEVEL_WITH_RECOVERY: Final = 2
LEVEL_WITH_CONTROLLERS: Final = 3
LEVEL_WITH_GROUP_OPTIONS: Final = 4
LEVEL_WITH_LISTENERS: Final = 5
LEVEL_WITH_ACCESS: Final = 6
LEVEL_WITH_QUEUES: Final = 6
LEVEL_WITH_EXCHANGES: Final = 6

Ranges = Mapping[str, tuple[int, int]]

#: The levels that this release knows.
KNOWN: Final[Ranges] = {METADATA: (1, 6)}
#: What a broker knows that says nothing of a feature, and the level where nothing is written down.
UNSAID: Final = (1, 1)
