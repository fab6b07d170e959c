"""A process that appends is killed at a random moment; what it was told is safe must be there."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

from millstream.log import Log
from millstream.model.time import SystemClock

from .rows import read_all, read_offsets

APPENDER = textwrap.dedent("""
    import sys, threading
    from pathlib import Path
    import pyarrow as pa
    from millstream.log import Log, TopicSettings
    from millstream.model.time import SystemClock

    root, first = Path(sys.argv[1]), int(sys.argv[2])
    log = Log(root, SystemClock())
    topic = log.create_topic("t", 2, TopicSettings(segment_bytes=20_000))
    out = threading.Lock()

    def work(thread):
        for n in range(100_000):
            values = [first + thread * 1_000_000 + n * 3 + step for step in range(3)]
            rows = pa.record_batch({"n": pa.array(values)})
            topic.append(rows, message_ids=[str(value) for value in values])
            with out:
                sys.stdout.write(f"{values[0]}\\n")
                sys.stdout.flush()

    print("ready", flush=True)
    for thread in range(3):
        threading.Thread(target=work, args=(thread,), daemon=True).start()
    threading.Event().wait()
""")


def test_acknowledged_rows_survive_kill(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    for turn in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", APPENDER, str(tmp_path / "log"), str(turn * 10_000_000)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        # However loaded the machine is, something is acknowledged before the kill.
        lines = [process.stdout.readline() for _ in range(5)]
        time.sleep(random.Random(turn).uniform(0.05, 0.4))
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.read().splitlines(keepends=True)
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        acknowledged += [int(line) + step for line in lines if line.endswith("\n") for step in range(3)]

        with Log(tmp_path / "log", SystemClock()) as log:
            topic = log.topic("t")
            found = [*read_all(topic, 0), *read_all(topic, 1)]
            assert len(found) == len(set(found))
            assert set(acknowledged) <= set(found)
            for partition, end in topic.end_offsets().items():
                assert read_offsets(topic, partition) == list(range(end))
    assert len(acknowledged) > 30
