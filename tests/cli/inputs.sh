#!/bin/bash
# Inputs that would give wrong numbers or fill the memory are refused before the run.
. "$(dirname "$0")/lib.sh"
gpt=$source_dir/examples/gpt-tiny.onnx
"$apc" "$gpt" -q --target cpux2 -o gpt
/usr/bin/python3 - <<'PY'
import numpy as np
def save(name, value, dtype=np.int64):
    t = np.zeros((2, 8), dtype); t[1, 3] = value; np.save(name, t)
save("last.npy", 511); save("minus1.npy", -1); save("first.npy", -512); save("over.npy", 512); save("under.npy", -513)
save("huge.npy", 2**62); save("least.npy", -2**63)
np.savez("over.npz", tokens=np.load("over.npy"))
x = np.zeros((3,), np.int64); x[2] = 9; np.save("ids9.npy", x); x[2] = -1; np.save("ids-1.npy", x)
PY

# ids of a token table: ONNX counts negative ones from the end
expect 0 "" ./gpt --input @last.npy --outputs last.npz
expect 0 "" ./gpt --input @minus1.npy --outputs minus1.npz
check "-1 is not the last row" cmp -s last.npz minus1.npz
expect 0 "" ./gpt --input @first.npy
expect 1 "input 'tokens': element [1, 3] is 512; as an index it must be -512 to 511" ./gpt --input @over.npy; no_out
expect 1 "element [1, 3] is -513" ./gpt --input @under.npy
expect 1 "element [1, 3] is 4611686018427387904" ./gpt --input @huge.npy
expect 1 "element [1, 3] is -9223372036854775808" ./gpt --input @least.npy
expect 1 "element [1, 3] is 512" ./gpt --inputs over.npz
for command in run verify bench; do expect 1 "element [1, 3] is 512" "$apc" $command "$gpt" -q --input tokens=@over.npy; no_out; done
expect 0 "" ./gpt --input random:3
expect 0 "" ./gpt --input zeros

# ids of another type, if all convert exactly to the input's type
/usr/bin/python3 - <<'PY'
import numpy as np
t = np.zeros((2, 8)); t[1, 3] = 511
for kind in "i4", "u2", "f4": np.save(f"of_{kind}.npy", t.astype(kind)), np.savez(f"of_{kind}.npz", tokens=t.astype(kind))
np.save("of_b1.npy", t.astype(bool)); t[1, 3] = 2.5; np.save("half.npy", t); np.savez("half.npz", tokens=t)
t[1, 3] = 512; np.save("over_f4.npy", t.astype("f4"))
np.save("big.npy", np.full((2, 8), 2**63, np.uint64)); np.save("x64.npy", np.zeros((2, 8)))
PY
for kind in i4 u2 f4; do
  expect 0 "" ./gpt --input @of_$kind.npy --outputs $kind.npz
  check "$kind gives other numbers" cmp -s last.npz $kind.npz
  expect 0 "" ./gpt --inputs of_$kind.npz --outputs $kind.npz
  check "$kind in an archive gives other numbers" cmp -s last.npz $kind.npz
done
expect 0 "" "$apc" run "$gpt" -q --input @of_f4.npy
expect 0 "" "$apc" run "$gpt" -q --inputs of_u2.npz
half="input 'tokens': element [1, 3] is 2.5; it takes whole numbers of type i64"
expect 1 "$half" ./gpt --input @half.npy; expect 1 "$half" ./gpt --inputs half.npz
expect 1 "$half" "$apc" run "$gpt" -q --input @half.npy; expect 1 "$half" "$apc" run "$gpt" -q --inputs half.npz
expect 1 "element [0, 0] is 9223372036854775808; it takes" ./gpt --input @big.npy
expect 1 "element [1, 3] is 512; as an index" ./gpt --input @over_f4.npy
expect 1 "input 'tokens' is bool, but the model expects i64" ./gpt --input @of_b1.npy
expect 1 "input 'tokens' is i64, but the tensor given is bool" "$apc" run "$gpt" -q --input @of_b1.npy

