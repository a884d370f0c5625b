"""Changes of options of topics, brokers and groups, and of client quotas, checked.

Pure functions over `ClusterState`; `planner.py` calls them.
"""

from collections.abc import Mapping

from kafkaesque.broker.metadata.client_quotas import ENTITIES_MAX, check_quota, make_entity
from kafkaesque.broker.metadata.cluster_state import ALL_BROKERS, ClusterState
from kafkaesque.broker.metadata.feature_planner import (
    check_may_encrypt,
    check_may_set_group_options,
)
from kafkaesque.broker.metadata.plan import Plan, PlanInputs
from kafkaesque.broker.metadata.records import (
    AnyMetadataRecord,
    BrokerConfigChanged,
    ClientQuotaChanged,
    GroupConfigChanged,
    TopicConfigChanged,
)
from kafkaesque.broker.metadata.topic_names import (
    AUDIT_TOPIC,
    RETAINED_TOPIC,
    SCHEMAS_TOPIC,
    SESSION_MESSAGES_TOPIC,
    TABLE_TOPICS,
)
from kafkaesque.broker.options.encryption import ENCRYPTION, NONE
from kafkaesque.broker.options.groups import (
    GROUP_OPTIONS,
    GROUPS_MAX,
    check_group_name,
    check_group_options,
)
from kafkaesque.broker.options.tables import BROKER_OPTIONS, TOPIC_OPTIONS
from kafkaesque.broker.requests.commands import (
    ChangeConfig,
    ChangeGroupConfig,
    ChangeQuotas,
    ConfigChange,
    Done,
)
from kafkaesque.model.errors import ConfigError, InvalidConfig, InvalidRequest, OverBound
from kafkaesque.model.ids import NodeId, read_node
from kafkaesque.model.options import Option, OptionTable, OptionType


