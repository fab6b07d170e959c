"""The entry point: commands, their options, and the exit code.

Owns what is shown when something goes wrong: a `MillstreamError` as its class shows it and exit
code 1, anything else as one line. Commands are imported when they run, so help comes at once.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from millstream.cli.console import print_error, print_unexpected, quiet
from millstream.cli.formats import Format, StatusFormat
from millstream.model.errors import MillstreamError
from millstream.nexmark.formats import FileFormat


class Commands(TyperGroup):
    """The commands; a reader of the output who goes away, as `head` does, ends one without an error."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise typer.Exit(0) from None


app = typer.Typer(
    name="millstream",
    cls=Commands,
    help="SQL views over streams, kept continuously correct, on Apache Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Data = Annotated[
    Path,
    typer.Option("--data", "-d", help="The data directory. One process owns it at a time.", envvar="MILLSTREAM_DATA"),
]
Output = Annotated[Format, typer.Option("--format", "-f", help="How rows are printed.")]
DEFAULT_DATA = Path("data")


def _version(wanted: bool) -> None:
    if wanted:
        from millstream import __version__

        print(f"millstream {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")] = False,
) -> None:
    quiet(debug=debug)


@app.command()
def run(
    pipeline: Annotated[Path, typer.Argument(metavar="PIPELINE.sql", help="A script of streams, tables and views.")],
    data: Data = DEFAULT_DATA,
    once: Annotated[bool, typer.Option("--once", help="Process what is there, print the views, leave.")] = False,
    start_from: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="START",
            help="Where streams begin that were not read yet: earliest, latest, an instant, or stream:0=100,1=250. "
            "May be repeated.",
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show the views while it runs.")] = False,
    format: Output = Format.TABLE,
) -> None:
    """Run a pipeline until Ctrl-C, or once.

    While it runs, every epoch is a line with its rows by outcome.

    What the script creates and what is there already, unchanged, is left as it is, so the same
    script can be run again over the same data. An INSERT is carried out every time.
    """
    from millstream.cli.run import run_pipeline

    run_pipeline(pipeline, data, once=once, format=format, start_from=start_from or (), watch=watch)


@app.command()
def sql(
    data: Data = DEFAULT_DATA,
    command: Annotated[str | None, typer.Option("--command", "-c", help="Run these statements and leave.")] = None,
    format: Output = Format.TABLE,
) -> None:
    """Type SQL at a prompt, with the engine running behind it.

    With -c, or with a script on stdin, the statements are run in order up to the first error, and
    every SELECT sees all rows that came before it.
    """
    from millstream.cli.batch import run_statements

    if command is not None:
        run_statements(data, command, "<command>", format)
    elif not sys.stdin.isatty():
        run_statements(data, sys.stdin.read(), "<stdin>", format)
    else:
        from millstream.cli.prompt import run_prompt

        run_prompt(data, format)


@app.command()
def produce(
    topic: Annotated[str, typer.Argument(help="A stream or table, or a topic of the log.")],
    data: Data = DEFAULT_DATA,
    file: Annotated[Path | None, typer.Option("--file", help="Read lines from a file instead of stdin.")] = None,
    create: Annotated[bool, typer.Option("--create", help="Make the topic if nothing of that name exists.")] = False,
) -> None:
    """Append lines (JSON, or the stream's format) to a stream, table or topic.

    Every line is a row. A line that cannot be decoded becomes a dead letter of the stream.
    """
    from millstream.cli.topics import produce as append

    append(topic, data, file, create=create)


@app.command()
def tail(
    name: Annotated[str, typer.Argument(metavar="TOPIC|VIEW", help="A view, or a stream or topic of the log.")],
    data: Data = DEFAULT_DATA,
    from_epoch: Annotated[int, typer.Option("--from-epoch", min=0, help="Of a view: the first epoch to show.")] = 0,
    last: Annotated[
        int | None, typer.Option("--last", "-n", min=0, help="Of a topic: only so many rows of every partition.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Show what is there and leave.")] = False,
    format: Output = Format.TABLE,
) -> None:
    """Show the changes of a view, or the rows of a topic, and then what comes, until Ctrl-C."""
    from millstream.cli.topics import tail as show

    show(name, data, from_epoch=from_epoch, last=last, once=once, format=format)


@app.command()
def explain(
    what: Annotated[str, typer.Argument(metavar="PIPELINE.sql|VIEW", help="A script, or a view of the directory.")],
    data: Data = DEFAULT_DATA,
) -> None:
    """Say how views run: what Spark does, what the store keeps, and what bounds it."""
    from millstream.cli.explain import explain as show

    show(what, data)


@app.command()
def status(
    data: Data = DEFAULT_DATA,
    format: Annotated[
        StatusFormat, typer.Option("--format", "-f", help="Tables for people, or one JSON object.")
    ] = StatusFormat.TABLE,
) -> None:
    """Show epochs, streams with watermark and lag, views, and the size of the data directory."""
    from millstream.cli.status import show_status

    show_status(data, format)


@app.command()
def demo(
    forever: Annotated[bool, typer.Option("--forever", help="Keep going until Ctrl-C.")] = False,
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="How long the feed runs.")] = 20,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed, another feed.")] = 1,
    rate: Annotated[int, typer.Option("--rate", min=20, help="Posts per second.")] = 4_000,
    data: Annotated[
        Path | None, typer.Option("--data", "-d", help="Keep the data here. By default it is thrown away.")
    ] = None,
) -> None:
    """Watch views over a synthetic social feed stay correct, and see it proved at the end."""
    from millstream.cli.demo.run import run_demo

    if not run_demo(seconds=None if forever else seconds, seed=seed, rate=rate, data=data):
        raise typer.Exit(1)


datagen = typer.Typer(name="datagen", help="Make synthetic input, as files.", no_args_is_help=True)
app.add_typer(datagen)


@datagen.command("nexmark")
def datagen_nexmark(
    events: Annotated[int, typer.Option("--events", help="How many events: 2% persons, 6% auctions, 92% bids.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the directories person, auction and bid go.")],
    seed: Annotated[int, typer.Option("--seed", help="Another seed, other events.")] = 1,
    rate: Annotated[int, typer.Option("--rate", help="Events per second of event time.")] = 10_000,
    start: Annotated[str | None, typer.Option("--start", help="Event time of the first one.")] = None,
    disorder: Annotated[
        str, typer.Option("--disorder", help="How far an event may come behind a newer one, such as '3 seconds'.")
    ] = "0 seconds",
    format: Annotated[FileFormat, typer.Option("--format", "-f", help="How rows are written.")] = FileFormat.PARQUET,
    files: Annotated[int, typer.Option("--files", help="How many files of each kind.")] = 1,
) -> None:
    """Write the events of the Nexmark benchmark: an auction house with its persons, auctions and bids.

    The same options give the same rows. examples/nexmark has the streams and the queries.
    """
    from millstream.cli.datagen import nexmark

    nexmark(events, out, seed=seed, rate=rate, start=start, disorder=disorder, format=format, files=files)


def main() -> NoReturn:
    code = 0
    try:
        app(prog_name="millstream")
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except MillstreamError as error:
        print_error(error)
        code = 1
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        print_unexpected(error, debug="--debug" in sys.argv)
        code = 1
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End now. Spark may still be starting; it ends by itself when this process is gone."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