# a plain gather takes no negative ones; indices that an IR text computes are not checked
cat >plain.ir <<'IR'
apc.ir 1
param "t" : f32[9, 2] = normal 1 seed 1
func @main level 1 {
  %i = input {name="i"} : i64[3]
  %t = param {name="t"} : f32[9, 2]
  %y = gather %t, %i {axis=0, start=0} : f32[3, 2]
  output "y" %y
}
IR
sed 's/%y = gather %t, %i/%one = const {value=1} : i64[3]\n  %j = add %i, %one : i64[3]\n  %y = gather %t, %j/' plain.ir >shifted.ir
expect 0 "" "$apc" run plain.ir -q --input random
expect 1 "element [2] is 9; as an index it must be 0 to 8" "$apc" run plain.ir -q --input @ids9.npy
expect 1 "element [2] is -1" "$apc" run plain.ir -q --input @ids-1.npy
expect 0 "" "$apc" run shifted.ir -q --input @ids-1.npy
expect 0 "" "$apc" run shifted.ir -q --input @ids9.npy # 10 is outside: the row is 0 (docs/ir.md)

# Indices that depend on sizes only: refused before the run if the row does not exist; also for fixed sizes.
cat >past.apc <<'APC'
dim seq, past
entry main(x: f32[seq, 4], cache: f32[past, 4]) {
  weight wpe: f32[16, 4] = normal(0.02)
  output y = gather(wpe, iota(seq) + past) + x + sum(cache, [0], keep=1)
}
APC
expect 0 "" "$apc" past.apc -q --init random --target cpux2 -o past
expect 0 "y [8, 4]" ./past --input x=random --input cache=random --dim seq=8 --dim past=8
expect 1 "with these sizes the last index of 'y.gather' is out of range: 16 is not in 0 to 15" ./past --input x=random --input cache=random --dim seq=8 --dim past=9
expect 1 "16 is not in 0 to 15" "$apc" run past.apc -q --init random --dim seq=8 --dim past=9

# Sizes that come from inputs: bound at compile time, by the command line or, where the model runs, by themselves.
/usr/bin/python3 - <<'PY'
import numpy as np, onnx
from onnx import TensorProto as T, helper
value = helper.make_tensor_value_info
nodes = [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("TopK", ["r", "k"], ["top", "at"]),
         helper.make_node("Add", ["top", "more"], ["y"])]
info = [value("x", T.FLOAT, [2, 3, 4]), value("shape", T.INT64, ["n"]), value("k", T.INT64, [1]), value("more", T.FLOAT, [1])]
m = helper.make_model(helper.make_graph(nodes, "sized", info, [value("y", T.FLOAT, None)]),
                      opset_imports=[helper.make_opsetid("", 17)])
m.ir_version = 8
onnx.save(m, "sized.onnx")
x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
given = {"x": x, "shape": np.array([4, 6]), "k": np.array([2]), "more": np.array([1], np.float32)}
np.savez("sized.npz", **given)
np.savez("sized_expect.npz", y=np.sort(x.reshape(4, 6))[:, :3:-1] + 1)
for name in "shape", "k", "x": np.save(name + ".npy", given[name])
np.save("k_i4.npy", np.array([2], "i4")); np.save("k_half.npy", np.array([2.5])); np.save("k3.npy", np.array([3]))
np.save("long.npy", np.zeros(70000, np.int64))
given["shape"] = np.array([4, 3]); np.savez("other.npz", **given)
PY
expect 1 'the shape (input "shape") is computed from data' "$apc" sized.onnx -q
for target in cpu cpux2; do
  expect 0 "equal" "$apc" run sized.onnx --target $target --inputs sized.npz --expect sized_expect.npz
  expect_err "Binding 'shape' to the value given, since sizes depend on it"
