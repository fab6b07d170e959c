"""Every error code, with its meaning, cause and remedy.

Owns the registry that `docs/errors.md` is printed from. What always holds: no error is raised with a code that is not
here, and a code keeps its meaning from release to release. Must not be used for control flow: classes are.
"""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    meaning: str
    cause: str
    remedy: str


_DEFECT = "Report it, with the statement and the text of the error."

STATEMENTS: dict[str, Code] = {
    "SYNTAX_ERROR": Code("The text is not StreamSQL.", "A word or sign stands where none can.", "Correct the place that is underlined."),
    "UNKNOWN_STATEMENT": Code("No statement begins like this.", "A statement, or what it creates, shows or drops, is misspelt.", "See docs/streamsql.md for the statements."),
    "NOT_A_QUERY": Code("`query` was given something else than one SELECT.", "`db.query` answers one SELECT.", "Use `db.sql` for other statements."),
    "SYNTAX_NOT_ALLOWED": Code("A form of Spark SQL is not part of StreamSQL.", "The engines would not agree on it, or it reaches outside of the database.", "Use the form that the hint names."),
    "FUNCTION_NOT_ALLOWED": Code("A function is not part of StreamSQL.", "It is misspelt, not deterministic, or reaches outside of the database.", "See docs/functions.md for the functions."),
    "ARGUMENT_NOT_ALLOWED": Code("A function does not take these arguments.", "Only forms on which all engines agree are allowed.", "See docs/functions.md for the forms of each function."),
    "PATTERN_NOT_ALLOWED": Code("A regular expression uses something that the engines read differently.", "Look-around, back references and possessive quantifiers exist only in Java.", "Write the pattern without it."),
    "FORMAT_NOT_ALLOWED": Code("A format of times uses letters that the engines read differently.", "Only a part of Java's format letters is supported.", "Use the letters that the hint lists."),
    "HINT_NOT_ALLOWED": Code("The query has an optimizer hint.", "Hints of Spark have no meaning here.", "Remove it."),
    "INVALID_QUERY": Code("The query cannot be run.", "The engine found a mistake that only types show.", "Read the message; cast values to the type that is needed."),
    "INVALID_EXPRESSION": Code("An expression has no type that can be stored.", "A bare NULL or an empty array has no type.", "Give it one with CAST."),
    "EXPRESSION_FAILED": Code("An expression failed on a value.", "A cast, a division or a user's function failed in a SELECT.", "Use `try_cast`, `try_divide`, or filter such rows."),
    "TYPE_MISMATCH": Code("A value or expression has the wrong type.", "The column or function needs another type.", "Convert it first."),
    "TYPE_NOT_SUPPORTED": Code("A type cannot be stored.", "Intervals, for example, have no stored form.", "Convert it to a number or text."),
    "UNKNOWN_TYPE": Code("There is no such type.", "The name of a type is misspelt or from another dialect.", "See docs/streamsql.md for the types."),
    "UNKNOWN_COLUMN": Code("There is no such column.", "It is misspelt, or the relation does not have it.", "See DESCRIBE for the columns."),
    "UNKNOWN_RELATION": Code("There is no such stream, table or view.", "It is misspelt or was dropped.", "See SHOW STREAMS, SHOW TABLES and SHOW VIEWS."),
    "UNKNOWN_STREAM": Code("There is no such stream.", "It is misspelt, or it is a table or a view.", "See SHOW STREAMS."),
    "UNKNOWN_TABLE": Code("There is no such table.", "It is misspelt, or it is a stream or a view.", "See SHOW TABLES."),
    "UNKNOWN_VIEW": Code("There is no such view.", "It is misspelt, or it is a stream or a table.", "See SHOW VIEWS."),
    "UNKNOWN_SINK": Code("There is no such sink.", "It is misspelt or was dropped.", "See SHOW SINKS."),
    "UNKNOWN_CONNECTOR": Code("There is no such connector.", "`connector` in WITH names no connector of sinks.", "See docs/sinks.md."),
    "UNKNOWN_FUNCTION": Code("There is no such function of a user.", "It is misspelt or was dropped.", "See SHOW FUNCTIONS."),
    "UNKNOWN_OPTION": Code("There is no such option.", "An option in WITH is misspelt or belongs to another source.", "See docs/sources.md for the options of each source."),
    "UNKNOWN_SETTING": Code("There is no such setting.", "A setting is misspelt.", "See docs/operations.md for the settings."),
    "UNKNOWN_SOURCE": Code("There is no such source.", "`source` in WITH names no connector.", "See docs/sources.md."),
    "UNKNOWN_COMMAND": Code("The prompt has no such command.", "A backslash command is misspelt.", "`\\?` lists them."),
    "STREAM_NOT_READABLE": Code("A stream cannot be read with SELECT.", "The rows of a stream pass by and are not kept.", "Create a view over it and read that."),
    "BAD_ARGUMENTS": Code("A function was called with the wrong number of arguments.", "The call does not fit its signature.", "See docs/functions.md."),
    "BAD_AS_OF": Code("FOR SYSTEM_TIME AS OF stands in the wrong place.", "It belongs to the table that is joined.", "Move it there."),
    "BAD_CORRECTION": Code("CORRECTED BY does not fit the stream.", "It corrects another column than the watermark is for, or lacks a column.", "Correct the event time, by two TIMESTAMP columns."),
    "BAD_DURATION": Code("A text is not a duration.", "A duration is a number and a unit.", "Write it as in '30 seconds'."),
    "BAD_EMIT": Code("EMIT cannot be written like this.", "A trigger has a rate, or parts that exclude each other.", "See docs/streamsql.md, EMIT."),
    "BAD_FUNCTION": Code("A user's function cannot be created.", "Its Python, its types or its module are not as they must be.", "See docs/python.md, functions."),
    "BAD_GROUP_BY": Code("GROUP BY names an item that does not exist.", "A number is beyond the select list.", "Count the select list from 1."),
    "BAD_INSERT": Code("The rows of an INSERT do not fit its columns.", "More or fewer values than columns.", "Give one value for each column."),
    "BAD_INTERVAL": Code("An interval cannot be used.", "It is not constant, too long, or has no fixed length.", "Use WEEKS or a shorter unit."),
    "BAD_JOIN": Code("A join cannot be written like this.", "Its kind, names or condition do not fit.", "See docs/streamsql.md, joins."),
    "BAD_KEY": Code("A column cannot be part of the primary key.", "It is the event time of versions.", "Leave it out of the key."),
    "BAD_LIMIT": Code("LIMIT needs a whole number.", "The number is negative or no number.", "Pass 0 or more."),
    "BAD_LITERAL": Code("A Python value has no literal in SQL.", "Its type, or its number of digits, cannot be written.", "Convert it first."),
    "BAD_NAME": Code("A name cannot be used.", "It is empty, has a quote or a backslash, or their number does not fit.", "Choose another name."),
    "BAD_OPTION": Code("An option has a value that it cannot have.", "The value is of another form, or out of range.", "See the hint, and docs/sources.md."),
    "BAD_ORDER": Code("An order cannot be written like this.", "`nulls` is 'first' or 'last'.", "Pass one of them."),
    "BAD_SETTING": Code("A setting has a value that it cannot have.", "The value is of another type, or out of range.", "See docs/operations.md for the settings."),
    "BAD_SET_OPERATION": Code("The sides of UNION, INTERSECT or EXCEPT do not fit.", "They have different numbers of columns.", "Select the same columns on both sides."),
    "BAD_START": Code("A stream cannot begin there.", "`start` or `--from` names no place.", "Use earliest, latest, an instant or offsets."),
    "BAD_VALUES": Code("The rows of VALUES do not fit.", "They differ in length from each other or from the columns.", "Give each row one value for each column."),
    "BAD_WATERMARK": Code("A watermark cannot be written like this.", "It is its column minus an interval, or AT PERCENTILE.", "See docs/streamsql.md, watermarks."),
    "BAD_WINDOW": Code("A window cannot be written like this.", "Its sizes, its column or its place do not fit.", "See docs/streamsql.md, windows."),
    "MISSING_OPTION": Code("A required option is missing.", "The source cannot be opened without it.", "Add it to WITH."),
    "DUPLICATE_COLUMN": Code("Two columns have one name.", "A star, a join or an alias gives a name twice.", "Name one of them with AS."),
    "DUPLICATE_CORRECTION": Code("Event time is corrected twice.", "A stream has one CORRECTED BY.", "Remove one."),
    "DUPLICATE_KEY": Code("The primary key is given twice.", "A table has one primary key, of distinct columns.", "Keep one."),
    "DUPLICATE_OPTION": Code("An option is given twice.", "WITH names each option once.", "Remove one."),
    "DUPLICATE_WATERMARK": Code("There are two watermarks.", "A stream or table has one.", "Remove one."),
    "NO_COLUMNS": Code("There is no column.", "A stream, table or SELECT needs at least one.", "Add one."),
    "NO_COMMON_COLUMN": Code("NATURAL JOIN found nothing to join by.", "The sides have no column in common.", "Write JOIN … ON, or CROSS JOIN."),
    "NO_PRIMARY_KEY": Code("A table has no primary key.", "Rows of a table are kept by key.", "Mark a column PRIMARY KEY."),
    "NO_SOURCE": Code("A view reads from nothing.", "It has no FROM.", "Add FROM with a stream, table or view."),
    "NOT_A_STREAM": Code("A clause belongs to a stream.", "It was given for a table.", "Leave it out, or create a stream."),
    "NOT_A_TABLE": Code("A statement works on tables only.", "It names a stream or a view.", "Keep what changes in a table."),
    "NOT_A_TIMESTAMP": Code("Event time is not a TIMESTAMP.", "The column has another type.", "Declare it as TIMESTAMP."),
    "NOT_SUPPORTED": Code("Millstream cannot do this.", "The form is valid, but there is no implementation of it.", "Follow the hint, or write the query another way."),
    "NOT_VERSIONED": Code("A table does not keep its history.", "FOR SYSTEM_TIME AS OF needs versions.", "Create the table WITH (versioned = 'true')."),
    "RESERVED_NAME": Code("A name is reserved.", "Millstream or SQL uses it.", "Choose another name."),
}  # fmt: skip

