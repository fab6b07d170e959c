"""Contenders that stay: asked in turn, replaced when they die, measured from this tree."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import environments, flink, polars, resident
from bench.nexmark.job import Question, Reply
from bench.resident import Resident
from bench.runner import environment

CONTENDER = """
import os, sys, time
from bench.nexmark.job import Question, RefusedError, Reply, serve

def answer(question: Question) -> Reply:
    if question.query == "die":
        print("the last words", flush=True)
        os._exit(3)
    if question.query == "sleep":
        time.sleep(60)
    if question.query == "refuse":
        raise RefusedError("not here")
    if question.query == "fail":
        raise ValueError("broken\\nwith a trace")
    print("noise on standard output")
    return Reply(1.0, 2.0, 1.0, notes={"pid": os.getpid(), "work": os.listdir(question.work), "argument": sys.argv[2]})

serve(answer)
"""


@pytest.fixture
def contender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Resident]:
    (tmp_path / "a_contender.py").write_text(CONTENDER)
    monkeypatch.setattr(resident, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(resident, "WORK", tmp_path / "work")
    there = environment()["PYTHONPATH"]
    monkeypatch.setattr(resident, "environment", lambda: {**environment(), "PYTHONPATH": f"{there}:{tmp_path}"})
    made = Resident("some", "a_contender", ["heap"], patience_seconds=20)
    yield made
    made.close()


def ask(contender: Resident, query: str) -> Reply:
    return contender.ask(Question(query, "", "", work=""))[0]


def test_one_process_answers_one_question_after_another(contender: Resident, tmp_path: Path) -> None:
    replies = [ask(contender, "q0") for _ in range(2)]
    assert len({reply.notes["pid"] for reply in replies}) == 1
    assert replies[0].notes["work"] == []
    assert replies[0].notes["argument"] == "heap"
    assert list((tmp_path / "work").iterdir()) == []


def test_a_refusal_and_a_failure_leave_the_process_alive(contender: Resident) -> None:
    before = ask(contender, "q0").notes["pid"]
    assert ask(contender, "refuse").refused == "not here"
    assert ask(contender, "fail").failed == "ValueError: broken"
    assert ask(contender, "q0").notes["pid"] == before


def test_a_process_that_dies_is_replaced_and_its_last_words_are_told(contender: Resident) -> None:
    before = ask(contender, "q0").notes["pid"]
    died = ask(contender, "die")
    assert died.failed is not None
    assert "the last words" in died.failed
    assert ask(contender, "q0").notes["pid"] != before


def test_a_process_that_takes_too_long_is_ended(contender: Resident, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(contender, "q0").failed is None
    monkeypatch.setattr(contender, "_patience_seconds", 0.2)
    monkeypatch.setattr(resident, "GRACE_SECONDS", 0.2)
    assert ask(contender, "sleep").failed is not None


def test_contenders_import_the_tree_that_the_benchmark_is_in() -> None:
    root = Path(resident.__file__).parents[1]
    assert environment()["PYTHONPATH"].split(":") == [str(root / "src"), str(root)]
    assert environment()["PYSPARK_PYTHON"] == sys.executable


def test_flink_is_there_only_when_all_of_it_was_installed_from_these_pins(tmp_path: Path) -> None:
    pins, python = tmp_path / "pins.txt", tmp_path / "venv" / "bin" / "python"
    pins.write_text("setuptools==80.1")
    assert environments.installed(tmp_path / "venv", pins) is None
    python.parent.mkdir(parents=True)
    python.touch()
    assert environments.installed(tmp_path / "venv", pins) is None
    (tmp_path / "venv" / "complete").write_text(environments.digest(pins))
    assert environments.installed(tmp_path / "venv", pins) == python
    pins.write_text("setuptools==80.2")
    assert environments.installed(tmp_path / "venv", pins) is None


@pytest.mark.parametrize("environment", [flink.ENVIRONMENT, polars.ENVIRONMENT], ids=lambda one: one.name)
def test_pins_name_no_registry_and_pin_what_they_are_for(environment: environments.Environment) -> None:
    text = environment.pins.read_text()
    assert "://" not in text
    assert "--index" not in text
    assert environment.version() != "unknown"
    if environment.builds:
        assert environments.build_pin(text).startswith("setuptools==")


def test_a_link_to_an_environment_of_other_pins_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "HERE", tmp_path)
    (tmp_path / "requirements-polars.txt").write_text("polars==1")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").touch()
    (tmp_path / ".venv-polars").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(environments.UnavailableError, match="is a link"):
        polars.ENVIRONMENT.setup()
    assert (tmp_path / "elsewhere" / "kept").exists()
