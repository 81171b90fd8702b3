#!/bin/bash
# Writing ONNX: the written model computes the same numbers as its source, and ONNX's own checker accepts it.
. "$(dirname "$0")/lib.sh"
examples=$source_dir/examples
tests=$(dirname "$apc")/tests
checked=true
/usr/bin/python3 -c 'import onnx' 2>/dev/null || checked=false

# written MODEL OPTION...: out.onnx, checked, with the outputs of the model, for $sizes or the planned ones
written() {
  local model=$1
  shift
  expect 0 "" "$apc" convert "$model" "$@" out.onnx -q; no_out
  $checked && expect 0 "" /usr/bin/python3 -c 'import onnx; onnx.checker.check_model(onnx.load("out.onnx"), full_check=True)'
  expect 0 "" "$apc" run "$model" "$@" ${sizes:-} -q --outputs a.npz
  expect 0 "equal" "$apc" run out.onnx ${sizes:-} -q --expect a.npz --rtol 1e-6
}
written "$examples/gpt-tiny.onnx"
expect 1 "65 positions index a table of 64" "$apc" plan out.onnx --dim seq=65
expect 0 "" "$tests/onnx_compare" out.onnx "$examples/gpt-tiny.inputs.npz" "$examples/gpt-tiny.outputs.npz" # the reference interpreter and PyTorch
# and through IR text: weights by reference, then embedded
expect 0 "" "$apc" convert "$examples/gpt-tiny.onnx" g.ir -q
expect 0 "" "$apc" convert g.ir again.onnx -q
check "IR text on the way changes the bytes" cmp out.onnx again.onnx

# an operation with two results, one of which is unused the second time
cat > first.ir <<'IR'
apc.ir 1
func @main level 1 {
  %x = input {name="x"} : f32[4, 16]
  %v, %i = topk %x {axis=1, descending=1, k=3} : f32[4, 3], i64[4, 3]
  %w = neg %v : f32[4, 3]
  %u, %j = topk %w {axis=1, descending=0, k=2} : f32[4, 2], i64[4, 2]
  output "w" %w
  output "i" %i
  output "j" %j
}
IR
written first.ir

small_llama="-D layers=2 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=64 -D vocab=64"
written "$examples/mlp.apc" -D d=16 -D hidden=32 -D layers=2
# shellcheck disable=SC2086
written "$examples/llama.apc" $small_llama
written "$examples/resnet.apc" -D depth=18 -D width=8 -D classes=10 -D image=32
written "$examples/unet.apc" -D channels=8 -D levels=2 -D image=16
written "$examples/bert.apc" -D layers=1 -D d=32 -D heads=2 -D ffn=64 -D vocab=64 -D ctx=32
written "$examples/vit.apc" -D layers=1 -D d=32 -D heads=2 -D ffn=64 -D patch=4 -D image=16 -D classes=10
written "$examples/t5.apc" -D layers=1 -D d=32 -D d_kv=16 -D heads=2 -D ffn=64 -D vocab=64
written "$examples/moe.apc" -D layers=1 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=32 -D experts=4 -D top_k=2 -D vocab=64
written "$examples/lstm.apc" -D d=12 -D hidden=18 -D vocab=30

# loops: carries, and results collected at either end and along another axis, with a condition and with a number of
# rounds that is an input
cat >loops.apc <<'END'
dim batch, seq
entry main(x: f32[seq, batch, 4], n: i64[]) {
  h = x[0]
  forward = fill(f32[batch, seq, 4], 0)
  backward = fill(f32[seq, batch, 4], 0)
  loop t < seq carrying h, forward, backward {
    h = tanh(h + x[seq - 1 - t])
    forward = update(forward, expand_dims(h, 1), t, 1)
    backward = update(backward, expand_dims(h * 2.0, 0), seq - 1 - t, 0)
  }
  some = fill(f32[seq, batch, 4], 1)
  a, b = [x[0], x[0] + 1.0]
  loop t < n <= seq carrying a, b, some while max(a) < 2 {
    inner = b
    loop u < t carrying inner { inner = inner * 0.5 + a }
    some = update(some, expand_dims(inner, 0), t, 0)
    a, b = [b, a + b]
  }
  output f = forward
  output g = backward
  output s = some
  output last = a
  output other = h
}
END
sizes="--dim seq=5 --dim batch=3" written loops.apc
expect 0 "" "$apc" convert out.onnx collected.ir -q # as ONNX collects: updates at the number of the round, one Slice reverses the second
check "two results of the first loop are not collected" awk '/ = loop / { loops++ } / = update / && loops == 1 { updates++ } / = (select|where) / && loops == 1 { other++ } / repeat / && loops == 1 { exit }
                                                            END { exit !(updates == 2 && !other) }' collected.ir

