#!/bin/bash
# Operators of the user's own (docs/guide/operators.md): rules by option and by file, kernels in a library, four ranks
# that split their dimensions, refusals, and errors of kernels.
. "$(dirname "$0")/lib.sh"

cat >kernels.c <<'C'
#include <apc_operator.h>
#include <math.h>
/* by * x; attribute by; 13 is refused */
int my_Scale(const ApcOpCall *call) {
  const float *x = call->inputs[0].data;
  float *y = call->outputs[0].data;
  const float by = (float)apc_op_number(call, "by", 1);
  if (apc_op_number(call, "mode", -7) != -7) return apc_op_fail(call, "the text of mode is a number");
  if (by == 13) return apc_op_fail(call, "by is 13 for %lld elements", (long long)call->inputs[0].elements);
  if (by == 14) return 1;
  for (int64_t i = 0; i < call->outputs[0].elements; i++) y[i] = by * x[i];
  return 0;
}
/* x w, and the largest element of each row */
static void row(int64_t r, void *data) {
  const ApcOpCall *call = data;
  int64_t k = call->inputs[1].extents[0], n = call->inputs[1].extents[1];
  const float *x = (const float *)call->inputs[0].data + r * k, *w = call->inputs[1].data;
  float *y = (float *)call->outputs[0].data + r * n, *most = (float *)call->outputs[1].data;
  most[r] = -INFINITY;
  for (int64_t j = 0; j < n; j++) {
    y[j] = 0;
    for (int64_t i = 0; i < k; i++) y[j] += x[i] * w[i * n + j];
    if (y[j] > most[r]) most[r] = y[j];
  }
}
int my_Rows(const ApcOpCall *call) {
  call->parallel(call->outputs[1].elements, row, (void *)call);
  return call->threads < 1;
}
/* sums over k, by way of the scratch */
int sum_of_rows(const ApcOpCall *call) {
  const ApcOpTensor *x = &call->inputs[0];
  int64_t k = x->extents[1];
  float *y = call->outputs[0].data, *s = call->scratch;
  if (call->scratch_bytes != 4 * k) return apc_op_fail(call, "%lld bytes", (long long)call->scratch_bytes);
  for (int64_t i = 0; i < x->extents[0]; i++) {
    memcpy(s, (const float *)x->data + i * k, 4 * (size_t)k);
    y[i] = 0;
    for (int64_t j = 0; j < k; j++) y[i] += s[j];
  }
  return 0;
}
C
library() { cc -O2 -Wall -Wextra -Werror -shared -fPIC -I"$source_dir/program" "$@"; }
check "the library was not compiled" library kernels.c -o kernels.so
/usr/bin/python3 - <<'PY'
import numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh
x = np.arange(48, dtype=np.float32).reshape(6, 8) / 16 - 1
w = np.random.default_rng(0).standard_normal((8, 8), dtype=np.float32)
vi = lambda name, shape: h.make_tensor_value_info(name, T.FLOAT, shape)
def save(name, by, outputs=("c", "m", "s"), functions=(), **more):
  nodes = [h.make_node('Scale', ['x'], ['a'], domain='my', by=by, axes=[1, 2], mode='he said "2"', name='scale', **more),
           h.make_node('Relu', ['a'], ['b']),
           h.make_node('Rows', ['b', 'w'], ['c', 'm'], domain='my', name='rows'),
           h.make_node('Sum', ['c'], ['s'], domain='my', name='total')]
  shapes = {"c": ['n', 8], "m": ['n'], "s": ['n']}
  g = h.make_graph(nodes, 'g', [vi('x', ['n', 8])], [vi(o, shapes[o]) for o in outputs], [nh.from_array(w, 'w')])
  m = h.make_model(g, opset_imports=[h.make_opsetid('', 17), h.make_opsetid('my', 1)], functions=functions)
  onnx.save(m, name)
save('m.onnx', 3.0)
save('refused.onnx', 13.0)
save('silent.onnx', 14.0)
double = h.make_function('my', 'Scale', ['x'], ['y'], [h.make_node('Add', ['x', 'x'], ['y'])],
                         [h.make_opsetid('', 17)], ['by', 'axes', 'mode'])
save('function.onnx', 3.0, functions=[double])
save('graph.onnx', 3.0, body=h.make_graph([], 'b', [], []))
c = np.maximum(3 * x, 0) @ w
np.savez('in.npz', x=x); np.savez('out.npz', c=c, m=c.max(1), s=c.sum(1))
PY
scale='my.Scale: x.. -> x..' rows='my.Rows: b.. k, k n -> b.. n, b..; work=2*b*k*n'
total='my.Sum: b k -> b; sum: k; scratch=4*k; function=sum_of_rows'
all=(--op "$scale" --op "$rows" --op "$total")