VIEWS: dict[str, Code] = {
    "AGGREGATE_IN_GROUP_BY": Code("GROUP BY holds an aggregate.", "Groups are formed before aggregates are computed.", "Aggregate in a view, and group a view over it."),
    "AGGREGATE_IN_WHERE": Code("WHERE holds an aggregate.", "Rows are filtered before they are aggregated.", "Use HAVING."),
    "NESTED_AGGREGATE": Code("An aggregate holds another.", "Aggregates do not nest.", "Use a subquery or a view over a view."),
    "NOT_GROUPED": Code("A column is neither grouped nor aggregated.", "It has many values within a group.", "Add it to GROUP BY, or aggregate it."),
    "PARTITION_NOT_GROUPED": Code("GROUP BY and PARTITION BY differ.", "A window per key is grouped by the same key.", "Name the same columns in both."),
    "WINDOW_NOT_GROUPED": Code("A window is used but not grouped.", "`window_start` and `window_end` belong to groups.", "Add GROUP BY window_start, window_end."),
    "UNSUPPORTED_AGGREGATE": Code("An aggregate has no incremental form.", "Its result cannot be merged from parts.", "Use another, such as an approximate one."),
    "EMIT_NEEDS_WINDOW": Code("EMIT ON WATERMARK has no window to close.", "Only a window on event time is completed by the watermark.", "Group by a window, or use EMIT ON EPOCH."),
    "EMIT_ON_COUNT_WINDOW": Code("EMIT has no meaning for a count window.", "It is published once, when its last row arrives.", "Leave EMIT out."),
    "EMIT_ON_SLIDE": Code("DISCARDING has no meaning for SLIDE.", "Sliding windows share their rows.", "Use ACCUMULATING or RETRACTING."),
    "EMIT_WITHOUT_GROUPS": Code("EMIT has nothing to refine.", "A view without groups publishes each row once.", "Leave EMIT out, or aggregate."),
    "LATENESS_WITHOUT_WINDOW": Code("ALLOWED LATENESS has no meaning here.", "Rows of this view are never late.", "Leave it out."),
    "VIEW_BLOCKED": Code("A view reads one that stands still.", "The view that it reads has failed, or is blocked itself.", "Rebuild or replace the view that failed; those that read it are then rebuilt by themselves."),
    "BEING_BUILT": Code("A view is already being rebuilt.", "One replacement at a time is built.", "Wait until SHOW VIEWS says live, or drop it."),
    "CIRCULAR_VIEW": Code("A view would read itself.", "The new definition reads one of its own readers.", "Read something else."),
    "ALREADY_EXISTS": Code("The name is taken.", "Something of that name exists.", "Drop it first, use IF NOT EXISTS or OR REPLACE."),
    "IN_USE": Code("Others depend on it.", "Views or sinks read what would be dropped or changed.", "Drop those first."),
    "FUNCTION_MISSING": Code("A user's function is not registered in this process.", "Functions of a program end with it.", "Pass it again with `create_function` after the restart."),
    "MODULE_NOT_ALLOWED": Code("Functions may not come from this module.", "The setting `function_modules` does not name it.", "Add it to the setting."),
}  # fmt: skip

