"""How far a computation in floating point may be from the exact one.

Every numeric test takes its tolerances from here; docs/Numerics.md derives
them. A tolerance is never a number chosen by looking at errors: it is

    growth(n) · u · T + n · tiny · scale

with u the unit roundoff of the dtype, n the roundings on the longest way from
an input to the element, and T the sum of the magnitudes of the terms that are
added up to it, which is what remains of an element when nothing cancels. tiny is
the smallest normal number: what underflows may be flushed to 0, and is then
multiplied by factors of at most `scale`.
"""
import numpy as np

UNIT = {"f64": 2.0**-53, "f32": 2.0**-24, "bf16": 2.0**-8}
TINY = {"f64": 2.0**-1022, "f32": 2.0**-126, "bf16": 2.0**-126}

# Roundings of one call of exp, log, tanh, erf and the like: 4 ulps.
FUNCTION = 8

# A sum of n terms adds up n roundings, each at most u. Taken as independent of
# mean 0, they exceed λ·√n·u with a probability of at most 2·exp(-λ²/2) (Higham &
# Mary, SIAM J. Sci. Comput. 41(5), 2019): 3e-8 for λ = 6. Where n is smaller
# than that, n·u holds for certain.
LAMBDA = 6.0


def growth(n):
    return min(float(n), LAMBDA * np.sqrt(n))


def bound(dtype, n, terms, scale=1.0):
    """Largest admissible error of each element whose terms are `terms`."""
    return growth(n) * UNIT[dtype] * np.abs(terms) + n * TINY[dtype] * scale


# Roundings to bf16 between the values of one op and its gradient: of an operand,
# of the cotangent, of a product before a bias is added, of the result. The rest
# computes in f32. A composition has as many an op.
STORED = {"swiglu_mlp": 16}
STORED_BY_OP = 4


def bf16_bound(case, n, terms, scale=1.0):
    """The same under the policy bf16, for inputs and results of f32."""
    stored = STORED.get(case, STORED_BY_OP)
    return stored * UNIT["bf16"] * np.abs(terms) + bound("f32", n, terms, scale)


