#!/bin/bash
# examples/chars.sh, shortened: it trains on the licenses of this machine, and its samples with a cache of keys and
# values equal those of the model without one.
. "$(dirname "$0")/lib.sh"
[ -f /usr/share/common-licenses/MPL-2.0 ] || exit 77
export APC=$apc

expect 0 "" "$source_dir/examples/chars.sh" 30 chars
cp out trained
check "30 steps" [ "$(grep -c '^step ' trained)" -eq 30 ]
check "it learns" /usr/bin/python3 -c '
x = [float(l.split()[3]) for l in open("trained") if l.startswith("step")]
assert x[0] > 4.5 and sum(x[-5:]) / 5 < 3.1, x'
rows=$((($(stat -c %s chars/held.bin) / 2 - 1) / 128))
check "the license that is held out" grep -q "^eval after step 30 .*perplexity.*accuracy.* $rows rows" trained
check "a text that begins with the prompt" grep -aq "^The " trained

# At temperature 0 every character is the likeliest one, by the logits of the model for all characters before it.
model=$source_dir/examples/chars.apc
/usr/bin/python3 -c '
import numpy as np
np.save("prompt.npy", np.frombuffer(b"GNU ", "u1").astype("i8"))'
sample=("$apc" run "$model" -q -D sample=40 --weights chars/trained.safetensors --input prompt=@prompt.npy)
expect 0 "" "${sample[@]}" --input temperature=zeros --input seed=zeros --output text=@text.npy
/usr/bin/python3 -c '
import numpy as np
np.save("tokens.npy", np.load("text.npy").astype("i8")[None])
for name, seed in ("one", 1), ("two", 2): np.save(name + ".npy", np.array(seed))
np.save("warm.npy", np.array(1, "f4"))'
expect 0 "" "$apc" run "$model" -q --weights chars/trained.safetensors --dim batch=1 --dim seq=40 --input tokens=@tokens.npy \
  --output logits=@logits.npy
check "the cache changes nothing" /usr/bin/python3 -c '
import numpy as np
text, logits = np.load("text.npy"), np.load("logits.npy")[0]
assert bytes(text[:4]) == b"GNU ", text
best = logits.max(1)
assert all(best[i] - logits[i, text[i + 1]] < 1e-3 for i in range(3, 39)), bytes(text)'
for seed in one two; do
  expect 0 "" "${sample[@]}" --input temperature=@warm.npy --input seed=@$seed.npy --output text=@$seed.out.npy
done
expect 0 "" "${sample[@]}" --input temperature=@warm.npy --input seed=@one.npy --output text=@again.npy
check "the same text for a seed" cmp -s one.out.npy again.npy
check "another one for another" eval '! cmp -s one.out.npy two.out.npy'
expect 1 "a sample has at most ctx = 128 characters" "$apc" run "$model" -D sample=129
summary 14
