"""Polars, one query over all files: a limit of this machine. Runs in the Python of `bench/.venv-polars`."""

from __future__ import annotations

import os
import time

from bench.job import CORES, Answer, Job, main

SUMMED = {"tumbling": ("n", "total", "top"), "hopping": ("n",)}


def result(job: Job, path: str):  # type: ignore[no-untyped-def]  # Polars is not in the environment of the checks
    """The answer as a data frame, by the streaming engine."""
    import polars as pl  # type: ignore[import-not-found]

    if job.format == "parquet":
        bids = pl.scan_parquet(f"{path}/*.parquet")
    else:
        schema = {"auction": pl.Int64, "bidder": pl.Int64, "price": pl.Int64, "channel": pl.String}
        bids = pl.scan_csv(f"{path}/*.csv", has_header=False, schema={**schema, "ts": pl.Datetime("us")})
    us = pl.col("ts").dt.epoch("us")
    if job.question == "tumbling":
        keys = ["auction", (us - us % 10_000_000).alias("window_start")]
        sums = [pl.len().alias("n"), pl.col("price").sum().alias("total"), pl.col("price").max().alias("top")]
        grouped = bids.group_by(keys).agg(sums)
    else:
        # Two-second panes first, each then counted in the five windows it belongs to.
        panes = bids.group_by(["auction", (us - us % 2_000_000).alias("pane")]).agg(pl.len().alias("n"))
        windows = [
            panes.with_columns((pl.col("pane") - back).alias("window_start"))
            for back in range(0, 10_000_000, 2_000_000)
        ]
        grouped = pl.concat(windows).group_by(["auction", "window_start"]).agg(pl.col("n").sum())
    return grouped.collect(engine="streaming")


def run(job: Job) -> Answer:
    result(job, job.warm_up_path)
    began, started_at = time.perf_counter(), time.time()
    found = result(job, job.path)
    seconds, ended_at = time.perf_counter() - began, time.time()
    sums = {name: int(found[name].sum()) for name in SUMMED[job.question]}
    return Answer(started_at, ended_at, seconds, digest={"groups": found.height, **sums})


if __name__ == "__main__":
    os.environ["POLARS_MAX_THREADS"] = str(CORES)
    main(run)