ROWS: dict[str, Code] = {
    "BAD_MESSAGE_IDS": Code("Message ids do not fit the rows.", "There is one id for each row.", "Pass as many ids as rows."),
    "BAD_PARAMETERS": Code("The values of a statement do not fit its parameters.", "Each `?` takes one value, in the order of the text.", "Pass a list with one value per `?`."),
    "BAD_ROWS": Code("Rows are not of a form that can be inserted.", "A list of dicts, an Arrow table or a DataFrame is expected.", "Convert them; nothing was written."),
    "MISSING_VALUE": Code("A key is NULL.", "A row is identified by its key.", "Give the key a value; nothing was written."),
    "NOT_INSERTABLE": Code("Rows cannot be inserted here.", "The relation is a view, or reads from another source.", "Insert into a stream or table with source = 'log'."),
    "NOT_IN_PYTHON": Code("A value cannot be represented in Python.", "Python's dates cover the years 1 to 9999.", "Use `to_arrow()`."),
    "CHANGELOG_GONE": Code("Changes that were asked for are no longer kept.", "`changelog_retain` has passed.", "Read the view, and follow it from its epoch."),
}  # fmt: skip

BUILDER: dict[str, Code] = {
    "AGGREGATE_OUTSIDE_AGG": Code("An aggregate stands outside of `agg`.", "Other steps work on rows.", "Use `agg`."),
    "EMIT_INSIDE": Code("A trigger stands within a query.", "It belongs to the view as a whole.", "Put `emit` last."),
    "EMIT_IN_QUERY": Code("A query has a trigger.", "A query is answered once.", "Leave `emit` out."),
    "EMIT_TWICE": Code("There are two triggers.", "A view has one.", "Say all of it in one `emit`."),
    "EXPRESSION_AS_BOOL": Code("An expression was used as a Python truth value.", "It has a value for each row, not one.", "Use the operators that the hint names, and `isin`."),
    "FILTER_TWICE": Code("An aggregate has two filters.", "It takes one.", "Join the conditions with `&`."),
    "GROUP_WITHOUT_AGG": Code("`group_by` is not followed by `agg`.", "Groups need aggregates.", "Add `.agg(...)`."),
    "HAVING_WITHOUT_AGG": Code("`having` comes before `agg`.", "It filters groups.", "Use `filter` for rows."),
    "NOT_AN_AGGREGATE": Code("`agg` was given something else.", "It takes aggregates only.", "As in `agg(n=ms.count())`."),
    "NOT_A_CONDITION": Code("A condition is expected.", "The value is not an expression.", "Compare a column, or use `ms.expr`."),
    "NOT_A_RELATION": Code("A relation is expected.", "The value is something else.", "Pass a stream, table, view or query."),
    "NOT_CONNECTED": Code("A relation belongs to no database.", "It was built without a connection.", "Begin with `db.stream(...)`."),
    "NO_EVENT_TIME": Code("The event time is not known.", "The builder sees no declaration of the stream.", "Name the time column."),
    "NO_NAME": Code("An expression has no name.", "A computed column needs one.", "Pass it by keyword, or use `.alias`."),
    "NO_ORDER": Code("`top` has no order.", "First and last need one.", "Pass `order_by`."),
    "WINDOW_AFTER_GROUP": Code("`window` comes after `group_by`.", "Rows are windowed before they are grouped.", "Swap the steps."),
    "WINDOW_TWICE": Code("There are two windows.", "A relation has one.", "Create a view, and put the second on that."),
}  # fmt: skip

