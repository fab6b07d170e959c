"""The command line as a user meets it: real processes, a real terminal for the prompt."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Self

import pytest

from millstream.cli.formats import Format
from millstream.cli.prompt import is_complete
from millstream.cli.run import run_pipeline
from millstream.cli.status import show_status
from millstream.cli.topics import produce, tail
from millstream.model.errors import MillstreamError

ROOT = Path(__file__).parents[2]
MILLSTREAM = str(Path(sys.executable).with_name("millstream"))

PIPELINE = """
CREATE STREAM posts (topic STRING, likes BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS);
CREATE MATERIALIZED VIEW per_topic AS SELECT topic, count(*) AS n, sum(likes) AS likes FROM posts GROUP BY topic;
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """History and log go to a directory of the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("MILLSTREAM_DATA", raising=False)
    return tmp_path


def millstream(*arguments: str | Path, stdin: str = "", cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [MILLSTREAM, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
        check=False,
    )


class Terminal:
    """A program at a terminal of 40 lines and 110 columns."""

    def __init__(self, *arguments: str | Path) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            environment = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
            os.execve(MILLSTREAM, [MILLSTREAM, *map(str, arguments)], environment)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
        self._unread = ""
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def wait_for(self, text: str, seconds: float = 120) -> str:
        """Read on until a text appears; what was shown since the last one."""
        until = time.monotonic() + seconds
        while text not in self._unread:
            assert self._read(until), f"{text!r} did not appear; shown: {self.shown[-2000:]}"
        seen, _, self._unread = self._unread.partition(text)
        return seen + text

    def _read(self, until: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], max(0, until - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._fd, 65_536).decode(errors="replace")
        except OSError:
            return False
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r", "", data)
        self.shown += text
        self._unread += text
        return bool(data)

    def exit_code(self, seconds: float = 60) -> int:
        until = time.monotonic() + seconds
        while self._read(until):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self._fd)


# -- without Spark -------------------------------------------------------------------------------


def test_help_and_version_come_at_once(state: Path) -> None:
    shown = millstream("--help")
    assert shown.returncode == 0
    for command in ("run", "sql", "produce", "tail", "explain", "status", "datagen", "demo"):
        assert f" {command} " in shown.stdout
    version = millstream("--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert re.fullmatch(r"millstream \d+\.\d+\.\d+\n", version.stdout)


def test_errors_show_their_fields_and_the_position(state: Path) -> None:
    script = state / "bad.sql"
    script.write_text("SHOW STREAMS;\nSELEC 1;\n")
    failed = millstream("run", script, "--data", state / "data", "--once")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("error[")
    assert f"  {script}:2:1\n  2 | SELEC 1;\n    | ^^^^^\n" in failed.stderr
    assert not (state / "data").exists()

    assert "Traceback" not in failed.stderr
    with pytest.raises(MillstreamError, match="cannot read"):
        run_pipeline(state / "nothing.sql", state / "data", once=True, format=Format.TABLE)
    with pytest.raises(MillstreamError, match="there is no Millstream data"):
        show_status(state / "data")


def test_a_missing_java_is_one_sentence(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(state / "no-java"))
    script = state / "pipeline.sql"
    script.write_text(PIPELINE)
    failed = millstream("run", script, "--data", state / "data", "--once")
    assert failed.returncode == 1
    assert failed.stderr.startswith("error[JAVA_NOT_FOUND]: Millstream needs Java 17 or newer")


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT 1 -- ;", False),
        ("SELECT 1; -- done", True),
        ("\\q", True),
        ("", True),
    ],
)
def test_a_statement_ends_with_its_semicolon(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


# -- with Spark ----------------------------------------------------------------------------------


@pytest.mark.spark
def test_prompt(state: Path) -> None:
    data = state / "data"
    with Terminal("sql", "--data", data) as terminal:
        terminal.wait_for("millstream>")
        refused = millstream("status", "--data", data)
        assert refused.returncode == 1
        assert refused.stderr.startswith("error[DATA_DIR_IN_USE]: ")
        assert str(terminal.pid) in refused.stderr

        def enter(statement: str, answer: str) -> str:
            """Type at a prompt that is there: what comes earlier may be echoed by the terminal itself."""
            terminal.type(statement + "\r")
            shown = terminal.wait_for(answer)
            terminal.wait_for("millstream>")
            return shown

        enter(
            "CREATE STREAM s (k STRING, ts TIMESTAMP,\r WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS);",
            "created stream s",
        )
        enter("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM s GROUP BY k;", "created view v")
        enter("INSERT INTO s VALUES ('a', TIMESTAMP '2024-01-01 00:00:00');", "inserted 1 row into s, in epoch ")
        assert "│ a │ 1 │" in enter("SELECT * FROM v;", "1 row")
        answer = enter("SELECT * FROM w;", "hint:")
        assert "error[UNKNOWN_RELATION]: there is no view or table 'w'" in answer
        assert "1 | SELECT * FROM w;\n    |               ^\n" in answer

        terminal.type("this is a mistake")
        terminal.wait_for("mistake")
        terminal.type("\x03")  # the line is cleared, or what follows would be part of the mistake
        terminal.type("SUBSCRIBE v;\r")
        terminal.wait_for("k = a, n = 1")
        terminal.type("\x03")
        terminal.wait_for("millstream>")
        terminal.type("\\q\r")
        assert terminal.exit_code() == 0
        assert "Traceback" not in terminal.shown
        assert "WARN" not in terminal.shown
    assert "SUBSCRIBE v;" in (state / "state" / "millstream" / "history").read_text()


@pytest.mark.spark
def test_a_pipeline_runs_produces_and_runs_again(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, data = state / "pipeline.sql", state / "data"
    script.write_text(PIPELINE)
    with Terminal("run", script, "--data", data) as terminal:
        terminal.wait_for("running; Ctrl-C stops")
        terminal.wait_for("epoch ")
        terminal.type("\x03")
        assert terminal.exit_code() == 0
        assert "stopped: epoch 0" in terminal.shown

    rows = [{"topic": topic, "likes": 2, "ts": "2024-01-01T00:00:00Z"} for topic in "aab"]
    lines = "\n".join(json.dumps(row) for row in rows)
    produced = millstream("produce", "posts", "--data", data, stdin=lines + "\n\nnot json\n")
    assert (produced.returncode, produced.stderr) == (0, "4 rows into posts\n")
    tail("posts", data, from_epoch=0, last=1, once=True, format=Format.TABLE)
    assert json.loads(capsys.readouterr().out)["raw"] == "not json"
    show_status(data)
    assert "4 rows waiting" in capsys.readouterr().out
    with pytest.raises(MillstreamError) as unknown:
        produce("post", data, None, create=False)
    assert unknown.value.hint == "did you mean 'posts'?"

    changed = state / "changed.sql"
    changed.write_text(PIPELINE.replace("sum(likes)", "max(likes)"))
    with pytest.raises(MillstreamError) as differs:
        run_pipeline(changed, data, once=True, format=Format.TABLE)
    assert differs.value.code == "DEFINITION_DIFFERS"
    assert "-  SUM(likes) AS likes" in (differs.value.detail or "")

    again = millstream("run", script, "--data", data, "--once")
    assert again.returncode == 0, again.stderr
    assert "view per_topic is there already" in again.stderr
    assert again.stdout == ("per_topic\ntopic | n | likes\n------+---+------\na     | 2 | 4\nb     | 1 | 2\n(2 rows)\n")
    read = millstream("sql", "--data", data, "--format", "json", stdin="SELECT count(*) AS dead FROM posts__dead;")
    assert (read.returncode, read.stdout) == (0, '{"dead": 1}\n')
    status = millstream("status", "--data", data)
    assert (status.returncode, status.stderr) == (0, "")
    assert "0 rows waiting" in status.stdout


@pytest.mark.spark
def test_statements_see_what_came_before_and_stop_at_an_error(state: Path) -> None:
    text = PIPELINE + (
        "INSERT INTO posts VALUES ('a', 1, TIMESTAMP '2024-01-01 00:00:00');\n"
        "SELECT topic, n FROM per_topic;\nSELECT * FROM nothing;\nSELECT 'not reached' AS x;\n"
    )
    done = millstream("sql", "--data", state / "data", "--format", "csv", "-c", text)
    assert done.returncode == 1
    assert done.stdout == "topic,n\na,1\n"
    assert "error[UNKNOWN_RELATION]" in done.stderr
    assert "WARN" not in done.stderr


@pytest.mark.spark
@pytest.mark.parametrize(
    ("example", "lines"),
    [
        ("orders", ["2025-06-01 09:00:00,2025-06-01 10:00:00,DE,2,99.75", "ada,3,171.90,2025-06-01 11:20:00"]),
        ("sensors", ["cellar,11.9,2", "2025-06-01 12:00:00,roof,26.5,2", "peaks,roof,30.0,2025-06-01 12:00:30"]),
        ("clicks", ["home,6913,2317,2025-06-01 12:06:38.397386"]),
    ],
)
def test_examples(
    example: str,
    lines: list[str],
    state: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    run_pipeline(ROOT / "examples" / example / "pipeline.sql", state / "data", once=True, format=Format.CSV)
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line not in shown] == []


@pytest.mark.spark
def test_a_deletion_sees_what_was_inserted_before_it(state: Path) -> None:
    text = (
        "CREATE TABLE users (id BIGINT PRIMARY KEY, name STRING);\n"
        "INSERT INTO users VALUES (1, 'ann'), (2, 'bob');\n"
        "DELETE FROM users WHERE name = 'bob';\nSELECT id, name FROM users;\nDELETE FROM users WHERE id = 7;\n"
    )
    done = millstream("sql", "--data", state / "data", "--format", "csv", "-c", text)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "id,name\n1,ann\n"
    assert "deleting 1 row from users" in done.stderr
    assert "deleting 0 rows from users" in done.stderr
