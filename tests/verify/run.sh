#!/bin/sh
# Every program here breaks one rule: apc-opt must refuse it with exit code 1 and the text after EXPECT.
# usage: run.sh APC-OPT
opt=$1
dir=$(dirname "$0")
passed=0 failed=0
for f in "$dir"/*.ir; do
  want=$(sed -n 's/^# EXPECT: //p' "$f")
  got=$("$opt" "$f" 2>&1 >/dev/null)
  code=$?
  if [ $code -eq 1 ] && printf '%s' "$got" | grep -qF -- "$want"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf '%s: exit %d, wanted "%s", got:\n%s\n' "$f" $code "$want" "$got"
  fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -ge 15 ]
