#!/bin/bash
# Manual pages and completion: they contain every option of the tables, and the tools that read them report nothing.
. "$(dirname "$0")/lib.sh"
share=$(dirname "$apc")/share
text() { # a page as plain text; the formatter's warnings are in err
  LC_ALL=C MANPAGER=cat man --warnings -E ascii -l "$share/$1" 2>err | sed 's/.\x08//g' >out
}

# options of `apc COMMAND --help`
commands=$("$apc" --help | sed -n 's/^  \([a-z]*\)  *[A-Z[ ].*$/\1/p; s/^  not built yet://p' | grep -v '^apc$')
check "ten commands or more" test "$(wc -w <<<"$commands")" -ge 10
flags() { "$apc" "$1" --help | grep -oE '^  (-[a-zA-Z], )?--?[A-Za-z][a-z-]*' | grep -oE -- '--?[A-Za-z][a-z-]*' | sort -u; }

# limits in explanations equal those in the code, and those in the documents
limit() { sed -n "s/^#define LIMIT_$1 \([0-9]*\).*/\1/p" "$source_dir/base/limits.h"; }
expect 0 "versions 1 to $(limit OPSET_LAST) of the default ONNX operator set" "$apc" explain APC0110
check "README tells another operator set" grep -q "ONNX up to operator set $(limit OPSET_LAST) " "$source_dir/README.md"
check "docs/guide/convert.md tells another operator set" grep -q "ONNX, operator set $(limit OPSET_WRITTEN)," "$source_dir/docs/guide/convert.md"

# the page of apc
if command -v man >/dev/null; then
  for page in apc.1 apc-opt.1 apc-model.1 apc-targets.5 apc-plan.5; do last="man $page"; text "$page"; no_err; check "page is empty" test "$(wc -l <out)" -gt 20; done
  last="man apc.1"; text apc.1
  for c in $commands; do
    expect_out "apc $c"
    for f in $(flags "$c"); do check "$f lacks" grep -qE -- "^ +(-[a-z], )?$f( |=|\$|\[)|^ +$f," out; done
  done
  for code in 0 1 2 3 4 5 6 7 70; do check "exit code $code" grep -qE "^ +$code +[a-z]" out; done
  last="man apc-model.1"; text apc-model.1
  for f in $(sed -n 's/^OPTION(\([a-z_]*\),.*/\1/p' "$source_dir/runtime/stub/options.def" | tr _ -); do expect_out "--$f"; done
  last="man apc-opt.1"; text apc-opt.1
  for f in $(sed -n 's/^OPTION([a-z_]*, "\([a-z-]*\)",.*/\1/p' "$source_dir/tools/opt_options.def"); do expect_out "$f="; done
  expect_out "outline"
  last="man apc-targets.5"; text apc-targets.5
  fields=$(sed -n 's/^FIELD([^,]*, \([a-z0-9-]*\),.*/\1/p' "$source_dir/frontend/topo/topo.def" | sort -u)
  check "ten fields or more" test "$(wc -w <<<"$fields")" -ge 10
  for f in $fields; do check "$f" grep -qE "^ +$f( |\$)" out; done
  for f in $("$apc" targets --names); do check "$f" grep -qF "$f" out; done
  last="man apc-plan.5"; text apc-plan.5; expect_out "apc.plan 1"; expect_out 'op "layers.*.mlp.fc.dot" {a:mb.dp, d:tp}'
fi
if command -v mandoc >/dev/null; then
  for page in "$share"/*.[15]; do expect 0 "" mandoc -T lint -W warning "$page"; no_out; done
fi

# bash: the words that the function offers at the end of a line
# shellcheck disable=SC1091
. "$share/apc.bash"
PATH=$(dirname "$apc"):$PATH
complete_words() { COMP_WORDS=(apc "$@") COMP_CWORD=$#; _apc; printf '%s\n' "${COMPREPLY[@]}" | sort -u; }
for c in $commands; do
  last="completion of apc $c"; : >err
  flags "$c" >out
  check "options differ" diff out <(complete_words "$c" -)
done
offers() { # offers WORD LINE...
  local word=$1; shift
  last="completion of apc $*"; complete_words "$@" >out
  check "'$word' is not offered" grep -qxF -- "$word" out
}
offers verify ver; offers plan ''; offers --target --tar; offers bf16 plan --dtype b; offers bf16 plan --dtype = b; offers auto run --tp ''
offers dgx-h100 plan --target = dgx; offers cpu x.onnx --target ''; offers APC0217 explain APC02; offers show targets ''; offers schedule x.onnx --emit ''
check "a file is wanted" test -z "$(complete_words plan --plan x)"

# the other shells read theirs, and offer the same
if command -v zsh >/dev/null; then expect 0 "" zsh -n "$share/_apc"; no_err; fi
for c in $commands; do
  sed -n "/^    ($c) options=(/,/^    ) ;;/p" "$share/_apc" | grep -oE "^ +'\*?--?[A-Za-z][a-z-]*" | grep -oE -- '--?[A-Za-z][a-z-]*' | sort -u >out
  last="zsh completion of apc $c"; check "options differ" diff out <(flags "$c")
done
if command -v fish >/dev/null; then
  expect 0 "" fish -n "$share/apc.fish"; no_err
  for c in $commands; do
    HOME=$work fish -c "source $share/apc.fish; complete -C 'apc $c --'; complete -C 'apc $c -'" 2>err | cut -f1 | sed -n 's/=$//; /^-/p' | sort -u >out
    last="fish completion of apc $c"; check "options differ" diff out <(flags "$c")
  done
fi
summary 100