done
expect 0 "ok" "$apc" verify sized.onnx -q --target cpux2 --inputs sized.npz
expect 0 "sized.onnx on cpu" "$apc" bench sized.onnx -q --runs 1 --input shape=@shape.npy --input k=@k_i4.npy
expect 0 "" "$apc" sized.onnx -q --const shape=@shape.npy --const k=@k_i4.npy --target cpux2 -o sized; no_err
expect 0 "" ./sized --inputs sized.npz --outputs sized_out.npz
check "other numbers" /usr/bin/python3 -c 'import numpy as np; assert np.array_equal(np.load("sized_out.npz")["y"], np.load("sized_expect.npz")["y"])'
expect 0 "" ./sized --bench=1
expect 0 "input  k : i64[1], always 2" ./sized --help; no_err; expect_out "Inputs and outputs"; expect_out "--completion bash|zsh|fish"
expect 0 "sized for cpux2, by apc 0." ./sized --version; no_err
check "--version without a hash" grep -qE '^program version [0-9]+, hash [0-9a-f]{16}$' out
for shell in bash zsh fish; do expect 0 "Completion of sized for $shell" ./sized --completion $shell; no_err; done
./sized --completion=bash >sized.bash
expect 0 "--transport tcp mpi" bash -c '. ./sized.bash; COMP_WORDS=(./sized --tran) COMP_CWORD=1; _apc_model; printf "%s " "${COMPREPLY[@]}"
  COMP_WORDS=(./sized --transport "") COMP_CWORD=2; _apc_model; echo "${COMPREPLY[@]}"'
expect 2 "expected bash, zsh or fish" ./sized --completion csh; no_out
cp sized 'a;b'; expect 2 "not a plain word" './a;b' --completion bash; no_out
expect 1 "input 'shape': element [1] is 3, but the program was compiled for the value 6 (--const)" ./sized --inputs other.npz; no_out
expect 1 "input 'k': element [0] is 3, but the program was compiled for the value 2" ./sized --inputs sized.npz --input k=@k3.npy
expect 1 "compiled for the value 2" "$apc" run sized.onnx -q --const k=@k.npy --inputs sized.npz --input k=@k3.npy
expect 0 "%k = input {ints=[2], name=\"k\"} : i64[1]" "$apc" plan sized.onnx -q --const shape=@shape.npy --const k=@k.npy --emit ir=-
expect 1 'the model has no input "j"' "$apc" sized.onnx -q --const j=@k.npy
expect 1 'the model has 4 inputs, so the value needs a name' "$apc" sized.onnx -q --const @k.npy
expect 1 'input "shape" is i64[n], but the value given for it is f32[2, 3, 4]' "$apc" sized.onnx -q --const shape=@x.npy
expect 1 'input "k" is i64, but the value given for it is f64' "$apc" sized.onnx -q --const shape=@shape.npy --const k=@k_half.npy
expect 2 "--const takes NAME=@FILE.npy, not 'k=2'" "$apc" sized.onnx -q --const k=2
expect 2 "has 70000 elements; at most 65536" "$apc" sized.onnx -q --const k=@long.npy
expect 2 "--const binds inputs of .onnx models" "$apc" past.apc -q --const x=@k.npy

# elements of tensors, of results and of logits, as ONNX writes them; ignored labels may be anywhere
/usr/bin/python3 - <<'PY'
import numpy as np, onnx
from onnx import TensorProto as T, helper
def model(name, op, inputs, shape, **attributes):
    info = [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs]
    node = helper.make_node(op, [i.name for i in info], ["y"], **attributes)
    m = helper.make_model(helper.make_graph([node], name, info, [helper.make_tensor_value_info("y", T.FLOAT, shape)]),
                          opset_imports=[helper.make_opsetid("", 16)])
    m.ir_version = 8
    onnx.save(m, name + ".onnx")
five, places, two = ("x", T.FLOAT, [5]), ("i", T.INT64, [2]), ("u", T.FLOAT, [2])
logits = ("x", T.FLOAT, [2, 5])
model("take", "GatherElements", [five, places], [2])
model("put", "ScatterElements", [five, places, two], [5], reduction="add")
model("put_nd", "ScatterND", [five, ("i", T.INT64, [2, 1]), two], [5])
model("loss", "SoftmaxCrossEntropyLoss", [logits, places], [], ignore_index=-1)
model("weighed", "NegativeLogLikelihoodLoss", [logits, places, ("w", T.FLOAT, [5])], [])
for name, at in ("ends", [-5, 4]), ("out", [0, 5]), ("under", [0, -6]), ("ignored", [-1, 4]), ("nobody", [-2, 4]):
    np.savez(f"at_{name}.npz", i=np.array(at)), np.savez(f"nd_{name}.npz", i=np.array(at)[:, None])
