"""When the kernel is tried again."""

from __future__ import annotations

from millstream.spark.trials import Trials


def pause(trials: Trials, stream: str = "s") -> int:
    """For how many epochs the kernel is not tried."""
    epochs = 0
    while not trials.is_due(stream):
        epochs += 1
        assert epochs < 1000
    return epochs


def test_each_refusal_in_a_row_doubles_the_pause() -> None:
    trials = Trials()
    pauses = []
    for _ in range(7):
        pauses.append(pause(trials))
        trials.record("s", refused=True)
    assert pauses == [0, 4, 8, 16, 32, 64, 64]


def test_success_ends_it() -> None:
    trials = Trials()
    for _ in range(3):
        trials.record("s", refused=True)
    pause(trials)
    trials.record("s", refused=False)
    assert pause(trials) == 0
    trials.record("s", refused=True)
    assert pause(trials) == 4


def test_streams_do_not_share_it() -> None:
    trials = Trials()
    trials.record("s", refused=True)
    assert pause(trials, "t") == 0
    assert pause(trials) == 4
