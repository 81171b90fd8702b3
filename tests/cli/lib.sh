# tests/cli/lib.sh - sourced by the tests of the command line: runs a program and checks code, output and messages.
#
#   expect CODE TEXT COMMAND...   exit code, and a fixed string that standard output or standard error must contain (""
#                                 for none)
#   expect_out TEXT               the last command's standard output contains the text; likewise:
#   expect_err TEXT / no_out / no_err / only_wrote: only messages about the files that a program wrote
#   in_quarter NUMBER             true if this case is in the quarter that runs (test.sh), or no quarter is set.
#                                 in_half: for two of four quarters
#   summary ALL [QUARTER]         prints the counts; at least so many must have passed

apc=$(realpath "$1")
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
private=$(mktemp -d)
trap 'rm -rf "$private"' EXIT
work=$private/work
export TMPDIR=$private/tmp # tests look for folders left there: those of other processes do not count
mkdir "$work" "$TMPDIR"
cd "$work" || exit 1
unset APC_TARGET APC_CALIBRATION NO_COLOR
export APC_CACHE=off # plans and kernels of other tests are not found
passed=0 failed=0 last=
# The calls at which a rank on a device may be late: any of the ranks that wait for each other may be the first.
late_call='at step [0-9]+( to [0-9]+)? \((launch|gemm|feed|fetch|all_gather|all_reduce|send|recv|wait|copy|fill) of '

pass() { passed=$((passed + 1)); }
fail() {
  failed=$((failed + 1))
  printf 'FAILED %s\n  %s\n' "$last" "$*"
  sed 's/^/  out: /' out | head -n 20
  sed 's/^/  err: /' err | head -n 20
}
check() { # check DESCRIPTION COMMAND...
  local what=$1
  shift
  if "$@"; then pass; else fail "$what"; fi
}
tiny_model() { # y = -x, of rows of 4
  printf '%s\n' 'apc.ir 1' 'symbol b' 'func @main level 1 {' '  %x = input {name="x"} : f32[b, 4]' '  %y = neg %x : f32[b, 4]' '  output "y" %y' '}'
}
expect() {
  local code=$1 text=$2 got
  shift 2
  last="$*"
  timeout 600 "$@" >out 2>err </dev/null
  got=$?
  if [ $got -ne "$code" ]; then fail "exit $got, wanted $code"; return; fi
  if [ -n "$text" ] && ! grep -qF -- "$text" out err; then fail "no output has '$text'"; return; fi
  pass
}
expect_out() { check "standard output lacks '$1'" grep -qF -- "$1" out; }
expect_err() { check "standard error lacks '$1'" grep -qF -- "$1" err; }
no_out() { check "standard output is not empty" test ! -s out; }
no_err() { check "standard error is not empty" test ! -s err; }
only_wrote() { check "standard error has more than which files were written" bash -c '! grep -v "^wrote " err'; }
# The JSON document on standard output satisfies a Python expression in d.
expect_json() {
  check "JSON: not $1" /usr/bin/python3 -c 'import json,re,sys; d=json.load(open("out")); sys.exit(0 if eval(sys.argv[1]) else 1)' "$1"
}
in_quarter() { [ $(($1 % 4)) -eq "${APC_QUARTER:-$(($1 % 4))}" ]; }
in_half() { [ $(($1 % 2)) -eq $((${APC_QUARTER:-$1} % 2)) ]; }
summary() {
  echo "$passed passed, $failed failed"
  [ -z "${APC_QUARTER-}" ] || set -- "${2:-$1}"
  [ $failed -eq 0 ] && [ $passed -ge "$1" ]
}
