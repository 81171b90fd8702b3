#!/usr/bin/env bash
# Fuzzes parsers until each has had its processor time, in slices that take turns, so that stopping early has given every parser
# about the same.  Needs the preset "fuzz"; a crash, a leak or 10 s on one input stops that parser and leaves the case in FOLDER.
#
# usage: tests/fuzz/hours.sh BUILD FOLDER SECONDS NAME...      FOLDER keeps NAME.corpus, NAME.log and NAME.seconds over several calls
set -u
build=$1 folder=$2 seconds=$3
shift 3
source=$(cd "$(dirname "$0")" && pwd)
slice=${SLICE:-300}
mkdir -p "$folder"

# Corpus entries and seeds of a program are compiled by this build: the format has no seeds in the tree.
seeds_of() { # NAME
  case $1 in
    program | artifact)
      [ -d "$folder/seeds" ] || "$source/seed_programs.sh" "$build" "$folder/seeds"
      echo "$folder/seeds/$1" ;;
  esac
  [ -d "$source/seeds/$1" ] && echo "$source/seeds/$1"
}

used() { cat "$folder/$1.seconds" 2>/dev/null || echo 0; }

fuzz_slice() { # NAME: false when the fuzzer stopped at a finding
  local name=$1 status TIMEFORMAT='%U %S' spent
  mkdir -p "$folder/$name.corpus"
  spent=$({ time "$build/tests/libfuzzer_$name" -max_total_time=$slice -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="$folder/$name-" "$folder/$name.corpus" $(seeds_of "$name") >>"$folder/$name.log" 2>&1; echo $? >"$folder/$name.status"; } 2>&1 | tail -1)
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
    if fuzz_slice "$name"; then rest="$rest $name"; else echo "$name: found a case, see $folder/$name.log" >&2; failed=1; fi
  done
  names=$rest
done
for name in "$@"; do echo "$name: $(used "$name") s of processor time"; done
exit $failed
