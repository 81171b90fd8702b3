#!/usr/bin/env bash
# tests/cli/cache.sh APC - kept plans and kernels: found again only if none of their dependencies has changed; damaged
# files, folders of other users and many processes at once do no harm.
. "$(dirname "$0")/lib.sh"

tiny_model >tiny.ir
small=(tiny.ir --dim b=16)
plan_line="the plan of an earlier search" kernels_line="the kernels of an earlier compile"
kept() { expect_err "$plan_line"; expect_err "$kernels_line"; }
not_kept() { check "$1 was found" bash -c '! grep -q "$1" err' - "$1"; }
files() { find cache -name "$1-*" | wc -l; }

# Without a cache, the first time, the second time: the same bytes.
expect 0 "" "$apc" "${small[@]}" --target cpux2 -o plain -q
export APC_CACHE=$work/cache
expect 0 "" "$apc" "${small[@]}" --target cpux2 -o first
not_kept "$plan_line"; not_kept "$kernels_line"
expect 0 "" "$apc" "${small[@]}" --target cpux2 -o second
kept
check "the same program, kept or not" cmp plain first
check "the same program, kept or not" cmp plain second
check "a plan, kernels, and that the compiler works" test "$(files plan) $(files kernels) $(files compiler)" = "1 1 1"
check "other users may not write there" test "$(stat -c %a cache)" = 700
# All commands that run the model find them; a list stays where it was made.
expect 0 "$kernels_line" "$apc" verify "${small[@]}" --target cpux2
listed=("$source_dir/examples/mlp.apc" -D layers=4 -D d=256 -D hidden=512 --dim batch=64 --target cpux4)
expect 0 "" "$apc" "${listed[@]}" -o listed
expect 0 "" "$apc" plan "${listed[@]}" --json; cp out searched.json
not_kept "$plan_line"
expect 0 "$plan_line" "$apc" plan "${listed[@]}" --json; cp out found.json
expect_json 'd["kept"] and d["searches"] == 0 and len(d["alternatives"]) > 0'
expect_json '(lambda x: {k: v for k, v in d.items() if k not in ("kept", "searches", "search_ms")} == {k: v for k, v in x.items() if k not in ("searches", "search_ms")})(json.load(open("searched.json")))'
expect 0 "found by an earlier search (apc cache)" "$apc" plan "${listed[@]}"
expect_out "instead"
expect 0 "" "$apc" plan "${listed[@]}" --compare tp=2,dp=2
not_kept "$plan_line"; expect_out "compared"
expect 0 "" "$apc" plan "${small[@]}" --target cpux2 --json; cp out shown.json
expect 0 "" "$apc" "${small[@]}" --target cpux2 --save-plan kept.plan -o third
kept
expect 0 "" "$apc" plan "${small[@]}" --target cpux2 --plan kept.plan --json
expect_json 'd["chosen"] == json.load(open("shown.json"))["chosen"] and d["time_us"] == json.load(open("shown.json"))["time_us"]'

# Another option, size, target, figure of a target, model: another plan.
other() { expect 0 "" "$apc" "$@" -o other; not_kept "$plan_line"; }
other "${small[@]}" --target cpux2 --dp 2
other "${small[@]}" --target cpux2 --memory 1GB
other "${small[@]}" --target cpux4
other tiny.ir --dim-hint b=32 --target cpux2
other tiny.ir --dim b=18 --target cpux2
"$apc" targets show cpu | sed 's/^machine cpu /machine here /' >here.topo
other "${small[@]}" --target here.topo
expect 0 "$plan_line" "$apc" "${small[@]}" --target here.topo -o other
sed -i 's/peak f32 220 GFLOPS/peak f32 221 GFLOPS/' here.topo
check "a figure has changed" grep -q "221 GFLOPS" here.topo
other "${small[@]}" --target here.topo
expect 0 "$plan_line" "$apc" "${small[@]}" --target cpux2 --dp 2 -o other
# A time limit may have ended such a search anywhere.
expect 0 "" "$apc" "${small[@]}" --target cpux2 --effort 5 -o other
expect 0 "" "$apc" "${small[@]}" --target cpux2 --effort 5 -o other
not_kept "$plan_line"
# Another compiler: other kernels.
printf '#!/bin/sh\nexec cc "$@"\n' >mycc; chmod +x mycc
CC=$work/mycc expect 0 "$plan_line" "$apc" "${small[@]}" --target cpux2 -o other
not_kept "$kernels_line"
CC=$work/mycc expect 0 "$kernels_line" "$apc" "${small[@]}" --target cpux2 -o other
CC=/nowhere/cc expect 5 "there is no C compiler" "$apc" "${small[@]}" --target cpux2 -o other
# Texts that the user asks to see are compiled.
expect 0 "" "$apc" "${small[@]}" --target cpux2 --save-temps=temps -o other
not_kept "$kernels_line"
check "the texts are there" test -s temps/kernels0.c