DATABASE: dict[str, Code] = {
    "BAD_PATH": Code("The path cannot be a data directory.", "It is a file, or cannot be created or written.", "Pass a directory that this user may write."),
    "CLOCK_BACKWARDS": Code("A clock was set back.", "Processing time never goes backwards.", "Advance it by 0 or more."),
    "CLOSED": Code("The database is closed.", "`close` was called.", "Connect again."),
    "DATA_DIR_IN_USE": Code("Another process has the data directory.", "One process owns it at a time.", "Close that process, or use another directory."),
    "STORE_FAILED": Code("The store failed.", "DuckDB reported an error that is none of the others.", _DEFECT),
    "STORE_UNAVAILABLE": Code("The store cannot be opened.", "Its file is in use, damaged or not readable.", "Read the detail."),
    "STORE_VERSION": Code("The store was written by another release.", "Its format is newer or too old.", "Open it with the release that wrote it."),
    "COMMAND_VERSION": Code("A command of a store was encoded by another release.", "Its format is newer or too old.", "Decode it with the release that encoded it."),
    "BAD_COMMAND": Code("A command of a store cannot be decoded.", "It is damaged, or commands before it are missing.", "Decode the sequence from its beginning."),
    "DISK_FULL": Code("The disk is full.", "The log or the store could not write.", "Free some space; everything acknowledged is safe."),
    "ACCOUNTING": Code("Rows do not add up.", "A defect in Millstream; nothing was committed.", _DEFECT),
    "INTERNAL": Code("Something failed that should not.", "A defect in Millstream.", _DEFECT),
    "JAVA_NOT_FOUND": Code("There is no Java.", "Spark needs Java 17 or newer.", "Install a JDK, and set JAVA_HOME or PATH."),
    "JAVA_TOO_OLD": Code("Java is too old.", "Spark needs Java 17 or newer.", "Install a newer JDK, and set JAVA_HOME or PATH."),
    "PART_LOST": Code("Spark's JVM or one of its Python workers went away.", "It was killed, or it ran out of memory.", "Millstream starts it again. If this happens again and again, read Spark's log in the data directory."),
    "SPARK_FAILED": Code("Spark failed.", "A job failed for a reason that is not in the data.", "Read the detail and Spark's log in the data directory."),
    "SPARK_SOURCE_FAILED": Code("A stream of Structured Streaming failed.", "Its format, path or options do not work.", "Correct the options; the stream is retried."),
}  # fmt: skip