PY
for target in cpu cpux2; do
  for m in take put put_nd loss weighed; do "$apc" compile $m.onnx -q --target $target -o $m; done
  for m in take put put_nd; do
    at=at; [ $m = put_nd ] && at=nd
    expect 0 "" ./$m --bench=1 --inputs ${at}_ends.npz
    expect 1 "is 5; as an index it must be -5 to 4" ./$m --bench=1 --inputs ${at}_out.npz
    expect 1 "is -6; as an index it must be -5 to 4" ./$m --bench=1 --inputs ${at}_under.npz
  done
  expect 0 "" ./loss --bench=1 --inputs at_ignored.npz
  expect 1 "element [0] is -2; as an index it must be 0 to 4, or -1, which is ignored" ./loss --bench=1 --inputs at_nobody.npz
  expect 1 "element [1] is 5; as an index" ./loss --bench=1 --inputs at_out.npz
  expect 1 "element [0] is -1; as an index it must be 0 to 4" ./weighed --bench=1 --inputs at_ignored.npz
done

# Indices that the model computes, and lists of them in its file.
/usr/bin/python3 - <<'PY'
import numpy as np, onnx
from onnx import TensorProto as T, helper, numpy_helper
def model(name, nodes, inputs, outputs, **constants):
    nodes = [helper.make_node(op, i, o, "/" + op, **a) for op, i, o, a in nodes]
    info = [[helper.make_tensor_value_info(*v) for v in values] for values in (inputs, outputs)]
    values = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    m = helper.make_model(helper.make_graph(nodes, name, *info, values), opset_imports=[helper.make_opsetid("", 16)])
    m.ir_version = 8
    onnx.save(m, name + ".onnx")
i, x, u, one = ("i", T.INT64, [2, 3]), ("x", T.FLOAT, [2, 5]), ("u", T.FLOAT, [2, 3]), np.int64(1)
add, table = ("Add", ["i", "one"], ["j"], {}), np.ones((10, 4), np.float32)
model("c_gather", [add, ("Gather", ["t", "j"], ["y"], {})], [i], [("y", T.FLOAT, [2, 3, 4])], one=one, t=table)
model("c_take", [add, ("GatherElements", ["x", "j"], ["y"], {"axis": 1})], [i, x], [("y", T.FLOAT, [2, 3])], one=one)
model("c_put", [add, ("ScatterElements", ["x", "j", "u"], ["y"], {"axis": 1})], [i, x, u], [("y", T.FLOAT, [2, 5])], one=one)
at, v = ("i", T.INT64, [3, 2]), ("u", T.FLOAT, [3])
model("c_nd", [("GatherND", ["x", "i"], ["y"], {})], [at, x], [("y", T.FLOAT, [3])])
model("c_scatter", [("ScatterND", ["x", "i", "u"], ["y"], {})], [at, x, v], [("y", T.FLOAT, [2, 5])])
for name, k in ("in", [0, -10]), ("out", [0, 10]), ("under", [-11, 3]):
    model("l_" + name, [("Gather", ["t", "k"], ["g"], {}), ("Mul", ["g", "x"], ["y"], {})], [("x", T.FLOAT, [2, 4])],
          [("y", T.FLOAT, [2, 4])], t=table, k=np.array(k))
    ks = np.zeros((200, 1), np.int64); ks[100:102, 0] = k
    model("l_nd_" + name, [("GatherND", ["x", "k"], ["y"], {})], [("x", T.FLOAT, [10, 4])], [("y", T.FLOAT, [200, 4])], k=ks)
t, few = ("i", T.INT64, [2]), ("x", T.FLOAT, [2, 5])
model("c_loss", [add, ("SoftmaxCrossEntropyLoss", ["x", "j"], ["y"], {"ignore_index": 0})], [t, few], [("y", T.FLOAT, [])], one=one)
for name, k in ("in", [-1, 3]), ("out", [0, 4]), ("under", [-2, 0]): np.savez(f"t_{name}.npz", i=np.array(k))
model("c_lookup", [add, ("Gather", ["t", "j"], ["e"], {}), ("MatMul", ["e", "w"], ["y"], {})], [("i", T.INT64, [4, 3])],
      [("y", T.FLOAT, [4, 3, 7])], one=one, t=np.ones((10, 8), np.float32), w=np.ones((8, 7), np.float32))
