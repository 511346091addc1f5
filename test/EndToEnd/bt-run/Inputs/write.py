"""usage: write.py FILE NAME=DTYPE:SHAPE:VALUE,VALUE,… …

Writes a safetensors file; SHAPE is like 2x3, empty for a scalar.
"""
import json
import struct
import sys

CODES = {"F64": "d", "F32": "f", "I64": "q", "I32": "i", "BOOL": "?"}


def main():
    header, data = {}, b""
    for word in sys.argv[2:]:
        name, rest = word.split("=")
        dtype, shape, values = rest.split(":")
        numbers = [float(v) if dtype[0] == "F" else int(v) for v in values.split(",")]
        part = struct.pack(f"<{len(numbers)}{CODES[dtype]}", *numbers)
        extents = [int(e) for e in shape.split("x")] if shape else []
        header[name] = {
            "dtype": dtype,
            "shape": extents,
            "data_offsets": [len(data), len(data) + len(part)],
        }
        data += part
    text = json.dumps(header).encode()
    with open(sys.argv[1], "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


main()
