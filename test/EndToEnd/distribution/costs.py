#!/usr/bin/env python3
"""What the cost sheet of a plan says against what a run of the program counts.

usage: costs.py --bin DIR --part sheet|unsharded
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "programs", "Inputs"))
from harness import Test, tokens  # noqa: E402

PARTS = ("sheet", "unsharded")
test = Test(__doc__, lambda parser: parser.add_argument("--part", choices=PARTS, required=True))
VOCAB, T, BATCH = 61, 16, 12
model = test.gpt2(vocab=VOCAB, context=T)
test.shard("data.bin", tokens(2000, VOCAB))

PLANS = (
    (2, 0, 1, ()),
    (2, 1, 1, ("--link=latency_us=5,gb_per_s=2",)),
    (3, 1, 2, ()),
    (2, 2, 2, ("--precision=bf16",)),
    (2, 3, 1, ()),
)
if test.options.part == "unsharded":
    PLANS = PLANS[1:2]


def sheet(name, ranks, zero, accum, flags):
    report = test.path(name + ".json")
    program = test.compile(
        model, name, f"--batch={BATCH}", f"--seq={T}", f"--mesh=dp={ranks}",
        f"--zero={zero}", f"--accum={accum}", "--report", report, *flags,
    )
    with open(report) as file:
        return program, json.load(file)


trained = {}
for ranks, zero, accum, flags in PLANS:
    name = f"r{ranks}z{zero}k{accum}"
    program, plan = sheet(name, ranks, zero, accum, flags)
    trained[name] = test.train(program, "--devices", ranks, steps=2, out=name)
    counted = test.lines(name + ".jsonl")[-1]
    cost = plan["cost"]
    train = next(e for e in cost["entries"] if e["name"] == "train")
    test.check(
        train["bytes"] == counted["collective_bytes"],
        f"{name}: {train['bytes']} bytes, counted {counted['collective_bytes']}",
    )
    test.check(
        train["calls"] == counted["collective_calls"],
        f"{name}: {train['calls']} calls, counted {counted['collective_calls']}",
    )
    # The rows add up to the sum; a local_shard sends nothing.
    rows = [c for c in plan["collectives"] if c["entry"] == "train"]
    test.check(
        sum(c["bytes"] * c["count"] for c in rows) == train["bytes"],
        f"{name}: rows add up",
    )
    test.check(
        all((c["bytes"] == 0) == (c["kind"] == "local_shard") for c in rows)
        and all(c["size"] == ranks and c["axis"] == "dp" for c in rows),
        f"{name}: kinds and groups",
    )
    test.check(
        all("gpt2.mlir:" in c["location"] for c in rows), f"{name}: source lines"
    )
    link = cost["link"]
    expected = (5, 2) if flags and flags[0].startswith("--link") else (20, 4)
    test.check(
        abs(link["latency_us"] - expected[0]) < 1e-9
        and abs(link["gb_per_s"] - expected[1]) < 1e-9,
        f"{name}: link {link}",
    )
    seconds = train["calls"] * link["latency_us"] * 1e-6 + train["bytes"] / (
        link["gb_per_s"] * 1e9
    )
    test.check(abs(train["seconds"] / seconds - 1) < 1e-9, f"{name}: seconds")
    # Gradients and weights are what the formula says; the loss, labels counted for
    # it and, without microbatches, for its gradient, and the norm come on top.
    numbers = 4 if accum == 1 else 3
    sent, formula = train["bytes"] - 4 * numbers * (ranks - 1), cost["formula_bytes"]
    # In stage 3 not all is gathered again; in bf16 some is read in f32.
    low, high = (0.7, 1) if zero == 3 else (1, 1.5) if flags == ("--precision=bf16",) else (1, 1)
    test.check(
        low * formula <= sent <= high * formula, f"{name}: {sent} bytes, formula {formula}"
    )
    memory = {m["class"]: m for m in cost["memory"]}
    for kind in ("parameters", "moments"):
        test.check(
            memory[kind]["bytes"] == memory[kind]["formula_bytes"],
            f"{name}: {kind} {memory[kind]}",
        )
    state = sum(o["bytes"] for o in plan["owners"] if o["entry"] == "")
    test.check(
        memory["parameters"]["bytes"] + memory["moments"]["bytes"] <= state,
        f"{name}: state",
    )
    test.check(memory["gradients"]["bytes"] > 0, f"{name}: gradients")
    # Whole gradients are there in stage 0 and while microbatches are added up.
    whole, found = memory["parameters"]["formula_bytes"], memory["gradients"]["bytes"]
    if zero == 0 or (zero == 1 and accum > 1):
        test.check(found >= whole, f"{name}: gradients {found}, whole {whole}")

if test.options.part == "unsharded":
    # Parameters that stay whole are gathered as gradients; the numbers are the same.
    test.write("layout.json", json.dumps({"unsharded": ["*.bias", "wte.*"]}))
    expected, weights = trained["r2z1k1"]
    for zero in (1, 3):
        name = f"layout{zero}"
        program, plan = sheet(name, 2, zero, 1, ("--layout", test.path("layout.json")))
        lines, saved = test.train(program, "--devices", 2, steps=2, out=name)
        test.check(saved == weights, f"{name}: weights")
        test.check(
            [line["loss"] for line in lines] == [line["loss"] for line in expected],
            f"{name}: losses",
        )
        memory = {m["class"]: m for m in plan["cost"]["memory"]}
        for kind in ("moments",) if zero == 1 else ("moments", "parameters"):
            test.check(
                memory[kind]["bytes"] > memory[kind]["formula_bytes"],
                f"{name}: {kind} {memory[kind]}",
            )
    test.finish()

page = test.path("page.html")
test.compile(model, "page", f"--batch={BATCH}", f"--seq={T}", "--mesh=dp=2",
             "--report", page)
with open(page) as file:
    text = file.read()
test.check('"cost": {' in text and "Between ' + cost.devices" in text, "page")

# One device has no such costs.
report = test.path("one.json")
test.compile(model, "one", f"--batch={BATCH}", f"--seq={T}", "--report", report)
with open(report) as file:
    plan = json.load(file)
test.check("cost" not in plan and plan["collectives"] == [], "one device")

for text, message in (
    ("latency=1", "expected latency_us=N or gb_per_s=N, got 'latency=1'"),
    ("latency_us=-1", "expected a number for latency_us, got '-1'"),
    ("gb_per_s=0", "expected a positive number for gb_per_s, got '0'"),
    ("gb_per_s=nan", "expected a positive number for gb_per_s, got 'nan'"),
):
    test.refuse(
        "--link: " + message,
        *(test.tool("bt-compile"), model, "--mesh=dp=2", f"--link={text}", "-o", "x"),
    )
test.finish()
