"""Writes the same documents as text, JSONL and parquet, and GPT-2's vocabulary in
each of its forms: corpus.py FOLDER."""
import base64
import importlib.util
import json
import os
import random
import sys

import pyarrow
import pyarrow.parquet
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

TRICKY = [
    "",
    " ",
    "\n\n\n",
    "Hello world",
    "  leading, trailing  ",
    "tabs\tand\r\nlines\r\n\r\n  \n x",
    "it's you'll WE'LL they'd've I'm 'twas ''s 's",
    "0 00 000 1234567890 3.14159 ½ ² ٣٤٥",
    "<|endoftext|> is text <|endoftext|>",
    "naïve façade Ελληνικά Кириллица עברית العربية",
    "日本語のテキスト。中文文本，没有空格 한국어",
    "👩‍👩‍👧‍👦 🏳️‍🌈 \u200b\u200d\ufeff e\u0301 \u00a0\u00a0x \u3000y \u2003\u2003",
    "\x00\x01\x1c\x1d\x1e\x1f\x7f \x85x\x0b\x0cy",
    "a" * 3000 + " " * 3000 + "!" * 300 + "\n" * 300 + "z",
    "def f(x):\n    return {\n        'a': x,\n    }\n\n\n# --\n",
    "SolidGoldMagikarp rawdownload petertodd",
    "\U0010ffff\ud7ff\ue000\ufffd",
]


def documents():
    generator = random.Random(7)
    pieces = [" ", "  ", "\n", "\t", "\u00a0", "'s", "'", "1", "é", "日", "🙂", "a"]
    pieces += ["the", "Zq", "\x1c", "\u2028", "--", ".", "_", "\u0301", "\r\n", "ß"]
    result = list(TRICKY)
    for _ in range(200):
        result.append("".join(generator.choices(pieces, k=generator.randrange(60))))
    return result


def ranks():
    folder = importlib.util.find_spec("whisper").submodule_search_locations[0]
    with open(os.path.join(folder, "assets", "gpt2.tiktoken"), "rb") as file:
        lines = [line.split() for line in file]
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def merges(ranks):
    """The two tokens that each token is merged from."""
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        parts = [bytes([byte]) for byte in token]
        while len(parts) > 2:
            pairs = [ranks.get(a + b, rank) for a, b in zip(parts, parts[1:])]
            at = min(range(len(pairs)), key=pairs.__getitem__)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 2:
            yield tuple(parts)


def characters():
    """GPT-2's printable character for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    table = {byte: chr(byte) for byte in plain}
    table.update({byte: chr(256 + i) for i, byte in enumerate(others)})
    return table


def main(folder):
    texts = documents()
    # Windows' line ends stay.
    with open(f"{folder}/t.txt", "w", newline="") as file:
        file.write("".join(texts))
    with open(f"{folder}/t.jsonl", "w") as file:
        for i, text in enumerate(texts):
            line = json.dumps({"id": i, "text": text}, ensure_ascii=i % 2 == 0)
            file.write(line + "\n" * (1 + i % 3))
    with open(f"{folder}/texts.json", "w") as file:
        json.dump(texts, file)
    table = pyarrow.table({"text": texts, "id": [str(i) for i in range(len(texts))]})
    pyarrow.parquet.write_table(table, f"{folder}/t.parquet", row_group_size=30)

    # GPT-2's vocabulary in its other forms.
    bytes_to_text = characters()
    known = ranks()

    def spelled(token):
        return "".join(bytes_to_text[byte] for byte in token)

    pairs = [(spelled(a), spelled(b)) for a, b in merges(known)]
    vocabulary = {spelled(token): rank for token, rank in known.items()}
    vocabulary["<|endoftext|>"] = len(known)
    os.makedirs(f"{folder}/gpt2", exist_ok=True)
    with open(f"{folder}/gpt2/encoder.json", "w") as file:
        json.dump(vocabulary, file)
    with open(f"{folder}/gpt2/vocab.bpe", "w") as file:
        file.write("#version: 0.2\n")
        file.writelines(f"{a} {b}\n" for a, b in pairs)
    with open(f"{folder}/gpt2/ranks.tiktoken", "wb") as file:
        for token, rank in known.items():
            file.write(base64.b64encode(token) + b" %d\n" % rank)
    tokenizer = Tokenizer(models.BPE(vocabulary, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=True
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.save(f"{folder}/gpt2/tokenizer.json")


if __name__ == "__main__":
    main(sys.argv[1])