SOURCES: dict[str, Code] = {
    "FILE_GONE": Code("A file was removed before it was read.", "Files of a stream must stay until they are read, and for new views also after that.", "Put it back. A file that its stream had not read yet is a dead letter."),
    "SOURCE_UNREADABLE": Code("A source cannot be read.", "A directory or file cannot be opened, or a connection is gone.", "Read the detail. The source is tried again by itself."),
    "SOCKET_UNAVAILABLE": Code("The socket cannot be opened.", "The port is in use, or the host is not this machine's.", "Choose another port."),
    "LOG_BEHIND_STORE": Code("The log ends before offsets that were processed.", "The log was replaced by an older copy.", "Restore log and store together."),
}  # fmt: skip

LOG: dict[str, Code] = {
    "BAD_GROUP_NAME": Code("A consumer group cannot have this name.", "It is empty or too long.", "Use 1 to 200 letters, digits, dots, dashes and underscores."),
    "BAD_TOPIC_NAME": Code("A topic cannot have this name.", "It is empty or too long.", "Use 1 to 200 letters, digits, dots, dashes and underscores."),
    "BAD_KEY_TYPE": Code("Rows cannot be partitioned by this column.", "Nested types have no hash.", "Choose a key of a plain type."),
    "BAD_PARTITION_COUNT": Code("A topic cannot have that many partitions.", "The number is below 1 or too large.", "Choose another number."),
    "BAD_TOPIC_SETTINGS": Code("The settings of a topic do not fit.", "A value is negative, or one needs another.", "Read the message."),
    "FRAME_GONE": Code("A segment was removed during a read.", "Retention or compaction ran meanwhile.", "Read the range again."),
    "KEY_TYPE_CHANGED": Code("A topic cannot be compacted.", "Its key changed type.", "Write the rows to a new topic."),
    "LOG_CLOSED": Code("The log is closed.", "Its database was closed.", "Connect again."),
    "LOG_CORRUPT": Code("A file of the log is damaged.", "Its checksum is wrong.", "Restore the file from a copy."),
    "LOG_LOCKED": Code("Another process has the log.", "One process owns it at a time.", "Close that process."),
    "LOG_OPEN_FAILED": Code("The log cannot be opened.", "A file is missing or not writable.", "Check files and permissions."),
    "LOG_WRITE_FAILED": Code("The log could not write.", "The disk reported an error.", "Check the disk; everything acknowledged is safe."),
    "MEMBER_EXISTS": Code("A consumer group already has this member.", "Names of members are unique.", "Choose another name."),
    "NOT_ASSIGNED": Code("A partition belongs to another member.", "The group was rebalanced.", "Ask for the partitions again."),
    "NO_COMPACTION_KEY": Code("A topic has no key to compact by.", "It was created without one.", "Create it with `compact_by`."),
    "OFFSET_AHEAD": Code("An offset is beyond the end of the log.", "The log was replaced by an older copy.", "Restore it, or start at its end."),
    "OFFSET_GONE": Code("Rows are no longer kept.", "Retention has removed them.", "Start at the oldest offset, or lengthen the retention."),
    "RESERVED_COLUMN": Code("A column has a reserved name.", "The log uses it.", "Rename the column."),
    "TOPIC_EXISTS": Code("The topic exists with other partitions.", "A topic keeps its number of partitions.", "Ask for that number, or drop the topic."),
    "UNKNOWN_KEY": Code("Rows have no such key column.", "The key names a column that is missing.", "Correct the key."),
    "UNKNOWN_PARTITION": Code("There is no such partition.", "Partitions are numbered from 0.", "Use a lower number."),
    "UNKNOWN_TOPIC": Code("There is no such topic.", "It is misspelt or was dropped.", "Create a stream over it first."),
}  # fmt: skip

