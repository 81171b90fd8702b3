#!/bin/bash
# Sizes of 0, where ONNX allows them: a decoder whose cache is empty at first, and operators on empty tensors, on one
# rank and four.
. "$(dirname "$0")/lib.sh"
/usr/bin/python3 -c 'import onnx' 2>/dev/null || exit 77

# One layer of attention with a cache: positions follow from the sizes, a token sees the past and itself.
cat >decoder.py <<'END2'
import subprocess, sys
import numpy as np, onnx
from onnx import helper, numpy_helper, TensorProto
B, T, H, D, V = 3, 7, 4, 4, 11
r = np.random.default_rng(0)
w = {n: (r.standard_normal(s) * .5).astype(np.float32) for n, s in (('e', (V, H * D)), ('q', (H * D, H * D)), ('k', (H * D, H * D)),
                                                                   ('v', (H * D, H * D)), ('o', (H * D, V)), ('p', (32, H * D)))}
constants = {**w, 'heads': np.array([0, 0, H, D]), 'flat': np.array([0, 0, -1]), 'one': np.array(1), 'zero': np.array(0), 'two': np.array([2]), 'first': np.array([1]),
             'axes0': np.array([0]), 'axes1': np.array([1]), 'scale': np.float32(D ** -.5), 'low': np.float32(-np.inf), 'none': np.float32(0)}
nodes = []
def node(kind, inputs, output, **attributes):
    nodes.append(helper.make_node(kind, inputs.split(), output.split(), **attributes))
for size, of, at in (('S', 'ids', 1), ('P', 'pastk', 2)):
    node('Shape', of, size + 's'), node('Gather', size + 's ' + ('one' if at == 1 else 'twos'), size)
constants['twos'] = np.array(2)
node('Add', 'P S', 'all'), node('Range', 'P all one', 'rows'), node('Range', 'zero all one', 'columns')
node('Gather', 'e ids', 'x0'), node('Gather', 'p rows', 'x1'), node('Add', 'x0 x1', 'x')
for n in 'qkv':
    node('MatMul', 'x ' + n, n + '0'), node('Reshape', n + '0 heads', n + '1'), node('Transpose', n + '1', n + '2', perm=[0, 2, 1, 3])
node('Concat', 'pastk k2', 'newk', axis=2), node('Concat', 'pastv v2', 'newv', axis=2), node('Transpose', 'newk', 'kt', perm=[0, 1, 3, 2])
node('MatMul', 'q2 kt', 's0'), node('Mul', 's0 scale', 's1'), node('Unsqueeze', 'rows axes1', 'r1'), node('LessOrEqual', 'columns r1', 'seen')
node('Where', 'seen none low', 'bias'), node('Add', 's1 bias', 's2'), node('Softmax', 's2', 's3', axis=3), node('MatMul', 's3 newv', 'a0')
node('Transpose', 'a0', 'a1', perm=[0, 2, 1, 3]), node('Reshape', 'a1 flat', 'a2'), node('MatMul', 'a2 o', 'logits')
value = helper.make_tensor_value_info
inputs = [value('ids', TensorProto.INT64, ['batch', 'seq'])] + [value(n, TensorProto.FLOAT, ['batch', H, 'past', D]) for n in ('pastk', 'pastv')]
outputs = [value(n, TensorProto.FLOAT, None) for n in ('logits', 'newk', 'newv')]
graph = helper.make_graph(nodes, 'g', inputs, outputs, [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)]), 'decoder.onnx')

def run(program, ids, k, v):
    np.savez('step.npz', ids=ids, pastk=k, pastv=v)
    subprocess.run([program, '--inputs', 'step.npz', '--outputs', 'made.npz'], check=True, stdout=subprocess.DEVNULL)
    return [np.load('made.npz')[n] for n in ('logits', 'newk', 'newv')]