def check_policy(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Let nobody have the brokers' own records deleted by their age.

    Other options of a topic that is so from before may be changed all the same.
    """
    policy = "cleanup.policy"
    is_changed = before.get(policy) != after.get(policy)
    if name == AUDIT_TOPIC and is_changed and after.get(policy) != "delete":
        raise InvalidConfig(
            f"{name} is the audit log, and its {policy} must be delete: compaction would remove "
            "entries from the middle of it"
        )
    if name == SCHEMAS_TOPIC and is_changed and after.get(policy) != "compact":
        raise InvalidConfig(
            f"{name} is an internal topic, and its {policy} must be compact: otherwise schemas "
            "would be deleted in time"
        )
    if name == RETAINED_TOPIC and is_changed and after.get(policy) != "compact":
        raise InvalidConfig(
            f"{name} is an internal topic, and its {policy} must be compact: otherwise retained "
            "messages would be deleted in time"
        )
    if name == SESSION_MESSAGES_TOPIC and is_changed and after.get(policy) != "delete":
        raise InvalidConfig(
            f"{name} is an internal topic, and its {policy} must be delete: compaction would "
            "remove messages that sessions of MQTT still want"
        )
    if name in TABLE_TOPICS and is_changed and after.get(policy) != "compact":
        raise InvalidConfig(
            f"{name} is an internal topic, and its {policy} must be compact: otherwise committed "
            "offsets and the state of transactions would be deleted in time"
        )


def check_encryption(
    state: ClusterState, name: str, before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    """Let no topic be encrypted of which some broker could not read what is encrypted."""
    wanted = after.get(ENCRYPTION, NONE)
    if wanted in (NONE, before.get(ENCRYPTION)):
        return
    check_may_encrypt(state)


def checked_topic_options(
    before: Mapping[str, str], configs: Mapping[str, str], inputs: PlanInputs
) -> dict[str, str]:
    """Return a topic's options, each checked, and what has changed against the others."""
    try:
        values = TOPIC_OPTIONS.defaults()
        for option in TOPIC_OPTIONS:
            if option.broker_name is not None:
                values[option.name] = inputs.broker_option(option.broker_name)
        values.update(TOPIC_OPTIONS.parse(configs))
        TOPIC_OPTIONS.check_orders(values.__getitem__, _differing(before, configs))
    except ConfigError as error:
        raise InvalidConfig(str(error)) from None
    return dict(configs)


def _checked_broker(
    state: ClusterState, node: NodeId, configs: Mapping[str, str], inputs: PlanInputs
) -> dict[str, str]:
    """Return a broker's options, each checked, and what has changed against the others.

    What is set for all brokers has to fit on each of them.
    """
    layers = {**state.broker_configs, node: configs}
    changed = _differing(state.broker_configs.get(node, {}), configs)
    try:
        BROKER_OPTIONS.parse(configs)
        for each in layers if node == ALL_BROKERS else (node,):
            values = {name: inputs.start_option(name) for name in BROKER_OPTIONS.names()}
            for layer in (ALL_BROKERS, each):
                values.update(BROKER_OPTIONS.parse_stored(layers.get(layer, {}))[0])
            BROKER_OPTIONS.check_orders(values.__getitem__, changed)
    except ConfigError as error:
        raise InvalidConfig(str(error)) from None
    return dict(configs)


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


def plan_config(state: ClusterState, command: ChangeConfig, inputs: PlanInputs) -> Plan:
    """Return the record of a changed topic or broker.

    Raises:
        RequestRefused: an option is unknown, fixed, or out of bounds.
    """
    record: AnyMetadataRecord
    if command.topic is not None:
        topic = state.topic(command.topic)
        configs = _changed(TOPIC_OPTIONS, topic.configs, command)
        check_policy(topic.name, topic.configs, configs)
        check_encryption(state, topic.name, topic.configs, configs)
        configs = checked_topic_options(topic.configs, configs, inputs)
        record = TopicConfigChanged(topic_id=topic.topic_id, configs=configs)
    else:
        node = read_node(command.node)
        if node != ALL_BROKERS and node not in state.brokers:
            raise InvalidRequest(f"there is no broker {node}")
        current = state.broker_configs.get(node, {})
        configs = _changed(BROKER_OPTIONS, current, command)
        configs = _checked_broker(state, node, configs, inputs)
        record = BrokerConfigChanged(node=command.node, configs=configs)
    return Plan(records=[] if command.validate_only else [record], result=Done())


def plan_group_config(state: ClusterState, command: ChangeGroupConfig, inputs: PlanInputs) -> Plan:
    """Return the record of a group's changed options; none if nothing changes.

    Raises:
        RequestRefused: an option is unknown or out of bounds.
    """
    check_may_set_group_options(state)
    check_group_name(command.group)
    current = state.group_configs.get(command.group, {})
    configs = _changed(GROUP_OPTIONS, current, command)
    try:
        check_group_options(configs, inputs.broker_option)
    except ConfigError as error:
        raise InvalidConfig(str(error)) from None
    if configs and not current and len(state.group_configs) >= GROUPS_MAX:
        raise OverBound(f"{GROUPS_MAX} groups have options already")
    is_news = configs != current and not command.validate_only
    record = GroupConfigChanged(group=command.group, configs=configs)
    return Plan(records=[record] if is_news else [], result=Done())


def _changed(
    table: OptionTable, current: Mapping[str, str], command: ChangeConfig | ChangeGroupConfig
) -> dict[str, str]:
    configs = {} if command.replace_all else dict(current)
    seen: list[str] = []
    for change in command.changes:
        if change.name in seen:
            raise InvalidRequest(f"option {change.name!r} is named twice")
        seen.append(change.name)
        _change_one(table, configs, change)
    return configs


def _change_one(table: OptionTable, configs: dict[str, str], change: ConfigChange) -> None:
    try:
        option = table.get(change.name)
    except ConfigError as error:
        raise InvalidConfig(str(error)) from None
    if not option.dynamic:
        raise InvalidConfig(f"option {option.name} can only be changed by restarting the broker")
    if change.operation == "delete":
        configs.pop(option.name, None)
        return
    if change.value is None:
        raise InvalidConfig(f"option {option.name} needs a value")
    if change.operation == "set":
        configs[option.name] = change.value
        return
    configs[option.name] = _changed_list(option, configs, change)


def _changed_list(option: Option, configs: Mapping[str, str], change: ConfigChange) -> str:
    if option.type is not OptionType.LIST:
        raise InvalidConfig(f"option {option.name} is not a list: it has no append or subtract")
    assert change.value is not None
    words = [word for word in configs.get(option.name, str(option.default)).split(",") if word]
    given = [word.strip() for word in change.value.split(",")]
    if change.operation == "append":
        words.extend(word for word in given if word not in words)
    elif change.operation == "subtract":
        words = [word for word in words if word not in given]
    else:
        raise InvalidRequest(f"unknown operation {change.operation!r}")
    return ",".join(words)


def plan_quotas(state: ClusterState, command: ChangeQuotas) -> Plan:
    """Return the record of a client's changed quotas; none if nothing changes.

    Raises:
        RequestRefused: a quota is unknown or named twice, or too many clients have some.
    """
    entity = make_entity(command.entity)
    current = state.client_quotas.get(entity, {})
    quotas = dict(current)
    seen: list[str] = []
    for change in command.changes:
        check_quota(entity, change.name, change.value)
        if change.name in seen:
            raise InvalidRequest(f"quota {change.name} is named twice")
        seen.append(change.name)
        if change.value is None:
            quotas.pop(change.name, None)
        else:
            quotas[change.name] = change.value
    if quotas and not current and len(state.client_quotas) >= ENTITIES_MAX:
        raise OverBound(f"{ENTITIES_MAX} entities have quotas already")
    is_news = quotas != current and not command.validate_only
    record = ClientQuotaChanged(entity=entity, quotas=quotas)
    return Plan(records=[record] if is_news else [], result=Done())
