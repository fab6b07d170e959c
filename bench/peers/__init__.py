"""One small script per contender. Each runs in a process of its own: `python -m bench.peers.<name> JOB.json`."""
