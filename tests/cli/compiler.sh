#!/bin/bash
# The C compiler: its output for generated code is checked, so that every written program also runs.
. "$(dirname "$0")/lib.sh"
model="$source_dir/examples/product.apc" # it has one kernel
compiler() { # compiler NAME SCRIPT: a compiler that runs SCRIPT first; `small` is true in the trial compilation
  printf '#!/bin/sh\nsmall=true; grep -qs "void k[0-9]" *.c && small=false\n%s\nexec cc "$@"\n' "$2" >"$1"; chmod +x "$1"
}
refused() { # refused CODE TEXT CC
  # shellcheck disable=SC2086
  expect "$1" "$2" env CC="$3" "$apc" $model -q -o x
  check "a program is written" test ! -e x
}

# functions that are defined nowhere: a fault of generated code
compiler macro '$small || sed -i "s/^void k[0-9].*{/& no_such_function();/" kernels0.c'
refused 70 "internal error: generated kernels call the undefined function 'no_such_function'" "$work/macro"
compiler declared '$small || sed -i "s/^void k[0-9].*{/& void no_such_function(void); no_such_function();/" kernels0.c'
refused 70 "internal error: generated kernels call the undefined function 'no_such_function'" "$work/declared"
# faults that C only warns of
compiler pointer '$small || echo "int *wrong(float *p) { return p; }" >>kernels0.c'
refused 5 "incompatible" "$work/pointer"

# no object, an empty one, one without the kernels, one whose threads are not the program's
refused 5 "error[APC0702]: true reported success, but wrote no shared object" true
compiler text '$small || { case "$*" in *kernels.so*) echo hello >kernels.so; exit 0;; esac; }'
refused 5 "is not a shared object" "$work/text"
compiler hidden 'set -- "$@" -fvisibility=hidden'
refused 5 "lacks the kernel 'k" "$work/hidden"
compiler dynamic '$small || sed -i "s/schedule(static)/schedule(dynamic)/" kernels*.c'
refused 5 "needs GOMP_" "$work/dynamic"

# it is tried before the work, and faults are reported once
once() { check "it is not reported once" test "$(grep -c "error" err)" -eq 1; check "the plan was made before" bash -c '! grep -q Planning err'; }
for command in compile run bench verify; do
  for cc in no-such-compiler false; do
    # shellcheck disable=SC2086
    expect 5 "error[APC070" env CC=$cc "$apc" $command $model; once
  done
done
expect_err "error[APC0702]: false failed on a small program (exit status 1) without a message"
printf '#!/bin/sh\necho "no such cc1" >&2\nkill -9 $$\n' >dying; chmod +x dying
refused 5 "failed on a small program (signal 9, Killed)" "$work/dying"; expect_err "no such cc1"
compiler late '$small || exit 3' # several texts, all of which fail
# shellcheck disable=SC2086
expect 5 "late failed on generated code (exit status 3) without a message" env CC="$work/late" "$apc" "$source_dir/examples/gpt-tiny.onnx" -o x
check "it is not reported once" test "$(grep -c "error" err)" -eq 1
# but only if there is something to compile
# shellcheck disable=SC2086
expect 0 "" env CC=false "$apc" $model -q --emit=schedule,c
# shellcheck disable=SC2086
expect 0 "" env CC=false "$apc" plan $model -q
check "a temporary folder is left" test -z "$(ls "$TMPDIR")"
summary 47
