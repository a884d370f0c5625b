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
#: Controllers 1 and 2 of three come back with empty disks; that of broker 1 is found again.
_DISKS_LOST = """
unit=1; stop 1; stop 2
mv data-1 data-1.old; mkdir data-1; rm -r data-2
start 1; start 2
for each in 1 2; do until grep -q "has an empty directory" broker-$each.log; do :; done; done
"""
_DATA_1 = {"/srv/kafkaesque": "data-1"}
_EACH_HAS_ALL = """
kafkaesque topic delete orders --yes
kafkaesque topic create orders --partitions 3 --replication-factor 4
kafkaesque publish orders order-1 order-2 order-3
stop 1
"""
_COPIED = """
test $(kafkaesque consume orders --from-beginning --until-end | sort | uniq -d | wc -l) = 3
start 1; whole 4
"""
#: Of the replicas of partition 3, one is left.
_MAJORITY_LOST = """
kafkaesque topic delete orders --yes
kafkaesque topic create orders --partitions 4 --replication-factor 3
kafkaesque topic reassign orders --partition 3 --replicas 4,3,2
kafkaesque publish orders --partition 3 kept
stop 3; stop 4; rm -r data-3 data-4
"""
_ASKED = 'python "$CHECKOUT/tests/documentation/prompts.py" y -- kafkaesque topic elect'
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
        "systemctl stop kafkaesque ": Step(
            before=_DISKS_LOST, replaced=_DATA_1, instead={"--brokers 3": "--brokers 4"}
        ),
        "kafkaesque log dump": Step(
            before=_EACH_HAS_ALL,
            replaced=_DATA_1,
            instead={"NEW:9092": "$SERVERS"},
            after=_COPIED,
        ),
        "kafkaesque topic describe orders": Step(
            before=_MAJORITY_LOST,
            instead={"kafkaesque topic elect": _ASKED},
            check="kafkaesque consume orders --partition 3 --from-beginning --max 1 | grep kept",
        ),
    },
}