# without rules, with some, without a kernel
expect 1 "operator my.Scale is not supported at operator set 17 (1 node)" "$apc" run m.onnx -q; no_out
expect_err "--op 'my.Scale: RULE' and --op-library FILE.so make it an operator with a kernel of your own"
expect 1 "operator my.Sum is not supported" "$apc" run m.onnx -q --op "$scale" --op "$rows" --op-library kernels.so; no_out
expect 1 "operator my.Rows has no kernel (1 node)" "$apc" run m.onnx -q "${all[@]}"; no_out
expect_err "--op-library FILE.so names a library with the function sum_of_rows"
expect 0 "" "$apc" plan m.onnx -q "${all[@]}" --target cpux4; no_err

# the same numbers as NumPy on one rank and on four, which split rows, or the sum over k
expect 0 "" "$apc" run m.onnx -q "${all[@]}" --op-library kernels.so --inputs in.npz --expect out.npz
expect 0 "" "$apc" run m.onnx -q "${all[@]}" --op-library kernels.so --inputs in.npz --expect out.npz --target cpux4 --dp 4
expect 0 "" "$apc" plan m.onnx -q "${all[@]}" --target cpux4 --dp 4 --save-plan p.plan
sed 's/^op "total".*/op "total" {k:dp}/' p.plan >k.plan
expect 0 "" "$apc" plan m.onnx -q "${all[@]}" --target cpux4 --plan k.plan --emit=spmd=k.ir; check "no sum over ranks" grep -q "all_reduce %total {op=sum" k.ir
expect 0 "" "$apc" verify m.onnx -q "${all[@]}" --op-library kernels.so --inputs in.npz --expect out.npz --target cpux4 --plan k.plan
expect_out "proved   the parallel program computes the model"; expect_out "given    the rules of my.Scale, my.Rows, my.Sum, which the proof takes as true"
expect 0 "" "$apc" verify m.onnx -q "${all[@]}" --op-library kernels.so --target cpux4 --plan k.plan --json
expect_json 'd["ok"] and d["proof"] == "proved" and d["proof_rules"] == "my.Scale, my.Rows, my.Sum" and d["reference"]'

# a rule that claims too much
expect 4 "DIFFERS  s" "$apc" verify m.onnx -q "${all[@]/sum: k/max: k}" --op-library kernels.so --target cpux4 --plan k.plan --dim-hint n=6 --inputs in.npz
expect_out "from a kernel that does not do what its rule says"

# one program: the library is part of it
expect 0 "" "$apc" m.onnx -q "${all[@]}" --op-library kernels.so --target cpux4 --dp 4 -o program
mv kernels.so moved.so
expect 0 "operator my.Sum: sum_of_rows of a library of" ./program --inputs in.npz --outputs o.npz --describe
expect 0 "" ./program --inputs in.npz --outputs o.npz --describe=json
expect_json '[o["function"] for o in d["operators"]] == ["my_Scale", "my_Rows", "sum_of_rows"]'
check "the outputs differ" /usr/bin/python3 -c 'import numpy as np; a, b = np.load("o.npz"), np.load("out.npz"); assert all(np.allclose(a[k], b[k], 1e-4, 1e-5) for k in b)'
/usr/bin/python3 - <<'PY'
b = bytearray(open('program', 'rb').read()); at = b.rindex(b'by is 13 for'); b[at] ^= 1; open('damaged', 'wb').write(b)
PY
chmod +x damaged; expect 1 "the library of operator my.Scale does not match its checksum" ./damaged --inputs in.npz --outputs o.npz
(ulimit -n 200; ./program --inputs in.npz --outputs o.npz >few.out 2>few.err)
check "no word of the limit" grep -q "cannot be loaded: the limit of open files (ulimit -n) must exceed 200" few.err
mv moved.so kernels.so

# rules in a file beside the library; options come first
printf '# rules\n\n%s  # all of it\n%s\n%s\n' "$scale" "$rows" "$total" >kernels.ops
expect 0 "" "$apc" run m.onnx -q --op-library kernels.so --inputs in.npz --expect out.npz
expect 0 "" "$apc" run m.onnx -q --op-library kernels.so --op "$scale; frozen: x" --inputs in.npz --expect out.npz
expect 0 "" "$apc" run function.onnx -q --op-library kernels.so --inputs in.npz --expect out.npz # the rule replaces the function
sed 's/k n -> /k n, -> /' kernels.ops >bad.ops; cp kernels.so bad.so
expect 1 "error[APC0306]: expected a dimension, or ()" "$apc" plan m.onnx -q --op-library bad.so; expect_err "--> bad.ops:4:22"
printf '%s\n%s\n' "$scale" "$scale" >bad.ops
expect 1 "a second rule for the operator my.Scale" "$apc" plan m.onnx -q --op-library bad.so; rm bad.ops

