"""Safetensors, Hugging Face folders and llm.c model files."""
import json
import os
import shutil
import tempfile

import numpy as np

from btdata.common import os_problem, problem
from btdata.shards import Output

from .model import BLOCK_TENSORS, Model

CONFIG, WEIGHTS = "config.json", "model.safetensors"
INDEX = WEIGHTS + ".index.json"
# What a program computes whatever a configuration says.
FIXED = {
    "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
    "layer_norm_epsilon": (1e-5,),
    "tie_word_embeddings": (True,),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False,),
}
END_OF_TEXT = 50256

LLMC_MAGIC, LLMC_HEADER, LLMC_ROWS = 20240326, 1024, 128
LLMC_TENSORS = (
    *("ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias"),
    *("attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight", "ln_2.bias"),
    *("mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"),
)


def bfloat16():
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


def llmc_versions():
    return {3: np.dtype("<f4"), 5: bfloat16()}


# --- safetensors --------------------------------------------------------------


def read_safetensors(path):
    """Tensors by name, and the metadata."""
    import ml_dtypes  # noqa: F401  NumPy has no bfloat16 of its own.
    import safetensors

    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            notes = file.metadata() or {}
            kinds = {name: file.get_slice(name).get_dtype() for name in file.keys()}
            for name, kind in kinds.items():
                if kind not in ("F64", "F32", "F16", "BF16") and not name.endswith(
                    ".bias"
                ):
                    raise problem(
                        path,
                        f"tensor '{name}': expected dtype F32, F64, BF16 or F16, "
                        f"got {kind}",
                    )
            return {name: file.get_tensor(name) for name in kinds}, notes
    except OSError as error:
        raise os_problem(path, error) from None
    except safetensors.SafetensorError as error:
        raise problem(path, f"expected a safetensors file: {error}") from None


def save_safetensors(path, tensors, metadata):
    from safetensors.numpy import save

    dense = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    write_file(path, [save(dense, metadata={"format": "pt"} | metadata)])


def write_file(path, parts):
    output = Output(path)
    try:
        for part in parts:
            output.write(part)
        output.complete()
        output.publish()
    finally:
        output.discard()


def load_safetensors(path):
    tensors, notes = read_safetensors(path)
    heads = notes.get("heads")
    if heads is not None and not heads.isdecimal():
        raise problem(path, f"metadata 'heads': expected a number, got '{heads}'")
    return Model(path, tensors, heads and int(heads), "safetensors")


# --- Hugging Face -------------------------------------------------------------


def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except OSError as error:
        raise os_problem(path, error) from None
    except ValueError as error:
        raise problem(path, f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise problem(path, "expected an object")
    return value


def load_folder(folder):
    inside = os.path.join
    if os.path.exists(inside(folder, "manifest.json")):
        return load_safetensors(inside(folder, "weights.safetensors"))
    config = read_json(inside(folder, CONFIG))
    path = inside(folder, CONFIG)
    if config.get("model_type") != "gpt2":
        raise problem(
            path, f"model_type: expected 'gpt2', got {config.get('model_type')!r}"
        )
    for key, allowed in FIXED.items():
        if key in config and config[key] not in allowed:
            raise problem(
                path, f"{key}: expected {allowed[0]!r}, got {config[key]!r}"
            )
    heads = config.get("n_head")
    if not isinstance(heads, int):
        raise problem(path, f"n_head: expected a number, got {heads!r}")
    names = [WEIGHTS]
    if os.path.exists(inside(folder, INDEX)):
        places = read_json(inside(folder, INDEX)).get("weight_map")
        if not isinstance(places, dict):
            raise problem(inside(folder, INDEX), "expected a weight_map")
        names = sorted({os.path.basename(str(name)) for name in places.values()})
    tensors = {}
    for name in names:
        tensors |= read_safetensors(inside(folder, name))[0]
    model = Model(folder, tensors, heads, "Hugging Face")
    sizes = {
        "n_layer": model.layers,
        "n_embd": model.dim,
        "n_positions": model.context,
        "vocab_size": model.vocab,
    }
    if config.get("n_inner") is not None:
        sizes["n_inner"] = 4 * model.dim
    for key, size in sizes.items():
        if config.get(key) != size:
            raise problem(
                path, f"{key}: expected {size} as in the tensors, got {config.get(key)!r}"
            )
    return model


def save_folder(folder, model):
    config = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_layer": model.layers,
        "n_head": model.heads,
        "n_embd": model.dim,
        "n_positions": model.context,
        "n_ctx": model.context,
        "vocab_size": model.vocab,
        "torch_dtype": model.tensors["wte.weight"].dtype.name,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "resid_pdrop": 0.0,
    }
    config |= {key: allowed[0] for key, allowed in FIXED.items()}
    end = END_OF_TEXT if model.vocab > END_OF_TEXT else None
    config |= {"bos_token_id": end, "eos_token_id": end}
    folder = folder.rstrip("/") or folder
    if os.path.exists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise problem(folder, "expected a folder that is new or empty")
    place = os.path.dirname(folder) or "."
    temporary = None
    try:
        temporary = tempfile.mkdtemp(prefix=f".{os.path.basename(folder)}.", dir=place)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o777 & ~mask)
        named = {f"transformer.{k}": v for k, v in model.ordered().items()}
        save_safetensors(os.path.join(temporary, WEIGHTS), named, {})
        text = json.dumps(config, indent=2, sort_keys=True) + "\n"
        write_file(os.path.join(temporary, CONFIG), [text.encode()])
        os.replace(temporary, folder)
        temporary = None
    except OSError as error:
        raise os_problem(folder, error) from None
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


