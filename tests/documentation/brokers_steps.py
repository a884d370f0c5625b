"""What a reader does beside typing what is about brokers that stop, start and move replicas.

`systemctl` is a function of the shell: it stops and starts a process as a service would.
"""

from __future__ import annotations

from tests.documentation.reader import Step

#: Four brokers, of which three are controllers.
STARTED = """
declare -A pids
start() { python -m kafkaesque.server --config broker-$1.toml > broker-$1.log 2>&1 & pids[$1]=$!; }
stop() { kill ${pids[$1]}; wait ${pids[$1]}; }
systemctl() { $1 $unit; }
whole() { kafkaesque cluster wait --brokers $1 --in-sync --timeout 60; }
for each in 1 2 3 4; do start $each; done
until whole 4; do :; done
kafkaesque topic create orders --partitions 3
kafkaesque queue create tasks
"""
_ROLLING = (
    "export SERVERS=$KAFKAESQUE_BOOTSTRAP_SERVER; unit=2; stop 4; kafkaesque cluster remove 4"
)
#: Whoever leads, and a broker that is no controller.
_LEADER = ((r"\b(leads|votes)\b", "VOTES"), (r"(?m)^4\s+no vote.*\n", ""))

#: By page, in the order in which they are followed, and by how the block begins.
BROKERS_STEPS: dict[str, dict[str, Step]] = {
    "docs/cli.md": {
        "$ kafkaesque cluster controllers": Step(variable=_LEADER),
        "kafkaesque topic reassign orders": Step(
            instead={
                "kafkaesque cluster remove 4 ": "stop 4; kafkaesque cluster remove 4 ",
            },
            after="start 4; whole 4",
        ),
        "kafkaesque cluster controllers add 4": Step(
            after="""
kafkaesque cluster controllers add 1
kafkaesque cluster controllers remove 4
kafkaesque cluster drain 4
""",
        ),
    },
    "docs/operations.md": {
        "export KAFKAESQUE_BOOTSTRAP_SERVER=$SERVERS": Step(
            before=_ROLLING, after="start 4; whole 4"
        ),
        "kafkaesque cluster controllers": Step(
            before="unit=1", only="kafkaesque cluster controllers   "
        ),
        "BROKER\tCONTROLLER": Step(variable=_LEADER),
    },
}
