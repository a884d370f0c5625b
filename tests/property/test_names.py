"""Names go through all grammars and back; filters mean the same in each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.routing.errors import BadName, NotExpressible
from kafkaesque.routing.names import (
    Grammar,
    Levels,
    NameFilter,
    key_of_levels,
    levels_of_key,
)
from tests.property.routing_names import GRAMMARS, filters, matches, names

grammars = st.sampled_from(GRAMMARS)
#: Texts with much of what is special in one grammar or another.
texts = st.text(st.sampled_from("a%25EFB03/.+#*> \0é"), max_size=30)
any_names = st.lists(texts, min_size=1, max_size=6).map(tuple)


@given(name=any_names, grammar=grammars)
def test_a_name_that_is_written_is_read_as_the_same(name: Levels, grammar: Grammar) -> None:
    text = grammar.write_name(name)
    if len(text.encode()) <= grammar.name_bytes_max:
        assert grammar.read_name(text) == name
        assert grammar.key_of(text) == key_of_levels(name)
    assert levels_of_key(key_of_levels(name)) == name


@given(text=texts, grammar=grammars)
def test_a_text_has_a_key_if_it_is_a_name(text: str, grammar: Grammar) -> None:
    try:
        name = grammar.read_name(text)
    except BadName:
        with pytest.raises(BadName):
            grammar.key_of(text)
        return
    assert grammar.key_of(text) == key_of_levels(name)


@given(text=texts, grammar=grammars)
def test_a_text_that_is_read_is_written_as_the_same(text: str, grammar: Grammar) -> None:
    try:
        name = grammar.read_name(text)
    except BadName:
        return
    assert grammar.write_name(name) == text


@given(name=any_names, through=st.lists(grammars, min_size=1, max_size=4))
def test_a_name_survives_every_way_through_the_grammars(
    name: Levels, through: list[Grammar]
) -> None:
    found = name
    for grammar in through:
        text = grammar.write_name(found)
        if len(text.encode()) > grammar.name_bytes_max:
            return
        found = grammar.read_name(text)
    assert found == name


@given(name_filter=filters(), name=names)
def test_matching_is_what_its_definition_says(name_filter: NameFilter, name: Levels) -> None:
    assert name_filter.matches(name) == matches(name_filter, name)


@given(name_filter=filters(), name=names, grammar=grammars)
def test_a_filter_means_the_same_in_each_grammar_that_has_it(
    name_filter: NameFilter, name: Levels, grammar: Grammar
) -> None:
    try:
        written = grammar.write_filters(name_filter)
    except NotExpressible:
        return
    read = [grammar.read_filter(text) for text in written]
    plain = NameFilter(levels=name_filter.levels)
    found = any(matches(NameFilter(levels=each.levels), name) for each in read)
    assert found == matches(plain, name)
