#!/bin/sh
# usage: run.sh BUILD CC FLAG
set -eu
build=$1 cc=$2 flag=$3
[ "$flag" = -fsanitize= ] && flag=
dir=$(mktemp -d "$build/embed-XXXXXX")
trap 'rm -rf "$dir"' EXIT
export TMPDIR="$dir"
"$build/tests/embed_program" "$dir/program"
"$cc" $flag -Wall -Wextra -Werror -I runtime examples/embed.c "$build/libapcrt.a" -lz -ljansson -lpthread -ldl -lm -o "$dir/embed"
"$dir/embed" "$dir/program" | tee "$dir/said"
grep -q '^y: 12 begins with .*; 2 ranks' "$dir/said"
"$dir/embed" /dev/null 2>"$dir/said" && exit 1
grep -q 'error: /dev/null is not a regular file' "$dir/said"
# libapcrt.so exports the functions of the header, and nothing else
sed 's|/\*.*\*/||; /\/\*/,/\*\//d' runtime/apc_runtime.h | grep -o '\bapc_[a-z0-9_]*(' | tr -d '(' | sort -u >"$dir/declared"
nm -D --defined-only "$build/libapcrt.so" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$dir/exported"
test "$(wc -l <"$dir/exported")" -gt 40
diff "$dir/declared" "$dir/exported"
if nm -D --defined-only "$build/libapcrt.so" | grep -v ' A APC_0' | grep -v '@@APC_0\.[0-9]*$'; then exit 1; fi
readelf -d "$build/libapcrt.so" | grep -q 'SONAME.*\[libapcrt.so.0\]'
"$cc" $flag -Wall -Wextra -Werror -I runtime examples/embed.c "$build/libapcrt.so" -Wl,-rpath,"$build" -o "$dir/shared"
"$dir/shared" "$dir/program" | grep -q '^y: 12 begins with .*; 2 ranks'
"$cc" $flag -Wall -Wextra -Werror -I runtime tests/embed/calls.c "$build/libapcrt.so" -Wl,-rpath,"$build" -o "$dir/calls"
"$dir/calls" "$dir/program"
for ranks in 1 2; do
  "$build/apc" compile tests/embed/computed.ir --target "cpux$ranks" -q -o "$dir/computed"
  "$dir/calls" "$dir/computed" sizes "$dir/made.safetensors"
done
# the states of a decoder, the same for every split
"$cc" $flag -Wall -Wextra -Werror -I runtime tests/embed/states.c "$build/libapcrt.so" -Wl,-rpath,"$build" -o "$dir/states"
decoder() {
  "$build/apc" compile examples/llama.apc -D cache=1 -D layers=2 -D d=16 -D heads=2 -D ffn=16 -D vocab=32 -D ctx=16 \
    --dim seq=4 -q -o "$@"
}
decoder "$dir/one" --target cpu --dim batch=2
decoder "$dir/tp" --target cpux2 --tp 2 --dim batch=2
decoder "$dir/pp" --target cpux2 --pp 2 --micro-batches 2 --dim batch=2
for i in 0 1; do
  for x in keys values; do echo "0 layers.$i.attn.$x 2=2 2=2 16=16 8=8"; done
done >"$dir/expected"
for p in one tp pp; do
  "$dir/states" "$dir/$p" >"$dir/said"
  diff "$dir/expected" "$dir/said"
done
# states in files: generate, save, load, the same results; another split loads them too, and continues alike
"$dir/states" "$dir/one" "$dir/one.safetensors" save >"$dir/wanted"
test "$(wc -l <"$dir/wanted")" = 4
close() { # within 1e-3 of the numbers in `wanted`, whose sums have another order on other splits
  paste "$dir/wanted" "$dir/said" | awk '{ d = $1 - $2; if (NF != 2 || d > 1e-3 || d < -1e-3) exit 1 }'
}
for p in tp pp; do
  "$dir/states" "$dir/$p" "$dir/one.safetensors" load >"$dir/said"
  close
  "$dir/states" "$dir/$p" "$dir/$p.safetensors" save >"$dir/said"
  close
  "$dir/states" "$dir/one" "$dir/$p.safetensors" load >"$dir/said"
  close
done
# the states of another program, a damaged file and a truncated one are refused before anything changes
decoder "$dir/other" --target cpu -D ctx=24 --dim batch=2
"$dir/states" "$dir/other" "$dir/other.safetensors" save >"$dir/said"
"$dir/states" "$dir/tp" "$dir/other.safetensors" bad | grep -q "dimension 2 of state 'layers.0.attn.keys' is 24, but the program has 16"
head -c 5000 "$dir/one.safetensors" >"$dir/short.safetensors"
"$dir/states" "$dir/tp" "$dir/short.safetensors" bad >/dev/null
printf '\377\377\377\377\377\377\377\377{}' >"$dir/wild.safetensors"
"$dir/states" "$dir/tp" "$dir/wild.safetensors" bad >/dev/null
"$dir/states" "$dir/tp" "$dir/absent.safetensors" bad >/dev/null
# states of any batch
decoder "$dir/any" --target cpux2 --tp 2
"$dir/states" "$dir/any" "$dir/any.safetensors" sizes
# A program of one's own serves its numbers.
"$cc" $flag -Wall -Wextra -Werror -I runtime tests/embed/metrics.c "$build/libapcrt.a" -lz -ljansson -lpthread -ldl -lm -o "$dir/metrics"
port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$dir/metrics" "$dir/program" "$port" >"$dir/page"
grep -q '^HTTP/1.0 200 OK' "$dir/page"
grep -qx 'apc_requests_total 2' "$dir/page"
grep -qx 'apc_request_seconds_count 2' "$dir/page"
grep -qx 'apc_request_failures_total 0' "$dir/page"
grep -qx 'apc_rank_memory_bytes{rank="1"} [0-9]*' "$dir/page"
if grep -q apc_step "$dir/page"; then exit 1; fi
if command -v c++ >/dev/null; then
  printf '#include "apc_runtime.h"\nint main() { ApcModel *m; return apc_load("x", nullptr, &m); }\n' >"$dir/x.cc"
  c++ -std=c++11 -Wall -Wextra -Werror -pedantic -I runtime -fsyntax-only "$dir/x.cc"
fi
