"""The weights of a GPT-2: arrays under Hugging Face's names and layouts."""
import dataclasses
import re

import numpy as np

from btdata.common import problem

MASKS = (".attn.bias", ".attn.masked_bias")
BLOCK = re.compile(r"h\.(\d+)\.")
# Of a block, with the parts of a shape in units of the model's width.
BLOCK_TENSORS = {
    "ln_1.weight": (1,),
    "ln_1.bias": (1,),
    "attn.c_attn.weight": (1, 3),
    "attn.c_attn.bias": (3,),
    "attn.c_proj.weight": (1, 1),
    "attn.c_proj.bias": (1,),
    "ln_2.weight": (1,),
    "ln_2.bias": (1,),
    "mlp.c_fc.weight": (1, 4),
    "mlp.c_fc.bias": (4,),
    "mlp.c_proj.weight": (4, 1),
    "mlp.c_proj.bias": (1,),
}


def spelled(shape):
    return "[" + ", ".join(map(str, shape)) + "]"


@dataclasses.dataclass
class Model:
    path: str
    tensors: dict
    heads: int | None  # None where nothing says so
    kind: str = ""

    def __post_init__(self):
        self.tensors = self._plain(self.tensors)
        self._check()

    def _plain(self, tensors):
        """Without prefixes, masks, and a head that equals the embedding."""
        plain = {}
        for name, tensor in tensors.items():
            short = name.removeprefix("transformer.")
            if short in plain:
                raise problem(
                    self.path,
                    f"tensor '{short}' appears with and without the prefix "
                    "'transformer.'",
                )
            plain[short] = tensor
        plain = {k: v for k, v in plain.items() if not k.endswith(MASKS)}
        head, table = plain.pop("lm_head.weight", None), plain.get("wte.weight")
        if head is not None and (table is None or not np.array_equal(head, table)):
            raise problem(
                self.path,
                "tensor 'lm_head.weight': expected it to equal 'wte.weight', to "
                "which a GPT-2 ties it",
            )
        return plain

    def _check(self):
        for name in ("wte.weight", "wpe.weight"):
            if name not in self.tensors:
                raise problem(
                    self.path, f"expected the weights of a GPT-2, got no '{name}'"
                )
            if self.tensors[name].ndim != 2:
                raise problem(
                    self.path,
                    f"tensor '{name}': expected two dims, got "
                    + spelled(self.tensors[name].shape),
                )
        numbers = {int(m[1]) for m in map(BLOCK.match, self.tensors) if m}
        self.layers = max(numbers, default=-1) + 1
        if self.layers == 0:
            raise problem(self.path, "expected the weights of a GPT-2, got no block")
        self.vocab, self.dim = self.tensors["wte.weight"].shape
        self.context = self.tensors["wpe.weight"].shape[0]
        expected = self.shapes()
        for name, shape in expected.items():
            if name not in self.tensors:
                raise problem(self.path, f"missing tensor '{name}'")
            got = self.tensors[name].shape
            if got != shape:
                raise problem(
                    self.path,
                    f"tensor '{name}': expected shape {spelled(shape)}, "
                    f"got {spelled(got)}",
                )
        for name in self.tensors.keys() - expected.keys():
            raise problem(self.path, f"unexpected tensor '{name}'")
        if self.heads is not None and (self.heads < 1 or self.dim % self.heads):
            raise problem(
                self.path,
                f"expected a number of heads that divides {self.dim}, "
                f"got {self.heads}",
            )

    def shapes(self):
        """Of all tensors, in the order in which files have them."""
        found = {
            "wte.weight": (self.vocab, self.dim),
            "wpe.weight": (self.context, self.dim),
        }
        for i in range(self.layers):
            for name, parts in BLOCK_TENSORS.items():
                found[f"h.{i}.{name}"] = tuple(p * self.dim for p in parts)
        for name in ("ln_f.weight", "ln_f.bias"):
            found[name] = (self.dim,)
        return found

    def ordered(self):
        return {name: self.tensors[name] for name in self.shapes()}

    def resize_vocabulary(self, vocab):
        """Cuts rows of the embedding off, or adds rows of zeros."""
        table = self.tensors["wte.weight"]
        rows = np.zeros((max(vocab - self.vocab, 0), self.dim), table.dtype)
        self.tensors["wte.weight"] = np.concatenate([table[:vocab], rows])
        self.vocab = vocab

    def convert(self, dtype):
        self.tensors = {k: v.astype(dtype) for k, v in self.tensors.items()}