# rules that are none, and that do not fit
bad() { # bad CODE TEXT RULE...: of plan
  local text=$1
  shift
  expect 1 "$text" "$apc" plan m.onnx -q "$@"; no_out
}
bad "expected : after the operator" --op 'my.Scale x.. -> x..'; expect_err "--op:1:10"
bad "expected a comma or ->" --op 'my.Scale: x.. - x..'; expect_err '  |               ^'
bad "expected an operator" --op ': x -> x'
bad "expected an operator" --op 'my.: x -> x'
bad "a second rule for the operator my.Scale" --op "$scale" --op "$scale"; expect_err "--op (number 2):1:1"
bad "apc knows the operator Relu" --op 'Relu: x.. -> x..'
bad "apc knows the operator com.microsoft.Gelu" --op 'com.microsoft.Gelu: x.. -> x..'
bad "the model has no operator my.Other" --op 'my.Other: x.. -> x..'
bad "Scale: operand 0 has 2 dimensions, its rule has 3" --op 'my.Scale: a b c -> a'
bad "Scale: it has 1 input and 1 output, its rule has 2 and 1" --op 'my.Scale: a, b -> a'
bad "Scale: the dimension 'b' of its rule is 8 in one place and 4 in another" --op 'my.Scale: a b -> a b; b=4'
bad "Sum: output 0 is f32 in the file and i64 by its rule" --op 'my.Sum: b k -> i64 b'
bad "Sum: output 0 has another shape in the file than by its rule, f32[8, n]" --op 'my.Sum: b k -> k b'
expect 1 'attribute "body" cannot be passed to a kernel' "$apc" plan graph.onnx -q --op "$scale"

# libraries
expect 1 "error[APC0001]: no such library" "$apc" run m.onnx -q "${all[@]}" --op-library none.so
echo text >text.so; expect 1 "error[APC0307]: the library cannot be loaded" "$apc" run m.onnx -q "${all[@]}" --op-library text.so
echo 'int my_Scale(void) { return 0; }' | cc -shared -fPIC -x c - -o plain.so
expect 1 "error[APC0307]: the library was not compiled with apc_operator.h" "$apc" run m.onnx -q "${all[@]}" --op-library plain.so
printf '#include <apc_operator.h>\nint my_Scale(const ApcOpCall *c) { (void)c; return 0; }\n' >part.c; library part.c -o part.so
expect 1 "the library has no function my_Rows, the kernel of operator my.Rows" "$apc" run m.onnx -q "${all[@]}" --op-library part.so
expect 1 "the function my_Scale of operator my.Scale is also in part.so" "$apc" run m.onnx -q "${all[@]}" --op-library part.so --op-library kernels.so

# functions are the library's own: those of libc do not count, nor do variables; one with variants does
bad_function() { # bad_function NAME LIBRARY
  expect 1 "the library has no function $1, the kernel of operator my.Scale" "$apc" run m.onnx -q --op "$scale; function=$1" --op "$rows" --op "$total" --op-library "$2"
}
bad_function sched_yield kernels.so
bad_function apc_operator_version kernels.so
cat >variants.c <<'C'
#include <apc_operator.h>
#ifdef __x86_64__
__attribute__((target_clones("avx2", "default")))
#endif
int my_Scale(const ApcOpCall *c) {
  for (int64_t i = 0; i < c->outputs[0].elements; i++)
    ((float *)c->outputs[0].data)[i] = 3 * ((const float *)c->inputs[0].data)[i];
  return 0;
}
C
library variants.c -o variants.so; sed 's/int my_Scale/int other_Scale/' kernels.c >others.c; library others.c -o others.so
expect 0 "" "$apc" run m.onnx -q "${all[@]}" --op-library variants.so --op-library others.so --inputs in.npz --expect out.npz

# results that a function does not write differ
cat >part.apc <<'APC'
entry main(x: f32[4]) { output y = opaque("my.Scale: x.. -> x..", x) }
APC
expect 4 "DIFFERS  y" "$apc" verify part.apc -q --op-library part.so --target cpux2

# scratch
bad "Sum: scratch is -92" --op 'my.Sum: b k -> b; sum: k; scratch=k-100'

# a kernel that fails ends the program with its message, the operator and the node; on four ranks too
expect 1 "operator my.Scale failed: by is 13 for 48 elements" "$apc" run refused.onnx -q --op-library kernels.so --inputs in.npz
expect_err "launch 'scale' on rank 0"
expect 1 "operator my.Scale failed: by is 13 for" "$apc" run refused.onnx -q --op-library kernels.so --inputs in.npz --target cpux4 --dp 4
expect 1 "operator my.Scale failed: without a message" "$apc" run silent.onnx -q --op-library kernels.so --inputs in.npz

