#!/usr/bin/env bash
# Fuzzes parsers until each has had its processor time, in alternating slices, so that after an early stop every parser
# has had about the same.  Needs the preset "fuzz" and its target "fuzzers"; a crash, a leak or 10 s on one input stops
# that parser and leaves the case in FOLDER.
#
# usage: tests/fuzz/hours.sh BUILD FOLDER SECONDS NAME...      FOLDER keeps NAME.corpus, NAME.log and NAME.seconds over
# several calls
set -u
build=$1 folder=$2 seconds=$3
shift 3
source=$(cd "$(dirname "$0")" && pwd)
slice=${SLICE:-300}
mkdir -p "$folder"

# A fuzzer without seeds would spend its hours on inputs that are refused at the first byte.
for name in "$@"; do
  "$source/gather_seeds.sh" "$build" "$folder/seeds" "$name" || { echo "$0: no seeds for $name" >&2; exit 1; }
done

seeds_of() { # NAME
  echo "$folder/seeds/$1"
  if [ -d "$source/seeds/$1" ]; then echo "$source/seeds/$1"; fi
}

dictionary_of() { # NAME
  if [ -s "$folder/seeds/$1.dict" ]; then echo "-dict=$folder/seeds/$1.dict"; fi
}

# Prints the fuzzer's report and, if it is short, the case itself: on another machine FOLDER may be gone.
tell_case() { # NAME
  local case
  echo "$1: found a case, see $folder/$1.log"
  grep -aE 'ERROR|SUMMARY|internal error|runtime error' "$folder/$1.log" | head -n 4
  for case in "$folder/$1"-{crash,leak,timeout,oom}-*; do
    [ -f "$case" ] && [ "$(stat -c %s "$case")" -le 6000 ] && echo "$1: base64 -d | gunzip:" && gzip -9c "$case" | base64
  done
}

used() { cat "$folder/$1.seconds" 2>/dev/null || echo 0; }

fuzz_slice() { # NAME: false if the fuzzer stopped at a finding
  local name=$1 status TIMEFORMAT='%U %S' spent
  mkdir -p "$folder/$name.corpus"
  spent=$({ time "$build/tests/libfuzzer_$name" -max_total_time=$slice -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="$folder/$name-" $(dictionary_of "$name") "$folder/$name.corpus" $(seeds_of "$name") \
    >>"$folder/$name.log" 2>&1; echo $? >"$folder/$name.status"; } 2>&1 | tail -1)
  status=$(cat "$folder/$name.status")
  awk -v a="$(used "$name")" -v b="$spent" 'BEGIN { split(b, t, " "); printf "%d\n", a + t[1] + t[2] }' >"$folder/$name.new"
  mv "$folder/$name.new" "$folder/$name.seconds"
  [ "$status" = 0 ]
}

failed=0
names=$*
while [ -n "$names" ]; do
  rest=
  for name in $names; do
    [ "$(used "$name")" -ge "$seconds" ] && continue
    if fuzz_slice "$name"; then rest="$rest $name"; else tell_case "$name" >&2; failed=1; fi
  done
  names=$rest
done
for name in "$@"; do echo "$name: $(used "$name") s of processor time"; done
exit $failed
