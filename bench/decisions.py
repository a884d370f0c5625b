"""How long a decision of access takes: `python -m bench.decisions`.

Rough figures for whoever changes the rules' index: processor time, best of several rounds.
"""

from collections.abc import Callable
from functools import partial
from time import process_time
from timeit import repeat

from kafkaesque.access.decisions import Judge
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import Principal, User, user_principal
from kafkaesque.access.records import AnyAccessRecord, RolePut, RuleAdded, UserPut
from kafkaesque.access.roles import Role
from kafkaesque.access.rules import Effect, PatternKind, Rule
from kafkaesque.access.state import AccessState

USERS = 1_000
RULES = 10_000
ROLES = 50
ROUNDS = 7
HOST = "10.1.2.3"
ASKED = user_principal("user-7")
ROLES_ASKED = ("Role:role-7", "Role:role-8")
READ, TOPIC = Operation.READ, ResourceType.TOPIC


def make_rule(number: int) -> Rule:
    """Return one of many rules: for users and roles, literal and prefix, every tenth a deny."""
    principal = f"User:user-{number // 2 % USERS}"
    if number % 2:
        principal = f"Role:role-{number // 2 % ROLES}"
    return Rule(
        id=number,
        effect=Effect.DENY if number % 10 == 9 else Effect.ALLOW,
        principal=Principal(principal),
        operation=(READ, Operation.WRITE, Operation.ALL)[number % 3],
        resource_type=TOPIC,
        pattern=PatternKind.PREFIX if number % 3 == 0 else PatternKind.LITERAL,
        name=f"team-{number}." if number % 3 == 0 else f"team-{number}.orders",
        host="10.0.0.0/8" if number % 4 == 0 else "*",
    )


def make_state() -> AccessState:
    """Return users with two roles each, and rules for both."""
    records: list[AnyAccessRecord] = [
        UserPut(
            user=User(
                name=f"user-{each}", roles=(f"role-{each % ROLES}", f"role-{(each + 1) % ROLES}")
            )
        )
        for each in range(USERS)
    ]
    records += [RolePut(role=Role(name=f"role-{each}")) for each in range(ROLES)]
    records += [RuleAdded(rule=make_rule(number)) for number in range(1, RULES + 1)]
    return AccessState().apply_all(records)


def seconds(call: Callable[[], object], count: int) -> float:
    """Return the best round's time for one call."""
    return min(repeat(call, timer=process_time, number=count, repeat=ROUNDS)) / count


def cold_seconds(judge: Judge) -> float:
    """Return the time of a decision that is not remembered: each asks for another name.

    For each of them there is a rule, of a role, with a prefix.
    """
    mine = [
        each.name
        for each in map(make_rule, range(1, RULES + 1))
        if each.pattern is PatternKind.PREFIX and each.principal in ROLES_ASKED
    ]
    names = [f"{mine[number % len(mine)]}{number}" for number in range(10_000)]
    rounds = []
    for turn in range(ROUNDS):
        fresh = [f"{each}-{turn}" for each in names]
        rounds.append(
            min(repeat(partial(decide_each, judge, fresh), timer=process_time, number=1, repeat=1))
        )
    return min(rounds) / len(names)


def decide_each(judge: Judge, names: list[str]) -> None:
    """Ask for each name once."""
    decide = judge.decide
    for each in names:
        decide(ASKED, HOST, READ, TOPIC, each)


def remembered_seconds(judge: Judge) -> float:
    """Return the time of a decision that is remembered, the loop's own time included."""
    return (
        min(
            repeat(
                "decide(principal, host, READ, TOPIC, name)",
                globals={
                    "decide": judge.decide,
                    "principal": ASKED,
                    "host": HOST,
                    "READ": READ,
                    "TOPIC": TOPIC,
                    "name": "team-7.orders",
                },
                timer=process_time,
                number=1_000_000,
                repeat=ROUNDS,
            )
        )
        / 1_000_000
    )


def main() -> None:
    """Print the figures."""
    state = make_state()
    judge = Judge(state)
    add = RuleAdded(rule=make_rule(RULES + 1))
    payload = state.write_snapshot()
    print(f"{RULES} rules, {USERS} users with two roles each")
    print(f"  decision, remembered       {remembered_seconds(judge) * 1e6:9.3f} µs")
    print(f"  decision, by the rules     {cold_seconds(judge) * 1e6:9.3f} µs")
    print(f"  a rule added               {seconds(lambda: state.apply(add), 20) * 1e6:9.0f} µs")
    print(f"  snapshot written           {seconds(state.write_snapshot, 3) * 1e3:9.1f} ms")
    read = seconds(lambda: AccessState.read_snapshot(payload), 3)
    print(f"  snapshot read              {read * 1e3:9.1f} ms, {len(payload)} bytes")


if __name__ == "__main__":
    main()
