#!/usr/bin/env bash
# Gathers the seeds of hours.sh in addition to those of the tree: FOLDER/NAME, small files of the format from all tests
# and examples and, for ONNX, from Debian's libonnx-testdata; BUILD compiles Programs, so that they always have the
# format under test.  FOLDER/NAME.dict holds the words of a text format, from the tables of the compiler.
# usage: tests/fuzz/gather_seeds.sh BUILD FOLDER NAME
set -eu
build=$1 folder=$2 name=$3
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
most=${MOST:-8192} # bytes: a fuzzer mutates small files well, but hardly large ones
rm -rf "${folder:?}/$name" "$folder/$name.dict"
mkdir -p "$folder/$name"

files() { # EXTENSION [FOLDER...]: those of the tree by default
  local extension=$1
  shift
  [ $# -gt 0 ] || set -- "$source/tests" "$source/examples" "$source/targets" "$source/demo"
  find "$@" -path "$here" -prune -o -name "*.$extension" -size "-${most}c" -print 2>/dev/null | LC_ALL=C sort
}

gather() { # files on stdin; numbered, since many have the same name
  local number=0 file
  while read -r file; do
    number=$((number + 1))
    cp "$file" "$folder/$name/$(printf %04d $number)-$(basename "$file")"
  done
}

programs() { # program|artifact
  compiled=$(mktemp -d)
  trap 'rm -rf "$compiled"' EXIT
  "$here/seed_programs.sh" "$build" "$compiled"
  cp "$compiled/$1"/* "$folder/$1"
}

words() { # TABLE...: the names that open every row
  awk -F, '/^ *[A-Z0-9_]+\(/ {
    sub(/^[^(]*\(/, "")
    for (i = 1; i <= 2; i++) {
      gsub(/^[" ]+|[") ]+$/, "", $i)
      if ($i ~ /^[A-Za-z_][A-Za-z0-9_\/]+$/) print "\"" $i "\""
    }
  }' "$@" | LC_ALL=C sort -u >"$folder/$name.dict"
}

case $name in
  onnx) files onnx "$source" /usr/share/libonnx-testdata | gather; words "$source/frontend/onnx/ops.def" "$source/frontend/onnx/bodies.def" ;;
  dsl) files apc | gather; words "$source/frontend/dsl/builtin.def" ;;
  ir) files ir | gather; words "$source/ir/ops.def" "$source/ir/attrs.def" ;;
  prove) files ir "$source/tests/prove" "$source/tests/proofs" | gather; words "$source/ir/ops.def" "$source/ir/attrs.def" ;;
  target) files topo | gather; words "$source/frontend/topo/topo.def" ;;
  found)
    { files xml; files txt "$source/tests/targets"; } | gather
    strings='"[A-Za-z][A-Za-z0-9_]*"'
    grep -oh "$strings" "$source"/frontend/topo/found_*.c | LC_ALL=C sort -u >"$folder/$name.dict"
    ;;
  plan | npz | npy | safetensors) files "$name" | gather ;;
  greeting | frame | command | welcome) ;; # in tests/fuzz/seeds
  program | artifact) programs "$name" ;;
  *) echo "$0: no format \"$name\"" >&2; exit 2 ;;
esac
