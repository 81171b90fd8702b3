#!/usr/bin/env python3
"""Records the results of ONNX Runtime's CPU kernels for single operators of its own, as tests/onnx/runtime.txt.

    python3 tests/onnx/runtime_cases.py > tests/onnx/runtime.txt        # needs onnx, onnxruntime, numpy

A case is an operator with its attributes, a line for each input and one for each output (`_`: absent).  Inputs are the
numbers of tests/onnx_numbers.h in a range, or listed integers; `=` before them makes the input an initializer.  Of
outputs with many elements some are listed, `/ 5` every fifth.  The test is tests/onnx/runtime.c."""
import math

import numpy as np
import onnxruntime as ort
from onnx import helper, numpy_helper

TYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "i8": np.int8,
         "u16": np.uint16, "bool": np.bool_}
NAMES = {np.dtype(v): k for k, v in TYPES.items()}
SHOWN = 9


def numbers(text):
    """An input: type[dims] LOW..HIGH, or type[dims] n,n,n"""
    dtype, rest = text.split("[")
    dims, what = rest.split("]")
    dims, what = [int(d) for d in dims.split(",") if d], what.strip(" =")
    count = math.prod(dims)
    if ".." in what:
        low, high = (float(x) for x in what.split(".."))
        whole = not dtype.startswith("f")
        x = [low + (high + whole - low) * math.fmod(0.5 + i * 0.6180339887498949, 1) for i in range(count)]
        x = [math.floor(v) for v in x] if whole else x
    else:
        x = [float(v) for v in what.split(",")]
    return np.array(x, TYPES[dtype]).reshape(dims)


def attributes(text):
    out = {}
    for item in text.split():
        name, value = item.split("=")
        if value[0] == "[":
            out[name] = [float(v) if "." in v else int(v) for v in value[1:-1].split(",")]
        else:
            out[name] = value if value[0].isalpha() else float(value) if "." in value or "e" in value else int(value)
    return out


def shown(x):
    flat = x.reshape(-1)
    step = max(1, math.ceil(len(flat) / SHOWN))
    every = f" / {step}" if step > 1 else ""
    listed = ",".join(f"{float(v):.6g}" for v in flat[::step])
    return f"{NAMES[x.dtype]}[{','.join(map(str, x.shape))}]{every} {listed}"


def case(op, attrs, inputs, outputs="y", domain="com.microsoft"):
    known = [numpy_helper.from_array(numbers(t), f"x{i}") for i, t in enumerate(inputs) if t and "=" in t]
    feed = {f"x{i}": numbers(t) for i, t in enumerate(inputs) if t and "=" not in t}
    names = outputs.split(",")
    node = helper.make_node(op, [f"x{i}" if t else "" for i, t in enumerate(inputs)], names, domain=domain,
                            **attributes(attrs))
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                      for k, v in feed.items()], [helper.make_empty_tensor_value_info(n) for n in names if n], known)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets)
    model.ir_version = 8
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = iter(session.run(None, feed))
    print(f"\n{domain or 'onnx'}.{op} {attrs}".rstrip())
    for text in inputs:
        print(f"  {text or '_'}")
    for name in names:
        print(f"> {shown(next(results)) if name else '_'}")


def activations_and_norms():
    x, skip, row = "f32[2,3,4] -2..2", "f32[2,3,4] -1..2", "f32[4] -1..1"
    case("Gelu", "", [x])
    case("BiasGelu", "", [x, row])
    case("FastGelu", "", [x])
    case("FastGelu", "", [x, row])
    case("QuickGelu", "alpha=1.5", [x])
    case("SkipLayerNormalization", "epsilon=1e-05", [x, skip, row, "f32[4] 0..1", "f32[4] 0..2"], "y,,,sum")
    case("SkipLayerNormalization", "", [x, "f32[3,4] -1..2", row, None, "f32[4] 0..2"])
    case("SkipSimplifiedLayerNormalization", "epsilon=1e-05", [x, skip, row, "f32[4] 0..2"], "y,,,sum")
    case("SimplifiedLayerNormalization", "axis=-1 epsilon=1e-05 stash_type=1", [x, row], domain="")
    tables = ["f32[6,4] -1..1", "f32[5,4] -2..2"]
    ids, segments, mask = "i32[2,3] 1,2,3,4,0,1", "i32[2,3] 0,0,1,1,0,1", "i32[2,3] 1,1,0,1,1,1"
    case("EmbedLayerNormalization", "epsilon=1e-05",
         [ids, segments, *tables, "f32[2,4] 0..1", row, "f32[4] 0..1", mask], "y,index,sum")
    case("EmbedLayerNormalization", "", [ids, None, *tables, None, row, "f32[4] 0..1", None, "i32[1,3] 2,4,0"],
         "y,index")


