"""Users' functions: the same on Spark and in the store, failing rows set aside, nothing let in that is not allowed."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import millstream as ms
from millstream.model.settings import EngineSettings
from tests.answers import rows_of
from tests.conftest import Connect
from tests.parts import parts_of

MODULE = "tests.integration.function_module"
STREAM = "CREATE STREAM s (k STRING, x BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts)"
START = datetime(2024, 1, 1)


def rows(*values: tuple[str | None, int | None]) -> list[dict[str, Any]]:
    return [{"k": k, "x": x, "ts": START + timedelta(seconds=i)} for i, (k, x) in enumerate(values)]


def scored(names: pa.Array, values: pa.Array) -> pa.Array:
    """The length of the name times the value; 13 brings bad luck."""
    if pc.any(pc.equal(values, 13)).as_py():
        raise ValueError("13 is unlucky")
    return pc.multiply(pc.cast(pc.utf8_length(names), pa.int64()), values)


def or_zero(values: pa.Array) -> pa.Array:
    return pc.fill_null(values, 0)


def later(times: pa.Array) -> pa.Array:
    assert times.type == pa.timestamp("us")
    return pc.add(times, pa.scalar(1_000_000, pa.duration("us")))


def refused(db: ms.Database, text: str) -> ms.MillstreamError:
    with pytest.raises(ms.MillstreamError) as caught:
        db.sql(text)
    return caught.value


@pytest.fixture
def db(connect: Connect) -> Any:
    database = connect()
    database.sql(STREAM)
    database.create_function("scored", scored, arguments=["STRING", "BIGINT"], returns="BIGINT")
    database.create_function("or_zero", or_zero, arguments=["BIGINT"], returns="BIGINT")
    return database


def test_a_view_and_a_query_compute_the_same(db: ms.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW by_row AS SELECT k, x, scored(k, x) AS v, or_zero(x) AS z FROM s")
    db.insert("s", rows(("a", 1), ("bé", 2), (None, 3), ("c", None)))
    db.drain()
    kept = db.query("SELECT k, v, z FROM by_row ORDER BY z, k").rows()
    asked = db.query("SELECT k, scored(k, x) AS v, or_zero(x) AS z FROM by_row ORDER BY z, k").rows()
    assert kept == asked
    assert kept == [
        {"k": "c", "v": None, "z": 0},
        {"k": "a", "v": 1, "z": 1},
        {"k": "bé", "v": 4, "z": 2},
        {"k": None, "v": None, "z": 3},
    ]


def test_keys_filters_and_arguments_of_aggregates_may_call_it(db: ms.Database) -> None:
    db.sql(
        "CREATE MATERIALIZED VIEW g AS SELECT or_zero(x) % 2 AS odd, sum(scored(k, x)) AS total, count(*) AS n "
        "FROM s WHERE or_zero(x) > 0 GROUP BY or_zero(x) % 2 HAVING or_zero(count(*)) > 0"
    )
    db.insert("s", rows(("a", 1), ("bb", 2), ("ccc", 3), ("d", None)))
    db.drain()
    db.insert("s", rows(("e", 5)))
    db.drain()
    assert db.query("SELECT * FROM g ORDER BY odd").rows() == [
        {"odd": 0, "total": 4, "n": 1},
        {"odd": 1, "total": 15, "n": 3},
    ]


def test_a_row_on_which_it_fails_is_a_dead_letter_and_the_others_go_on(db: ms.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, scored(k, x) AS v FROM s")
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(scored(k, x)) AS t, count(*) AS n FROM s")
    db.insert("s", rows(("a", 1), ("b", 13), ("c", 3)))
    db.drain()
    assert db.query("SELECT * FROM v ORDER BY k").rows() == [{"k": "a", "v": 1}, {"k": "c", "v": 3}]
    assert db.query("SELECT * FROM total").rows() == [{"t": 4, "n": 2}]
    dead = db.query("SELECT k, reason FROM s__dead").rows()
    assert {row["k"] for row in dead} == {"b"}
    (reason,) = {row["reason"] for row in dead}
    assert reason.startswith("scored: ValueError: 13 is unlucky, in scored('b', 13) at ")
    db.insert("s", rows(("d", 4)))
    db.drain()
    assert db.query("SELECT count(*) AS n FROM v").rows() == [{"n": 3}]


def picky(text: pa.Array, number: pa.Array) -> pa.Array:
    return pa.array([_checked(*row) for row in zip(text.to_pylist(), number.to_pylist(), strict=True)], pa.int64())


def _checked(text: str, number: int) -> int:
    if number > 2:
        raise KeyError(f"{text}\nand more")  # where it fails
    return number


INTERNALS = re.compile("pyspark|cloudpickle|worker|__udf_|__try|Traceback|site-packages|user_functions")


@pytest.mark.parametrize("kernel", ["auto", "spark"])
def test_each_letter_says_what_failed_on_its_row(db: ms.Database, kernel: str) -> None:
    db.sql(f"SET kernel = '{kernel}'")
    db.create_function("picky", picky, arguments=["STRING", "BIGINT"], returns="BIGINT")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, or_zero(picky(k, x)) + 1 AS p FROM s")
    db.sql(
        "CREATE MATERIALIZED VIEW w AS SELECT picky(k, x) AS p, count(*) AS n FROM s WHERE picky(k, x) > 0 GROUP BY 1"
    )
    db.insert("s", rows(("a", 1), ("b", 3), ("c", 4)))
    db.drain()
    letters = db.query("SELECT k, x, _view, reason FROM s__dead").rows()
    assert sorted((row["_view"], row["k"]) for row in letters) == [("v", "b"), ("v", "c"), ("w", "b"), ("w", "c")]
    for row in letters:
        began = f"picky: KeyError: '{row['k']}\\nand more', in picky('{row['k']}', {row['x']}) at {__file__}:"
        assert row["reason"].startswith(began), row["reason"]
        assert row["reason"].endswith('raise KeyError(f"{text}\\nand more")  # where it fails')
        assert not INTERNALS.search(row["reason"].replace(__file__, ""))


def test_an_argument_that_fails_is_shown_as_it_was_written(db: ms.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT or_zero(scored(k, k)) AS p FROM s WHERE or_zero(k) >= 0")
    db.insert("s", rows(("x", 1)))
    db.drain()
    (letter,) = db.query("SELECT reason FROM s__dead").rows()
    assert re.match(r"or_zero\(k\) >= 0: \[CAST_INVALID_INPUT\] The value 'x'", letter["reason"]), letter["reason"]
    assert not INTERNALS.search(letter["reason"])


def test_a_failing_argument_is_the_failure_of_its_row_only(db: ms.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT x, or_zero(or_zero(12 div x)) AS v FROM s WHERE x <> 4")
    db.insert("s", rows(("a", 1), ("b", 0), ("c", 4), ("d", None)))
    db.drain()
    assert db.query("SELECT * FROM v").rows() == [{"x": 1, "v": 12}]
    (dead,) = db.query("SELECT k, reason FROM s__dead").rows()
    assert dead["k"] == "b"
    assert "zero" in dead["reason"].lower()


def test_a_row_that_is_filtered_out_does_not_fail(db: ms.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, scored(k, x) AS v FROM s WHERE x <> 13")
    db.insert("s", rows(("a", 13), ("b", 2)))
    db.drain()
    assert db.query("SELECT * FROM v").rows() == [{"k": "b", "v": 2}]
    assert db.query("SELECT * FROM s__dead").rows() == []


def test_a_query_on_which_it_fails_says_why(db: ms.Database) -> None:
    error = refused(db, "SELECT scored('a', 13L) AS v")
    assert error.code == "EXPRESSION_FAILED"
    assert error.message.startswith("scored: ValueError: 13 is unlucky, in scored('a', 13) at ")


@pytest.mark.parametrize(
    ("returns", "value"),
    [
        ("BOOLEAN", True),
        ("TINYINT", -128),
        ("DOUBLE", 0.1),
        ("DECIMAL(10, 2)", Decimal("1.25")),
        ("STRING", "\U0001f600"),
        ("BINARY", b"\x00\xff"),
        ("DATE", datetime(1582, 10, 10).date()),
        ("TIMESTAMP", datetime(2024, 2, 29, 1, 2, 3, 4)),
        ("ARRAY<STRING>", ["a", None]),
    ],
)
def test_values_of_every_type_pass_through(db: ms.Database, returns: str, value: Any) -> None:
    db.sql(f"CREATE STREAM typed (v {returns})")
    db.create_function("same_value", lambda values: values, arguments=[returns], returns=returns)
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT same_value(v) AS v FROM typed")
    db.insert("typed", [{"v": value}, {"v": None}])
    db.drain()
    seen = [row["v"] for row in db.query("SELECT v FROM w").rows()]
    asked = [row["v"] for row in db.query("SELECT same_value(v) AS v FROM w").rows()]
    assert sorted(map(repr, seen)) == sorted(map(repr, asked)) == sorted([repr(value), "None"])


def test_instants_have_no_zone(db: ms.Database) -> None:
    db.create_function("later", later, arguments=["TIMESTAMP"], returns="TIMESTAMP")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT later(ts) AS t FROM s")
    db.insert("s", rows(("a", 1)))
    db.drain()
    assert db.query("SELECT t, later(t) AS u FROM v").rows() == [
        {"t": START + timedelta(seconds=1), "u": START + timedelta(seconds=2)}
    ]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda values: [1], "function f: it must return a pyarrow.Array, not list"),
        (lambda values: pa.array([1, 2]), "function f: it returned 2 values for 0 rows"),
        (lambda values: pa.array([], pa.string()), "function f: it must return BIGINT, not Arrow's string"),
    ],
)
def test_a_wrong_result_is_refused_when_the_function_is_created(db: ms.Database, function: Any, message: str) -> None:
    with pytest.raises(ms.MillstreamError) as caught:
        db.create_function("f", function, arguments=["BIGINT"], returns="BIGINT")
    assert (caught.value.code, caught.value.message) == ("BAD_FUNCTION", message)
    assert parts_of(db).functions.find("f") is None


def test_a_result_of_the_wrong_length_is_the_reason_of_dead_letters(db: ms.Database) -> None:
    db.create_function("f", lambda v: pa.array([0] * (2 * len(v)), pa.int64()), arguments=["BIGINT"], returns="BIGINT")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT f(x) AS v FROM s")
    db.insert("s", rows(("a", 1), ("b", 2)))
    db.drain()
    reasons = [row["reason"] for row in db.query("SELECT reason FROM s__dead").rows()]
    assert reasons == ["f: ValueError: it returned 2 values for 1 rows"] * 2


def test_a_function_of_a_module_survives_a_restart(connect: Connect) -> None:
    settings = EngineSettings(function_modules=(MODULE,))
    db = connect(settings=settings)
    db.sql(STREAM)
    create = f"CREATE FUNCTION twice(v BIGINT) RETURNS BIGINT AS '{MODULE}:doubled'"
    db.sql(create)
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT twice(x) AS v, count(*) AS n FROM s GROUP BY twice(x)")
    db.insert("s", rows(("a", 1)))
    db.drain()
    db.close()
    db = connect(settings=settings)
    db.insert("s", rows(("b", 2)))
    db.drain()
    assert db.query("SELECT v, twice(v) AS w FROM v ORDER BY v").rows() == [{"v": 2, "w": 4}, {"v": 4, "w": 8}]
    assert db.sql("SHOW CREATE FUNCTION twice").rows() == [{"statement": create}]
    assert rows_of(db, "SHOW FUNCTIONS") == [
        {
            "name": "twice",
            "arguments": "BIGINT",
            "returns": "BIGINT",
            "source": f"{MODULE}:doubled",
            "status": "ready",
        }
    ]


def test_a_function_of_a_program_must_be_passed_again(connect: Connect) -> None:
    db = connect()
    db.sql(STREAM)
    db.create_function("or_zero", or_zero, arguments=["BIGINT"], returns="BIGINT")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT or_zero(max(x)) AS m FROM s")
    db.insert("s", rows(("a", 1)))
    db.drain()
    db.close()
    db = connect()
    db.insert("s", rows(("b", 7)))
    assert rows_of(db, "SHOW FUNCTIONS")[0]["status"] == "missing"
    with pytest.raises(ms.MillstreamError) as caught:
        db.drain()
    assert (caught.value.code, caught.value.message) == ("FUNCTION_MISSING", "function 'or_zero' is not there")
    assert refused(db, "SELECT or_zero(1L) AS v").code == "FUNCTION_MISSING"
    assert refused(db, "SELECT * FROM v").code == "FUNCTION_MISSING"
    with pytest.raises(ms.MillstreamError, match="exists already"):
        db.create_function("or_zero", or_zero, arguments=["INT"], returns="BIGINT")
    db.create_function("or_zero", or_zero, arguments=["BIGINT"], returns="BIGINT")
    db.drain()
    assert db.query("SELECT * FROM v").rows() == [{"m": 7}]


def test_a_function_in_use_stays(db: ms.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT Or_Zero(x) AS z FROM s")
    assert refused(db, "DROP FUNCTION or_zero").code == "IN_USE"
    with pytest.raises(ms.MillstreamError) as caught:
        db.create_function("or_zero", or_zero, arguments=["INT"], returns="BIGINT", replace=True)
    assert caught.value.code == "IN_USE"
    assert caught.value.message == "function or_zero is used by v and cannot be replaced by one of other types"
    db.sql("DROP VIEW v; DROP FUNCTION or_zero; DROP FUNCTION IF EXISTS or_zero")
    assert refused(db, "DROP FUNCTION or_zero").code == "UNKNOWN_FUNCTION"
    assert refused(db, "SELECT or_zero(1) AS v").code == "FUNCTION_NOT_ALLOWED"
    assert [row["name"] for row in rows_of(db, "SHOW FUNCTIONS")] == ["scored"]


def test_a_function_in_use_gets_other_code_from_the_next_epoch_on(db: ms.Database, connect: Connect) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, or_zero(x) AS z FROM s")
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(or_zero(x)) AS t FROM s")
    db.insert("s", rows(("a", None)))
    db.drain()

    def or_nine(values: pa.Array) -> pa.Array:
        return pc.fill_null(values, 9)

    db.create_function("or_zero", or_nine, arguments=["BIGINT"], returns="BIGINT", replace=True)
    db.insert("s", rows(("b", None)))
    db.drain()
    assert db.query("SELECT * FROM v ORDER BY k").rows() == [{"k": "a", "z": 0}, {"k": "b", "z": 9}]
    db.close()
    db = connect()
    for name, function in (("scored", scored), ("or_zero", or_nine)):
        types = ["STRING", "BIGINT"] if name == "scored" else ["BIGINT"]
        db.create_function(name, function, arguments=types, returns="BIGINT")
    db.insert("s", rows(("c", None)))
    db.drain()
    assert db.query("SELECT * FROM total").rows() == [{"t": 18}]


def test_replacing_changes_both_sides(db: ms.Database) -> None:
    db.create_function("or_zero", lambda v: pc.fill_null(v, -1), arguments=["BIGINT"], returns="BIGINT", replace=True)
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT or_zero(x) AS z FROM s")
    db.insert("s", rows(("a", None)))
    db.drain()
    assert db.query("SELECT z, or_zero(NULL) AS w FROM v").rows() == [{"z": -1, "w": -1}]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("os:system", "MODULE_NOT_ALLOWED"),
        ("subprocess:run", "MODULE_NOT_ALLOWED"),
        ("tests.integration:doubled", "MODULE_NOT_ALLOWED"),
        ("builtins:eval", "MODULE_NOT_ALLOWED"),
        (f"{MODULE}:system", "BAD_FUNCTION"),
        (f"{MODULE}:_private", "BAD_FUNCTION"),
        (f"{MODULE}:pa.array", "BAD_FUNCTION"),
        (f"{MODULE}:nothing", "BAD_FUNCTION"),
        (f"{MODULE}:__dict__", "BAD_FUNCTION"),
        (MODULE, "BAD_FUNCTION"),
        ("", "BAD_FUNCTION"),
    ],
)
def test_sql_reaches_only_functions_of_allowed_modules(connect: Connect, source: str, code: str) -> None:
    db = connect(settings=EngineSettings(function_modules=(MODULE,), eager_spark=False))
    error = refused(db, f"CREATE FUNCTION f(v BIGINT) RETURNS BIGINT AS '{source}'")
    assert error.code == code
    assert error.position is not None


def test_no_module_is_allowed_unless_it_is_said(connect: Connect) -> None:
    db = connect(settings=EngineSettings(eager_spark=False))
    assert refused(db, f"CREATE FUNCTION f(v BIGINT) RETURNS BIGINT AS '{MODULE}:doubled'").code == "MODULE_NOT_ALLOWED"
    assert refused(db, "CREATE FUNCTION f(v BIGINT) RETURNS BIGINT").code == "BAD_FUNCTION"


def test_engines_functions_are_not_reached_through_a_name(connect: Connect) -> None:
    """A function called like one of DuckDB's or Spark's is the user's own; its internal names cannot be called."""
    db = connect(settings=EngineSettings(eager_spark=False))
    db.create_function("read_text", lambda v: v, arguments=["STRING"], returns="STRING")
    assert db.query("SELECT read_text('/etc/passwd') AS v").rows() == [{"v": "/etc/passwd"}]
    for text in ("SELECT udf_read_text('a')", "SELECT __udf_read_text('a')", "SELECT __try(1)", "SELECT ms_lower('a')"):
        assert refused(db, text).code == "FUNCTION_NOT_ALLOWED"
    for name in ("lower", "sum", "explode", "now", "TUMBLE", "if"):
        with pytest.raises(ms.MillstreamError):
            db.create_function(name, lambda v: v, arguments=["STRING"], returns="STRING")
    assert refused(db, "SELECT read_text('a', 'b') AS v").code == "BAD_ARGUMENTS"
