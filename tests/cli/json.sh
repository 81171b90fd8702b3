#!/bin/bash
# --json prints one JSON document on standard output, also if the command fails.
. "$(dirname "$0")/lib.sh"
mlp="$source_dir/examples/mlp.apc -D d=8 -D hidden=8 -D layers=1"

fails() { # fails CODE DIAGNOSTIC ARGUMENTS...: the document has both, and the text output has the same message
  local code=$1 diagnostic=$2
  shift 2
  expect "$code" "" "$apc" "$@"
  expect_json "d['schema'] == 'apc.error/1' and d['exit_code'] == $code and bool(d['exit_meaning']) and len(d['diagnostics']) > 0"
  expect_json "any(x['code'] == $([ -n "$diagnostic" ] && echo "'$diagnostic'" || echo None) and x['severity'] == 'error' and bool(x['message']) for x in d['diagnostics'])"
  expect_err "error"
}
# usage
fails 2 APC0610 plan $mlp --json --foo; expect_json "d['command'] == 'plan' and [n['severity'] for n in d['diagnostics'][0]['notes']] == ['help']"
fails 2 APC0610 --foo --json plan $mlp
fails 2 APC0613 --json; expect_json "d['command'] is None"
fails 2 APC0613 plan --json
fails 2 APC0613 --version --json
fails 2 APC0611 --json planne
fails 2 APC0612 plan $mlp --json --tp x
fails 2 APC0612 plan $mlp --target --json; expect_err "'--json' is an option"
fails 2 APC0612 plan --json $mlp --emit=ir=-
fails 2 APC0612 explain 9999 --json
fails 2 APC0611 targets shwo --json
fails 2 APC0603 targets check "$source_dir/README.md" --json
# models, plans, targets, files
printf 'entry main(x: f32[4]) {\n  output y = x +\n}\n' >bad.apc
fails 1 APC0201 plan bad.apc --json; expect_json "d['diagnostics'][0]['location'] == {'file': 'bad.apc', 'line': 3, 'column': 1, 'node': None}"
fails 1 APC0001 plan nothing.onnx --json; expect_json "d['diagnostics'][0]['location']['file'] == 'nothing.onnx' and d['diagnostics'][0]['location']['line'] is None"
for command in compile run verify bench; do fails 1 APC0002 $command $mlp --save-plan /nonexistent/plan --json; done
fails 1 APC0001 inspect nothing.onnx --json
fails 1 APC0603 inspect "$source_dir/targets/cpu.topo" --json
fails 1 APC0001 convert nothing.onnx a.ir --json
fails 1 APC0502 targets show nothing --json
fails 1 APC0502 plan $mlp --json --target nothing
fails 1 APC0403 plan $mlp --json --plan "$source_dir/README.md"
fails 1 APC0802 run $mlp --json --input xx=zeros
# no plan; missing; not built; run time; internal
fails 3 APC0405 plan $mlp --json --tp 2
fails 5 APC0620 compile "$source_dir/examples/lstm.apc" --json --train cross_entropy -o x
fails 5 APC0649 convert "$source_dir/examples/mlp.apc" a.b --json
CC=false fails 5 APC0702 "$source_dir/examples/product.apc" --json -o x
fails 7 APC0801 run "$source_dir/examples/gpt.apc" -D layers=4 -D d=512 -D heads=4 --dim seq=256 --dim batch=8 --json --timeout 1ms
printf '#!/bin/sh\ngrep -qs "void k[0-9]" *.c && sed -i "s/^void k[0-9].*{/& no_such_function();/" *.c\nexec cc "$@"\n' >broken; chmod +x broken
CC=$work/broken fails 70 "" "$source_dir/examples/product.apc" --json -o x; expect_json "'no_such_function' in d['diagnostics'][-1]['message']"
# a document of its own, with the results of the comparison
/usr/bin/python3 -c 'import numpy; numpy.savez("y.npz", y=numpy.ones((8, 8), numpy.float32))'
expect 4 "" "$apc" run $mlp -q --json --expect y.npz; expect_json 'd["schema"] == "apc.run/1" and not d["ok"] and d["diagnostics"] == []'

# results: one document each, with warnings
"$apc" plan $mlp -q --target cpux2 --save-plan m.plan >/dev/null; sed -i 's/^graph @main ./graph @main 0/; /op "layers.0.up"/a op "nothing" {}' m.plan
expect 0 "" "$apc" plan $mlp -q --json --target cpux2 --plan m.plan; expect_json 'd["schema"] == "apc.plan/1" and [x["severity"] for x in d["diagnostics"]] == ["warning", "warning"] and d["diagnostics"][0]["location"]["line"] == 2'
expect 0 "" "$apc" $mlp -q --json --emit=ir=m.ir; expect_json 'd["schema"] == "apc.compile/1" and d["files"] == ["m.ir"]'
expect 0 "" "$apc" explain 217 --json; expect_json 'd["schema"] == "apc.explain/1" and d["code"] == "APC0217" and bool(d["text"])'
expect 0 "" "$apc" convert m.ir n.ir --json; expect_json 'd["schema"] == "apc.convert/1" and d["out"] == "n.ir"'
expect 0 "" "$apc" targets --names --json; expect_json '"cpu" in d["names"]'
summary 142