model("c_vocab", [add, ("Gather", ["t", "j"], ["e"], {}), ("MatMul", ["e", "w"], ["h"], {}), ("Relu", ["h"], ["r"], {}),
                  ("MatMul", ["r", "v"], ["y"], {})], [("i", T.INT64, [1, 3])], [("y", T.FLOAT, [1, 3, 64])], one=one,
      t=np.ones((512, 64), np.float32), w=np.ones((64, 256), np.float32), v=np.ones((256, 64), np.float32))
for name, k in ("in", 300), ("out", 511): np.savez(f"v_{name}.npz", i=np.array([[0, k, 510]]))
rows = np.zeros((16, 3), np.int64); np.save("rows.npy", rows); rows[9, 1] = 9; np.save("rows9.npy", rows)
ids = np.array([[0, 1, 2], [3, 0, 2]])
for name, value in ("in", -6), ("out", 4), ("under", -7), ("far", 9), ("deep", -12):
    ids[1, 1] = value
    np.savez(f"c_{name}.npz", i=ids)
x, every = ("x", T.FLOAT, [2, 5]), np.arange(10, dtype=np.float32).reshape(2, 5)
model("e_gather", [("Gather", ["x", "k"], ["y"], {})], [x], [("y", T.FLOAT, [2, 5])], k=np.array([-1, -1]))
model("e_take", [("GatherElements", ["x", "k"], ["y"], {"axis": 1})], [x], [("y", T.FLOAT, [2, 1])], k=np.array([[-1], [-1]]))
model("e_put", [("ScatterElements", ["x", "k", "v"], ["y"], {"axis": 1})], [x], [("y", T.FLOAT, [2, 5])], k=np.array([[-1], [-1]]),
      v=np.full((2, 1), 7, np.float32))
model("e_nd", [("GatherND", ["x", "k"], ["y"], {})], [x], [("y", T.FLOAT, [1, 5])], k=np.array([[-1]]))
model("e_scatter", [("ScatterND", ["x", "k", "v"], ["y"], {})], [x], [("y", T.FLOAT, [2, 5])], k=np.array([[-1]]),
      v=np.full((1, 5), 7, np.float32))
model("e_byte", [("Cast", ["x"], ["b"], {"to": T.UINT8}), ("Cast", ["b"], ["j"], {"to": T.INT64}), ("Gather", ["t", "j"], ["y"], {})],
      [x], [("y", T.FLOAT, [2, 5, 4])], t=np.arange(40, dtype=np.float32).reshape(10, 4))
np.savez("e_x.npz", x=every)
put, scatter = every.copy(), every.copy()
put[:, -1], scatter[-1] = 7, 7
np.savez("e_want.npz", gather=every[[-1, -1]], take=every[:, -1:], put=put, nd=every[[-1]], scatter=scatter,
         byte=np.arange(40, dtype=np.float32).reshape(10, 4)[every.astype(int)])
for name, row in ("in", [-2, -5]), ("out", [0, 5]), ("under", [-3, 0]): np.savez(f"n_{name}.npz", i=np.array([[0, 4], [1, 1], row]))
PY
for target in cpu cpux3; do
  for m in gather take put nd scatter loss; do "$apc" compile c_$m.onnx -q --target $target -o c_$m; done
  expect 0 "" ./c_gather --bench=1 --inputs c_out.npz
  expect 1 "'/Gather.within'" ./c_gather --bench=1 --inputs c_far.npz; expect_err "index [1, 1] is 10; it must be -10 to 9"; no_out
  expect 1 "index [1, 1] is -11; it must be -10 to 9" ./c_gather --bench=1 --inputs c_deep.npz
  for m in take put; do
    expect 0 "" ./c_$m --bench=1 --inputs c_in.npz
    expect 1 "index [1, 1] is 5; it must be -5 to 4" ./c_$m --bench=1 --inputs c_out.npz
    expect 1 "index [1, 1] is -6; it must be -5 to 4" ./c_$m --bench=1 --inputs c_under.npz
  done
  expect 0 "" ./c_loss --bench=1 --inputs t_in.npz # 0 is ignored
  expect 1 "index [1] is 5; it must be 0 to 4" ./c_loss --bench=1 --inputs t_out.npz
  expect 1 "index [0] is -1; it must be 0 to 4" ./c_loss --bench=1 --inputs t_under.npz
  for m in nd scatter; do
    expect 0 "" ./c_$m --bench=1 --inputs n_in.npz
    expect 1 "index [2] is 5; it must be -5 to 4" ./c_$m --bench=1 --inputs n_out.npz
    expect 1 "index [2] is -3; it must be -2 to 1" ./c_$m --bench=1 --inputs n_under.npz
  done
