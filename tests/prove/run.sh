#!/bin/sh
# Hand-written programs of level 1 and 2, and the verdicts of `apc-opt --prove`: `# PROVE:` names the functions, `#
# EXPECT:` begins with the verdict (exit 0, 4, 3), or with `error` for an invalid pair of programs (exit 1); the output
# must contain the text after it.  A program that is proved is the reference of its wrong copies: every `# FAULT: FROM
# => TO` line changes the last occurrence in the text, which makes another program that must not be proved.  A line with
# `# REFUTED:` instead requires exit 4.
# usage: run.sh APC-OPT
opt=$1
dir=$(dirname "$0")
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0

fail() {
  failed=$((failed + 1))
  printf '%s: %s\n' "$1" "$2"
}

# The last occurrence of FROM (the first word of the line up to " => ") becomes the rest.
plant() { # plant FILE LINE OUT
  awk -v line="$2" 'BEGIN { i = index(line, " => "); from = substr(line, 1, i - 1); to = substr(line, i + 4) }
    { rows[NR] = $0; if (!/^#/ && index($0, from)) last = NR }
    END { if (!last) exit 1
          for (n = 1; n <= NR; n++) { row = rows[n]
            if (n == last) { at = index(row, from); row = substr(row, 1, at - 1) to substr(row, at + length(from)) }
            print row } }' "$1" >"$3"
}

for f in "$dir"/*.ir; do
  pairs=$(sed -n 's/^# PROVE: //p' "$f")
  want=$(sed -n 's/^# EXPECT: //p' "$f")
  case $want in
    proved*) wanted=0 ;;
    refuted*) wanted=4 ;;
    unknown*) wanted=3 ;;
    *) wanted=1 ;;
  esac
  got=$("$opt" --prove="$pairs" "$f" 2>"$scratch/err")
  code=$?
  if [ $code -eq $wanted ] && printf '%s\n' "$got" | cat - "$scratch/err" | grep -qF -- "$want"; then passed=$((passed + 1))
  else fail "$f" "exit $code, wanted \"$want\", got: $got $(cat "$scratch/err")"; fi
  sed -n 's/^# \(FAULT\|REFUTED\): /\1 /p' "$f" >"$scratch/faults"
  while IFS= read -r line; do
    wanted=${line%% *} line=${line#* }
    plant "$f" "$line" "$scratch/fault.ir" || { fail "$f" "no place for the fault '$line'"; continue; }
    got=$("$opt" --prove="$pairs" "$scratch/fault.ir" 2>"$scratch/err")
    code=$?
    if [ $code -eq 4 ] || { [ $code -eq 3 ] && [ "$wanted" = FAULT ]; }; then passed=$((passed + 1))
    else fail "$f" "with the fault '$line' exit $code: $got $(cat "$scratch/err")"; fi
  done <"$scratch/faults"
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -ge 30 ]
