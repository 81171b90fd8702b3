#!/bin/bash
# ONNX's Attention: queries that see no key give zeros on every number of ranks, also with keys that are cut.
# LogSoftmax of a row of a huge finite number is that of equal numbers.
. "$(dirname "$0")/lib.sh"
/usr/bin/python3 -c 'import onnx' 2>/dev/null || exit 77

cat >make.py <<'END2'
import numpy as np, onnx
from onnx import helper, TensorProto
def save(name, mask_type, mask_dims, causal):
    value = helper.make_tensor_value_info
    inputs = [value(n, TensorProto.FLOAT, ['batch', 1, s, 8]) for n, s in (('q', 'seq'), ('k', 'keys'), ('v', 'keys'))]
    inputs.append(value('mask', mask_type, mask_dims))
    node = helper.make_node('Attention', ['q', 'k', 'v', 'mask'], ['y'], is_causal=causal)
    graph = helper.make_graph([node], 'g', inputs, [value('y', TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 24)]), name + '.onnx')
save('bool', TensorProto.BOOL, ['batch', 1, 'seq', 'keys'], 1)
save('float', TensorProto.FLOAT, ['seq', 'keys'], 0)
# LogSoftmax of a row of -1e9
x, y = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 8]) for n in 'xy']
graph = helper.make_graph([helper.make_node('LogSoftmax', ['x'], ['y'])], 'g', [x], [y])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 24)]), 'classes.onnx')
np.savez('classes.npz', x=np.array([[-1e9] * 8, [0] * 8], np.float32))
np.savez('classes.want.npz', y=np.full((2, 8), -np.log(8), np.float32))
r = np.random.default_rng(0)
q, k, v = [r.standard_normal((4, 1, n, 8)).astype(np.float32) for n in (6, 16, 16)]
def attend(seen, bias):
    e = np.where(seen, np.exp(np.einsum('bhqd,bhkd->bhqk', q, k) / np.sqrt(8) + bias), 0)
    d = e.sum(-1, keepdims=True)
    assert (d == 0).any() and (d > 0).any()
    return np.einsum('bhqk,bhkd->bhqd', e / np.where(d == 0, 1, d), v).astype(np.float32)
seen = r.random((4, 1, 6, 16)) < 0.3
seen[:, :, 2] = False     # a query
seen[1] = False           # a whole batch
seen[2, :, :, :8] = False # all keys of some ranks
np.savez('bool.npz', q=q, k=k, v=v, mask=seen)
np.savez('bool.want.npz', y=attend(seen & np.tril(np.ones((6, 16), bool)), 0))
seen = seen[2, 0]
bias = np.where(seen, r.standard_normal(seen.shape), -np.inf).astype(np.float32)
np.savez('float.npz', q=q, k=k, v=v, mask=bias)
np.savez('float.want.npz', y=attend(seen, np.where(seen, bias, 0)))
END2
expect 0 "" /usr/bin/python3 make.py
cut="--tp 4 --dim-hint batch=64 --dim-hint seq=1 --dim-hint keys=65536" # one head: only the keys can be cut
expect 0 "equal" "$apc" run classes.onnx --inputs classes.npz --expect classes.want.npz -q
for model in bool float; do
  expect 0 "equal" "$apc" run $model.onnx --inputs $model.npz --expect $model.want.npz -q
  # shellcheck disable=SC2086
  expect 0 "" "$apc" $model.onnx --target cpux4 $cut --emit=spmd=- -q
  check "the keys of the softmax are not cut" grep -q ' = exp %.*@tp\*keys' out
  for plan in "$cut" "--dp 4"; do
    # shellcheck disable=SC2086
    expect 0 "proved" "$apc" verify $model.onnx --target cpux4 $plan --inputs $model.npz --expect $model.want.npz -q
  done
done
summary 12