done
# Lists of equal numbers, from the end; and positions that were bytes.
for m in gather take put nd scatter byte; do
  expect 0 "" "$apc" run e_$m.onnx -q --target cpux2 --inputs e_x.npz --outputs e_$m.npz
  check "e_$m" /usr/bin/python3 -c 'import sys, numpy as np; sys.exit(not np.array_equal(np.load(sys.argv[1])["y"], np.load("e_want.npz")[sys.argv[2]]))' e_$m.npz $m
done
# A training step ends as well, and no file is written.
expect 0 "" "$apc" compile c_lookup.onnx -q --target cpux2 --train cross_entropy -o c_lookup
expect 0 "" ./c_lookup --steps 4 --shuffle none --data i=@rows.npy --data labels=@rows.npy
expect 1 "index [1, 1] is 10; it must be -10 to 9" ./c_lookup --steps 4 --shuffle none --data i=@rows9.npy --data labels=@rows.npy --save w.safetensors
check "weights of a run that failed" test ! -e w.safetensors
# A table whose rows are cut: a rank has half of them, and all indices are valid.
"$apc" plan c_vocab.onnx -q --target cpux2 --tp 2 --save-plan cut.plan >/dev/null
printf 'op "/Gather" {v0:tp}\nop "t" {x0:tp}\n' >>cut.plan
expect 0 "" "$apc" compile c_vocab.onnx -q --target cpux2 --plan cut.plan --emit=exe=c_vocab,spmd=cut.ir
check "the table is not cut" grep -q 'param {name="t"} : f32\[256, 64\]' cut.ir
expect 0 "" ./c_vocab --bench=1 --inputs v_in.npz
expect 1 "index [0, 1] is 512; it must be -512 to 511" ./c_vocab --bench=1 --inputs v_out.npz
expect 0 "" "$apc" verify c_gather.onnx -q --target cpux2 # random indices are in range
expect 1 "index [1, 1] is 10; it must be -10 to 9" "$apc" verify c_gather.onnx -q --target cpux2 --inputs c_far.npz
for m in l_in l_nd_in; do expect 0 "" "$apc" compile $m.onnx -q --target cpu -o l; done
expect 1 "Gather: index [1] is 10; it must be -10 to 9" "$apc" compile l_out.onnx -q --target cpu -o l
expect 1 "Gather: index [0] is -11" "$apc" compile l_under.onnx -q --target cpu -o l
expect 1 "GatherND: index [101, 0] is 10" "$apc" compile l_nd_out.onnx -q --target cpu -o l
expect 1 "GatherND: index [100, 0] is -11" "$apc" compile l_nd_under.onnx -q --target cpu -o l

# Slices out of range for these sizes: refused before the run; in a branch, when it is taken.
cat >last.apc <<'APC'
dim n, m
entry main(x: f32[4, n]) {
  output y = sum(x[:, n-5:n], 1) + sum(x[:, 0:m], 1)
}
APC
expect 0 "" "$apc" last.apc -q --target cpux2 -o last
expect 0 "y [4]" ./last --input random --dim n=5 --dim m=5
expect 1 "with these sizes" ./last --input random --dim n=4 --dim m=1; expect_err "slices outside dimension 1 of its operand: 5 is not in 0 to 4"
expect 1 "slices outside dimension 1 of its operand: 6 is not in 0 to 5" ./last --input random --dim n=5 --dim m=6
cat >branch.ir <<'IR'
apc.ir 1
symbol n min 1 hint 8
func @main level 1 {
  %x = input {name="x"} : f32[n]
  %go = input {name="go"} : i64[]
  %z = const {value=0} : f32[4]
  %t = loop %go {trips=1} : i64[]
  %h = carry %z : f32[4]
  %s = slice %x {starts=[n-5], strides=[1]} : f32[4]
  %a = add %h, %s : f32[4]
  repeat "again" %t
  %y = leave %h, %a : f32[4]
  output "y" %y
}
IR
/usr/bin/python3 -c 'import numpy; [numpy.save(f"go{k}.npy", numpy.int64(k)) for k in (0, 1)]'
expect 0 "" "$apc" branch.ir -q --target cpux2 -o branch
expect 0 "y [4] = 0 0 0 0" ./branch --input x=random --input go=@go0.npy --dim n=3
expect 0 "y [4]" ./branch --input x=random --input go=@go1.npy --dim n=5
expect 1 "'s' slices outside dimension 0 of its operand: 4 is not in 0 to 3" ./branch --input x=random --input go=@go1.npy --dim n=3

