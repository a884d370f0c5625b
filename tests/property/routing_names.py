"""Names and filters of all grammars for tests, and a matcher that is as plain as can be."""

from hypothesis import strategies as st

from kafkaesque.routing.names import AMQP, MANY, MQTT, NATS, ONE, FilterLevels, Levels, NameFilter

GRAMMARS = (MQTT, AMQP, NATS)

#: Few, so that names and filters meet; and whatever the grammars treat in a way of its own.
WORDS = ("a", "b", "", "$SYS", "$", "%", "%25", "+", "#", "*", ">", "a/b", "a.b", "%2E", "é")

levels = st.sampled_from(WORDS)
names = st.lists(levels, min_size=1, max_size=5).map(tuple)
plain_names = st.lists(st.sampled_from(("a", "b", "", "$SYS")), min_size=1, max_size=5).map(tuple)

_wild = st.lists(st.one_of(levels, st.just(ONE)), min_size=1, max_size=5)


@st.composite
def filter_texts(draw: st.DrawFn) -> NameFilter:
    """A filter as a client writes it, of names with up to eight levels of few words."""
    grammar = draw(st.sampled_from(GRAMMARS))
    wildcards = [grammar.one] * 2 + [grammar.many] * 2 * (grammar is AMQP)
    words = draw(st.lists(st.sampled_from(["a", "b", "c", *wildcards]), min_size=1, max_size=8))
    if draw(st.booleans()):
        words[-1] = grammar.many
    return grammar.read_filter(grammar.separator.join(words))


@st.composite
def filters(draw: st.DrawFn) -> NameFilter:
    """A filter that some protocol can have said, in the order in which it is read."""
    kind = draw(st.sampled_from(("mqtt", "amqp", "nats")))
    words = draw(_wild)
    if draw(st.booleans()):
        words = [*words[:-1], MANY]
    if kind == "amqp" and draw(st.booleans()):
        words = ["a", MANY, *words] if draw(st.booleans()) else [MANY, "b", *words]
    first = words[0]
    return NameFilter(
        levels=tuple(words), skips_dollar=kind == "mqtt" and not isinstance(first, str)
    )


def matches(name_filter: NameFilter, name: Levels) -> bool:
    """Whether a filter matches, by its definition."""
    if name_filter.skips_dollar and name[0][:1] == "$":
        return False
    return _rest_matches(name_filter.levels, name)


def _rest_matches(levels: FilterLevels, name: Levels) -> bool:
    if not levels:
        return not name
    if levels[0] is MANY:
        return any(_rest_matches(levels[1:], name[skip:]) for skip in range(len(name) + 1))
    if not name:
        return False
    return (levels[0] is ONE or levels[0] == name[0]) and _rest_matches(levels[1:], name[1:])