COMMANDS: dict[str, Code] = {
    "ALREADY_READ": Code("A stream was read already.", "`--from` says where to begin, and it has begun.", "Leave `--from` out, or use a new directory."),
    "DATA_DIR_NOT_EMPTY": Code("The directory is not empty.", "The demo begins from nothing.", "Name a new directory."),
    "DEFINITION_DIFFERS": Code("A relation exists with another definition.", "The script was changed since it was run.", "Drop it, use OR REPLACE, or another directory."),
    "FILE_NOT_READABLE": Code("A file cannot be read.", "It is missing, not readable or not UTF-8.", "Check its path and permissions."),
    "FILE_NOT_WRITABLE": Code("A file cannot be written.", "The directory is not writable.", "Name another one."),
    "NOT_A_LOG": Code("The rows of a stream are not in the log.", "It reads from another source.", "Tail a view over it."),
    "NO_DATA_DIR": Code("There is no database in the directory.", "The path is misspelt, or nothing was created yet.", "Name the directory with --data."),
    "OUTPUT_EXISTS": Code("The output is not empty.", "Rows of two runs would count as one input.", "Remove it, or name another directory."),
}  # fmt: skip

SECTIONS: dict[str, dict[str, Code]] = {
    "Statements and queries": STATEMENTS,
    "Views": VIEWS,
    "Rows and results": ROWS,
    "The Python builder": BUILDER,
    "The database": DATABASE,
    "Sources": SOURCES,
    "The log": LOG,
    "The command line": COMMANDS,
}

CODES: dict[str, Code] = {code: entry for section in SECTIONS.values() for code, entry in section.items()}
