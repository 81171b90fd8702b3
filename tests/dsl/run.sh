#!/usr/bin/env bash
# usage: run.sh LOADER [--bless] : every good/NAME.apc must give good/NAME.ir, every bad/NAME.apc the diagnostics
# bad/NAME.err and exit status 1.  A first line "# run: -D a=1" gives options.  --bless rewrites the expected files.
set -u
cd "$(dirname "$0")" || exit 1
loader=$1 bless=${2:-} failed=0 passed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

check() { # source, expected file, stream to compare, expected exit status
  local options status
  options=$(sed -n '1s/^# run: //p' "$1")
  # shellcheck disable=SC2086
  "$loader" "$1" $options >"$work/out" 2>"$work/err"
  status=$?
  [ "$bless" = --bless ] && cp "$work/$3" "$2"
  if [ "$status" -ne "$4" ] || ! diff -u "$2" "$work/$3"; then
    echo "FAILED $1 (exit $status, wanted $4)"
    [ "$3" = out ] && cat "$work/err"
    failed=$((failed + 1))
  else
    passed=$((passed + 1))
  fi
}

for f in good/*.apc; do check "$f" "${f%.apc}.ir" out 0; done
for f in bad/*.apc; do check "$f" "${f%.apc}.err" err 1; done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
