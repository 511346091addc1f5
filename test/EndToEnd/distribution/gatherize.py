"""A step whose stacks gather their parameters from pieces."""
import math
import re

STACK = re.compile(
    r"(\s*)(%\S+) = blu\.stack (.*) slices\((.*?)\)( reverse)? : \((.*?)\) -> (.*)$"
)


def dims_of(text):
    return [int(extent) for extent in re.findall(r"(\d+)x", text)]


def tensor(*dims):
    return "tensor<" + "".join(f"{extent}x" for extent in dims) + "f32>"


def collective(results, kind, operands, ranks, types):
    inputs, outputs = zip(*types)
    return (
        f"{results}:{len(types)} = blu.{kind} {', '.join(operands)} "
        f'axis = "dp" size = {ranks} : ({", ".join(inputs)}) -> ({", ".join(outputs)})'
    )


def gatherize(text, ranks):
    """Rewrites the stacks of a step that stage `shard` left: each cuts a rank's
    piece of every parameter that it slices, goes through these, and begins an
    iteration by gathering them. What is computed stays the same."""
    lines, out, count = iter(text.split("\n")), [], 0
    for line in lines:
        match = STACK.match(line)
        if not match:
            out.append(line)
            continue
        pad, result, head, slices, reverse, types, rest = match.groups()
        count += 1
        slices = [pair.split(" = ") for pair in slices.split(", ")]
        types = types.split(", ")
        first = len(types) - len(slices)
        names, wholes, cut, gathered = {}, [], [], []
        for k, (name, whole) in enumerate(slices):
            if not whole.startswith("%block."):
                continue
            n = len(wholes)
            stack, *dims = dims_of(types[first + k])
            piece = -(-math.prod(dims) // ranks)
            wholes.append(whole)
            cut.append((types[first + k], tensor(stack, piece)))
            gathered.append((tensor(piece), tensor(*dims)))
            names[name] = f"%whole{count}#{n}"
            slices[k] = (f"%piece{n}", f"%cut{count}#{n}")
            types[first + k] = tensor(stack, piece)
        pieces = [f"%piece{n}" for n in range(len(wholes))]
        pairs = ", ".join(" = ".join(pair) for pair in slices)
        out += [
            pad + collective(f"%cut{count}", "local_shard", wholes, ranks, cut),
            f"{pad}{result} = blu.stack {head} slices({pairs}){reverse or ''} : "
            f"({', '.join(types)}) -> {rest}",
            pad + collective(f"%whole{count}", "all_gather", pieces, ranks, gathered),
        ]
        for inner in lines:
            if inner.startswith(pad + "}"):
                out.append(inner)
                break
            out.append(re.sub(r"%arg\d+\b", lambda m: names.get(m[0], m[0]), inner))
    return "\n".join(out)