# every form; text and ONNX read back
for form in ir spmd legal schedule c dot html onnx; do
  expect 0 "" "$apc" plan m.onnx -q --op-library kernels.so --target cpux4 --emit=$form=f.$form
done
check "no operators in the schedule" grep -q '^operator "my.Rows" by my_Rows in blob' f.schedule
check "the C text does not compile" cc -fsyntax-only -fopenmp f.c
expect 0 "" "$apc" convert m.onnx m.ir -q --op-library kernels.so; expect 0 "" "$apc" convert m.ir again.ir -q
check "the text changes" cmp m.ir again.ir
expect 0 "" "$apc" run m.ir -q --op-library kernels.so --inputs in.npz --expect out.npz --target cpux2
expect 2 "in m.ir the rules are in the text" "$apc" run m.ir -q --op "$scale"
expect 0 "" "$apc" plan m.ir -q --op-library kernels.so --target cpux4 --emit=onnx=kept.onnx
expect 0 "" "$apc" run kept.onnx -q --op-library kernels.so --inputs in.npz --expect out.npz --target cpux4
expect 2 "in kept.onnx the rules are in the text" "$apc" run kept.onnx -q --op "$scale"
expect 0 "" "$apc" convert m.ir back.onnx -q
expect 0 "" "$apc" run back.onnx -q --op-library kernels.so --inputs in.npz --expect out.npz
cat >m.apc <<'APC'
dim n
entry main(x: f32[n, 8]) {
  weight w : f32[8, 8] = normal(1)
  r = opaque("my.Rows: b.. k, k n -> b.. n, b..", [relu(opaque("my.Scale: x.. -> x..", x, by=3.0)), w])
  output c = r[0]
  output m = r[1]
}
APC
expect 0 "given    the rules of my.Scale, my.Rows" "$apc" verify m.apc -q --op-library kernels.so --target cpux4 --dp 4
sed 's/\[relu(.*, w\]/x/' m.apc >bad.apc; expect 1 "error[APC0217]: operator my.Rows: it has 1 operand, its rule has 2" "$apc" plan bad.apc -q
sed 's/k n -> b/k n -> c/' m.apc >bad.apc; expect 1 "character 24 of the rule: only results have c.." "$apc" plan bad.apc -q
sed 's/by=3.0/by=x/' m.apc >bad.apc; expect 1 "'by' must be a number, a string or a list of them" "$apc" plan bad.apc -q

# a loop, stages and micro-batches; the reference interpreter survives a kernel that does not
cat >loop.apc <<'APC'
dim n
entry main(x: f32[n, 8]) {
  weight w : f32[8, 8] = normal(0.3)
  weight v : f32[8, 8] = normal(0.3)
  loop t < 3 carrying x { x = opaque("my.Scale: x.. -> x..", matmul(x, transpose(w)), by=1.5) }
  output y = opaque("my.Sum: b k -> b; sum: k; scratch=4*k; function=sum_of_rows", matmul(x, v))
}
APC
expect 0 "proved   pass" "$apc" verify loop.apc -q --op-library kernels.so --target cpux4 --tp 2 --dp 2
expect_out "given    the rules of my.Scale, my.Sum"
expect 0 "given    the rules of" "$apc" verify m.apc -q --op-library kernels.so --target cpux4 --pp 2 --micro-batches 2 --dim n=8
printf '#include <apc_operator.h>\nint my_Scale(const ApcOpCall *c) { abort(); return c->ninputs; }\n' >crash.c
printf '#include <apc_operator.h>\nint sum_of_rows(const ApcOpCall *c) { return c->ninputs < 1; }\n' >sum.c
library crash.c -o crash.so; library sum.c -o sum.so
expect 6 "rank 0 was killed by signal 6" "$apc" verify loop.apc -q --op-library crash.so --op-library sum.so
if command -v g++ >/dev/null; then
  printf '#include <apc_operator.h>\nextern "C" int my_Scale(const ApcOpCall *c) { return apc_op_fail(c, "C++"); }\n' >plus.cc
  check "no library in C++" g++ -Wall -Wextra -Werror -shared -fPIC -I"$source_dir/program" plus.cc -o plus.so
  expect 1 "operator my.Scale failed: C++" "$apc" run loop.apc -q --op-library plus.so --op-library sum.so
fi

# GPUs: plans only; no training through them
expect 0 "" "$apc" plan m.onnx -q --op-library kernels.so --target dgx-h100
expect 5 "error[APC0642]: my.Scale, my.Rows, my.Sum: the kernel of such an operator runs on CPUs only" "$apc" compile m.onnx -q --op-library kernels.so --target dgx-h100 -o gpu
expect 5 "error[APC0642]" "$apc" plan m.onnx -q --op-library kernels.so --target dgx-h100 --emit=cuda=-; no_out
expect 5 "error[APC0620]: my.Rows has no derivative" "$apc" plan m.apc -q --train mse
summary 114
