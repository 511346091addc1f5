"""Documents out of texts, JSONL and parquet, in parts that are read apart."""
import collections
import contextlib
import json
import mmap
import os
import re

from .common import os_problem, problem, require

FORMATS = ("text", "jsonl", "parquet")
PIECE_BYTES = 1 << 24

# A part of an input: bytes [begin, end) of a text or JSONL, row group `begin` of
# a parquet file.
Unit = collections.namedtuple("Unit", "path format begin end size stamp")


def format_of(path, named):
    if named:
        return named
    ending = os.path.splitext(path)[1].lower()
    return {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}.get(
        ending, "text"
    )


@contextlib.contextmanager
def mapped(path):
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise problem(path, "expected text, got an empty file")
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise os_problem(path, error) from None
    except ValueError:
        raise problem(path, "expected a regular file") from None
    try:
        yield content
    finally:
        content.close()


CUT = re.compile(rb"[!-~\x80-\xff][ \n]")


def text_cut(content, begin):
    """Where, from `begin` on, tokens end whatever follows: before a blank that
    follows no blank."""
    while True:
        match = CUT.search(content, begin)
        if match is None:
            return len(content)
        cut = match.end() - 1
        if not content[max(0, cut - 4) : cut].decode("utf-8", "ignore")[-1:].isspace():
            return cut
        begin = cut


def open_parquet(path, field):
    require("pyarrow")
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path, memory_map=True)
    except (OSError, pyarrow.ArrowException) as error:
        if isinstance(error, OSError) and error.strerror:
            raise os_problem(path, error) from None
        text = str(error).partition("\n")[0]
        raise problem(path, f"expected a parquet file, got: {text}") from None
    names = file.schema_arrow.names
    if field not in names:
        raise problem(
            path, f"expected a column '{field}', got {', '.join(names) or 'none'}"
        )
    kind = file.schema_arrow.field(field).type
    value = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    if not (pyarrow.types.is_string(value) or pyarrow.types.is_large_string(value)):
        raise problem(path, f"expected strings in column '{field}', got {kind}")
    return file


def plan_units(paths, named, field, exact_cuts, piece_bytes):
    units = []
    for path in paths:
        form = format_of(path, named)
        try:
            status = os.stat(path)
        except OSError as error:
            raise os_problem(path, error) from None
        stamp = (status.st_size, status.st_mtime_ns)
        if form == "parquet":
            with open_parquet(path, field) as file:
                groups = file.num_row_groups
            for group in range(groups):
                units.append(Unit(path, form, group, group + 1, groups, stamp))
            continue
        with mapped(path) as content:
            size, begin = len(content), 0
            while begin < size:
                end = begin + piece_bytes
                if end >= size or (form == "text" and not exact_cuts):
                    end = size
                elif form == "text":
                    end = text_cut(content, end)
                else:
                    end = content.find(b"\n", end - 1) + 1 or size
                units.append(Unit(path, form, begin, end, size, stamp))
                begin = end
    return units


def documents_of(unit, field):
    """Yields (text, True if a document begins with it)."""
    if unit.format == "parquet":
        yield from parquet_documents(unit, field)
        return
    with mapped(unit.path) as content:
        if len(content) != unit.size:
            raise problem(unit.path, "the file changed while it was read")
        if unit.format == "text":
            try:
                text = content[unit.begin : unit.end].decode("utf-8")
            except UnicodeDecodeError as error:
                at = unit.begin + error.start
                raise problem(
                    unit.path,
                    f"byte {at}: expected UTF-8, got {content[at]:#04x}",
                ) from None
            yield text, unit.begin == 0
        else:
            yield from jsonl_documents(unit, content, field)


def jsonl_documents(unit, content, field):
    def fault(text):
        line = content[: unit.begin].count(b"\n") + number
        return problem(unit.path, f"line {line}: {text}")

    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}

    def named(value):
        return "null" if value is None else kinds.get(type(value), "a number")

    lines = content[unit.begin : unit.end].split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise fault(
                f"byte {error.start}: expected UTF-8, got {line[error.start]:#04x}"
            ) from None
        except json.JSONDecodeError as error:
            raise fault(
                f"column {error.colno}: expected a JSON object, "
                f"got: {error.msg.lower()}"
            ) from None
        except (ValueError, RecursionError) as error:
            raise fault(f"expected a JSON object, got: {error}") from None
        if not isinstance(value, dict):
            raise fault(f"expected a JSON object, got {named(value)}")
        if field not in value:
            members = ", ".join(value) or "none"
            raise fault(f"expected a field '{field}', got {ascii(members)[1:-1]}")
        text = value[field]
        if not isinstance(text, str):
            raise fault(f"expected a string in field '{field}', got {named(text)}")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise fault(
                f"expected Unicode in field '{field}', got the lone surrogate "
                f"{ord(text[error.start]):#06x} at character {error.start}"
            ) from None
        yield text, True


def parquet_documents(unit, field):
    import pyarrow

    with open_parquet(unit.path, field) as file:
        row = sum(
            file.metadata.row_group(group).num_rows for group in range(unit.begin)
        )
        try:
            batches = file.iter_batches(
                batch_size=1024,
                row_groups=[unit.begin],
                columns=[field],
                use_threads=False,
            )
            for batch in batches:
                for value in batch.column(0):
                    text = value.as_py()
                    if text is None:
                        raise problem(
                            unit.path,
                            f"row {row}: expected text in column '{field}', got null",
                        )
                    yield text, True
                    row += 1
        except UnicodeDecodeError as error:
            raise problem(
                unit.path, f"row {row}: expected UTF-8 in column '{field}': {error}"
            ) from None
        except (OSError, pyarrow.ArrowException) as error:
            text = str(error).partition("\n")[0]
            raise problem(
                unit.path, f"row group {unit.begin}: cannot be read: {text}"
            ) from None
