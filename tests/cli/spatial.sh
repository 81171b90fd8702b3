#!/bin/bash
# Images cut over a 2 x 2 mesh: every convolution, pool and pointwise operation of a ResNet and of a U-Net keeps its
# quarter of the image, and windows that reach into a neighbour's quarter are exchanged.  Even and uneven quarters equal
# one rank and the reference, and are proved.
. "$(dirname "$0")/lib.sh"

# The plan: the height and width of every image over h and w, written from the model's IR, where an image is [n, H, W,
# c] once the input is transposed.
cat >spatial.py <<'END'
import re, sys
image = {k: "{x1:h, x2:w}" for k in "pool add mul relu broadcast concat transpose".split()}
windows = {"conv": "{H:h, W:w}", "conv_transpose": "{H:h, W:w}"}
cuts = image | windows | {"reduce": "{r1:h, r2:w}", "input": "{x2:h, x3:w}"}
print("apc.plan 1\ngraph @main 0000000000000000\ntarget cpux4 ranks 4\nmesh [h=2, w=2] stages 1")
for line in open(sys.argv[1]):
    m = re.match(r'  %"?([^ "]+)"? = (\w+) .* : \w+\[([^\]]*)\]', line)
    if m and m[2] in cuts and (m[3].count(",") == 3 or m[2] == "reduce"):
        print(f'op "{m[1]}" {cuts["input" if "perm=[0, 3, 1, 2]" in line else m[2]]}')
END

cut_images() { # MODEL SETTINGS...
  local model=$source_dir/examples/$1.apc
  shift
  expect 0 "" "$apc" "$model" "$@" --emit=ir=model.ir -q
  check "no plan" bash -c '/usr/bin/python3 spatial.py model.ir >spatial.plan'
  expect 0 "another graph" "$apc" verify "$model" "$@" --init random --target cpux4 --plan spatial.plan --json
  expect_json 'd["ok"] and d["proof"] == "proved" and d["ranks"] == 4'
  expect 0 "" "$apc" plan "$model" "$@" --target cpux4 --plan spatial.plan --json
  expect_json 'd["chosen"]["tp"] == 4 and d["chosen"]["dp"] == 1' # degrees follow from what axes split, not from their names
  expect 0 "exchange" "$apc" "$model" "$@" --target cpux4 --plan spatial.plan --emit=spmd=- -q
}

cut_images resnet -D depth=18 -D width=4 -D classes=5 -D image=64 --dim batch=2
cut_images resnet -D depth=18 -D width=4 -D classes=5 -D image=50 --dim batch=2
cut_images resnet -D depth=50 -D width=2 -D classes=5 -D image=32 --dim batch=1
cut_images unet -D channels=3 -D levels=2 -D image=20 --dim batch=2
summary 28