def whole(ids): # in numpy
    x = w['e'][ids] + w['p'][:T]
    q, k, v = [(x @ w[n]).reshape(B, T, H, D).transpose(0, 2, 1, 3) for n in 'qkv']
    s = q @ k.transpose(0, 1, 3, 2) * D ** -.5 + np.where(np.tril(np.ones((T, T))), 0, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(B, T, H * D) @ w['o']
def decode(program):
    ids = r.integers(0, V, (B, T))
    k = v = np.zeros((B, H, 0, D), np.float32)
    want, at = whole(ids), 0
    for n in (3, 1, 0, 1, 1, 1): # a step without tokens is a step as well
        logits, k, v = run(program, ids[:, at:at + n], k, v)
        assert logits.shape == (B, n, V) and k.shape == (B, H, at + n, D), (logits.shape, k.shape)
        assert np.allclose(logits, want[:, at:at + n], rtol=1e-4, atol=1e-4), np.abs(logits - want[:, at:at + n]).max()
        at += n
    assert run(program, ids[:0], k[:0], v[:0])[1].shape == (0, H, 2 * T, D) # nor a row of the batch
for program in sys.argv[1:]: decode('./' + program)
np.savez('empty.npz', ids=r.integers(0, V, (B, 4)), pastk=np.zeros((B, H, 0, D), np.float32), pastv=np.zeros((B, H, 0, D), np.float32))
END2
expect 0 "" /usr/bin/python3 decoder.py
expect 0 "" "$apc" decoder.onnx -o one -q
plans=("" "--dp 4" "--tp 4" "--cp 4 --dim-hint batch=1")
programs=one
for i in 1 2 3; do
  # shellcheck disable=SC2086
  expect 0 "" "$apc" decoder.onnx --target cpux4 ${plans[i]} -o "four$i" -q
  programs+=" four$i"
  # shellcheck disable=SC2086
  expect 0 "proved" "$apc" verify decoder.onnx --target cpux4 ${plans[i]} --inputs empty.npz -q
done
# shellcheck disable=SC2086
expect 0 "" /usr/bin/python3 decoder.py $programs
expect 0 "ok" "$apc" verify decoder.onnx --target cpux4 --dim past=0 -q # known to be empty at compile time
expect 0 "ok" "$apc" verify decoder.onnx --target cpux2 --dim batch=0 --dim seq=0 -q
expect 1 "must be at least 1" "$apc" plan decoder.onnx --dim-hint past=0

# Operators on empty tensors: name, node, inputs, constants, results.
cat >operators.py <<'END2'
import numpy as np, onnx
from onnx import helper, numpy_helper
f = lambda *s: (np.arange(np.prod(s)).reshape(s) % 7 - 3).astype(np.float32)
I = lambda *v: np.array(v, np.int64)
z, inf, nan = np.float32(0), np.float32(np.inf), np.float32(np.nan)
nodes, inputs, constants, want = [], {}, {}, {}
def case(kind, ins, out, outputs=1, **attributes):
    at = len(nodes)
    names = []
    for i, (v, known) in enumerate(ins):
        names.append(f'x{at}_{i}')
        (constants if known else inputs)[names[-1]] = v
    made = [f'y{at}_{i}' for i in range(outputs)]
    nodes.append(helper.make_node(kind, names, made, **attributes))
    want.update(zip(made, out if outputs > 1 else [out]))
d, c = (lambda v: (np.asarray(v), False)), (lambda v: (np.asarray(v), True))
case('ReduceSum', [d(f(0, 4)), c(I(0))], np.full((1, 4), z))
case('ReduceMax', [d(f(0, 4))], np.full((1, 1), -inf))
case('ReduceMin', [d(f(3, 0))], np.full((1, 1), inf))
case('ReduceProd', [d(f(3, 0))], np.ones((3, 1), np.float32), axes=[1])
case('ReduceMean', [d(f(3, 0))], np.full((3, 1), nan), axes=[1])
case('Softmax', [d(f(3, 0))], f(3, 0), axis=1)
case('MatMul', [d(f(3, 0)), d(f(0, 5))], np.full((3, 5), z))
case('MatMul', [d(f(0, 4)), c(f(4, 5))], f(0, 5))
case('MatMul', [d(f(0, 3, 4)), d(f(0, 4, 5))], f(0, 3, 5))
case('Concat', [d(f(2, 0, 3)), d(f(2, 4, 3))], f(2, 4, 3), axis=1)
case('Expand', [d(f(1, 4)), c(I(0, 4))], f(0, 4))
case('Reshape', [d(f(2, 0, 4)), c(I(0, 0, 2, 2))], f(2, 0, 2, 2))
case('Reshape', [d(f(0, 4)), c(I(0, -1, 2))], f(0, 2, 2))
case('Slice', [d(f(0, 4)), c(I(1)), c(I(9))], f(0, 4))
case('Slice', [d(f(5, 4)), c(I(3)), c(I(3))], f(0, 4))
case('Slice', [d(f(0, 4)), c(I(-1)), c(I(-9)), c(I(0)), c(I(-1))], f(0, 4))
case('Split', [d(f(5, 4)), c(I(0, 5))], [f(0, 4), f(5, 4)], outputs=2)
case('Gather', [d(f(5, 4)), d(I())], f(0, 4))
case('Gather', [d(f(5, 4)), c(I())], f(0, 4))
case('ScatterElements', [d(f(5, 4)), d(I().reshape(0, 4)), d(f(0, 4))], f(5, 4))
case('Range', [c(3), c(3), c(1)], I())
case('Pad', [d(f(0, 4)), c(I(1, 0, 2, 0))], np.zeros((3, 4), np.float32))
case('Tile', [d(f(3, 4)), c(I(0, 2))], f(0, 8))
case('CumSum', [d(f(3, 0)), c(1)], f(3, 0))
case('TopK', [d(f(3, 4)), c(I(0))], [f(3, 0), I().reshape(3, 0)], outputs=2)
case('Conv', [d(f(0, 2, 5, 5)), c(f(3, 2, 3, 3))], f(0, 3, 3, 3))
case('Conv', [d(f(2, 2, 5, 0)), c(f(3, 2, 1, 1))], f(2, 3, 5, 0))
case('MaxPool', [d(f(0, 2, 5, 5))], f(0, 2, 4, 4), kernel_shape=[2, 2])
case('GlobalAveragePool', [d(f(0, 2, 5, 5))], f(0, 2, 1, 1))
type_of = lambda v: helper.make_tensor_type_proto(onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[v.dtype], None)
for name, fixed in (('fixed', True), ('symbolic', False)):
    infos = [helper.make_tensor_value_info(n, onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[v.dtype], [x if x or fixed else 'none' for x in v.shape]) for n, v in inputs.items()]
    outputs = [helper.make_value_info(n, type_of(v)) for n, v in want.items()]
    graph = helper.make_graph(nodes, 'g', infos, outputs, [numpy_helper.from_array(v, n) for n, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)]), name + '.onnx')
np.savez('operators.npz', **inputs), np.savez('want.npz', **want)
END2
expect 0 "" /usr/bin/python3 operators.py
for model in fixed symbolic; do
  expect 0 "equal" "$apc" run $model.onnx --inputs operators.npz --expect want.npz -q
  expect 0 "proved" "$apc" verify $model.onnx --target cpux4 --inputs operators.npz --expect want.npz -q
done
summary 16
