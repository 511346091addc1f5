"""From documents to shards: parts by several processes, then one pass."""
import array
import concurrent.futures
import contextlib
import ctypes
import fcntl
import hashlib
import math
import multiprocessing
import os
import re
import shutil
import signal
import sys
import time

from .common import Error, Failure, os_problem, problem
from .documents import documents_of, plan_units
from .shards import CHUNK, GPT2_MAGIC, LLAMA3_MAGIC, MAX_TOKENS, Output, write_header
from .vocabularies import load_vocabulary

MAX_HELD_OUT = 10_000_000
SHARD_TOKENS = 100_000_000


class Work:
    """What a process needs to turn a unit into a file of tokens."""

    def __init__(self, folder, field, vocabulary):
        self.folder = folder
        self.field = field
        self.vocabulary = vocabulary
        self.code = "H" if vocabulary.size <= 1 << 16 else "I"
        self.width = 2 if self.code == "H" else 4

    def part(self, unit):
        """The file of a unit, named by all that its content depends on."""
        key = (
            *(os.path.realpath(unit.path), *unit[1:], self.field),
            *(self.vocabulary.digest, self.vocabulary.end_of_text),
        )
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:32]
        return os.path.join(self.folder, f"{name}.tokens")

    def do(self, unit):
        tokens = array.array(self.code)
        for text, begins in documents_of(unit, self.field):
            if begins:
                tokens.append(self.vocabulary.end_of_text)
            tokens.extend(self.vocabulary.encode(text))
        if sys.byteorder == "big":
            tokens.byteswap()
        output = Output(self.part(unit))
        try:
            output.write(tokens)
            output.complete()
            output.publish()
        finally:
            output.discard()
        return len(tokens)


work = None  # of this process


def begin_worker(parent):
    # A worker ends when its parent does, also when that one is killed.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def do_unit(unit):
    return work.do(unit)


class Progress:
    def __init__(self, pieces, done, tokens):
        self.pieces, self.done, self.tokens = pieces, done, tokens
        self.start, self.first, self.shown = time.monotonic(), tokens, 0
        self.line = sys.stderr.isatty()

    def add(self, tokens):
        self.done += 1
        self.tokens += tokens
        now = time.monotonic()
        last = self.done == self.pieces
        if now - self.shown < (0.2 if self.line else 10) and not last:
            return
        self.shown = now
        rate = (self.tokens - self.first) / max(now - self.start, 1e-3)
        text = (
            f"{self.done}/{self.pieces} pieces  {self.tokens:,} tokens  "
            f"{rate:,.0f} tokens/s"
        )
        end = "\n" if last or not self.line else ""
        print(f"{chr(13) * self.line}{text}", end=end, file=sys.stderr, flush=True)


def do_units(units, jobs, progress):
    jobs = min(jobs, len(units))
    if jobs <= 1:
        for unit in units:
            progress.add(do_unit(unit))
        return
    pool = concurrent.futures.ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("fork"),
        initializer=begin_worker,
        initargs=(os.getpid(),),
    )
    futures = [pool.submit(do_unit, unit) for unit in units]
    try:
        for future in concurrent.futures.as_completed(futures):
            progress.add(future.result())
    except concurrent.futures.process.BrokenProcessPool:
        raise Failure("a process of --jobs ended; was it out of memory?") from None
    except Error:
        # Of several at once, the first in the input's order is reported.
        pool.shutdown(cancel_futures=True)
        for future in futures:
            if not future.cancelled() and future.exception():
                raise future.exception() from None
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def part_chunks(parts, width):
    for path in parts:
        with open(path, "rb") as file:
            while chunk := file.read(CHUNK * width):
                yield chunk


def write_shards(options, parts, total, held_out):
    """Cuts the tokens of the parts into shards, which appear together."""
    full = SHARD_TOKENS if options.shard_tokens is None else options.shard_tokens
    splits = []
    for name, size in (("train", total - held_out), ("val", held_out)):
        for number, begin in enumerate(range(0, size, full)):
            path = f"{options.output}_{name}_{number:06}.bin"
            splits.append((path, min(full, size - begin)))
    for path in existing_shards(options.output):
        if path not in [path for path, _ in splits]:
            raise problem(
                path, "is there already, and is none of the new shards; remove it"
            )
    magic = GPT2_MAGIC if work.width == 2 else LLAMA3_MAGIC
    chunks, rest = part_chunks(parts, work.width), b""
    outputs = []
    try:
        for path, count in splits:
            outputs.append(Output(path, work.folder))
            write_header(outputs[-1], magic, count)
            left = count * work.width
            while left:
                rest = rest or memoryview(next(chunks))
                outputs[-1].write(rest[:left])
                rest, left = rest[left:], left - len(rest[:left])
            outputs[-1].complete()
        for output in outputs:
            output.publish()
    finally:
        for output in outputs:
            output.discard()
    for path, count in splits:
        print(f"{path}: {count} tokens")