# Files that were cut, changed or emptied are computed anew.
for damage in 'truncate -s 100 "$f"' 'printf x | dd of="$f" bs=1 seek=200 conv=notrunc status=none' ': >"$f"' 'head -c 3000 /dev/urandom >"$f"'; do
  for f in cache/plan-* cache/kernels-* cache/compiler-*; do eval "$damage"; done
  expect 0 "" "$apc" "${small[@]}" --target cpux2 -o mended
  not_kept "$plan_line"; not_kept "$kernels_line"
  check "the same program" cmp plain mended
  expect 0 "" "$apc" "${small[@]}" --target cpux2 -o mended
  kept
done
# Many at once.
expect 0 "removed" "$apc" cache clear
for i in 1 2 3 4; do "$apc" "${small[@]}" --target cpux2 -o "at_once$i" -q & done
wait
for i in 1 2 3 4; do check "the same program" cmp plain "at_once$i"; done

# The contents of the cache.
expect 0 "" "$apc" cache list --json
expect_json 'd["schema"] == "apc.cache/1" and sorted(f["kind"] for f in d["files"]) == ["compiler", "kernels", "plan"] and d["bytes"] == sum(f["bytes"] for f in d["files"]) and len(d["files"][0]["key"]) == 32'
expect 0 "3 files" "$apc" cache list
# The least recently used files make room.
truncate -s 400M "cache/kernels-$(printf '%032d' 1)"; touch -d '2 days ago' "cache/kernels-$(printf '%032d' 1)"
truncate -s 300M "cache/kernels-$(printf '%032d' 2)"; touch -d '1 day ago' "cache/kernels-$(printf '%032d' 2)"
touch cache/mine
expect 0 "" "$apc" "${small[@]}" --target cpux2 --dp 2 -o other -q
check "the older one is gone" test ! -e "cache/kernels-$(printf '%032d' 1)"
check "the newer one is there" test -e "cache/kernels-$(printf '%032d' 2)"
expect 0 "removed" "$apc" cache clear --json
check "files of others stay: $(ls -a cache | tr "\n" " ")" test "$(ls cache)" = mine
expect 0 "0 files" "$apc" cache list

# Unusable folders: one line, and everything is computed.
chmod 777 cache
expect 0 "APC0652" "$apc" "${small[@]}" --target cpux2 -o other
expect_err "other users may write to it"
check "the same program" cmp plain other
check "nothing was kept" test "$(ls cache)" = mine
mkdir -m 777 open
APC_CACHE=$work/open/cache expect 0 "other users may replace it" "$apc" "${small[@]}" --target cpux2 -o other
chmod 1777 open
APC_CACHE=$work/open/cache expect 0 "" "$apc" "${small[@]}" --target cpux2 -o other -q; no_err
check "no other user may write there" test -n "$(ls open/cache)"
APC_CACHE=$work/plain expect 0 "it is not a folder" "$apc" "${small[@]}" --target cpux2 -o other
APC_CACHE='' expect 0 "" "$apc" "${small[@]}" --target cpux2 -o other -q; no_err
APC_CACHE=off expect 0 "there is no cache" "$apc" cache list
APC_CACHE=$work/missing expect 0 "the cache is empty" "$apc" cache list
check "listing makes no folder" test ! -e missing
# The default folder without APC_CACHE.
unset APC_CACHE
XDG_CACHE_HOME=$work/xdg HOME=$work/home expect 0 "" "$apc" "${small[@]}" --target cpux2 -o other -q
check "XDG_CACHE_HOME" test -n "$(ls xdg/apc)" -a ! -e home
env -u XDG_CACHE_HOME HOME="$work/home" "$apc" "${small[@]}" --target cpux2 -o other -q
check "HOME" test -n "$(ls home/.cache/apc)"
export APC_CACHE=off

expect 2 "takes list or clear, not 'lst'" "$apc" cache lst
expect 2 "" "$apc" cache
expect 0 "" "$apc" cache list --help
summary 118
