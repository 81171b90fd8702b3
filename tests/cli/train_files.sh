#!/bin/bash
# The files of a training run: every rank writes and reads its parts of them.  The bytes are the same for every plan; a
# failure leaves the old file.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/train_lib.sh"
train_rows
data="--data x=@x.npy --data labels=@y.npy"
trainer() { # trainer NAME RANKS OPTIONS...
  local name=$1 ranks=$2
  shift 2
  # shellcheck disable=SC2086
  expect 0 "" "$apc" compile $mlp -q --train mse --optimizer 'adamw(lr=.01)' --batch 8 --target "cpux$ranks" "$@" -o "$name"
}
# A checkpoint contains the weight file, byte by byte.
has_weights() { /usr/bin/python3 - "$1" "$2" <<'P'
import json, struct, sys
def load(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    head.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]) for k, v in head.items()}
states, weights = load(sys.argv[1]), load(sys.argv[2])
assert weights and all(states[k] == v for k, v in weights.items())
P
}
# shellcheck disable=SC2086
{
# Moments that are whole, or cut over ranks or stages of a pipeline: the same numbers, and so the same file.
trainer whole 2 --dp 2 --zero 0
trainer zero 2 --dp 2 --zero 1
trainer staged 4 --dp 2 --pp 2 --micro-batches 1 --zero 0
trainer staged_zero 4 --dp 2 --pp 2 --micro-batches 1 --zero 1
trainer turns 2 --pp 2 --micro-batches 4
trainer turns_v 2 --pp 2 --micro-batches 4 --schedule zbv
for name in whole zero staged staged_zero turns turns_v; do expect 0 "" ./$name --steps 3 $data --checkpoint $name.at --save $name.safetensors; done
same() { # same A B: compares the files of both
  check "$2: the checkpoint of $1" cmp "$1.at/checkpoint.safetensors" "$2.at/checkpoint.safetensors"
  check "$2: the weights of $1" cmp "$1.safetensors" "$2.safetensors"
}
same whole zero
same staged staged_zero
same turns turns_v
# Weights that are cut in a dimension other than the first, uneven parts among them: read and put together again.
trainer one 1
trainer columns 2 --tp 2
trainer uneven 3 --tp 3
trainer mixed 4 --tp 2 --dp 2 --zero 3
for name in one columns uneven mixed turns_v; do
  expect 0 "" ./$name --steps 3 $data --resume whole.at --save back.safetensors
  check "$name: the weights that were read" cmp whole.safetensors back.safetensors
  expect 0 "" ./$name --steps 4 $data --resume whole.at --checkpoint next --save next.safetensors
  check "$name: weights are in the checkpoint" has_weights next/checkpoint.safetensors next.safetensors
  expect 0 "" ./whole --steps 4 $data --resume next --save back.safetensors
  check "$name: the weights that another plan reads" cmp next.safetensors back.safetensors
done

# A name left by a killed run is reused; if another run holds it, or it is another kind of file, the run ends before its
# first step.
mkdir kept
head -c 100000 /dev/urandom >kept/checkpoint.safetensors.part
expect 0 "" ./zero --steps 3 $data --checkpoint kept
check "the same file" cmp whole.at/checkpoint.safetensors kept/checkpoint.safetensors
check "alone" [ "$(ls kept)" = checkpoint.safetensors ]
: >kept/checkpoint.safetensors.part
flock kept/checkpoint.safetensors.part sleep 60 &
holder=$!
until ! flock -n kept/checkpoint.safetensors.part true; do sleep .05; done
expect 1 "another run is writing it" ./zero --steps 4 $data --checkpoint kept; no_out
kill $holder "$(pgrep -P $holder)" 2>/dev/null
wait
rm kept/checkpoint.safetensors.part
mkdir kept/checkpoint.safetensors.part
expect 1 "cannot write the file" ./zero --steps 4 $data --checkpoint kept; no_out
rmdir kept/checkpoint.safetensors.part
check "it is still there" cmp whole.at/checkpoint.safetensors kept/checkpoint.safetensors
expect 1 "several processes" ./zero --steps 4 $data --save /dev/null; no_out
mkdir far && ln -s far/weights.safetensors link.safetensors
: >far/weights.safetensors
expect 0 "" ./zero --steps 3 $data --save link.safetensors
check "a link is followed" cmp whole.safetensors far/weights.safetensors
check "and stays" [ -L link.safetensors ]

# An invalid file, or one of another model, is reported before the ranks read it.
mkdir bad
head -c 5000 kept/checkpoint.safetensors >bad/checkpoint.safetensors
expect 1 "bad/checkpoint.safetensors: the file is truncated" ./zero --steps 4 $data --resume bad; no_out
cp whole.safetensors bad/checkpoint.safetensors
expect 1 "it has no number of steps" ./zero --steps 4 $data --resume bad; no_out
"$apc" compile $mlp -q --train mse --optimizer 'sgd(lr=.01,momentum=.9)' --batch 8 --target cpu -o other
expect 0 "" ./other --steps 1 $data --checkpoint other.at
expect 1 "there is no '" ./zero --steps 4 $data --resume other.at; no_out

# A changed byte is found, in a tensor as in the header, before anything is read; the report says what was checked.
# Older files have no checksums.
expect 0 "note: whole.at/checkpoint.safetensors: the header and all 24 tensors, 29088 bytes, match their checksums" \
  ./zero --steps 4 $data --resume whole.at --save resumed.safetensors
/usr/bin/python3 - <<'P'
import json, os, random, struct
raw = open("whole.at/checkpoint.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
head = json.loads(raw[8:8 + n])
def write(name, data):
    os.makedirs(name, exist_ok=True)
    open(name + "/checkpoint.safetensors", "wb").write(data)
def flipped(at): return raw[:at] + bytes([raw[at] ^ 4]) + raw[at + 1:]
write("flip_w", flipped(8 + n + head["layers.1.up.w:m"]["data_offsets"][0] + 5))
write("flip_last", flipped(len(raw) - 1))
write("flip_steps", flipped(raw.index(b'"steps":"3"') + 9))
write("flip_key", flipped(raw.index(b'"checksums"') + 3))
for key in "checksums", "checkpoint": head["__metadata__"].pop(key)
text = json.dumps(head).encode().ljust(n)
write("old", struct.pack("<Q", len(text)) + text + raw[8 + n:])
P
expect 1 "flip_w/checkpoint.safetensors is damaged: 'layers.1.up.w:m' does not match its checksum" ./zero --steps 4 $data --resume flip_w; no_out
expect 1 "is damaged: '" ./whole --steps 4 $data --resume flip_last; no_out
expect 1 "is damaged: the header does not match" ./zero --steps 4 $data --resume flip_steps; no_out
expect 1 "is damaged: the header does not match" ./zero --steps 4 $data --resume flip_key; no_out
expect 0 "warning: old/checkpoint.safetensors has no checksums; its contents were not checked" ./zero --steps 4 $data --resume old \
  --save old.safetensors
check "it is the same run" cmp resumed.safetensors old.safetensors
# Data with other contents than before.
/usr/bin/python3 -c '
import numpy as np
x = np.load("x.npy"); np.save("moved.npy", x); x[39, 11] += 1; np.save("changed.npy", x)'
expect 0 "" ./zero --steps 4 --data x=@moved.npy --data labels=@y.npy --resume whole.at
check "a file that was moved is the same data" [ "$(grep -c warning err)" -eq 0 ]
expect 0 "warning: --data x: this is changed.npy, 2048 bytes, hash" ./zero --steps 4 --data x=@changed.npy --data labels=@y.npy --resume whole.at
expect_err "; the checkpoint was made with x.npy, 2048 bytes, hash"

# A rank that does not see rank 0's folder reports it, and no file is written.
if unshare -rm true 2>/dev/null; then
  apart() { # apart OPTIONS...: rank 1 sees another folder `kept`
    rm -f meeting
    # shellcheck disable=SC2016
    unshare -rm sh -c 'mount -t tmpfs none kept && exec ./zero --rank 1 --world 2 --rendezvous ./meeting "$@"' sh "$@" >there 2>&1 &
    expect 1 "machines must share that folder" ./zero --rank 0 --world 2 --rendezvous ./meeting "$@"
    check "rank 1 is named" grep -q "rank 1.*checkpoint.safetensors" err
    wait $!
    check "both ranks: 1" [ $? -eq 1 ]
  }
  apart --steps 4 $data --checkpoint kept
  check "the old file is whole" cmp whole.at/checkpoint.safetensors kept/checkpoint.safetensors
  check "and alone" [ "$(ls kept)" = checkpoint.safetensors ]
  apart --steps 4 $data --resume kept
fi
}
summary 86