# --- llm.c --------------------------------------------------------------------


def llmc_layout(layers, dim, context, rows):
    """Names in the order of the file, with their shapes there."""
    shapes = [("wte.weight", (rows, dim)), ("wpe.weight", (context, dim))]
    for name in LLMC_TENSORS:
        parts = tuple(p * dim for p in BLOCK_TENSORS[name])
        shapes.append((name, (layers, *parts[::-1])))
    return [*shapes, ("ln_f.weight", (dim,)), ("ln_f.bias", (dim,))]


def load_llmc(path):
    try:
        size = os.path.getsize(path)
        content = np.memmap(path, np.uint8, "r") if size else np.zeros(0, np.uint8)
    except OSError as error:
        raise os_problem(path, error) from None
    if size < LLMC_HEADER:
        raise problem(
            path, f"expected a header of {LLMC_HEADER} bytes, got {size} bytes"
        )
    header = [int(x) for x in content[:LLMC_HEADER].view("<i4")]
    magic, version, context, vocab, layers, heads, dim, rows = header[:8]
    if magic != LLMC_MAGIC:
        raise problem(
            path, f"expected a model file with magic number {LLMC_MAGIC}, got {magic}"
        )
    versions = llmc_versions()
    if version not in versions:
        raise problem(path, f"expected model file version 3 or 5, got {version}")
    sizes = {"context": context, "vocabulary": vocab, "layers": layers}
    sizes |= {"heads": heads, "width": dim, "padded vocabulary": rows}
    for name, value in sizes.items():
        if value < 1:
            raise problem(path, f"{name}: expected at least 1, got {value}")
    if rows < vocab:
        raise problem(
            path, f"padded vocabulary: expected at least {vocab}, got {rows}"
        )
    layout = llmc_layout(layers, dim, context, rows)
    dtype = versions[version]
    count = [int(np.prod(shape, dtype=object)) for _, shape in layout]
    expected = LLMC_HEADER + sum(count) * dtype.itemsize
    if size != expected:
        raise problem(
            path,
            f"expected {expected} bytes for the sizes in its header, got {size}: the "
            f"file is {'truncated' if size < expected else 'too long'}",
        )
    values = content[LLMC_HEADER:].view(dtype)
    tensors, at = {}, 0
    for (name, shape), some in zip(layout, count):
        tensor = values[at : at + some].reshape(shape)
        at += some
        if name not in BLOCK_TENSORS:
            tensors[name] = tensor[:vocab] if name == "wte.weight" else tensor
            continue
        for i in range(layers):
            tensors[f"h.{i}.{name}"] = tensor[i].T
    return Model(path, tensors, heads, "llm.c")


def save_llmc(path, model):
    rows = -(-model.vocab // LLMC_ROWS) * LLMC_ROWS
    dtype = model.tensors["wte.weight"].dtype
    version = next((v for v, t in llmc_versions().items() if t == dtype), None)
    if version is None:
        model.convert(np.dtype("<f4"))
        version, dtype = 3, np.dtype("<f4")
    header = np.zeros(LLMC_HEADER // 4, "<i4")
    header[:8] = (
        *(LLMC_MAGIC, version, model.context, model.vocab),
        *(model.layers, model.heads, model.dim, rows),
    )

    def parts():
        yield header.tobytes()
        for name, _ in llmc_layout(model.layers, model.dim, model.context, rows):
            if name in BLOCK_TENSORS:
                for i in range(model.layers):
                    yield model.tensors[f"h.{i}.{name}"].T.tobytes()
                continue
            yield model.tensors[name].tobytes()
            if name == "wte.weight":
                yield bytes((rows - model.vocab) * model.dim * dtype.itemsize)

    write_file(path, parts())


# --- by name ------------------------------------------------------------------


def load(path):
    if os.path.isdir(path):
        return load_folder(path)
    try:
        with open(path, "rb") as file:
            start = file.read(9)
    except OSError as error:
        raise os_problem(path, error) from None
    if start[:4] == LLMC_MAGIC.to_bytes(4, "little") and start[8:9] != b"{":
        return load_llmc(path)
    if path.endswith(".bin"):
        return load_llmc(path)
    return load_safetensors(path)


def save(path, model):
    if path.endswith(".safetensors"):
        heads = {} if model.heads is None else {"heads": str(model.heads)}
        save_safetensors(path, model.ordered(), heads)
        return
    if model.heads is None:
        raise problem(
            model.path, "does not say how many heads the model has: give --heads N"
        )
    if path.endswith(".bin"):
        save_llmc(path, model)
    else:
        save_folder(path, model)
