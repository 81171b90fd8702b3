#!/bin/bash
# Runs of a training program: weights, checkpoints, signals and ranks that die, and weights that go back into the model.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/train_lib.sh"
train_rows
train_tokens
/usr/bin/python3 -c 'import numpy as np; np.save("eight.npy", np.load("x.npy")[:8])'

# The weights are written under the names of the model, which reads them back; an interrupted run writes them as well.
# shellcheck disable=SC2086
"$apc" compile $mlp -q --train mse --optimizer 'sgd(lr=.05)' --batch 8 --target cpux2 -o trainer
expect 0 "" ./trainer --steps 30 --data x=@x.npy --data labels=@y.npy --save trained.safetensors
first=$(head -1 out | sed 's/.*loss \([^ ]*\).*/\1/') last=$(tail -1 out | sed 's/.*loss \([^ ]*\).*/\1/')
check "from $first to $last" /usr/bin/python3 -c "assert $last < 0.7 * $first"
: >steps
./trainer --steps 100000000 --data x=@x.npy --data labels=@y.npy --save stopped.safetensors >steps &
trainer=$!
check "it trains" begun steps 4
kill -INT $trainer
check "a run that SIGINT ends: 0" wait $trainer
check "its weights" test -s stopped.safetensors

# A signal to end may reach all processes of a run or any one of them: the run ends after its step, with a checkpoint.
asked() { # asked SIGNAL WHO PROCESS...: signals are for those of WHO; the first process is the one that is waited for
  local signal=$1 who=$2
  shift 2
  case $who in all) kill "-$signal" "$@" ;; first) kill "-$signal" "$1" ;; last) kill "-$signal" "${!#}" ;; esac
}
for how in "TERM all" "TERM all" "TERM last" "USR1 all" "USR1 first" "INT last"; do
  rm -rf asked
  : >steps
  ./trainer --steps 100000000 --data x=@x.npy --data labels=@y.npy --checkpoint asked >steps 2>said &
  trainer=$!
  check "it trains" begun steps 4
  # shellcheck disable=SC2046,SC2086
  asked $how $trainer $(pgrep -P $trainer)
  check "SIG$how: 0" wait $trainer
  check "SIG$how: a checkpoint" test -s asked/checkpoint.safetensors
  check "SIG$how: it says so" grep -q "^note: asked to stop after step [0-9]* of 100000000" said