def held_out_of(options, total):
    if options.val_tokens is not None:
        if not 0 <= options.val_tokens < total:
            raise Error(
                f"argument --val-tokens: expected from 0 to {total - 1} for "
                f"{total} tokens, got {options.val_tokens}"
            )
        return options.val_tokens
    if options.val_fraction is None:
        return min(MAX_HELD_OUT, max(1, total // 100))
    held_out = math.floor(total * options.val_fraction)
    if not 1 <= held_out < total:
        raise Error(
            "argument --val-fraction: expected to leave both splits a token of "
            f"{total}, got {options.val_fraction:g}"
        )
    return held_out


def existing_shards(prefix):
    folder, name = os.path.split(prefix)
    pattern = re.compile(re.escape(name) + r"_(train|val)_\d{6}\.bin")
    return sorted(
        os.path.join(folder, entry)
        for entry in os.listdir(folder or ".")
        if pattern.fullmatch(entry)
    )


def remove_unfinished(folder, prefix):
    """Leaves only finished parts in a folder that is bt-data's own."""
    name = re.escape(os.path.basename(prefix))
    finished = re.compile(r"[0-9a-f]{32}\.tokens")
    unfinished = re.compile(
        rf"\.([0-9a-f]{{32}}\.tokens|{name}_(train|val)_\d{{6}}\.bin)\.\w+"
    )
    others = [e for e in sorted(os.listdir(folder)) if not finished.fullmatch(e)]
    for entry in others:
        if not unfinished.fullmatch(entry):
            raise problem(
                os.path.join(folder, entry),
                "is not bt-data's; remove it or choose another -o",
            )
    for entry in others:
        os.unlink(os.path.join(folder, entry))


@contextlib.contextmanager
def work_folder(prefix):
    """PREFIX.parts, for one process. It stays if it holds finished parts."""
    folder = f"{prefix}.parts"
    try:
        old = existing_shards(prefix)
    except OSError as error:
        raise os_problem(os.path.dirname(prefix), error) from None
    try:
        if old and not os.path.isdir(folder):
            raise problem(old[0], "is there already; remove it or choose another -o")
        os.makedirs(folder, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise os_problem(folder, error) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise problem(folder, "is in use by another bt-data") from None
        remove_unfinished(folder, prefix)
        try:
            yield folder
        except BaseException:
            if any(entry.endswith(".tokens") for entry in os.listdir(folder)):
                print(
                    f"note: {folder} keeps what is done; run again to go on, or "
                    "remove it",
                    file=sys.stderr,
                )
            else:
                shutil.rmtree(folder)
            raise
        shutil.rmtree(folder)
    finally:
        os.close(lock)


def tokenize_documents(options):
    global work
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    if (options.shard_tokens or 1) > MAX_TOKENS:
        raise Error(
            f"argument --shard-tokens: expected at most {MAX_TOKENS}, "
            f"got {options.shard_tokens}"
        )
    if (options.val_tokens or 0) < 0:
        raise Error(
            f"argument --val-tokens: expected at least 0, got {options.val_tokens}"
        )
    vocabulary = load_vocabulary(options.vocab_file, options.end_of_text)
    field = "text" if options.field is None else options.field
    units = plan_units(
        options.inputs,
        options.format,
        field,
        vocabulary.exact_cuts,
        options.piece_bytes,
    )
    with work_folder(options.output) as folder:
        work = Work(folder, field, vocabulary)
        parts = [work.part(unit) for unit in units]
        todo = {
            part: unit
            for part, unit in zip(parts, units)
            if not os.path.exists(part)
        }
        done = sum(os.path.getsize(p) for p in set(parts) - set(todo)) // work.width
        progress = Progress(len(set(parts)), len(set(parts)) - len(todo), done)
        do_units(list(todo.values()), options.jobs, progress)
        total = sum(map(os.path.getsize, parts)) // work.width
        if total < 2:
            raise Error(
                f"{', '.join(options.inputs)}: expected at least 2 tokens, "
                f"got {total}"
            )
        write_shards(options, parts, total, held_out_of(options, total))
