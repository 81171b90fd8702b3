#!/usr/bin/env bash
# tests/cli/killed.sh APC - a compilation that fails or is killed at any time leaves no folder, no partial program and
# no compiler process.
. "$(dirname "$0")/lib.sh"
mlp=$source_dir/examples/mlp.apc small="-D layers=2 -D d=16 -D hidden=32 --init random"

# A slow compiler that signals its start.  Another run of this test uses another duration.
export NAP=30.$$
cat >slow <<'SCRIPT'
#!/bin/sh
: >"$BEGUN"
sleep $NAP &
trap 'kill $!; exit 1' TERM
wait
exec cc "$@"
SCRIPT
chmod +x slow
nothing_left() {
  for _ in $(seq 600); do
    [ -z "$(ls -A "$TMPDIR")" ] && ! pgrep -xf "sleep $NAP" >/dev/null && break
    sleep 0.1
  done
  check "left in TMPDIR: $(find "$TMPDIR")" test -z "$(ls -A "$TMPDIR")"
  check "left beside the program: $(ls)" test -z "$(ls -d prog* 2>/dev/null)"
  check "a compiler is left" test -z "$(pgrep -xf "sleep $NAP")"
}

# killed SIGNAL apc|group COMMAND...: while the compiler works.
killed() {
  local signal=$1 whom=$2 pid
  shift 2
  last="SIG$signal to $whom of $*"
  rm -f begun
  BEGUN=$PWD/begun CC=$PWD/slow setsid "$@" >out 2>err </dev/null &
  pid=$!
  for _ in $(seq 1200); do [ -e begun ] && break; sleep 0.05; done
  check "the compiler has not begun" test -e begun
  check "no folder" test -n "$(ls -A "$TMPDIR")"
  if [ "$whom" = group ]; then kill "-$signal" "-$pid"; else kill "-$signal" "$pid"; fi
  wait $pid 2>/dev/null
  check "it ended well" test $? -gt 128
  nothing_left
}
# shellcheck disable=SC2086
for how in "KILL apc" "TERM apc" "KILL group" "TERM group" "HUP group"; do
  killed $how "$apc" "$mlp" $small -q -o prog
  killed $how "$apc" run "$mlp" $small -q
done

# apc is killed while its ranks compute.
ranks() { ls -l /proc/[0-9]*/exe 2>/dev/null | grep -cF "$TMPDIR/"; }
for signal in KILL TERM SEGV; do
  last="SIG$signal to apc bench"
  # shellcheck disable=SC2086
  "$apc" bench "$mlp" $small --target cpux2 --runs 1000000 -q >out 2>err </dev/null &
  pid=$!
  for _ in $(seq 600); do [ "$(ranks)" -eq 2 ] && break; sleep 0.1; done
  check "the ranks have not begun" test "$(ranks)" -eq 2
  { kill -$signal $pid; wait $pid; } 2>/dev/null
  for _ in $(seq 600); do [ "$(ranks)" -eq 0 ] && break; sleep 0.1; done
  check "ranks are left" test "$(ranks)" -eq 0
  nothing_left
done

# shellcheck disable=SC2086
CC=false expect 5 "false failed on a small program" "$apc" "$mlp" $small -q -o prog
nothing_left
# shellcheck disable=SC2086
CC=no-such-compiler expect 5 "there is no C compiler" "$apc" "$mlp" $small -q -o prog
nothing_left
summary 83