def products():
    case("FusedMatMul", "transA=1 alpha=0.5", ["f32[2,4,3] -1..1", "f32[4,5] -1..2"])
    case("FusedMatMul", "transB=1 transBatchA=1", ["f32[3,2,4] -1..1", "f32[2,5,4] -1..2"])
    case("FusedMatMul", "transA=1 transB=1 transBatchA=1 transBatchB=1", ["f32[4,2,3] -1..1", "f32[5,2,4] -1..2"])
    case("FusedGemm", "activation=LeakyRelu activation_alpha=0.3 alpha=0.5 beta=2.0 transB=1",
         ["f32[3,4] -1..1", "f32[5,4] -1..2", "f32[5] -1..1"])
    case("FusedGemm", "activation=HardSigmoid activation_alpha=0.3 activation_beta=0.4",
         ["f32[3,4] -1..1", "f32[4,5] -1..2"])
    case("FusedConv", "activation=Clip activation_params=[-0.5,0.75] kernel_shape=[3,3] pads=[1,1,1,1] strides=[2,2]",
         ["f32[1,2,4,5] -1..1", "f32[3,2,3,3] -1..2", "f32[3] -1..1"])
    case("FusedConv", "activation=Relu group=2",
         ["f32[1,2,4,5] -1..1", "f32[4,1,3,3] -1..2", None, "f32[1,4,2,3] -1..1"])


def attention():
    x, w, b = "f32[2,3,4] -2..2", "f32[4,12] -1..1", "f32[12] -1..1"
    case("Attention", "num_heads=2", [x, w, b])
    case("Attention", "num_heads=2 unidirectional=1", [x, w, b, None, "f32[2,2,2,2,2] -1..1"], "y,present")
    case("Attention", "num_heads=2", [x, w, b, "i32[2] 2,3"])
    case("Attention", "num_heads=2", [x, w, b, "i32[4] 2,3,0,1"])
    case("Attention", "num_heads=2 mask_filter_value=-3.0", [x, w, b, "i32[2,3] 1,1,0,0,0,0"])
    case("Attention", "num_heads=2 unidirectional=1", [x, w, b, "i32[2,3,3] 0..1", None, "f32[1,2,3,3] -1..1"])
    case("Attention", "num_heads=2 qkv_hidden_sizes=[4,4,6] scale=0.3", [x, "f32[4,14] -1..1", "f32[14] -1..1"])
    q, k, v = "f32[2,2,4] -2..2", "f32[2,3,4] -1..2", "f32[2,3,6] -1..1"
    case("MultiHeadAttention", "num_heads=2", [q, k, v, "f32[14] -1..1", "i32[2,3] 1,1,0,1,1,1", "f32[2,2,2,3] -1..1"])
    case("MultiHeadAttention", "num_heads=2 unidirectional=1",
         [q, "f32[2,2,4] -1..1", "f32[2,2,4] 0..1", None, None, None, "f32[2,2,3,2] -1..1", "f32[2,2,3,2] -1..1"],
         "y,key,value")
    case("MultiHeadAttention", "num_heads=2", [q, "f32[2,2,3,2] -1..1", "f32[2,2,3,2] -1..2", "f32[12] -1..1"])
    caches = ["f32[9,2] -1..1", "f32[9,2] 0..1"]
    case("RotaryEmbedding", "", ["f32[2,3,8] -1..1", "i64[2,3] 3,4,5,0,1,2", *caches])
    case("RotaryEmbedding", "interleaved=1", ["f32[2,2,3,4] -1..1", "i64[1] 4", *caches])
    case("RotaryEmbedding", "num_heads=2 rotary_embedding_dim=4", ["f32[1,2,12] -1..1", "i64[1] 0", *caches])
    heads = "num_heads=4 kv_num_heads=2"
    new = ["f32[2,1,64] -1..1", "f32[2,1,32] -1..1", "f32[2,1,32] -1..1"]
    past, angles = ["f32[2,2,4,16] -1..1", "f32[2,2,4,16] -2..1"], ["f32[9,8] -1..1", "f32[9,8] 0..1"]
    case("GroupQueryAttention", f"{heads} do_rotary=1", [*new, *past, "i32[2] 2,4", "i32[] = 5", *angles], "y,key,value")
    case("GroupQueryAttention", f"{heads} local_window_size=2 softcap=1.5",
         [*new, *past, "i32[2] 4,4", "i32[] = 5", None, None, None, None, "f32[4] -1..1"], "y,key,value")
    case("GroupQueryAttention", f"{heads} do_rotary=1 rotary_interleaved=1",
         ["f32[1,3,128] -1..1", None, None, None, None, "i32[1] 2", "i32[] = 3", *angles], "y,key,value")
    case("GroupQueryAttention", f"{heads} smooth_softmax=1 scale=0.2",
         [*new, "f32[2,2,6,16] -1..1", "f32[2,2,6,16] -2..1", "i32[2] 4,4", "i32[] = 5", None, None, None,
          "f32[1,4,1,5] -1..1"], "y,key,value")


