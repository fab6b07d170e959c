-- One query a line; every one of them must be refused.
SELECT reflect('java.lang.Runtime', 'getRuntime')
SELECT java_method('java.util.UUID', 'randomUUID')
SELECT try_reflect('a', 'b')
SELECT `reflect`('a', 'b')
SELECT REFLECT('a', 'b') FROM t
SELECT x.reflect('a') FROM t
SELECT system.builtin.reflect('a', 'b')
SELECT builtin.lower('a')
SELECT x.lower() FROM t
SELECT transform(array(1), x -> reflect('a', 'b'))
SELECT transform(array(1), x -> x.getenv('HOME'))
SELECT aggregate(array(1), 0, (a, b) -> a + getenv('X'))
SELECT lower(reflect('a', 'b'))
SELECT 1 WHERE EXISTS (SELECT reflect('a', 'b'))
SELECT CASE WHEN reflect('a','b') THEN 1 END
SELECT sum(x) FILTER (WHERE reflect('a', 'b')) FROM t
SELECT x FROM t ORDER BY reflect('a', 'b')
SELECT x FROM t LIMIT reflect('a', 'b')
SELECT row_number() OVER (ORDER BY reflect('a', 'b')) FROM t
SELECT x FROM t GROUP BY reflect('a', 'b')
SELECT x FROM t JOIN u ON reflect('a', 'b')
SELECT x FROM t LATERAL VIEW reflect('a', 'b') q AS e
SELECT x FROM t LATERAL VIEW explode(read_text('/etc/passwd')) q AS e
WITH a AS (SELECT reflect('a', 'b')) SELECT * FROM a
SELECT * FROM t UNION SELECT reflect('a', 'b')
SELECT * FROM VALUES (reflect('a', 'b'))
SELECT getenv('HOME')
SELECT current_setting('x')
SELECT current_user()
SELECT current_user
SELECT session_user
SELECT user()
SELECT current_catalog()
SELECT current_database()
SELECT current_schema()
SELECT version()
SELECT input_file_name()
SELECT input_file_block_start()
SELECT raise_error('x')
SELECT assert_true(false)
SELECT uuid()
SELECT rand()
SELECT random()
SELECT randn(5)
SELECT shuffle(array(1, 2))
SELECT monotonically_increasing_id()
SELECT spark_partition_id()
SELECT nextval('s')
SELECT query('SELECT 1')
SELECT read_text('/etc/passwd')
SELECT * FROM read_csv('/etc/passwd')
SELECT * FROM read_parquet('x.parquet')
SELECT * FROM read_text('/etc/passwd')
SELECT * FROM read_blob('/etc/passwd')
SELECT * FROM read_json_auto('x')
SELECT * FROM parquet_scan('x')
SELECT * FROM arrow_scan(1, 2, 3)
SELECT * FROM glob('*')
SELECT * FROM sniff_csv('x')
SELECT * FROM query('SELECT 1')
SELECT * FROM query_table('t')
SELECT * FROM duckdb_settings()
SELECT * FROM duckdb_secrets()
SELECT * FROM pragma_table_info('t')
SELECT * FROM pragma_version()
SELECT * FROM duckdb_tables
SELECT * FROM sqlite_master
SELECT * FROM pg_tables
SELECT * FROM "duckdb_tables"
SELECT * FROM information_schema.tables
SELECT * FROM pg_catalog.pg_class
SELECT * FROM main.t
SELECT * FROM memory.main.t
SELECT * FROM system.main.t
SELECT * FROM parquet.`/etc/passwd`
SELECT * FROM csv.`/etc/passwd`
SELECT * FROM text.`file:///etc/passwd`
SELECT * FROM delta.`/x`
SELECT * FROM `/etc/passwd`
SELECT * FROM 'file.csv'
SELECT * FROM "file.csv"
SELECT * FROM `file.parquet`
SELECT * FROM `s3://bucket/x`
SELECT * FROM spark_catalog.default.t
SELECT * FROM range(1000000000)
SELECT * FROM generate_series(1, 10)
SELECT * FROM TABLE(reflect('a'))
SELECT * FROM IDENTIFIER('t')
SELECT IDENTIFIER('reflect')('a', 'b')
SELECT * FROM t, LATERAL read_text('/etc/passwd')
SELECT * FROM t, LATERAL reflect('a')
SELECT * FROM t CROSS JOIN read_csv('x')
SELECT (SELECT * FROM read_csv('x'))
SELECT * FROM TUMBLE(`a/b`, ts, INTERVAL 1 SECOND)
SELECT TUMBLE(t, ts, INTERVAL 1 SECOND)
SELECT * FROM t TABLESAMPLE (10 PERCENT)
SELECT TRANSFORM(a, b) USING 'cat' AS (c) FROM t
SELECT TRANSFORM(a) USING 'rm -rf /' FROM t
SELECT COLUMNS('.*') FROM t
SELECT COLUMNS(*) FROM t
SELECT * REPLACE (reflect('a','b') AS x) FROM t
SELECT * REPLACE (1 AS x) FROM t
SELECT $1
SELECT ?
SELECT :name
SELECT ${x}
SELECT {x}
SELECT $$abc$$
SELECT @x
SELECT @@version
SELECT x INTO y FROM t
SELECT * FROM t FOR UPDATE
SELECT AS STRUCT 1
SELECT DISTINCT ON (x) x FROM t
WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT * FROM r) SELECT * FROM r
SELECT * FROM t UNION BY NAME SELECT * FROM u
SELECT * FROM t CONNECT BY PRIOR a = b
SELECT * FROM t MATCH_RECOGNIZE (PATTERN (a) DEFINE a AS true)
SELECT * FROM t SORT BY x
SELECT * FROM t DISTRIBUTE BY x
SELECT * FROM t CLUSTER BY x
SELECT * FROM t VERSION AS OF 1
SELECT CAST(x AS VARIANT) FROM t
SELECT CAST(x AS INTERVAL DAY) FROM t
SELECT date_trunc(x, ts) FROM t
SELECT date_trunc('x'') || reflect(''a', ts) FROM t
SELECT extract(SECOND FROM ts) FROM t
SELECT sum(x) /* sqlglot.anonymous */ FROM getenv('x')
SELECT lower('x') /* sqlglot.meta start=1 */, getenv('x')
SELECT now() FROM t
SELECT current_timestamp FROM t
SELECT current_date()
SELECT unix_timestamp()
SELECT localtimestamp
SELECT * FROM (FROM read_csv('x'))
SELECT * FROM (DESCRIBE t)
SELECT * FROM (PIVOT t ON x)
SELECT * FROM t PIVOT (reflect('a', 'b') FOR x IN (1))
SELECT * FROM t |> SELECT reflect('a')
SELECT exists(array(1), x -> x > 0)
SELECT transform(array(1), (x, i) -> x + i)
SELECT x::reflect FROM t
SELECT try_cast(reflect('a', 'b') AS INT)
SELECT struct(reflect('a', 'b') AS x)
SELECT map(reflect('a', 'b'), 1)
SELECT array(1)[reflect('a', 'b')]
SELECT INTERVAL (getenv('x')) DAY
SELECT position(getenv('x') IN 'a')
SELECT substring(getenv('x') FROM 1)
SELECT overlay(getenv('x') PLACING 'a' FROM 1)
SELECT {fn getenv('x')}
SELECT list_transform([1], x -> x)
SELECT [x FOR x IN [1]]
SELECT struct_pack(a := getenv('x'))
SELECT from_json(x, 'a INT')
SELECT xpath('<a/>', 'a')
SELECT parse_url('http://x', 'HOST')
SELECT aes_encrypt('a', 'b')
SELECT schema_of_json('{}')
SELECT http_get('x')
SELECT load_extension('x')
SELECT vector_search('x')
SELECT ai_query('x')
ATTACH 'x.db' AS y
INSTALL httpfs
CALL pragma_version()
SELECT posexplode(array(1, 2))
SELECT * FROM ROWS FROM (read_csv('x'))
SELECT * FROM t ASOF JOIN u ON t.a = u.a
SELECT CAST(x AS DATE FORMAT 'reflect') FROM t
SELECT localtime
SELECT `current_user`
SELECT x FROM t GROUP BY x WITH TOTALS
SELECT percentile(x, 0.5) FROM t
SELECT try_to_timestamp(getenv('x'))
SELECT date_part(getenv('x'), ts) FROM t
SELECT named_struct(getenv('x'), 1)
SELECT get_json_object(x, '$..*') FROM t
SELECT get_json_object(x, '$.*') FROM t
SELECT a FROM t JOIN u FOR SYSTEM_TIME AS OF ON t.a = u.a
