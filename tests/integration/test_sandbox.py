"""SQL from a user reaches no file, no network, no environment variable and no JVM method, on either engine."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import millstream as ms

pytestmark = pytest.mark.spark

Connect = Callable[..., ms.Database]
SECRET = "the-secret-in-the-file"

# Expressions that would reach out if they were let through to Spark.
IN_SPARK = [
    "reflect('java.lang.System', 'getenv', 'HOME')",
    "java_method('java.lang.System', 'getProperty', 'user.home')",
    "java_method('java.lang.Runtime', 'getRuntime')",
    "try_reflect('java.lang.System', 'getenv', 'HOME')",
    "`reflect`('java.lang.System', 'getenv', 'HOME')",
    "REFLECT('java.lang.System', 'exit', 1)",
    "system.builtin.reflect('java.lang.System', 'getenv', 'HOME')",
    "builtin.reflect('java.lang.System', 'getenv', 'HOME')",
    "session.reflect('java.lang.System', 'getenv', 'HOME')",
    "input_file_name()",
    "input_file_block_start()",
    "spark_partition_id()",
    "current_user()",
    "user()",
    "session_user()",
    "current_database()",
    "version()",
    "uuid()",
    "rand()",
    "assert_true(false)",
    "raise_error('x')",
    "xpath('<a/>', '/a')",
    "xpath_string('<!DOCTYPE r [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><r>&x;</r>', 'r')",
    "from_xml('<a>1</a>', 'a INT')",
    "from_json('{}', 'a INT', map('mode', 'FAILFAST'))",
    "from_avro(k, '{}')",
    "from_protobuf(k, 'M', '/etc/passwd')",
    "schema_of_json('{}')",
    "secret('scope', 'key')",
    "ai_query('model', k)",
    "http_get('http://127.0.0.1/')",
    "aes_decrypt(k, 'key')",
    "_metadata",
    "__raw",
    "__landed",
    "__bad",
    "s.__o",
    "${env:HOME}",
    "getvariable('HOME')",
]

# Expressions that would reach out if they were let through to DuckDB.
IN_STORE = [
    "getenv('HOME')",
    "GETENV('HOME')",
    "main.getenv('HOME')",
    "current_setting('temp_directory')",
    "getvariable('x')",
    "read_text('{file}')",
    "read_blob('{file}')",
    "read_csv('{file}')",
    "version()",
    "current_user",
    "txid_current()",
    "nextval('x')",
    "query('SELECT 1')",
    "hll_union([])",
    "hll_estimate(NULL)",
    "write_log('x')",
    "error('x')",
    "add_parquet_key('a', 'b')",
    "sql_auto_complete('x')",
    "COLUMNS(*)",
    "$HOME",
    "?",
]

# Relations that would reach out.
RELATIONS = [
    "'{file}'",
    '"{file}"',
    "`{file}`",
    "csv.`{file}`",
    "text.`{file}`",
    "parquet.`{file}`",
    "json.`{file}`",
    "binaryFile.`{file}`",
    "read_csv('{file}')",
    "read_csv_auto('{file}')",
    "read_text('{file}')",
    "read_blob('{file}')",
    "read_json('{file}')",
    "read_json_auto('{file}')",
    "read_parquet('{file}')",
    "parquet_scan('{file}')",
    "parquet_metadata('{file}')",
    "sniff_csv('{file}')",
    "glob('/etc/*')",
    "read_files('{file}')",
    "'http://127.0.0.1:{port}/x.csv'",
    "read_csv('http://127.0.0.1:{port}/x.csv')",
    "read_text('http://127.0.0.1:{port}/x.csv')",
    "'s3://bucket/x.parquet'",
    "sqlite_scan('{file}', 't')",
    "postgres_scan('host=127.0.0.1 port={port}', 'public', 't')",
    "iceberg_scan('{file}')",
    "delta_scan('{file}')",
    "duckdb_settings()",
    "duckdb_secrets()",
    "duckdb_databases()",
    "duckdb_tables()",
    "pragma_database_list()",
    "pragma_table_info('ms.epochs')",
    "information_schema.tables",
    "pg_catalog.pg_class",
    "sqlite_master",
    "duckdb_logs",
    "ms.epochs",
    "ms.catalog",
    "main.ms.epochs",
    "store.ms.epochs",
    '"ids.state"',
    '"ids.changes"',
    "__delta",
    "__m",
    "global_temp.x",
    "system.information_schema.tables",
    "query('SELECT 1')",
    "query_table('ms.epochs')",
    "range(10)",
    "repeat('x', 10)",
    "test_all_types()",
    "seq_scan('ms.epochs')",
    "python_map_function()",
    "pandas_scan(1)",
    "arrow_scan(1, 2, 3)",
    "db",
    "self",
    "rows",
    "delta",
]

STATEMENTS = [
    "COPY ids TO '{dir}/out.csv'",
    "COPY (SELECT 1) TO '{dir}/out.csv'",
    "COPY ids FROM '{file}'",
    "EXPORT DATABASE '{dir}/out'",
    "IMPORT DATABASE '{dir}/out'",
    "ATTACH '{dir}/other.duckdb'",
    "ATTACH '{dir}/other.duckdb' AS other",
    "DETACH store",
    "USE ms",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{file}'",
    "PRAGMA database_list",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET spark.sql.ansi.enabled = false",
    "SET VAR x = 1",
    "RESET ALL",
    "CALL pragma_version()",
    "CREATE SECRET s (TYPE s3)",
    "CREATE FUNCTION f AS 'java.lang.System' USING JAR '{file}'",
    "CREATE TEMPORARY FUNCTION f AS 'java.lang.System'",
    "CREATE MACRO f(x) AS getenv(x)",
    "CREATE EXTERNAL TABLE t (a INT) LOCATION '{dir}'",
    "CREATE TABLE t USING csv LOCATION '{file}'",
    "CREATE TABLE t AS SELECT * FROM csv.`{file}`",
    "CREATE VIEW t AS SELECT 1",
    "CREATE TEMP VIEW t AS SELECT 1",
    "INSERT OVERWRITE DIRECTORY '{dir}/out' SELECT 1",
    "INSERT INTO s SELECT 1, getenv('HOME'), 1, current_timestamp()",
    "INSERT INTO s (id, k) SELECT 1, content FROM read_text('{file}')",
    "INSERT INTO s (id, k) VALUES (1, getenv('HOME'))",
    "INSERT INTO ids VALUES (1)",
    "INSERT INTO ms.epochs VALUES (1)",
    "LOAD DATA INPATH '{file}' INTO TABLE s",
    "ADD JAR '{file}'",
    "ADD FILE '{file}'",
    "LIST JARS",
    "CACHE TABLE ids",
    "REFRESH TABLE ids",
    "ANALYZE TABLE ids COMPUTE STATISTICS",
    "DELETE FROM ids",
    "UPDATE ids SET id = 1",
    "TRUNCATE TABLE ids",
    "ALTER TABLE ids RENAME TO other",
    "DROP TABLE ms.epochs",
    "DROP TABLE ids.state",
    "DROP SCHEMA ms CASCADE",
    "VACUUM",
    "CHECKPOINT",
    "FORCE CHECKPOINT",
    "SELECT 1; COPY (SELECT 1) TO '{dir}/out.csv'",
    "SELECT 1 INTO OUTFILE '{dir}/out.csv'",
    "SHUTDOWN",
    "!ls",
    "DESCRIBE ms.epochs",
    "SUMMARIZE ids",
    "EXPLAIN ANALYZE SELECT * FROM read_text('{file}')",
    "EXPLAIN COPY ids TO '{dir}/out.csv'",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "PREPARE p AS SELECT 1",
    "BEGIN",
    "COMMIT",
]

VIEWS = [
    "SELECT TRANSFORM(k) USING 'cat' AS (x) FROM s",
    "SELECT k FROM csv.`{file}`",
    "SELECT k FROM text.`{file}`",
    "SELECT * FROM read_csv('{file}')",
    "SELECT k FROM s WHERE k IN (SELECT value FROM text.`{file}`)",
    "SELECT k FROM s WHERE EXISTS (SELECT 1 FROM json.`{file}`)",
    "SELECT (SELECT max(value) FROM text.`{file}`) AS x FROM s",
    "SELECT k FROM s JOIN text.`{file}` t ON t.value = k",
    "SELECT k FROM s, LATERAL (SELECT * FROM text.`{file}`) t",
    "WITH x AS (SELECT * FROM text.`{file}`) SELECT k FROM s",
    "SELECT k FROM s UNION ALL SELECT value FROM text.`{file}`",
    "SELECT /*+ BROADCAST(s) */ k, reflect('java.lang.System', 'getenv', 'HOME') AS e FROM s",
    "SELECT count(*) AS n FROM s GROUP BY reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT count(*) AS n FROM s HAVING max(getenv('HOME')) IS NOT NULL",
    "SELECT max(k) || getenv('HOME') AS n FROM s",
    "SELECT max(k) AS n FROM s HAVING (SELECT count(*) FROM read_text('{file}')) > 0",
    "SELECT count(*) FILTER (WHERE reflect('java.lang.System', 'getenv', 'HOME') IS NOT NULL) AS n FROM s",
    "SELECT transform(array(k), x -> reflect('java.lang.System', 'getenv', x)) AS n FROM s",
    "SELECT k AS `x, reflect('java.lang.System', 'getenv', 'HOME') AS y` FROM s WHERE reflect('a', 'b') = 1",
    "SELECT CASE WHEN true THEN java_method('java.lang.System', 'getenv', 'HOME') END AS n FROM s",
]


@pytest.fixture
def caller() -> Iterator[tuple[int, list[object]]]:
    """A server that notes whoever connects."""
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.1)
    calls: list[object] = []
    done = threading.Event()

    def accept() -> None:
        while not done.is_set():
            try:
                connection, address = server.accept()
            except TimeoutError:
                continue
            calls.append(address)
            connection.close()

    thread = threading.Thread(target=accept)
    thread.start()
    yield server.getsockname()[1], calls
    done.set()
    thread.join()
    server.close()


@pytest.fixture
def target(connect: Connect, tmp_path: Path, caller: tuple[int, list[object]]) -> Iterator[Callable[[str], None]]:
    """A database; what it returns checks that a statement is refused and reached nothing."""
    db = connect()
    db.sql(
        "CREATE STREAM s (id BIGINT, k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS);"
        "CREATE MATERIALIZED VIEW ids AS SELECT id FROM s"
    )
    outside = tmp_path / "outside"
    outside.mkdir()
    file = outside / "secret.csv"
    file.write_text(f"value\n{SECRET}\n")
    port, calls = caller

    def attack(text: str) -> None:
        sql = text.replace("{file}", str(file)).replace("{dir}", str(outside)).replace("{port}", str(port))
        with pytest.raises(ms.MillstreamError) as caught:
            db.sql(sql)
        assert SECRET not in str(caught.value)
        assert caught.value.code != "INTERNAL"
        for sign in ("\tat ", "java.lang.Exception", "Traceback"):
            assert sign not in str(caught.value)

    yield attack
    db.insert("s", [{"id": 1, "ts": 0}])
    db.drain()
    assert db.query("SELECT * FROM ids").rows() == [{"id": 1}]
    assert [path.name for path in outside.iterdir()] == ["secret.csv"], "a file was written"
    assert SECRET in file.read_text()
    assert calls == [], "the network was used"


# Each list is one test: a database is started once for all of its strings.


def failures(attack: Callable[[str], None], texts: list[str]) -> list[str]:
    passed = []
    for text in texts:
        try:
            attack(text)
        except (Exception, pytest.fail.Exception) as error:
            passed.append(f"{text}  ->  {type(error).__name__}: {str(error).splitlines()[0][:200]}")
    return passed


def test_expressions_of_a_view(target: Callable[[str], None]) -> None:
    every = [*IN_SPARK, *IN_STORE]
    views = [f"CREATE MATERIALIZED VIEW w AS SELECT {text} AS x FROM s" for text in every]
    views += [f"CREATE MATERIALIZED VIEW w AS SELECT k FROM s WHERE {text} IS NOT NULL" for text in every]
    assert failures(target, views) == []


def test_expressions_over_groups(target: Callable[[str], None]) -> None:
    every = [*IN_SPARK, *IN_STORE]
    views = [f"CREATE MATERIALIZED VIEW w AS SELECT k, max(v) || ({text}) AS x FROM s GROUP BY k" for text in every]
    views += [f"CREATE MATERIALIZED VIEW w AS SELECT k FROM s GROUP BY k HAVING {text} IS NOT NULL" for text in every]
    assert failures(target, views) == []


def test_expressions_of_a_query(target: Callable[[str], None]) -> None:
    # What only draws numbers or names the release is harmless in a query that is answered once.
    harmless = {"uuid()", "rand()", "version()", "$HOME"}
    every = [text for text in (*IN_STORE, *IN_SPARK) if text not in harmless]
    assert failures(target, [f"SELECT {text} AS x FROM ids" for text in every]) == []
    assert failures(target, [f"SELECT id FROM ids WHERE ({text}) IS NOT NULL" for text in every]) == []


def test_relations_of_a_query(target: Callable[[str], None]) -> None:
    assert failures(target, [f"SELECT * FROM {relation}" for relation in RELATIONS]) == []
    assert failures(target, [f"SELECT * FROM ids, {relation}" for relation in RELATIONS]) == []
    assert failures(target, [f"SELECT (SELECT count(*) FROM {relation}) AS n" for relation in RELATIONS]) == []
    assert failures(target, [f"WITH x AS (SELECT * FROM {relation}) SELECT * FROM x" for relation in RELATIONS]) == []


def test_relations_of_a_view(target: Callable[[str], None]) -> None:
    views = [f"CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM {relation}" for relation in RELATIONS]
    assert failures(target, views) == []
    assert failures(target, [f"CREATE MATERIALIZED VIEW w AS {query}" for query in VIEWS]) == []


def test_statements(target: Callable[[str], None]) -> None:
    assert failures(target, STATEMENTS) == []


def test_a_name_that_hides_a_function_does_not_open_it(target: Callable[[str], None]) -> None:
    """A CTE or an alias called like an internal relation gives no way to that relation."""
    texts = [
        "WITH ms AS (SELECT 1 AS a) SELECT * FROM ms.epochs",
        "WITH epochs AS (SELECT 1 AS a) SELECT * FROM ms.epochs",
        'WITH x AS (SELECT 1 AS a) SELECT * FROM x, "ids.state"',
        "SELECT * FROM (WITH secret AS (SELECT 1 AS a) SELECT a FROM secret) q, secret",
        "SELECT ids.*, e.* FROM ids JOIN ms.epochs e ON true",
    ]
    assert failures(target, texts) == []


@pytest.mark.parametrize(
    "name",
    ["a'; DROP TABLE ms.epochs; --", 'a"; DROP TABLE ms.epochs; --', "a`b", "../../etc/passwd", "a.b", "a b", "ü"],
)
def test_names_are_only_names(connect: Connect, name: str) -> None:
    """A name is refused or works; it is never read as SQL or as a path."""
    db = connect()
    quoted = "`" + name.replace("`", "``") + "`"
    refused = True
    with contextlib.suppress(ms.MillstreamError):
        db.sql(f"CREATE STREAM {quoted} ({quoted} STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND)")
        refused = False
    if not refused:
        query = f"SELECT {quoted}, count(*) AS n FROM {quoted} GROUP BY {quoted}"
        db.sql(f"CREATE MATERIALIZED VIEW `v_{quoted[1:]} AS {query}")
        db.insert(name, [{name: "x'); DROP TABLE ms.epochs; --", "ts": 0}])
        db.drain()
        assert db.query(f"SELECT n FROM `v_{quoted[1:]}").rows() == [{"n": 1}]
        db.sql(f"DROP MATERIALIZED VIEW `v_{quoted[1:]}; DROP STREAM {quoted}")
    assert db.sql("SHOW EPOCHS") is not None


@pytest.mark.parametrize("source", ["log", "files", "spark", "socket", "datagen"])
def test_options_are_only_options(connect: Connect, tmp_path: Path, source: str) -> None:
    """Text in an option ends up in an option, not in SQL or in a path outside."""
    db = connect()
    evil = "x' OR reflect('java.lang.System', 'getenv', 'HOME') || '"
    escaped = evil.replace("'", "''")
    options = {
        "log": f"topic = '{escaped}'",
        "files": f"format = 'json', path = '/nowhere', pattern = '{escaped}'",
        "spark": f"format = '{escaped}'",
        "socket": f"host = '{escaped}', port = '1'",
        "datagen": f"rows = '5', 'fields.k.values' = '{escaped}'",
    }[source]
    with contextlib.suppress(ms.MillstreamError):
        db.sql(f"CREATE STREAM t (k STRING, v BIGINT) WITH (source = '{source}', {options})")
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT k FROM t")
        db.drain()
        shown = {row["k"] for row in db.query("SELECT k FROM w").rows()}
        assert not any(os.environ["HOME"] in (value or "") for value in shown)
    assert {path.name for path in tmp_path.iterdir()} == {"db"}


def test_names_stay_in_the_data_directory(connect: Connect, tmp_path: Path) -> None:
    """Topics and streams whose names look like paths make no file outside."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "a.json").write_text('{"v": 1}\n')
    db = connect()
    names = ("../outside", "../../../outside", f"{tmp_path}/outside", "..", ".", "a/b")
    for number, name in enumerate(names):
        for statement in (
            f"CREATE STREAM t{number} (v BIGINT) WITH (topic = '{name}')",
            f"CREATE STREAM `{name}` (v BIGINT) WITH (source = 'spark', format = 'json', path = '{inbox}')",
            f"CREATE MATERIALIZED VIEW w{number} AS SELECT v FROM `{name}`",
        ):
            with contextlib.suppress(ms.MillstreamError):
                db.sql(statement)
    with contextlib.suppress(ms.MillstreamError):
        db.drain()
    assert {path.name for path in tmp_path.iterdir()} == {"db", "inbox"}
    assert not any(path.name == "outside" for path in (*tmp_path.parent.iterdir(), *(tmp_path / "db").iterdir()))
    assert not Path("/tmp/outside").exists()
