"""Writes the bytes of byte-level shards, one after the other, to stdout."""
import struct
import sys

for name in sys.argv[1:]:
    with open(name, "rb") as file:
        header = struct.unpack("<256i", file.read(1024))
        assert header[0] == 20240520 and header[1] == 1 and not any(header[3:])
        tokens = struct.unpack(f"<{header[2]}H", file.read())
        sys.stdout.buffer.write(bytes(tokens))
