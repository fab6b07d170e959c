"""The benchmark: Millstream against native Structured Streaming, on one machine, in one run."""