done
# The same for ranks that were started one by one.
free_port() { /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
for how in "TERM all" "USR1 last"; do
  rm -rf asked
  : >steps
  at=127.0.0.1:$(free_port)
  for rank in 1 0; do
    ./trainer --rank $rank --world 2 --rendezvous "$at" --steps 100000000 --data x=@x.npy --data labels=@y.npy --checkpoint asked \
      >steps 2>said.$rank &
    ranks[rank]=$!
  done
  check "it trains" begun steps 4
  # shellcheck disable=SC2086
  asked $how "${ranks[@]}"
  check "SIG$how: 0 of rank 0" wait "${ranks[0]}"
  check "SIG$how: 0 of rank 1" wait "${ranks[1]}"
  check "SIG$how: their checkpoint" test -s asked/checkpoint.safetensors
done
# The reader of the lines is gone; and lines that cannot be written are reported as well.
rm -rf asked
./trainer --steps 100000000 --data x=@x.npy --data labels=@y.npy --checkpoint asked 2>said | head -1 >out
check "a reader that is gone: 0" [ "${PIPESTATUS[0]}" -eq 0 ]
check "its checkpoint" test -s asked/checkpoint.safetensors
rm -rf asked
./trainer --steps 100000000 --data x=@x.npy --data labels=@y.npy --checkpoint asked >/dev/full 2>said
check "a full disk: 1" [ $? -eq 1 ]
check "and a checkpoint" test -s asked/checkpoint.safetensors

# A step that is not finite ends the run, and the checkpoint before it stays; or the step is undone.
/usr/bin/python3 -c '
import numpy as np
x, y = np.load("x.npy"), np.load("y.npy")
np.save("x4.npy", np.delete(x, range(16, 24), 0)), np.save("y4.npy", np.delete(y, range(16, 24), 0))
y[20, 1] = 1e38; np.save("y_far.npy", y)
x[19, 3] = np.nan; np.save("x_nan.npy", x)'
# shellcheck disable=SC2086
for how in "cpu" "cpux2 --dp 2 --zero 1" "cpux2 --pp 2 --micro-batches 2"; do
  "$apc" compile $mlp -q --train mse --optimizer 'sgd(lr=.05,momentum=.9)' --batch 8 --target $how -o finite
  expect 0 "" ./finite --steps 4 --shuffle none --data x=@x4.npy --data labels=@y4.npy --save want.safetensors
  rows="--steps 5 --shuffle none --data x=@x_nan.npy --data labels=@y.npy"
  rm -rf good
  expect 6 "error: step 3: loss nan, grad_norm nan; the first tensor that is not finite is input 'x' (x_nan.npy: row 19, element [3])" \
    ./finite $rows --checkpoint good --every 1 --save none.safetensors --json
  check "two steps" [ "$(wc -l <out)" -eq 2 ]
  check "the checkpoint of step 2" grep -q '"steps":"2"' good/checkpoint.safetensors
  check "no weights" test ! -e none.safetensors
  expect 0 "warning: step 3 is undone: loss nan" ./finite $rows --skip-nonfinite 1 --save got.safetensors
  check "four steps" [ "$(wc -l <out)" -eq 4 ]
  check "$how: a step that was taken back has changed nothing" cmp got.safetensors want.safetensors
  expect 6 "is 'loss'" ./finite --steps 5 --shuffle none --data x=@x.npy --data labels=@y_far.npy
done
"$apc" compile $mlp -q --train mse --optimizer 'sgd(lr=1e20)' --batch 8 --target cpux2 -o wild
expect 6 "error: step 4: " ./wild --steps 9 --data x=@x.npy --data labels=@y.npy --skip-nonfinite 2
check "two in a row" [ "$(grep -c 'is undone' err)" -eq 2 ]
expect 2 "--skip-nonfinite often: expected a number" ./wild --steps 9 --data x=@x.npy --data labels=@y.npy --skip-nonfinite often
# If only gradients are not finite (the root of 0), the weight that they would have broken is named.
printf '%s\n' 'import nn' 'dim batch' 'entry main(x: f32[batch, 12]) {' '  y = linear(x, 3, std=0.3) as "up"' \
  '  z = linear(x, 2, std=0) as "rest"' '  output own = mean(y * y) + mean(sqrt(z * z))' '}' >root.apc
"$apc" compile root.apc -q --train own --batch 8 --target cpux2 -o root
expect 6 "error: step 1: loss " ./root --steps 2 --data x=@x.npy
expect_err "the first tensor that is not finite is the gradient of 'rest."

cp trained.safetensors whole_mlp.safetensors
# Resuming from a checkpoint is like an uninterrupted run, for any number of ranks.
# shellcheck disable=SC2086
for n in 1 2 3; do "$apc" compile $mlp -q --train mse --optimizer 'adamw(lr=.01)' --batch 8 --target cpux$n -o train$n; done
data="--data x=@x.npy --data labels=@y.npy"
# shellcheck disable=SC2086
{
expect 0 "" ./train2 --steps 9 $data --save whole.safetensors
expect 0 "step 4 " ./train2 --steps 4 $data --checkpoint half
cp half/checkpoint.safetensors half4
expect 0 "step 5 " ./train2 --steps 9 $data --resume half --save rest.safetensors
check "the same bytes" cmp -s whole.safetensors rest.safetensors
for n in 1 3; do
  expect 0 "step 9 " ./train$n --steps 9 $data --resume half --save other.safetensors
  check "$n ranks go on" /usr/bin/python3 - whole.safetensors other.safetensors <<'P'
import sys, numpy as np
a, b = (np.frombuffer(open(f, "rb").read()[4096:], "f4") for f in sys.argv[1:])
assert np.linalg.norm(a - b) < 1e-5 * np.linalg.norm(a)
P
done
expect 0 "step 9 " ./train2 --steps 9 $data --resume half --checkpoint half --every 2
expect 0 "" ./train2 --steps 9 $data --resume half; no_out
}
# Ranks that are started elsewhere need no data: rank 0 reads it.  They find checkpoints by rank 0's name of the folder.
elsewhere() { # elsewhere OPTIONS...: two ranks, the second one in an empty folder
  local at
  at=127.0.0.1:$(free_port)
  # gcc's leak checker crashes in this rank: it takes the bytes before the thread-local data of a loaded library (the
  # kernels') for the header of an older C library, and reads at 0x153 (LSAN_OPTIONS=log_threads=1 prints "DTLS 8 at
  # 0x000000000153-0x002400001255").  cli.train_files looks for leaks in the code that reads checkpoints.
  (cd other && ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 exec ../train2 --rank 1 --world 2 --rendezvous "$at" "$@") >there 2>&1 &
  # shellcheck disable=SC2086
  expect 0 "" ./train2 --rank 0 --world 2 --rendezvous "$at" "$@"
  check "the other rank: 0" wait $!
}
mkdir other
# shellcheck disable=SC2086
elsewhere --steps 4 $data --checkpoint apart
check "the checkpoint of ranks that share a machine" cmp half4 apart/checkpoint.safetensors
# shellcheck disable=SC2086
elsewhere --steps 9 $data --resume apart --save rest.safetensors
check "the same bytes" cmp -s whole.safetensors rest.safetensors
check "nothing there" [ -z "$(ls other)" ]

# A rank that is killed ends the run; the last written checkpoint is whole, and the run continues from it to the same
# end.
for after in 3; do
  rm -rf kept
  : >steps
  # shellcheck disable=SC2086
  ./train2 --steps 100000000 $data --checkpoint kept --every 1 >steps 2>said &
  trainer=$!
  check "it trains" begun steps $after
  kill -KILL "$(pgrep -P $trainer | tail -1)"
  wait $trainer
  check "a killed rank: 6" [ $? -eq 6 ]
  check "nothing but the checkpoint is left" [ "$(ls kept)" = checkpoint.safetensors ]
  made=$(/usr/bin/python3 -c 'import json, struct
f = open("kept/checkpoint.safetensors", "rb")
print(json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))["__metadata__"]["steps"])')
  # shellcheck disable=SC2086
  {
  expect 0 "" ./train2 --steps $((made + 3)) $data --resume kept --save resumed.safetensors
  expect 0 "" ./train2 --steps $((made + 3)) $data --save straight.safetensors
  }
  check "killed after step $made" cmp -s resumed.safetensors straight.safetensors