def few_bits():
    case("MatMulNBits", "K=40 N=3 bits=4 block_size=16",
         ["f32[2,40] -1..1", "u8[3,3,8] 0..255", "f32[3,3] 0.01..0.05", "u8[3,2] 0..255", None, "f32[3] -1..1"])
    case("MatMulNBits", "K=32 N=3 bits=8 block_size=16",
         ["f32[1,2,32] -1..1", "u8[3,2,16] 0..255", "f32[6] 0.01..0.05"])
    case("MatMulNBits", "K=32 N=3 bits=2 block_size=16",
         ["f32[2,32] -1..1", "u8[3,2,4] 0..255", "f32[3,2] 0.01..0.05", "f32[3,2] 0..3"])
    case("GatherBlockQuantized", "bits=4 block_size=16 gather_axis=0 quantize_axis=1",
         ["u8[6,16] 0..255", "i64[2] 4,-6", "f32[6,2] 0.01..0.05", "u8[6,1] 0..255"])
    x, router = "f32[3,4] -1..1", "f32[3,4] -2..2"
    case("MoE", "activation_type=gelu k=2",
         [x, router, "f32[4,5,4] -1..1", "f32[4,5] -1..1", "f32[4,4,5] -1..1", "f32[4,4] -1..1"])
    case("MoE", "activation_type=swiglu k=2 normalize_routing_weights=1 swiglu_fusion=1 swiglu_limit=0.5 "
         "activation_alpha=1.7 activation_beta=1.0", [x, router, "f32[4,6,4] -1..1", None, "f32[4,4,3] -1..1"])
    case("QMoE", "activation_type=silu k=2 normalize_routing_weights=1 weights_prepacked=0",
         ["f32[3,16] -1..1", router, "u8[4,6,8] 0..255", "f32[4,6] 0.01..0.05", "f32[4,6] -1..1", "u8[4,16,3] 0..255",
          "f32[4,16] 0.01..0.05"])
    case("QMoE", "activation_type=silu k=2 normalize_routing_weights=1 block_size=16 weights_prepacked=0",
         ["f32[3,32] -1..1", router, "u8[4,16,16] 0..255", "f32[4,16,2] 0.01..0.05", None, "u8[4,32,8] 0..255",
          "f32[4,32,1] 0.01..0.05", None, None, None, None, "u8[4,16,1] 0..255", "u8[4,32,1] 0..255"])


def quantised():
    a = ["u8[2,3] 0..255", "f32[] 0.02", "u8[] 120"]
    b = ["u8[2,3] 40..200", "f32[] 0.03", "u8[] 100"]
    y = ["f32[] 0.05", "u8[] 128"]
    case("QLinearAdd", "", a + b + y)
    case("QLinearMul", "", a + b + y)
    case("QLinearSigmoid", "", [*a, "f32[] 0.00390625", "u8[] 0"])
    case("QLinearLeakyRelu", "alpha=0.2", a + y)
    case("QLinearConcat", "axis=0", y + a + b)
    case("QLinearSoftmax", "axis=1 opset=11", ["u8[2,3,2] 0..255", *a[1:], "f32[] 0.00390625", "u8[] 0"])
    case("QLinearSoftmax", "axis=1 opset=13", ["u8[2,3,2] 0..255", *a[1:], "f32[] 0.00390625", "u8[] 0"])
    case("QLinearWhere", "", ["bool[2,3] 0..1", *a, *b, *y])
    image = ["u8[1,4,5,2] 0..255", *a[1:]]
    case("QLinearAveragePool", "channels_last=1 kernel_shape=[3,3] pads=[1,1,1,1] strides=[2,2]", image + y)
    case("QLinearGlobalAveragePool", "channels_last=1", image + y)
    case("NhwcMaxPool", "kernel_shape=[2,2] strides=[2,2]", ["i8[1,4,4,3] -128..127"])
    case("QuantizeLinear", "", ["f32[2,3] -1..1", "f32[] 0.0001", "u16[] 5000"])
    case("DequantizeLinear", "axis=1", ["i8[2,3] -128..127", "f32[3] 0.01..0.02", "i8[3] -9..9"])
    case("DynamicQuantizeMatMul", "",
         ["f32[2,4] -1..1", "i8[4,3] -128..127", "f32[3] 0.01..0.02", "i8[3] -9..9", "f32[3] -1..1"])
    case("MatMulIntegerToFloat", "",
         ["u8[2,4] 0..255", "i8[4,3] -128..127", "f32[] 0.02", "f32[3] 0.01..0.02", "u8[] 120"])
    case("QGemm", "transB=1", ["u8[2,4] 0..255", "f32[] 0.02", "u8[] 120", "i8[3,4] -128..127", "f32[] 0.01", "i8[] 1",
                               "i32[3] -999..999", "f32[] 0.5", "u8[] 99"])
    case("QAttention", "num_heads=2", ["u8[1,3,4] 0..255", "i8[4,12] -128..127", "f32[12] -1..1", "f32[] 0.01",
                                       "f32[] 0.005", "i32[1] 2", "u8[] 128", "i8[] 1"])


if __name__ == "__main__":
    print(f"# Recorded by tests/onnx/runtime_cases.py from ONNX Runtime {ort.__version__}.")
    activations_and_norms()
    products()
    attention()
    few_bits()
    quantised()
