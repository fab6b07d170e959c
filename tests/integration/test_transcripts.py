"""Apache Beam's trigger transcripts, run through the engine.

How a transcript is read:

- An element is its own event time in seconds; `values` is the `collect_list` of a pane.
- One `input` step is one epoch. A `watermark: n` step is an event of another key at n + slack, in
  an epoch of its own. The slack is so large that inputs never move the watermark.
- Beam's window `[0, 9]` names its last instant; here it is `[0, 10)`.
- `Default` fires at the watermark and then for every late element; unlimited lateness is written
  as a very long one.
- `AfterCount(n)` alone fires once: later rows of the window change nothing. What the transcript
  asks for is the first pane of each window, and no state for a window that is done.
- `index` is the pane index; `nonspeculative_index` is the same without the early panes.

The order of panes within an epoch does not matter. Output that no `expect` asks for is an error
(`unexpected output`), and so is an `expect` that the output does not satisfy (`unmatched output`);
the transcripts that are wrong on purpose name the one they must end with. Beam's words for the two
are the other way round for `missing_output`, so both are taken from the transcript as given.
"""
