"""Writes inputs that are at fault: bad_documents.py FOLDER."""
import json
import sys

import pyarrow
import pyarrow.parquet

folder = sys.argv[1]


def write(name, data):
    with open(f"{folder}/{name}", "wb") as file:
        file.write(data)


good = b'{"text": "fine"}\n'
write("good.jsonl", good)
write("empty.txt", b"")
write("latin.txt", b"caf\xe9 au lait")
write("syntax.jsonl", good * 40 + b'{"text": "a"\n')
write("array.jsonl", good + b'["text"]\n')
write("field.jsonl", good + b'{"id": 1, "url": "u"}\n')
write("null.jsonl", b'\n{"text": null}\n')
write("number.jsonl", b'{"text": 3}\n')
write("utf8.jsonl", b'{"text": "\xff"}\n')
write("surrogate.jsonl", b'{"text": "ab\\ud800"}\n')
write("blank.jsonl", b"\n \n")
write("deep.jsonl", b"[" * 100000 + b"\n")

write("not.parquet", good * 10)
table = pyarrow.table({"text": ["a", "b", None], "id": [1, 2, 3]})
pyarrow.parquet.write_table(table, f"{folder}/null.parquet", row_group_size=1)
with open(f"{folder}/null.parquet", "rb") as file:
    write("truncated.parquet", file.read()[:-10])
# The data of a column is spoilt, the footer is not.
table = pyarrow.table({"text": [f"document {i}" for i in range(1000)]})
pyarrow.parquet.write_table(table, f"{folder}/spoilt.parquet", compression="gzip")
with open(f"{folder}/spoilt.parquet", "r+b") as file:
    file.seek(100)
    file.write(b"\xff" * 200)
binary = pyarrow.array([b"ab\xff"], pyarrow.binary()).view(pyarrow.string())
pyarrow.parquet.write_table(
    pyarrow.table({"text": binary}), f"{folder}/utf8.parquet"
)

write("broken.json", b'{"model":')
write("other.json", json.dumps({"model": {"type": "None"}}).encode())
write("few.tiktoken", b"IQ== 0\nIg== 1\n")
write("line.tiktoken", b"IQ== 0\n!! 1\n")
write("alone.bpe", b"#version: 0.2\na b\n")