done

# Trained weights go back into the ONNX model; frozen ones are in the file as well, and a checkpoint, which lacks these,
# serves too.
tiny=$source_dir/examples/gpt-tiny.onnx
"$apc" compile "$tiny" -q --train cross_entropy --optimizer 'adamw(freeze=*bias)' --batch 4 --dim seq=16 --target cpux2 -o tiny
expect 0 "" ./tiny --steps 3 --data tokens=@t16.bin --save tiny.safetensors --checkpoint tiny_at
expect 0 "" "$apc" convert "$tiny" trained.onnx -q --weights tiny.safetensors
expect 0 "" "$apc" convert "$tiny" again.onnx -q --weights tiny_at/checkpoint.safetensors
inputs="--inputs $source_dir/examples/gpt-tiny.inputs.npz"
# shellcheck disable=SC2086
{
expect 0 "" "$apc" run trained.onnx -q $inputs --outputs new.npz
expect 0 "" "$apc" run "$tiny" -q $inputs --weights tiny.safetensors --outputs with.npz
expect 0 "" "$apc" run "$tiny" -q $inputs --outputs old.npz
}
check "it computes what --weights computes" cmp new.npz with.npz
# shellcheck disable=SC2086
expect 0 "" "$apc" run again.onnx -q $inputs --expect new.npz
check "and not what it did" eval '! cmp -s new.npz old.npz'
expect 0 "" "$apc" convert "$tiny" first.safetensors -q
expect 0 "" "$apc" convert trained.onnx second.safetensors -q
expect 0 "" "$apc" convert "$tiny" back.onnx -q --weights second.safetensors
check "its weights make the same model" "$apc" run back.onnx -q $inputs --expect new.npz
expect 0 "" "$apc" convert "$tiny" back.onnx -q --weights first.safetensors
check "the first weights make the first model" "$apc" run back.onnx -q $inputs --expect old.npz
/usr/bin/python3 - first.safetensors <<'P'
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
head, data = json.loads(raw[8:8 + n]), raw[8 + n:]
def write(name, head):
    text = json.dumps(head).encode()
    open(name, "wb").write(struct.pack("<Q", len(text)) + text + data)
names = sorted(k for k in head if k != "__metadata__")
other = dict(head)
other["unknown"] = other.pop(names[0])
write("other.safetensors", other)
for k in names:
    if len(head[k]["shape"]) == 2 and head[k]["shape"][0] != head[k]["shape"][1]: break
turned = dict(head)
turned[k] = dict(head[k], shape=head[k]["shape"][::-1])
write("turned.safetensors", turned)
P
expect 1 "the model has no initializer 'unknown'" "$apc" convert "$tiny" x.onnx --weights other.safetensors
expect_err "the file has no tensor '"
expect 1 "does not have the type and shape of the initializer" "$apc" convert "$tiny" x.onnx --weights turned.safetensors
check "nothing was written" test ! -e x.onnx
expect 2 "--dim has no effect here" "$apc" convert "$tiny" x.onnx --weights first.safetensors --dim batch=2
expect 2 "convert takes FILE.safetensors" "$apc" convert "$tiny" x.onnx --weights embed
expect 2 "--weights needs a model" "$apc" convert first.safetensors x.npz --weights first.safetensors
# A model of the model language takes them when it is converted to ONNX.
# shellcheck disable=SC2086
expect 0 "" "$apc" convert $mlp mlp.onnx -q --weights whole_mlp.safetensors
# shellcheck disable=SC2086
{
expect 0 "" "$apc" run $mlp -q --weights whole_mlp.safetensors --dim batch=8 --input x=@eight.npy --outputs m1.npz
expect 0 "" "$apc" run mlp.onnx -q --dim batch=8 --input x=@eight.npy --expect m1.npz
}
summary 122
