"""Hints name what to write instead, and positions underline the word that is wrong."""

from __future__ import annotations

import pytest

from millstream.model.errors import MillstreamError
from millstream.model.settings import ViewOptions
from millstream.plan.nodes import Stream
from millstream.plan.queries import plan_query
from millstream.plan.relations import Relation
from millstream.sql import check_query, parse_script, replacements
from millstream.sql.statements import CreateStream, CreateView, Insert, Select


def refusal(text: str) -> MillstreamError:
    try:
        for statement in parse_script(text):
            if isinstance(statement, Select | CreateView):
                check_query(statement.query, text=text, continuous=isinstance(statement, CreateView))
    except MillstreamError as error:
        return error
    raise AssertionError(f"accepted: {text}")


def underlined(error: MillstreamError) -> str:
    assert error.position is not None
    return error.position.text[error.position.start : error.position.end]


@pytest.mark.parametrize(("word", "hint"), replacements.STATEMENTS.items())
def test_statements_of_other_dialects(word: str, hint: str) -> None:
    error = refusal(f"{word} something")
    assert (error.hint, underlined(error)) == (hint, word)


@pytest.mark.parametrize(("word", "hint"), replacements.OBJECTS.items())
def test_objects_of_other_dialects(word: str, hint: str) -> None:
    error = refusal(f"CREATE {word} something")
    assert (error.hint, underlined(error)) == (hint, word)


@pytest.mark.parametrize(("name", "hint"), replacements.FUNCTIONS.items())
def test_functions_of_other_dialects(name: str, hint: str) -> None:
    arguments = "DAY, a, b" if name == "timestampdiff" else "x"
    error = refusal(f"SELECT {name}({arguments}) FROM v")
    assert (error.hint, underlined(error)) == (hint, name)


@pytest.mark.parametrize(("name", "hint"), replacements.TYPES.items())
def test_types_of_other_dialects(name: str, hint: str) -> None:
    error = refusal(f"CREATE TABLE t (id {name} PRIMARY KEY)")
    assert (error.hint, underlined(error)) == (hint, name)


@pytest.mark.parametrize(("unit", "meant"), replacements.UNITS.items())
def test_abbreviated_units(unit: str, meant: str) -> None:
    text = f"CREATE VIEW v AS SELECT count(*) FROM TUMBLE(s, ts, INTERVAL 1 {unit}) GROUP BY window_start, window_end"
    assert refusal(text).hint == f"write {meant}"


def _options_of_a_view(options: str) -> MillstreamError:
    (create,) = parse_script(f"CREATE VIEW v WITH ({options}) AS SELECT a FROM s")
    assert isinstance(create, CreateView)
    with pytest.raises(MillstreamError) as caught:
        ViewOptions.read(dict(create.options), create.position)
    return caught.value


def test_an_unknown_option_is_underlined() -> None:
    assert underlined(_options_of_a_view("retain = '1 day', backfil = 'false'")) == "backfil"


def test_a_bad_value_of_an_option_is_underlined() -> None:
    assert underlined(_options_of_a_view("backfill = 'true', retain = 'long'")) == "'long'"


def test_columns_of_an_insert_know_their_place() -> None:
    (insert,) = parse_script("INSERT INTO s (a, bb) VALUES (1, 2)")
    assert isinstance(insert, Insert)
    error = MillstreamError("UNKNOWN_COLUMN", "no").moved(getattr(insert.columns[1], "position", None))
    assert (insert.columns, underlined(error)) == (("a", "bb"), "bb")


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        ("TUMBLE(s, tss, INTERVAL 1 MINUTE)", "tss"),
        ("SESSION(s PARTITION BY kk, ts, INTERVAL 1 MINUTE)", "kk"),
        ("HOP(s, nope, INTERVAL 1 MINUTE, INTERVAL 2 MINUTES)", "nope"),
    ],
)
def test_an_unknown_column_of_a_window_call_is_underlined(call: str, wrong: str) -> None:
    (stream,) = parse_script("CREATE STREAM s (k BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
    assert isinstance(stream, CreateStream)
    known = Stream("s", stream.schema, stream.watermark, None)
    text = f"CREATE VIEW v AS SELECT window_start, count(*) AS n FROM {call} GROUP BY window_start, window_end, k"
    (create,) = parse_script(text)
    assert isinstance(create, CreateView)
    with pytest.raises(MillstreamError) as caught:
        plan_query(create, lambda name: Relation("s", known.schema.names(), known), lambda *_: [])
    assert underlined(caught.value) == wrong
