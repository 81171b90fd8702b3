#!/usr/bin/env python3
"""Runs the node tests of the installed onnx package with apc, and prints docs/conformance.md.

    python3 tests/onnx/conformance.py build/apc > docs/conformance.md        # needs onnx, numpy

    --only GLOB,...  only tests of these names
    --jobs N         tests at once (default: 2)
    --json FILE      also write the outcome of every test
    --earlier FILE   take the other tests' outcomes from such a file
    --one            one rank only

A test is a model of one node, or of a few, with inputs and the outputs that are expected of it.  It runs as a user
would run it: `apc run MODEL --inputs IN.npz --outputs OUT.npz`.  Every element of every output is compared as the
package's own runner compares it: equal shape and type, |x - y| <= atol + rtol |y| with the test's tolerances, and for
bf16 two steps; elements of 8 bits and fewer must be equal.  A test passes, is refused (apc says why, and computes
nothing), or is wrong (anything else).  A few tests have stored outputs that are at fault; the page lists them.

A test that passes on one rank runs on two ranks as well, forced to split (--tp 2, else --dp 2 or --cp 2).  Where apc
answers that a degree would only replicate work, the test counts as not divisible.

Not part of the test suite: the package is not a requirement of the build, and the run takes minutes."""
import argparse
import collections
import concurrent.futures
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import warnings

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

