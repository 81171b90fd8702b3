#!/bin/bash
# Code for GPUs as text: -S, --emit=cuda, schedule, ptx, cubin.  Needs neither a GPU nor a toolkit
# (tests/dialect/nvrtc.c compiles).
. "$(dirname "$0")/lib.sh"

four=dgx-a100x4
gpt=$source_dir/examples/gpt-tiny.onnx
small="-D layers=2 -D d=64 -D heads=4 -D ffn=128 -D vocab=100"
small_mlp="-D layers=2 -D d=64 -D hidden=128"
large_mlp="-D layers=2 -D d=4096 -D hidden=16384" # worth cutting: that has kernels and collectives

# Every line of a schedule is a comment, a launch of an emitted kernel, a call of a library, or the bracket of a loop.
calls='cudaMemcpyAsync|cudaMemcpy3DAsync|cudaMemsetAsync|cublasLtMatmul|nccl[A-Z][A-Za-z]*|cudaEventRecord|cudaStreamWaitEvent'
only_known() { # only_known NAME
  ! sed -n '/^body /,$p' "$1.schedule" | grep -vE '^(body [0-9]+: .* on rank( [0-9]+)+|  +#.*|    +k[0-9]+_[a-z_0-9]+<<<[1-9][0-9]*, [0-9]+>>>\(.*\)|    +('"$calls"')\(.*\)( key [0-9]+)?|    +cudaMemcpyAsync\(&rounds[0-9]+, b[0-9]+, 8\); cudaStreamSynchronize\(\)|    +for \(round[0-9]+ = 0; .*\) \{|    +\}|)$'
}
launched_are_emitted() {
  grep -oE 'k[0-9]+_[a-z_0-9]+<<<[0-9]+, [0-9]+' "$1.schedule" | sed 's/<<<[0-9]*, / /' | sort -u >launched
  sed -nE 's/^KERNEL\(([a-z_0-9]+), [a-z_0-9]+, ([0-9]+)\).*/\1 \2/p' "$1.cu" | sort -u >emitted
  [ -s launched ] && cmp -s launched emitted
}
communicators_are_listed() {
  grep -oE '\bcomm[0-9]+' "$1.schedule" | sort -u >used
  grep -oE '^comm[0-9]+:' "$1.schedule" | tr -d : | sort -u >listed
  cmp -s used listed
}
groups_are_closed() { [ "$(grep -c ncclGroupStart "$1.schedule")" -eq "$(grep -c ncclGroupEnd "$1.schedule")" ]; }
# A round of a list of calls: work of the communication queue comes after the computation before it, and its event is
# waited for once, later.
events_are_waited_for() {
  awk '
    function wrong(what) { print FILENAME ":" FNR ": " what; bad = 1 }
    function all_waited() { for (e in open) wrong("no wait for " e); delete open }
    /cudaEventRecord\(ready, compute\); cudaStreamWaitEvent\(communication, ready\)$/ { ready = 1; next }
    /^ *ncclGroupEnd|^ *  nccl(Send|Recv|Broadcast|Reduce)\(/ { next }
    /^ *nccl/ { if (!ready) wrong("not on the queue of communication"); asked++; ready = 0 }
    /cudaEventRecord\(event/ { match($0, /event[0-9]+/); e = substr($0, RSTART, RLENGTH); if (e in open) wrong("twice " e); open[e] = 1; events++ }
    /cudaStreamWaitEvent\(compute, event/ { match($0, /event[0-9]+/); e = substr($0, RSTART, RLENGTH); if (!(e in open)) wrong("no " e); delete open[e] }
    /^ *for \(round|^ *}$|^$/ { all_waited() }
    END { all_waited(); exit bad || asked != events }' "$1.schedule"
}
schedule_of() { # schedule_of NAME options...
  local name=$1
  shift
  expect 0 "" "$apc" "$@" -q --target $four -S
  check "$name: an unknown call" only_known $name
  check "$name: launches and kernels differ" launched_are_emitted $name
  check "$name: communicators" communicators_are_listed $name
  check "$name: groups" groups_are_closed $name
  check "$name: events" events_are_waited_for $name
}
has() { check "$1.schedule lacks $2" grep -qE "$2" "$1.schedule"; }

schedule_of gpt-tiny "$gpt" --tp 2 --pp 2 --dim batch=4 --dim seq=32
has gpt-tiny 'ncclSend\(.* count [0-9]+, ncclFloat32, peer 1, comm[0-9]+\)'
has gpt-tiny 'ncclRecv\(.* count [0-9]+, ncclFloat32, peer 0, comm[0-9]+\)'
has gpt-tiny 'nccl(AllReduce|AllGather|ReduceScatter)\(.* count [0-9]+, ncclFloat32, .*comm[0-9]+\) key [0-9]+'
has gpt-tiny 'cublasLtMatmul\(op[NT] op[NT], m [0-9]+, n [0-9]+, k [0-9]+, A b'
has gpt-tiny '^body [0-9]+: .* of stage 1 on rank 2 3$'
# Values that are computed once, before all micro-batches, are listed first and have later kernels.
expect 0 "" "$apc" "$gpt" --tp 2 --pp 2 --micro-batches 2 -q --target $four -S
check "gpt-tiny in micro-batches: launches and kernels differ" launched_are_emitted gpt-tiny
schedule_of llama "$source_dir/examples/llama.apc" $small -D kv_heads=2 --tp 4
has llama 'k[0-9]+_attention<<<'
schedule_of llama "$source_dir/examples/llama.apc" $small -D kv_heads=2 --cp 4 --dim seq=30
schedule_of mlp "$source_dir/examples/mlp.apc" $large_mlp --tp 4 --dim batch=5
has mlp 'ncclAllReduce\(.* ncclSum, comm[0-9]+\)|ncclReduceScatter|ncclAllGather'

# Heads stay where products put them: a layer has no calls per head and none that only move.
calls_of_layer() { # calls_of_layer MOST NAME options...
  local name=$2
  expect 0 "" "$apc" "$source_dir/examples/$name.apc" "${@:3}" -D layers=3 -q --target dgx-h100x1 --dtype bf16 -S
  calls_of_entry "$1" main "$name"
}
calls_of_entry() { # calls_of_entry MOST ENTRY NAME: of the last schedule
  local most=$1 entry=$2 name=$3
  sed -n "/^body [0-9]*: fwd\.$entry /,/^\$/p" $name.schedule | grep -A1 '^  # layers\.1' | grep '^    [kc]' >layer
  check "$name, $entry: $(wc -l <layer) calls of a layer" [ "$(wc -l <layer)" -le "$most" -a -s layer ]
  check "$name, $entry: calls for each head, or that only move" bash -c "! grep -E 'Matmul.*(loop|batch) |k[0-9]+_(transpose|reshape|slice|dot)<' layer"
}
calls_of_layer 8 gpt -D vocab=512 --dim batch=2 --dim seq=256
calls_of_layer 8 bert -D vocab=512 --dim batch=2 --dim seq=128
calls_of_layer 11 llama -D vocab=512 --dim batch=2 --dim seq=256
calls_of_layer 12 llama -D vocab=512 -D kv_heads=8 --dim batch=2 --dim seq=256
# A token: norm, queries, keys and values; rotations and caches; attention; output; gate and up; down.
for heads in 32 8; do
  expect 0 "" "$apc" "$source_dir/examples/llama.apc" -D cache=1 -D kv_heads=$heads -D layers=3 -D vocab=512 --dim batch=2 --dim seq=256 -q --target dgx-h100x1 --dtype bf16 -S
  calls_of_entry 6 decode llama
  calls_of_entry 11 prefill llama
done
# A layer of a training step: 8 calls forward, and 15 backward.  One computes all gradients of the attention; the sums
# for the gradients of a norm and of the bias before it are another one.
calls_of_layer 23 gpt -D vocab=512 --dim seq=256 --batch 2 --train cross_entropy --optimizer 'adamw()'
check "gpt: the gradients of an attention are one launch" test "$(grep -c attention_grad layer)" = 1
calls_of_layer 31 llama -D vocab=512 --dim seq=256 --batch 2 --train cross_entropy --optimizer 'adamw()'
calls_of_layer 34 llama -D vocab=512 -D kv_heads=8 --dim seq=256 --batch 2 --train cross_entropy --optimizer 'adamw()'

# Every micro-batch adds to the gradient of a weight whose gradient is the same along a dimension.
cat >sums.apc <<'END'
dim batch
entry main(x: f32[batch, 64]) {
  weight p : f32[64, 32] = normal(0.1)
  weight u : f32[64, 128] = normal(0.1)
  y = x + expand_dims(sum(p, [1]), 0)
  output logits = einsum("bd,dk->bk", y, u)
}
END
expect 0 "" "$apc" sums.apc -q --target dgx-h100x1 --batch 64 --train cross_entropy --optimizer 'sgd()' --micro-batches 4 -S
check "each micro-batch adds to the gradient" grep -qE '^  # p.grad.accumulate: f32\[64,32\] f32\[64\] f32\[64,32\]' sums.schedule

# The other families: convolutions, pools, indexing, sorting.
schedule_of resnet "$source_dir/examples/resnet.apc" -D depth=18 -D width=8 -D classes=10 -D image=32 --dim batch=4
has resnet 'k[0-9]+_pool<<<'
has resnet 'k[0-9]+_conv<<<'
# Rotations as exporters write them are one kernel each, for queries, and for keys that groups of queries repeat; the
# mask of a finite number is none.
cat >rotated.apc <<'END'
dim batch, seq
fn rotate(x) { return concat([-x[:, :, :, 16:], x[:, :, :, :16]], 3) }
entry main(x: f32[batch, seq, 64], cosine: f32[seq, 32], sine: f32[seq, 32]) {
  weight wq : f32[64, 4, 32] = normal(0.1)
  weight wk : f32[64, 2, 32] = normal(0.1)
  weight wv : f32[64, 2, 32] = normal(0.1)
  c = reshape(cosine, [1, 1, seq, 32])
  s = reshape(sine, [1, 1, seq, 32])
  q = einsum("bsd,dhk->bhsk", x, wq)
  k = einsum("bsd,dhk->bhsk", x, wk)
  v = einsum("bsd,dhk->bhsk", x, wv)
  q = q * c + rotate(q) * s
  k = k * c + rotate(k) * s
  k = reshape(broadcast(reshape(k, [batch, 2, 1, seq, 32]), [batch, 2, 2, seq, 32]), [batch, 4, seq, 32])
  v = reshape(broadcast(reshape(v, [batch, 2, 1, seq, 32]), [batch, 2, 2, seq, 32]), [batch, 4, seq, 32])
  scores = einsum("bhsk,bhtk->bhst", q, k) * 0.25
  seen = reshape(iota(seq), [1, 1, 1, seq]) <= reshape(iota(seq), [1, 1, seq, 1])
  output y = einsum("bhst,bhtk->bshk", softmax(where(seen, scores, -1e9), 3), v)
}
END
expect 0 "" "$apc" rotated.apc -q --target dgx-h100x1 --dtype bf16 --dim batch=2 --dim seq=128 -S
sed -n '/^body 0/,/^$/p' rotated.schedule | grep -E '^    (k[0-9]|cublas)' | sed -E 's/^ *(k[0-9]+_)?//; s/[<(].*//' | sort | uniq -c >kinds
check "rotated: $(paste -sd' ' kinds)" [ "$(grep -c . kinds)" -gt 0 -a -z "$(grep -E 'neg|concat|softmax|slice|transpose' kinds)" ]
check "rotated: rotations" [ "$(awk '$2 == "add" { print $1 }' kinds)" = 2 ]
check "rotated: attention" grep -q ' 1 attention' kinds

# ResNet-50 in 16 bits: 53 convolutions with all that joins them, a cast, two pools, a product, a cast.
expect 0 "" "$apc" convert "$source_dir/examples/resnet.apc" resnet50.onnx -D width=8 -D image=64 -q
cp "$source_dir/examples/resnet.apc" resnet50.apc
for model in "resnet50.apc -D width=8 -D image=64" resnet50.onnx; do
  # shellcheck disable=SC2086
  expect 0 "" "$apc" $model -q --target dgx-h100x1 --dtype bf16 --dim batch=32 -S
  n=$(sed -n '/^body 0/,/^$/p' resnet50.schedule | grep -cE '^    (k[0-9]|cublas)')
  check "$model: $n calls" test "$n" -gt 50 -a "$n" -le 58
done
schedule_of unet "$source_dir/examples/unet.apc" -D channels=4 -D levels=2 -D image=16 --dim batch=2 --tp 4
schedule_of vit "$source_dir/examples/vit.apc" -D layers=2 -D d=32 -D heads=4 -D patch=8 -D image=32 -D classes=10 --dim batch=2
schedule_of bert "$source_dir/examples/bert.apc" -D layers=2 -D d=32 -D heads=4 -D vocab=50 -D ctx=32 --dim batch=2 --dim seq=16 --pp 2
schedule_of t5 "$source_dir/examples/t5.apc" -D layers=2 -D d=32 -D d_kv=8 -D heads=4 -D ffn=64 -D vocab=50 --dim batch=2 --dim seq=16 --dim tgt=9
schedule_of moe "$source_dir/examples/moe.apc" -D layers=2 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=48 -D vocab=50 --dim batch=2 --dim seq=16
schedule_of moe "$source_dir/examples/moe.apc" -D layers=2 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=48 -D vocab=50 -D routing=capacity --dim batch=2 --dim seq=16
has moe 'k[0-9]+_topk<<<'
schedule_of moe "$source_dir/examples/moe.apc" -D layers=2 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=48 -D vocab=50 -D routing=dropless --dim batch=2 --dim seq=16 --ep 4
has moe 'k[0-9]+_grouped_mlp<<<' # its products carry its name
schedule_of lstm "$source_dir/examples/lstm.apc" -D d=2048 -D vocab=50 --dim batch=2 --dim seq=16 --tp 4
has lstm '^      ncclReduceScatter|^      ncclAllGather|^      ncclAllReduce' # every round
has lstm '^    cublasLtMatmul' # the product of the input, before the loop

mv mlp.cu first.cu
expect 0 "" "$apc" "$source_dir/examples/mlp.apc" $large_mlp -q --target $four --tp 4 --dim batch=5 --emit=cuda
check "the same text twice" cmp -s mlp.cu first.cu
# plan writes the same text, by itself
expect 0 "" "$apc" plan "$source_dir/examples/mlp.apc" $large_mlp -q --target $four --tp 4 --dim batch=5 --emit=cuda=planned.cu
check "plan and compile write the same" cmp -s planned.cu first.cu
check "no #include outside the branch for nvcc" test "$(grep -c '#include' first.cu)" -le 2

# Schedules of many ranks name them by classes: their length grows with the classes, not with the ranks.
many() { # many RANKS MODEL options...
  local ranks=$1 model=$2 name
  shift 2
  name=${model##*/} name=${name%.*}
  expect 0 "" timeout 60 "$apc" "$model" -q --target dgx-h100x$ranks "$@" -S
  mv $name.schedule $name-$ranks.schedule
}
mlp=$source_dir/examples/mlp.apc
many 8 "$mlp" $large_mlp --tp 8 --dim batch=1024
many 1024 "$mlp" $large_mlp --tp 8 --dp 128 --dim batch=1024
many 16384 "$gpt" --dim seq=32 --dp 16384 --dim batch=16384
check "one list for 1,024 ranks" grep -qE '^body 0: fwd.main of stage 0 on rank 0-1023$' mlp-1024.schedule
check "groups of 1,024 ranks" grep -qE '^comm[0-9]+: 128 groups of .* the first \{0 1 \.\.\. 7\}$' mlp-1024.schedule
check "one list for 16,384 ranks" grep -qE '^body 0: fwd.main of stage 0 on rank 0-16383$' gpt-tiny-16384.schedule
check "as long as for 8 ranks" test "$(wc -c <mlp-1024.schedule)" -lt $((2 * $(wc -c <mlp-8.schedule)))
# Uneven: two classes, of at most eight lists, one for each rank that adds its part of a bias.
many 1024 "$mlp" $large_mlp --tp 8 --dp 128 --dim batch=1000
lists=$(grep -cE '^body 0: ' mlp-1024.schedule)
check "lists of two classes, $lists" test $((lists % 2)) -eq 0 -a "$lists" -ge 2 -a "$lists" -le 16

# Refused requests.
expect 2 "has no GPU" "$apc" "$source_dir/examples/mlp.apc" $small_mlp --target cpux2 --emit=cuda
expect 2 "has no GPU" "$apc" "$source_dir/examples/mlp.apc" $small_mlp -S
for kind in cuda ptx cubin; do expect 2 "has no GPU" "$apc" plan "$source_dir/examples/mlp.apc" $small_mlp --emit=$kind; no_out; done
mkdir hidden
for name in libnvrtc.so.13 libnvrtc.so.12 libnvrtc.so; do : >hidden/$name; done
for kind in ptx cubin; do
  expect 5 "APC0701" env LD_LIBRARY_PATH="$work/hidden" CUDA_HOME=/nonexistent "$apc" "$source_dir/examples/mlp.apc" $small_mlp --target $four --emit=$kind
  expect_err "NVRTC"
done
expect 5 "APC0701" env LD_LIBRARY_PATH="$work/hidden" CUDA_HOME=/nonexistent "$apc" "$source_dir/examples/mlp.apc" $small_mlp --target $four -o program
expect_err "NVRTC"
check "no program is written" test ! -e program
# One command may write code for both kinds of devices.
for form in c cuda schedule; do expect 0 "" "$apc" "$gpt" -q --target $four --dim batch=4 --dim seq=32 --emit=$form=$form.alone; done
expect 0 "" "$apc" "$gpt" -q --target $four --dim batch=4 --dim seq=32 --emit=cuda=cuda.both,c=c.both,schedule=schedule.both
for form in c cuda schedule; do check "$form differs beside others" cmp $form.alone $form.both; done
# Rows of large products in 16 bits are padded to multiples of 16 bytes; those of f32, and of small products, are not.
rows() { grep -oE 'cublasLtMatmul\([^)]*' | grep -oE ' ld [0-9]+' | sort -u | paste -sd' '; }
for type in bf16 f32; do
  expect 0 "" "$apc" compile "$source_dir/tests/doubles/long_rows.apc" -q --dtype $type --target dgx-h100x1 --emit=schedule=rows.$type
done
check "bf16: $(rows <rows.bf16)" test "$(rows <rows.bf16)" = " ld 304  ld 336  ld 512"
check "f32: $(rows <rows.f32)" test "$(rows <rows.f32)" = " ld 300  ld 333  ld 509"
# GPUs before sm_80 lack the tensor cores that attention needs.
for target in aws-g4dn.12xlargex1 dgx-a100x1; do
  expect 0 "" "$apc" "$source_dir/examples/gpt.apc" -q -D layers=1 -D d=64 -D heads=2 -D vocab=64 --dtype f16 --target $target --dim batch=2 --dim seq=128 --emit=cuda=attention.$target
done
check "T4: in tiles" grep -q ' attention_tile_f16(&b' attention.aws-g4dn.12xlargex1
check "A100: on tensor cores" grep -q ' attention_tensor_f16(&b' attention.dgx-a100x1
# The update of all weights is at most four launches, and no state is copied.  Rows that name "update" are its calls.
gpt2="$source_dir/examples/gpt.apc -D layers=12 -D d=768 -D heads=12 -D vocab=50257 -D ctx=1024 --dim batch=8 --dim seq=1024 --target dgx-h100x1"
updates() { # OPTIMIZER MOST WORDS...
  local optimizer=$1 most=$2 n
  shift 2
  # shellcheck disable=SC2086
  expect 0 "" "$apc" compile $gpt2 -q --train cross_entropy --optimizer "$optimizer" "$@" --emit=schedule=step
  sed -n '/^body 0:/,/^body [0-9]*: fwd.eval/p' step >main
  n=$(grep -cE '^ *# [^:]*update' main)
  check "$optimizer $*: $n calls update" test "$n" -ge 1 -a "$n" -le "$most"
  n=$(grep -E 'cudaMemcpy(3D)?Async\(b[0-9]' main | grep -vc '"')
  check "$optimizer $*: $n states are copied" test "$n" = 0
}
updates 'adamw()' 4 --dtype bf16
# The whole step: few calls, none of which only moves, and no more reads of large tensors than needed.
n=$(grep -cE '^    (k[0-9]+_|c)' main)
check "a step of GPT-2 makes $n calls" test "$n" -ge 100 -a "$n" -le 305
n=$(sed -n '/^body [0-9]*: fwd.eval/,/^$/p' step | grep -cE '^    (k[0-9]+_|c)')
check "an evaluation of GPT-2 makes $n calls, with its accuracy: all weights are cast in one" test "$n" -ge 80 -a "$n" -le 114
check "calls that only move" bash -c "! grep -E 'Matmul.*(loop|batch) |k[0-9]+_(transpose|reshape|slice|concat|pad)<' main"
gelu=$(grep -E '^  # layers\.5\.mlp\.h' main)
check "a GELU stores its result alone: $gelu" test "$(grep -o 'bf16\[8,1024,3072\]' <<<"$gelu" | wc -l)" = 2
n=$(grep -cE '^  # .*\[8,1024,502[0-9]+\]' main)
check "$n calls touch logits or their gradients: 3 products, the loss, its gradient" test "$n" = 5
check "logits in f32" bash -c "! grep -E 'f32\[8,1024,502[0-9]+\]' main"
check "all weights are members of one" grep -qE '^kernel k[0-9]+_bundle: 196 kernels' step
updates 'adamw(clip=1,schedule=cosine,warmup=10,steps=100,decay=*.w)' 4 --micro-batches 2
updates 'lion()' 3 --freeze '*.bias'
updates 'sgd(momentum=0.9)' 3
summary 64
