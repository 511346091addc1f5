"""Vocabularies: GPT-2's out of a package, or what a file holds."""
import base64
import binascii
import hashlib
import importlib.util
import json
import os

from .common import MissingPackage, os_problem, problem, require

END_OF_TEXT = "<|endoftext|>"
GPT2_RANKS = 50256
# The digest that tiktoken checks its own download of GPT-2's ranks against.
GPT2_DIGEST = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
# Packages that ship that file: installed or not, they are never imported.
GPT2_PACKAGES = ("whisper", "mlx_whisper")
GPT2_PATTERN = (
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++"
    r"|\s++$|\s+(?!\S)|\s"
)


def read_file(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise os_problem(path, error) from None


class RankVocabulary:
    """Byte-level BPE by ranks, split as GPT-2's is."""

    exact_cuts = True

    def __init__(self, path, ranks, end_of_text):
        import tiktoken

        if end_of_text not in (None, END_OF_TEXT):
            raise problem(path, f"expected --end-of-text {END_OF_TEXT}")
        if sorted(ranks.values()) != list(range(len(ranks))):
            raise problem(path, "expected ranks from 0 on, each once")
        missing = [i for i in range(256) if bytes([i]) not in ranks]
        if missing:
            raise problem(path, f"expected a token for the byte {missing[0]}")
        self.end_of_text = len(ranks)
        self.size = len(ranks) + 1
        self.encoding = tiktoken.Encoding(
            name="gpt2",
            pat_str=GPT2_PATTERN,
            mergeable_ranks=ranks,
            special_tokens={END_OF_TEXT: self.end_of_text},
        )
        self.digest = hashlib.sha256(
            b"".join(b"%d %s " % (len(t), t) for t in sorted(ranks, key=ranks.get))
        ).hexdigest()

    def encode(self, text):
        return self.encoding.encode_ordinary(text)

    def decode(self, ids):
        return self.encoding.decode(ids)

    def token_bytes(self, token):
        try:
            return self.encoding.decode_single_token_bytes(token)
        except KeyError:
            return b""


def letters():
    """GPT-2's letter for each byte: its own where that can be printed, else one
    after Latin-1's."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    found = {chr(byte): byte for byte in plain}
    found |= {chr(256 + i): byte for i, byte in enumerate(rest)}
    return found


BYTES_OF_LETTERS = letters()


class FileVocabulary:
    """What a tokenizer.json says."""

    def __init__(self, path, data, end_of_text):
        import tokenizers

        try:
            self.tokenizer = tokenizers.Tokenizer.from_buffer(data)
        except Exception as error:  # the library throws nothing narrower
            raise problem(path, f"expected a tokenizer.json, got: {error}") from None
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        # A special token's name in a text is text.
        self.tokenizer.encode_special_tokens = True
        name = end_of_text or END_OF_TEXT
        self.end_of_text = self.tokenizer.token_to_id(name)
        if self.end_of_text is None:
            raise problem(
                path, f"expected a token '{name}' for --end-of-text, got none"
            )
        ids = self.tokenizer.get_vocab(with_added_tokens=True).values()
        self.size = max(ids) + 1
        self.digest = hashlib.sha256(
            data + f"\n{tokenizers.__version__} {name}".encode()
        ).hexdigest()
        self.exact_cuts = self.splits_at_blanks(json.loads(data))

    @staticmethod
    def splits_at_blanks(data):
        """True if a text may be cut before a blank that follows no blank."""
        split = data.get("pre_tokenizer") or {}
        return (
            data.get("normalizer") is None
            and split.get("type") == "ByteLevel"
            and split.get("add_prefix_space") is False
            and split.get("use_regex", True) is True
            and all(token["special"] for token in data.get("added_tokens") or [])
        )

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def token_bytes(self, token):
        """What a token of a byte-level vocabulary stands for."""
        text = self.tokenizer.id_to_token(token) or ""
        if token == self.end_of_text:
            return text.encode()
        try:
            return bytes(map(BYTES_OF_LETTERS.__getitem__, text))
        except KeyError:
            return text.encode()


def parse_ranks(path, data):
    ranks = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error):
            raise problem(
                path,
                f"line {number}: expected a token in base64 and its rank, "
                f"got {ascii(line[:40].decode('latin-1'))}",
            ) from None
    if len(ranks) != GPT2_RANKS:
        raise problem(
            path,
            f"expected GPT-2's {GPT2_RANKS} ranks, got {len(ranks)}; "
            "other vocabularies come as a tokenizer.json",
        )
    return ranks


def beside(path, names):
    folder = os.path.dirname(path)
    for name in names:
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    raise problem(path, f"expected {' or '.join(names)} beside it")


def merge_ranks(merges, encoder):
    os.environ["TIKTOKEN_CACHE_DIR"] = ""
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks

    for path in (merges, encoder):
        read_file(path)
    try:
        return data_gym_to_mergeable_bpe_ranks(merges, encoder)
    except Exception as error:  # assertions, and whatever the files cause
        text = str(error).partition("\n")[0] or type(error).__name__
        raise problem(
            merges, f"expected merges that agree with {encoder}: {text}"
        ) from None


def load_vocabulary(path, end_of_text):
    if path is None:
        require("tiktoken")
        found = None
        for package in GPT2_PACKAGES:
            spec = importlib.util.find_spec(package)
            for folder in (spec and spec.submodule_search_locations) or []:
                candidate = os.path.join(folder, "assets", "gpt2.tiktoken")
                if found is None and os.path.exists(candidate):
                    found = candidate
        if found is None:
            raise MissingPackage(
                "expected GPT-2's vocabulary; name a --vocab-file, run "
                "tools/setup.sh --data, or: pip install --no-deps openai-whisper "
                "(for its file gpt2.tiktoken)"
            )
        data = read_file(found)
        if hashlib.sha256(data).hexdigest() != GPT2_DIGEST:
            raise problem(found, "expected GPT-2's ranks; the digest differs")
        return RankVocabulary(found, parse_ranks(found, data), end_of_text)

    data = read_file(path)
    if path.endswith(".json") or data[:1] == b"{":
        try:
            content = json.loads(data)
        except ValueError as error:
            raise problem(path, f"expected JSON, got: {error}") from None
        if isinstance(content, dict) and all(
            isinstance(value, int) for value in content.values()
        ):
            require("tiktoken")
            ranks = merge_ranks(beside(path, ("vocab.bpe", "merges.txt")), path)
            return RankVocabulary(path, ranks, end_of_text)
        require("tokenizers")
        return FileVocabulary(path, data, end_of_text)
    require("tiktoken")
    if data.startswith(b"#version"):
        ranks = merge_ranks(path, beside(path, ("encoder.json", "vocab.json")))
        return RankVocabulary(path, ranks, end_of_text)
    return RankVocabulary(path, parse_ranks(path, data), end_of_text)
