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
if command -v c++ >/dev/null; then
  printf '#include "apc_runtime.h"\nint main() { ApcModel *m; return apc_load("x", nullptr, &m); }\n' >"$dir/x.cc"
  c++ -std=c++11 -Wall -Wextra -Werror -pedantic -I runtime -fsyntax-only "$dir/x.cc"
fi
