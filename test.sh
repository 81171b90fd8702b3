#!/usr/bin/env bash
# ./test.sh: installs missing packages, builds, tests; prints the costs and the numbers of passed and failed tests.
#
#   ./test.sh           the build under the address and undefined-behaviour sanitizers, and the release build
#   ./test.sh --fast    builds and runs the fast tests, in a minute; installs nothing
#   ./test.sh --ci      also the thread sanitizer, clang's warnings and fuzzing; CI runs this
#   ./test.sh --all     the same with all four quarters of long tests
#
#   QUARTER=N           the quarter of long tests (N modulo 4; otherwise HEAD's hash selects it)
#   CI_BASE=COMMIT      tests of rooms unchanged since COMMIT run in one run of four only (with --ci)
#   APC_SANITIZERS=0    everything in the release build, nothing under sanitizers
#
# tests/suite/table.txt lists the runs of each test, tests/suite/budget limits the processor time.  One more test than
# there are processors runs at a time, since some mostly wait.  Kernels that several tests compile are compiled once in
# a run (tests/kept_cc).  A skipped test is a failure, unless it needs a device this machine does not have (gpu.NAME).
set -uo pipefail
cd "$(dirname "$0")" || exit 1
. tools/setup.sh
failed=0 chosen=() costs=$PWD/build/costs
at_once=$(($(nproc) + 1))
what=${1-}
case $what in
  "" | --fast | --ci | --all) what=${what#--} ;;
  *) sed -n '2,11s/^# \?//p' "$0" >&2; exit 2 ;;
esac
case $what in ci | all) thorough=1 ;; *) thorough=0 ;; esac
sanitizers=${APC_SANITIZERS:-1}
case ${QUARTER-0} in '' | *[!0-9]*) echo "QUARTER=$QUARTER: not a number" >&2; exit 2 ;; esac

# step NAME COMMAND...: runs it; writes name, wall time and processor time (seconds) to build/costs/steps.
step() {
  local name=$1 code TIMEFORMAT='%R %U %S'
  shift
  { time "$@" >&3 2>&4 3>&- 4>&-; } 3>&1 4>&2 2>"$costs/time"
  code=$?
  awk -v name="$name" '{ print name, $1, $2 + $3 }' "$costs/time" >>"$costs/steps"
  [ $code = 0 ] || echo "$name" >>"$costs/failed"
  return $code
}

# building FOLDER PRESET [TARGETS...]
building() {
  say "building: $2"
  step "$1 build" build_preset "$2" "$1" "${@:3}" || failed=1
}

# testing FOLDER RUNS [AT_ONCE]: runs the tests of these runs of the table, or all of them.  A label RUN.N is of tests
# that are part of the run in quarter N only.
testing() {
  local log=$costs/$1.log skipped
  say "testing: $1"
  APC_COSTS=$costs/$1.tests step "$1 tests" ctest --test-dir "$1" --output-on-failure --no-label-summary \
    -O "$log" -j "${3:-$at_once}" ${2:+-L "^($2)([.]${APC_QUARTER:-.})?\$"} "${chosen[@]}" || failed=1
  skipped=$(sed -n 's/.*Test *#[0-9]*: \([^ ]*\) .*\*\*\*\(Skipped\|Not Run\).*/\1/p' "$log" | grep -v '^gpu\.')
  if [ -n "$skipped" ]; then
    echo "skipped, which counts as a failure:" $skipped >&2
    failed=1
  fi
}

compile_base() { printf '%s\n' base/*.c | xargs -P 2 -I FILE cc -std=gnu11 -O2 -g -I. -c FILE -o /dev/null; }

# Measures the speed of this machine, which scales the limit of a fast test: tests/suite/budget.
measure_machine() {
  step "compiling base/" compile_base || exit 1
  APC_FAST=$(awk '$1 == "compiling" { took = $NF } $1 == "base" { usual = $2 } $1 == "fast_test" { most = $2 }
                  END { printf "%.2f", most * took / usual }' "$costs/steps" tests/suite/budget)
  export APC_FAST
}

# Selects the quarter of long tests, and of tests of unchanged rooms.
choose() {
  local head touched
  if [ "$what" = all ]; then
    unset APC_QUARTER
    say "all four quarters"
    return
  fi
  head=$(git rev-parse HEAD 2>/dev/null) || head=0
  export APC_QUARTER=$((${QUARTER:-0x${head:0:7}} % 4))
  say "quarter $APC_QUARTER of 0 to 3 (QUARTER=$APC_QUARTER ./test.sh${what:+ --$what} runs it again)"
  if [ "$what" = ci ] && [ -n "${CI_BASE-}" ]; then
    touched=$(tests/suite/suite.py touched "$CI_BASE" "$APC_QUARTER") || exit 2
    [ "$touched" = everything ] || chosen=(-L "^($touched)\$")
  fi
}

fuzz() {
  local folder=build-fuzz/found
  rm -rf "$folder"
  (cd tests/fuzz && printf '%s\n' fuzz_*.c) | sed 's/fuzz_\(.*\)\.c/\1/' |
    SLICE=5 xargs -P 2 -I NAME tests/fuzz/hours.sh build-fuzz "$folder" 5 NAME
}

rm -rf "$costs"
mkdir -p "$costs"
if [ "$what" = fast ]; then
  measure_machine
  unset APC_QUARTER
  building build release tests-fast
  [ $failed = 0 ] && testing build fast
  exit $failed
fi

install_missing $build_packages $test_packages || exit 5
[ $thorough = 0 ] || install_missing $ci_packages || exit 5
choose
measure_machine
rm -rf build/compiled
building build release
[ $failed = 0 ] || exit 1
if [ "$sanitizers" != 0 ]; then
  building build-asan asan tests-sanitizers
  [ $failed = 0 ] || exit 1
  testing build-asan sanitizers
  if [ $thorough = 1 ]; then testing build 'release|fast|ci'; else testing build 'release|fast'; fi
else
  testing build ''
fi
if [ $thorough = 1 ]; then
  building build-tsan tsan tests-threads
  testing build-tsan threads $((at_once + 1))
  building build-fuzz fuzz fuzzers
  say "clang's warnings"
  step "clang's warnings" tests/suite/suite.py warnings build-fuzz || failed=1
  say "fuzzing, some seconds each"
  step "fuzzing" fuzz || failed=1
fi
step "compiling base/" compile_base || failed=1 # again: machines change their speed
say "what it cost"
tests/suite/suite.py costs "$costs" "${what:-test}" || failed=1
[ ! -e "$costs/failed" ] || sed 's/^/failed: /' "$costs/failed" # the tests' counts above are not the whole run
exit $failed
