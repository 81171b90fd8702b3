#!/bin/sh
# usage: leaks.sh BUILD.  Compiles a small program for two ranks, and runs leaks.c on it.
set -eu
dir=$(mktemp -d "$1/leaks-XXXXXX")
trap 'rm -rf "$dir"' EXIT
export TMPDIR="$dir"
"$1/apc" examples/mlp.apc -D layers=2 -D d=16 --target cpux2 -o "$dir/program" 2>"$dir/said" || { cat "$dir/said"; exit 1; }
"$1/tests/leaks" "$dir/program"