TYPES = {"float16", "float32", "float64", "bfloat16", "bool"}
TYPES |= {f"{sign}int{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)}
TYPES |= {"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn"}
ML_NAMES = {t for t in TYPES if t.startswith(("float8", "float4")) or t in ("int4", "uint4", "int2", "uint2")}
# Tests whose stored outputs are not what the standard's text, or arithmetic, gives.
STORED = {
    "test_dft_inverse": "10 elements are 0 exactly; the stored ones are 2e-7, the rounding of another algorithm",
    "test_dft_inverse_opset19": "as test_dft_inverse",
    "test_resize_downsample_scales_cubic_align_corners":
        "the corners of a fractional extent are aligned; by the text they are those of the resized tensor",
    "test_resize_downsample_scales_linear_align_corners": "as test_resize_downsample_scales_cubic_align_corners",
    **{f"test_bernoulli{form}": "random numbers of another generator"
       for form in ("", "_double", "_double_expanded", "_expanded", "_seed", "_seed_expanded")},
}
SINGLE = {}  # the operator of every test of one node

# The first pattern that what apc says matches is the reason of a refusal.
REASONS = [
    (r"STRING", "strings"),
    (r"FLOAT6", "types of 6 bits"),
    (r"operator set .* is not supported; apc reads", "operator set"),
    (r"imports no version of the default operator set", "domains ai.onnx.ml and ai.onnx.preview.training"),
    (r"operator \S+ is not supported at operator set", "operators that apc does not have"),
    (r"training_mode", "training mode"),
    (r"unique slices along an axis", "elements along an axis"),
    (r"APC0114", "sizes that depend on data which is not an input"),
]


def load_cases(pattern):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests
        cases = load_model_tests(kind="node")
    wanted = [c for c in cases if any(fnmatch.fnmatch(c.name, p) for p in pattern.split(","))]
    return sorted(wanted, key=lambda c: c.name)


def operator_of(case):
    """The operator that the test is for: that of its only node, else that of most nodes with the test's name."""
    ops = [n.op_type for n in case.model.graph.node]
    if len(ops) == 1:
        return ops[0]
    plain = re.sub(r"_expanded(_ver\d+|_function_.*)?$", "", case.name)
    return SINGLE.get(plain) or (ops[-1] if not case.name.endswith("_expanded") else plain)


def to_array(x):
    """An array that np.savez can write and apc read; None if it has no such form."""
    if isinstance(x, TensorProto):
        x = numpy_helper.to_array(x)
    if isinstance(x, (list, tuple)) or not hasattr(x, "dtype"):
        return None
    x = np.asarray(x)
    return x if x.dtype.name in TYPES else None


def fault_of(out, want, case):
    """How an output differs from the expected array; None if it does not."""
    bf16, small = want.dtype.name == "bfloat16", want.dtype.itemsize == 1 and want.dtype.name in ML_NAMES
    if out.dtype == np.dtype(f"V{want.dtype.itemsize}"):
        out = out.view(want.dtype)  # NumPy has no name for the type
    if out.shape != want.shape:
        return f"shape {out.shape}, not {want.shape}"
    if out.dtype != want.dtype:
        return f"type {out.dtype}, not {want.dtype}"
    if bf16 or small:
        out, want = out.astype(np.float32), want.astype(np.float32)
    try:
        np.testing.assert_allclose(out, want, rtol=max(case.rtol, 2**-6) if bf16 else 0 if small else case.rtol,
                                   atol=0 if small else case.atol)
    except AssertionError as e:
        return " ".join(str(e).split())[:300]
    return None


def reason_of(text, case):
    kinds = {v.type.WhichOneof("value") for v in [*case.model.graph.input, *case.model.graph.output]}
    if kinds != {"tensor_type"}:
        return "sequences and optionals as inputs and outputs"
    said = " ".join(line for line in text.splitlines() if re.search("error|note", line))
    for pattern, name in REASONS:
        if re.search(pattern, said):
            return name
    return "other"


def first_error(text):
    for line in text.splitlines():
        if "error" in line:
            return line.strip()
    return text.strip().splitlines()[-1] if text.strip() else "no message"


def attempt(apc, case, folder, options):
    """The outcome of one run: (passed | refused | wrong | indivisible, what apc said, reason)."""
    graph, (inputs, wanted) = case.model.graph, case.data_sets[0]
    arrays = {v.name: to_array(x) for v, x in zip(graph.input, inputs)}
    wanted = {v.name: to_array(x) for v, x in zip(graph.output, wanted)}
    readable = all(x is not None for x in [*arrays.values(), *wanted.values()])
    model, given, out = (os.path.join(folder, f) for f in ("model.onnx", "in.npz", "out.npz"))
    onnx.save(case.model, model)
    if readable:
        np.savez(given, **arrays)
    if os.path.exists(out):
        os.remove(out)
    command = [apc, "run", model, "--outputs", out] + options + (["--inputs", given] if readable and arrays else [])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return "wrong", "no answer in 300 seconds", ""
    if done.returncode == 3 and options:
        return "indivisible", "", ""
    if done.returncode in (1, 2, 3, 5):
        return "refused", first_error(done.stderr), reason_of(done.stderr, case)
    if done.returncode != 0:
        return "wrong", f"exit {done.returncode}: {first_error(done.stderr)}", ""
    if not readable:
        return "wrong", "computes with types that have no file form", ""
    with np.load(out) as z:
        for name, want in wanted.items():
            fault = fault_of(z[name], want, case) if name in z else "is missing"
            if fault:
                return "stored" if case.name in STORED else "wrong", f"output {name}: {fault}", ""
    return "passed", "", ""


def run_case(apc, case, one):
    with tempfile.TemporaryDirectory() as folder:
        first = attempt(apc, case, folder, [])
        second = None
        if first[0] == "passed" and not one:
            for degree in ("--tp", "--dp", "--cp"):
                second = attempt(apc, case, folder, ["--target", "cpux2", degree, "2"])
                if second[0] != "indivisible":
                    break
    return {"name": case.name, "operator": operator_of(case), "outcome": first[0], "said": first[1],
            "reason": first[2], "two": second[0] if second else "", "two_said": second[1] if second else ""}


def counts(results, key="outcome"):
    return collections.Counter(r[key] for r in results)


def table(out, head, rows):
    out.append("| " + " | ".join(head) + " |")
    out.append("| " + " | ".join("---" for _ in head) + " |")
    out += ["| " + " | ".join(str(x) for x in row) + " |" for row in rows]
    out.append("")


def bullets(texts):
    return [textwrap.fill(t, 120, initial_indent="- ", subsequent_indent="  ", break_long_words=False) for t in texts]


def report(results, version, one):
    n = counts(results)
    two = counts(results, "two")
    out = ["# Conformance with ONNX", "",
           "Generated by `tests/onnx/conformance.py`, which says how the tests run and how outputs are compared.", "",
           f"The {len(results)} tests are the node tests of onnx {onnx.__version__}; they ran with {version}.", ""]
    rows = [["1 rank", n["passed"], n["refused"], n["wrong"], n["stored"], ""]]
    if not one:
        rows.append(["2 ranks, of those that pass on one", two["passed"], two["refused"], two["wrong"], "",
                     two["indivisible"]])
    table(out, ["", "passed", "refused", "wrong", "stored outputs at fault", "not divisible"], rows)
    out += ["## Reasons of refusals", ""]
    reasons = counts([r for r in results if r["outcome"] == "refused"], "reason")
    table(out, ["reason", "tests", "operators"],
          [[why, k, ", ".join(sorted({r["operator"] for r in results if r["reason"] == why}))] for why, k in
           sorted(reasons.items(), key=lambda x: (-x[1], x[0]))])
    wrong = [r for r in results if "wrong" in (r["outcome"], r["two"])]
    if wrong:
        out += ["## Wrong", ""]
        out += bullets(f"`{r['name']}`: {r['said'] or 'on 2 ranks: ' + r['two_said']}" for r in wrong) + [""]
    at_fault = [r["name"] for r in results if r["outcome"] == "stored"]
    if at_fault:
        out += ["## Stored outputs at fault", ""] + bullets(f"`{name}`: {STORED[name]}" for name in at_fault) + [""]
    out += ["## By operator", "",
            "A test whose model spells the operator out as its function body counts for the operator.", ""]
    by = collections.defaultdict(list)
    for r in results:
        by[r["operator"]].append(r)
    rows = []
    for op, list_ in sorted(by.items()):
        c, t = counts(list_), counts(list_, "two")
        why = "; ".join(sorted({r["reason"] for r in list_ if r["outcome"] == "refused"}))
        rows.append([op, c["passed"], c["refused"] or "", c["wrong"] or "", t["passed"] if not one else "", why])
    table(out, ["operator", "passed", "refused", "wrong", "passed on 2 ranks", "why refused"], rows)
    return "\n".join(out).rstrip() + "\n"


def main():
    a = argparse.ArgumentParser()
    a.add_argument("apc")
    a.add_argument("--only", default="*")
    a.add_argument("--jobs", type=int, default=2)
    a.add_argument("--json")
    a.add_argument("--earlier")
    a.add_argument("--one", action="store_true")
    a = a.parse_args()
    version = subprocess.run([a.apc, "version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    cases = load_cases(a.only)
    SINGLE.update({c.name: c.model.graph.node[0].op_type for c in cases if len(c.model.graph.node) == 1})
    earlier = json.load(open(a.earlier)) if a.earlier else []
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        results = list(pool.map(lambda c: run_case(a.apc, c, a.one), cases))
    ran = {r["name"] for r in results}
    results = sorted(results + [r for r in earlier if r["name"] not in ran], key=lambda r: r["name"])
    if a.json:
        with open(a.json, "w") as f:
            json.dump(results, f, indent=1)
    sys.stdout.write(report(results, version, a.one))


main()
