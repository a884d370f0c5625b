"""The chassis of a broker, for whoever puts brokers together."""

from collections.abc import Callable

from kafkaesque.broker.doors import Doors
from kafkaesque.chassis.chassis import Chassis


def make_chassis(doors: Doors, report: Callable[[str], None]) -> Chassis:
    """Return what all ports of a broker stand on; there is one for each broker."""
    chassis = Chassis(
        clock=doors.clock,
        network=doors.network,
        options=doors.configuration,
        load=doors.publishing,
        client_quotas=lambda: doors.cluster.state.client_quotas,
        report=report,
        access=doors.access,
    )
    doors.configuration.on_quotas_changed(chassis.quotas.reload)
    return chassis
