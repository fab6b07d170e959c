"""The line of an epoch."""

from __future__ import annotations

from millstream.cli.progress import epoch_line

_NONE = dict.fromkeys(("rows_in", "rows_used", "rows_filtered", "rows_late", "rows_dead", "rows_failed"), 0)


def test_an_epoch_shows_its_rows_by_outcome_and_what_went_wrong_in_colour() -> None:
    rows = {"rows_in": 7, "rows_used": 3, "rows_filtered": 1, "rows_late": 1, "rows_dead": 1, "rows_failed": 1}
    line = epoch_line([{"epoch": 12, **rows}])
    assert line.plain == "epoch 12 · 7 in · 3 used · 1 filtered · 1 late · 2 dead"
    styles = {line.plain[span.start : span.end].strip(" ·"): span.style for span in line.spans}
    assert styles["1 late"] == "bold yellow"
    assert styles["2 dead"] == "bold red"


def test_nothing_wrong_has_no_colour_and_epochs_add_up() -> None:
    line = epoch_line([{"epoch": 1, **_NONE, "rows_in": 1_000}, {"epoch": 2, **_NONE, "rows_in": 1_000}])
    assert line.plain == "epochs 1 to 2 · 2,000 in · 0 used · 0 filtered · 0 late · 0 dead"
    assert {span.style for span in line.spans} == {"not bold"}