def ratio(actual, expected, tolerance):
    """The worst error in units of its tolerance, and where it is."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape:
        return np.inf, f"shape {actual.shape}, expected {expected.shape}"
    if actual.size == 0:
        return 0.0, ()
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    error = np.where(same, 0.0, np.abs(actual - expected))
    tolerance = np.broadcast_to(np.asarray(tolerance, float), error.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(error == 0, 0.0, error / tolerance)
    ratios = np.where(np.isnan(ratios), np.inf, ratios)
    where = np.unravel_index(np.argmax(ratios), ratios.shape)
    return float(ratios[where]), tuple(int(i) for i in where)


# ---------------------------------------------------------------------------
# Terms of each op: functions of the inputs, the upstream gradient `g` and the
# attributes, giving {result: (n, T)} with results `y` and `gin.X`.
# ---------------------------------------------------------------------------


def unbroadcast(x, shape):
    """Sums over the dims that `shape` was broadcast along."""
    extra = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(extra)))
    axes = tuple(i for i, e in enumerate(shape) if e == 1 and x.shape[i] != 1)
    return x.sum(axis=axes, keepdims=True).reshape(shape)


def binary(op, a, b, g):
    wide = np.broadcast_shapes(a.shape, b.shape)
    count = lambda x: int(np.prod(wide)) // max(x.size, 1)
    a_, b_, g_ = np.abs(a), np.abs(b), np.abs(g)
    y, ga, gb, extra = {
        "add": lambda: (np.abs(a + b), g_, g_, 0),
        "sub": lambda: (np.abs(a - b), g_, g_, 1),
        "mul": lambda: (a_ * b_, g_ * b_, g_ * a_, 1),
        "div": lambda: (a_ / b_, g_ / b_, g_ * a_ / b_**2, 3),
    }[op]()
    return {
        "y": (1, y),
        "gin.a": (count(a) + extra, unbroadcast(np.broadcast_to(ga, wide), a.shape)),
        "gin.b": (count(b) + extra, unbroadcast(np.broadcast_to(gb, wide), b.shape)),
    }


def logistic(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def unary(op, x, y, g):
    g_, x_, y_ = np.abs(g), np.abs(x), np.abs(y)
    n = FUNCTION
    if op == "relu":
        return {"y": (0, y_), "gin.x": (0, g_)}
    if op == "exp":
        return {"y": (n, y_), "gin.x": (n + 1, g_ * y_)}
    if op == "log":
        # Near 1 the logarithm cancels nothing: it is the function's own error.
        return {"y": (n, y_), "gin.x": (1, g_ / x_)}
    if op == "sqrt":
        return {"y": (1, y_), "gin.x": (3, g_ / (2 * y_))}
    if op == "tanh":
        # 1 - y² keeps the rounding of 1.
        return {"y": (n, y_), "gin.x": (n + 3, g_ * (1 + y_**2))}
    s = logistic(x)
    if op == "sigmoid":
        return {"y": (n + 2, y_), "gin.x": (n + 5, g_ * s * (1 + s))}
    if op == "silu":
        return {"y": (n + 3, y_), "gin.x": (n + 8, g_ * s * (1 + x_ * (1 + s)))}
    if op == "gelu_tanh":
        # Φ = s(v), v = 2√(2/π)(x + 0.044715x³): a relative error of v reaches
        # Φ as |v|·s(1-s), and its derivative, of at most s(1-s), likewise.
        c = 2 * np.sqrt(2 / np.pi)
        v, dv = np.abs(c * (x + 0.044715 * x**3)), c * (1 + 3 * 0.044715 * x**2)
        # As (1 + tanh(v/2))/2, the sum keeps the rounding of 1.
        phi, slope = 0.5 * (1 + np.tanh(v / 2)), s_slope(v)
        return {
            "y": (n + 8, x_ * (phi + v * slope)),
            "gin.x": (n + 12, g_ * (phi + v * slope + x_ * dv * (1 + v) * slope)),
        }
    if op == "gelu_erf":
        density = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
        # As (1 + erf)/2, the sum keeps the rounding of 1.
        phi = 1.0
        return {
            "y": (n + 4, x_ * (phi + x_ * density)),
            "gin.x": (n + 8, g_ * (phi + 2 * x_ * density + x_**3 * density)),
        }
    raise KeyError(op)


def s_slope(v):
    return logistic(v) * logistic(-v)


def reduction(op, x, axes, y, g):
    count = int(np.prod([x.shape[i] for i in axes]))
    wide = np.expand_dims(np.abs(g), axes) * np.ones_like(x)
    if op == "max":
        # The maximum is exact; its gradient is divided by the number of ties.
        is_max = x == np.expand_dims(y, axes)
        return {"y": (0, np.abs(y)), "gin.x": (1, wide * is_max)}
    terms = np.abs(x).sum(axis=axes)
    if op == "sum":
        return {"y": (count, terms), "gin.x": (0, wide)}
    return {"y": (count + 1, terms / count), "gin.x": (2, wide / count)}


def matmul(a, b, g, trans_a=False, trans_b=False):
    """Products of magnitudes, and the reduction length of each."""
    a_, b_ = np.abs(a), np.abs(b)
    row, column = a.ndim == 1, b.ndim == 1
    a2 = a_[None, :] if row else np.swapaxes(a_, -1, -2) if trans_a else a_
    b2 = b_[:, None] if column else np.swapaxes(b_, -1, -2) if trans_b else b_
    wide = list(np.broadcast_shapes(a2.shape[:-2], b2.shape[:-2]))
    m, k, n = a2.shape[-2], a2.shape[-1], b2.shape[-1]
    g2 = np.abs(g).reshape(wide + [m, n])
    y = (a2 @ b2).reshape(g.shape)
    ga = unbroadcast(g2 @ np.swapaxes(b2, -1, -2), a2.shape)
    gb = unbroadcast(np.swapaxes(a2, -1, -2) @ g2, b2.shape)
    batch = int(np.prod(wide))
    times_a = batch * m * k // a2.size
    times_b = batch * k * n // b2.size
    ga = np.swapaxes(ga, -1, -2) if trans_a else ga
    gb = np.swapaxes(gb, -1, -2) if trans_b else gb
    return {
        "y": (k, y),
        "gin.a": (n + times_a, ga.reshape(a.shape)),
        "gin.b": (m + times_b, gb.reshape(b.shape)),
    }


def linear(x, w, b, g):
    k, n = x.shape[-1], w.shape[0]
    rows = x.size // k
    x2, g2 = np.abs(x).reshape(rows, k), np.abs(g).reshape(rows, n)
    result = {
        "y": (k + 1, (x2 @ np.abs(w).T + np.abs(b)).reshape(g.shape)),
        "gin.x": (n, (g2 @ np.abs(w)).reshape(x.shape)),
        "gin.w": (rows, g2.T @ x2),
        "gin.b": (rows, g2.sum(axis=0)),
    }
    return result


def layer_norm(x, w, b, g, eps):
    n = x.shape[-1]
    rows = x.size // n
    x2, g2 = x.reshape(rows, n), np.abs(g).reshape(rows, n)
    mean = x2.mean(axis=1, keepdims=True)
    r = 1 / np.sqrt(((x2 - mean) ** 2).mean(axis=1, keepdims=True) + eps)
    normal = np.abs(x2 - mean) * r
    # The rounding of the mean is one of mean |x|, and reaches x̂ times r.
    wide = 2 * normal + r * np.abs(x2).mean(axis=1, keepdims=True)
    h = np.abs(w) * g2
    y = np.abs(w) * wide + np.abs(b)
    mean_hx = (h * wide).mean(axis=1, keepdims=True)
    dx = 2 * r * (h + h.mean(axis=1, keepdims=True) + wide * mean_hx)
    return {
        "y": (n + 5, y.reshape(x.shape)),
        "gin.x": (2 * n + 12, dx.reshape(x.shape)),
        "gin.w": (rows + n + 5, (g2 * wide).sum(axis=0)),
        "gin.b": (rows, g2.sum(axis=0)),
    }


def softmax(x, dim, g, log):
    n = x.shape[dim]
    shifted = x - x.max(axis=dim, keepdims=True)
    exponentials = np.exp(shifted)
    total = exponentials.sum(axis=dim, keepdims=True)
    p = exponentials / total
    # The rounding of x - m reaches its exponential times |x - m|.
    weight = 1 + np.abs(shifted)
    along = lambda t: t.sum(axis=dim, keepdims=True)
    g_ = np.abs(g)
    if log:
        terms = np.abs(shifted) + np.abs(np.log(total)) + along(p * weight)
        return {
            "y": (n + 2 * FUNCTION + 2, terms),
            "gin.x": (2 * n + 4 * FUNCTION, g_ + p * (1 + terms) * along(g_)),
        }
    spread = p * (weight + along(p * weight))
    return {
        "y": (n + FUNCTION + 3, spread),
        "gin.x": (
            2 * n + 2 * FUNCTION + 8,
            spread * (g_ + along(g_ * p)) + p * along(g_ * spread),
        ),
    }


def cross_entropy(x, targets, g, reduction, ignored):
    n = x.shape[-1]
    rows = x.size // n
    x2, t = x.reshape(rows, n), targets.reshape(rows)
    counted = t != ignored
    most = x2.max(axis=1, keepdims=True)
    shifted = x2 - most
    total = np.exp(shifted).sum(axis=1, keepdims=True)
    p = np.exp(shifted) / total
    weight = 1 + np.abs(shifted)
    inner = (p * weight).sum(axis=1, keepdims=True)
    chosen = np.abs(x2[np.arange(rows), np.where(counted, t, 0)])
    loss = counted * (
        np.abs(most) + np.abs(np.log(total)) + inner + chosen[:, None]
    ).reshape(rows)
    hot = np.zeros_like(x2)
    hot[np.arange(rows), np.where(counted, t, 0)] = 1
    count = int(counted.sum())
    scale = np.abs(np.broadcast_to(g.reshape(-1), (rows,)))
    if reduction == "mean":
        scale = scale / count
    dx = (p * (weight + inner) + hot) * (scale * counted)[:, None]
    y = {"mean": loss.sum() / max(count, 1), "sum": loss.sum(), "none": loss}[reduction]
    extra = 0 if reduction == "none" else rows + 1
    return {
        "y": (n + 2 * FUNCTION + 3 + extra, np.asarray(y).reshape(g.shape)),
        "gin.x": (n + FUNCTION + 6, dx.reshape(x.shape)),
    }


def embedding(table, ids, g):
    width = table.shape[1]
    dtable = np.zeros(table.shape)
    np.add.at(dtable, ids.reshape(-1), np.abs(g).reshape(-1, width))
    return {"y": (0, np.abs(table[ids])), "gin.w": (ids.size, dtable)}


def attention(q, k, v, g, scale, causal):
    """Layout B, H, T, D."""
    t, s, d = q.shape[2], k.shape[2], q.shape[3]
    q_, k_, v_, g_ = np.abs(q), np.abs(k), np.abs(v), np.abs(g)
    swap = lambda x: np.swapaxes(x, -1, -2)
    scores = scale * (q @ swap(k))
    sizes = scale * (q_ @ swap(k_))
    if causal:
        hidden = np.arange(s)[None, :] > np.arange(t)[:, None] + (s - t)
        scores = np.where(hidden, -np.inf, scores)
        sizes = np.where(hidden, 0, sizes)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    along = lambda x: x.sum(axis=-1, keepdims=True)
    # A rounding of a score reaches p relatively, by itself and through the sum.
    spread = p * (2 + sizes + along(p * sizes))
    o = spread @ v_
    ds = spread * (g_ @ swap(v_)) + p * along(g_ * o) + spread * along(g_ * (p @ v_))
    n = d + s + 2 * FUNCTION + 8
    return {
        "y": (n, o),
        "gin.q": (n + d + s, scale * (ds @ k_)),
        "gin.k": (n + d + t, scale * (swap(ds) @ q_)),
        "gin.v": (n + t, swap(spread) @ g_),
    }


def silu_mul(a, b, g):
    s = logistic(a)
    n = FUNCTION + 4
    return {
        "y": (n, np.abs(a * s * b)),
        "gin.a": (n + 6, np.abs(g * b) * s * (1 + np.abs(a) * (1 + s))),
        "gin.b": (n, np.abs(g * a * s)),
    }


def swiglu_mlp(x, w1, w3, w2, g):
    """w2(silu(x w1ᵀ)·(x w3ᵀ)): errors of the inner products pass on."""
    k, n = x.shape[1], w1.shape[0]
    x_, g_ = np.abs(x), np.abs(g)
    a, c = x @ w1.T, x @ w3.T
    ea, ec = x_ @ np.abs(w1).T, x_ @ np.abs(w3).T  # terms of a and c
    s = logistic(a)
    slope = s * (1 + np.abs(a) * (1 + s))  # bounds silu' and its own rounding
    u = np.abs(a * s)
    eu = u + slope * ea
    ez = eu * np.abs(c) + (u + eu) * ec
    y = (u * np.abs(c) + ez) @ np.abs(w2).T
    gz = g_ @ np.abs(w2)
    # silu'' is at most 1/2 in magnitude.
    ga = gz * (np.abs(c) * (slope + ea / 2) + slope * ec)
    gc = gz * (u + eu)
    count = k + n + w2.shape[0] + x.shape[0] + 2 * FUNCTION + 16
    return {
        "y": (count, y),
        "gin.x": (count, ga @ np.abs(w1) + gc @ np.abs(w3)),
        "gin.w1": (count, ga.T @ x_),
        "gin.w3": (count, gc.T @ x_),
        "gin.w2": (count, g_.T @ (u * np.abs(c) + ez)),
    }


# ---------------------------------------------------------------------------
# Whole models
# ---------------------------------------------------------------------------


def path(dtype, lengths):
    """Admissible error of an element of a tensor at the end of a path of ops with
    these reduction lengths, relative to the tensor's root mean square.

    Relative to its own size, an op of length n adds an error of √n·u; the errors
    of the ops of a path are independent, so their squares add up.
    """
    return LAMBDA * UNIT[dtype] * np.sqrt(float(sum(lengths)))


def gpt2_lengths(layers, dim, heads, vocab, context, rows):
    """Reduction lengths on the longest path through GPT-2 and back to the first
    parameter's gradient, `rows` being the number of tokens."""
    norm = dim + 5
    attention = dim // heads + context + 2 * FUNCTION + 8
    forward_block = [norm, dim + 1, attention, dim + 1, 1]
    forward_block += [norm, dim + 1, FUNCTION + 8, 4 * dim + 1, 1]
    norm_back = 2 * dim + 12
    attention_back = 2 * attention + context
    backward_block = [dim, FUNCTION + 12, 4 * dim, norm_back, 1]
    backward_block += [dim, attention_back, 3 * dim, norm_back, 1]
    head = [norm, dim, vocab + 2 * FUNCTION + 3]
    head_back = [vocab + FUNCTION + 6, vocab, norm_back]
    lengths = layers * (forward_block + backward_block) + head + head_back
    return lengths + [rows]


def adamw(dtype, param, steps, lr, relative, grad_rms, root_v):
    """Admissible error of a parameter after AdamW steps.

    Each step adds lr·m̂/√v̂, which an error of relative·grad_rms in the gradient
    moves by at most twice its share of √v̂, and never by more than 2·lr; each
    step also rounds the parameter.
    """
    share = np.minimum(2.0, 2 * relative * grad_rms / np.maximum(root_v, 1e-300))
    return bound(dtype, 4 * steps, param) + lr * steps * share
