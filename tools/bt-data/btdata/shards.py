"""Token shards, and files that appear complete or not at all."""
import collections
import mmap
import os
import struct
import tempfile

from .common import os_problem, problem

HEADER_BYTES = 1024
MAX_TOKENS = 2**32 - 1  # the header's count is 32 bits, read as unsigned
CHUNK = 1 << 22  # tokens handled at a time


# What is known of llm.c's files by their first two words: magic, version.
Shard = collections.namedtuple("Shard", "name version token_bytes")
SHARDS = {
    20240520: Shard("GPT-2 tokens", 1, 2),
    20240801: Shard("Llama-3 tokens", 7, 4),
}
GPT2_MAGIC = 20240520
LLAMA3_MAGIC = 20240801
OTHERS = {
    20240326: "a model checkpoint",
    20240328: "a tokenizer",
    20240522: "a HellaSwag set",
}


class Tokens:
    """The tokens of one shard, memory-mapped and checked."""

    def __init__(self, path):
        self.path = path
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < HEADER_BYTES:
                    raise problem(
                        path,
                        f"expected a header of {HEADER_BYTES} bytes, "
                        f"got a file of {size} bytes",
                    )
                self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise os_problem(path, error) from None
        magic, version, self.count = struct.unpack_from("<iiI", self.map)
        if magic not in SHARDS:
            known = " or ".join(f"{m} ({s.name})" for m, s in SHARDS.items())
            other = OTHERS.get(magic)
            raise problem(
                path,
                f"expected the magic number {known}, got {magic}"
                + (f" ({other})" if other else ""),
            )
        self.magic, self.shard = magic, SHARDS[magic]
        if version != self.shard.version:
            raise problem(
                path,
                f"expected version {self.shard.version} of {self.shard.name}, "
                f"got {version}",
            )
        expected = HEADER_BYTES + self.shard.token_bytes * self.count
        if size != expected:
            raise problem(
                path,
                f"expected {expected} bytes for {self.count} tokens, got {size}",
            )

    def raw(self, begin, end):
        width = self.shard.token_bytes
        return self.map[HEADER_BYTES + begin * width : HEADER_BYTES + end * width]

    def chunks(self):
        """Yields (index of the first, tokens) over the whole shard."""
        code = "H" if self.shard.token_bytes == 2 else "I"
        for begin in range(0, self.count, CHUNK):
            end = min(begin + CHUNK, self.count)
            yield begin, struct.unpack(f"<{end - begin}{code}", self.raw(begin, end))

    def as_bytes(self):
        """The tokens as bytes; an error names the first that is none."""
        if self.magic != GPT2_MAGIC:
            raise problem(
                self.path, f"expected GPT-2 tokens, got {self.shard.name}"
            )
        raw = self.raw(0, self.count)
        high = raw[1::2]
        if high.count(0) != len(high):
            at = len(high) - len(high.lstrip(b"\0"))
            token = raw[2 * at] + 256 * high[at]
            raise problem(
                self.path,
                f"expected byte tokens, ids 0 to 255, got {token} at token {at}",
            )
        return raw[0::2]


class Output:
    """A file that appears under its name complete, or not at all."""

    def __init__(self, path, directory=None):
        self.path = path
        # Found now rather than when another output is already published.
        if os.path.isdir(path):
            raise problem(path, "is a directory")
        directory = directory or os.path.dirname(path) or "."
        try:
            handle, self.temporary = tempfile.mkstemp(
                prefix=f".{os.path.basename(path)}.", dir=directory
            )
        except OSError as error:
            raise os_problem(path, error) from None
        self.file = os.fdopen(handle, "wb")

    def write(self, data):
        try:
            self.file.write(data)
        except OSError as error:
            raise os_problem(self.path, error) from None

    def complete(self):
        """Makes the content durable, still under the temporary name."""
        try:
            self.file.flush()
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(self.file.fileno(), 0o666 & ~mask)
            os.fsync(self.file.fileno())
            self.file.close()
        except OSError as error:
            raise os_problem(self.path, error) from None

    def publish(self):
        try:
            os.replace(self.temporary, self.path)
            directory = os.open(os.path.dirname(self.path) or ".", os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise os_problem(self.path, error) from None
        self.temporary = None

    def discard(self):
        if self.temporary:
            self.file.close()
            os.unlink(self.temporary)
            self.temporary = None


def write_header(output, magic, count):
    header = struct.pack("<iiI", magic, SHARDS[magic].version, count)
    output.write(header.ljust(HEADER_BYTES, b"\0"))