# an index outside a table gives 0 in IR text and would be an error in ONNX; sizes may be formulas of the symbols
cat >odd.ir <<'IR'
apc.ir 1
symbol b min 2
param "t" : f32[5, 4] = normal 1 seed 3
func @main level 1 {
  %x = input {name="x"} : f32[b, 4]
  %t = param {name="t"} : f32[5, 4]
  %n = iota {axis=0, start=0} : i64[b]
  %one = const {value=1} : i64[b]
  %i = mul %n, %one : i64[b]
  %far = gather %t, %i {axis=0, start=0} : f32[b, 4]
  %sum = add %x, %far : f32[b, 4]
  %half = slice %sum {starts=[1, 0], strides=[1, 2]} : f32[b - 1, 2]
  %size = size {expr=3*b - b div 2 + max(b, 4)} : f32[b - 1, 2]
  %y = mul %half, %size : f32[b - 1, 2]
  output "y" %y
}
IR
written odd.ir
expect 0 "" "$apc" run odd.ir -q --dim b=11 --outputs b.npz
expect 0 "equal" "$apc" run out.onnx -q --dim b=11 --expect b.npz

# a dimension by its name in the file, which IR text could not hold
LC_ALL=C sed 's/batch/N \xc3\xa4x/g' "$examples/gpt-tiny.onnx" >named.onnx
expect 0 "planning for N___x 3, seq 4" "$apc" plan named.onnx --dim-hint 'N äx=3' --dim-hint seq=4
expect 0 "planning for seq 4" "$apc" plan named.onnx --dim 'N äx=3' --dim-hint seq=4
expect 1 'no dimension "M__"; it has: N___x, seq' "$apc" plan named.onnx --dim 'Mä=3' -q

# an input with a '=' in its name
LC_ALL=C sed 's/tokens/tok=ns/g' "$examples/gpt-tiny.onnx" >equals.onnx
expect 0 "[2, 4, 512]" bash -c "'$apc' equals.onnx -q -o equals && ./equals --input tok=ns=zeros --dim batch=2 --dim seq=4 --output logits=@a=b.npy --output @c.npy && ls a=b.npy && ./equals --input tok=ns=random --dim seq=4 --dim batch=2"
expect 0 "logits" "$apc" run equals.onnx -q --input tok=ns=zeros --shape tok=ns=2,4
expect 2 "NAME=N" "$apc" run equals.onnx -q --dim batch=

# operations that ONNX cannot express are named, all at once
cat >state.ir <<'IR'
apc.ir 1
state "s" : f32[4] = 0
func @main level 1 {
  %x = input {name="x"} : f32[4]
  %s = read {name="s"} : f32[4]
  %y = add %x, %s : f32[4]
  %r = random {kind="uniform", seed=1, starts=[0], extents=[4]} : f32[4]
  %z = add %y, %r : f32[4]
  write "w" %y {name="s"}
  output "z" %z
}
IR
cat >constants.ir <<'END'
apc.ir 1
func @main level 1 {
  %x = input {name="x"} : i64[2]
  %most = const {value=inf} : i64[2]
  %none = const {value=nan} : i64[2]
  %low = min %x, %most : i64[2]
  %y = max %low, %none : i64[2]
  output "y" %y
}
END
written constants.ir # the largest integer and 0
cat >grouped.ir <<'END'
apc.ir 1
func @main level 1 {
  %x = input {name="x"} : f32[4, 2]
  %i = input {name="i"} : i64[4]
  %w = input {name="w"} : f32[3, 2, 5]
  %y = grouped_dot %x, %i, %w {start=0} : f32[4, 5]
  output "y" %y
}
END
expect 1 "'grouped_dot' has no ONNX form" "$apc" convert grouped.ir out2.onnx
expect 1 "error[APC0115]" "$apc" convert state.ir out2.onnx; expect_err "'read' has no ONNX form"; expect_err "'random'"
check "a file was written" test ! -e out2.onnx
printf 'apc.ir 1\nfunc @a level 1 {\n  %%x = input {name="x"} : f32[4]\n  output "y" %%x\n}\nfunc @b level 1 {\n  %%x = input {name="x"} : f32[4]\n  output "y" %%x\n}\n' >two.ir
expect 1 "2 entries" "$apc" convert two.ir out2.onnx