# an input that is given twice: the last one counts, in apc as in the program, for all ways to give it
cat >entries.ir <<'IR'
apc.ir 1
symbol b
func @main level 1 {
  %x = input {name="x"} : f32[b, 2]
  %y = neg %x : f32[b, 2]
  output "y" %y
}
func @next level 1 {
  %z = input {name="z"} : f32[4]
  %y = neg %z : f32[4]
  output "y" %y
}
IR
sed '/@next/,$d' entries.ir >twice.ir
/usr/bin/python3 -c 'import numpy as np; x = np.ones((3, 2), np.float32); np.savez("a.npz", x=x); np.save("x.npy", 2 * x); np.save("four.npy", np.ones((4, 2), np.float32))'
expect 0 "" "$apc" twice.ir -q -o twice
for given in "--inputs a.npz --input x=zeros" "--input x=zeros --inputs a.npz" "--inputs a.npz --input x=@x.npy" "--input x=@x.npy --inputs a.npz" \
    "--input x=@x.npy --input x=random:7" "--input x=random:7 --input x=@x.npy" "--input x=@four.npy --inputs a.npz" "--inputs a.npz --input x=@four.npy"; do
  case $given in *=zeros | *=random:7) b="--dim b=3" ;; *) b= ;; esac
  expect 0 "" "$apc" run twice.ir -q $b $given --outputs by_apc.npz
  expect 0 "" ./twice $b $given --outputs by_program.npz
  check "apc and the program take different inputs" cmp -s by_apc.npz by_program.npz
done
expect 0 "ok" "$apc" verify entries.ir -q --input z=zeros --input x=@x.npy # each entry takes its own inputs
expect 1 "the model has no input 'w'" "$apc" verify entries.ir -q --input w=zeros
expect 1 "the model has no input 'token.weight'" "$apc" run "$gpt" -q --input token.weight=zeros
expect_err "'token.weight' is a weight: the program loads it"

# sizes beyond any machine's memory: refused with the number of bytes, before they are filled
expect 1 "these sizes need" ./gpt --input random --dim batch=100000000; expect_err "bytes for inputs and outputs"
expect 1 "bytes" ./gpt --input random --dim batch=4000000000000
expect 1 "error:" ./gpt --input random --dim batch=9000000000000000000
# two ranks hold 2 MiB of panels once (whole pages of them): that much less than twice the memory of one rank at half
# the batch
for ranks in 1 2; do
  expect 0 "" "$apc" "$source_dir/examples/mlp.apc" -D layers=1 -D d=256 --init random --target cpux$ranks --dp $ranks -q -o mlp$ranks
  expect 1 "these sizes need" ./mlp$ranks --input random --dim batch=${ranks}000000000
  need[ranks]=$(sed -n 's/.* and \([0-9]*\) for.*/\1/p' err)
done
check "${need[1]} bytes of one rank, ${need[2]} of two" test $((2 * need[1] - need[2])) -ge $((2047 << 10)) -a $((2 * need[1] - need[2])) -le $((2053 << 10))
expect 1 "would have 51200000000 bytes" "$apc" run "$gpt" -q --dim batch=100000000 --input random
expect 3 "needs" "$apc" run twice.ir -q --dim b=1000000 --micro-batches 1 --memory 1MB --input zeros
expect 3 "needs" "$apc" plan "$gpt" -q --dim-hint batch=100000000 --micro-batches 1
expect 1 "would have 51200000000000 bytes" "$apc" run "$gpt" -q --dim batch=100000000000 --memory 1000000TiB --input random
expect 1 "above 2^40" "$apc" run "$gpt" -q --dim batch=4000000000000000000 --input random
summary 104