# annotations of IR version 11, which onnx 1.23.2 wrote: followed (annotated.sh), and checked
expect 0 "mean 0.560223" "$apc" run "$source_dir/tests/onnx/sharded.onnx" -q --target cpux2; no_err
expect 0 "" "$apc" convert "$source_dir/tests/onnx/sharded.onnx" out.onnx -q
expect_err 'warning[APC0118]: the sharding annotations of 1 node are not written'
expect 0 "" "$apc" plan "$source_dir/tests/onnx/sharded_wrong.onnx" -q --target cpux2
expect_err 'sharding of "q", which is no operand or result of the node'
expect_err 'sharding of "w": device 2 is not one of the 2 of the configuration'
expect_err 'sharding of "w": axis 2 of a tensor with 2 dimensions'
expect_err 'sharding of "x": device 0 occurs twice'
expect_err 'sharding of "y": 4 shards for 2 devices or groups'
expect_err 'sharding of "y": axis 1 has 0 shards'
expect_err 'sharding of "w": device 5 is not one of the 2 of the configuration'
expect 0 "" "$apc" plan "$source_dir/tests/onnx/sharded_unknown.onnx" -q # in a function of the model
expect_err 'the model has no device configuration "four"'
expect_err 'configuration "two" has 2 devices, but names 3'

# weights of 8, 4 and 2 bits, which onnx 1.23.2 packed and computed: DequantizeLinear in blocks, QuantizeLinear, Cast
few=$source_dir/tests/onnx/few_bits
expect 0 "equal" "$apc" run "$few.onnx" -q --inputs "$few.in.npz" --expect "$few.out.npz"
expect 0 "equal" "$apc" run "$few.onnx" -q --inputs "$few.in.npz" --expect "$few.out.npz" --target cpux3 --tp 3
expect 0 "" "$apc" convert "$few.onnx" few.ir --dim batch=8
expect 0 "param \"w\" : u8[16, 6]" grep 'param "w"' few.ir # packed
expect 1 "has no ONNX form" "$apc" convert "$few.onnx" out2.onnx
expect 0 "proved" "$apc" verify "$few.onnx" -q --target cpux3
expect 0 "" "$apc" convert "$few.onnx" few.safetensors -q # packed ones as bytes, and back
expect 0 "" "$apc" convert "$few.onnx" again.onnx -q --weights few.safetensors
expect 0 "equal" "$apc" run again.onnx -q --inputs "$few.in.npz" --expect "$few.out.npz"

# decision trees: all modes, members, missing values, transforms; TreeEnsembleRegressor by ONNX Runtime's numbers,
# TreeEnsemble by a walk over the attributes
trees=$source_dir/tests/onnx/trees
expect 0 "equal" "$apc" run "$trees.onnx" -q --inputs "$trees.in.npz" --expect "$trees.out.npz"
expect 0 "proved   the parallel program computes the model" "$apc" verify "$trees.onnx" -q --inputs "$trees.in.npz" --expect "$trees.out.npz" --target cpux4 --dp 4

# nothing is trained through them, and a file's weights of 8 bits, which come with scales, are not taken as floats
for type in f8e4m3fn f8e8m0 f4e2m1; do
  cat >cast.ir <<IR
apc.ir 1
param "w" : f32[4, 4] = normal 1 seed 1
func @main level 1 {
  %x = input {name="x"} : f32[8, 4]
  %w = param {name="w"} : f32[4, 4]
  %y = dot %x, %w {spec="bm,mn->bn"} : f32[8, 4]
  %q = cast %y {to=$type} : $type[8, 4]
  %z = cast %q {to=f32} : f32[8, 4]
  output "z" %z
}
IR
  expect 5 "a cast from $type to f32 has no derivative (operation 'z')" "$apc" plan cast.ir -q --train mse
done
printf '\75\0\0\0\0\0\0\0{"w":{"dtype":"F8_E8M0","shape":[4,4],"data_offsets":[0,16]}}0123456789abcdef' >w8.safetensors
sed 's/f32\[4, 4\]/f16[4, 4]/; s/f32/f16/g; /cast/d; s/%z$/%y/' cast.ir >half.ir
expect 1 "it is f8e8m0[4, 4], the weight is f16[4, 4]" "$apc" run half.ir -q --weights w8.safetensors
summary 101
