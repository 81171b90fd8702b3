# tests/launch/lib.sh - sourced by the tests of launchers: tests/cli/lib.sh, and programs for 2, 3 and 4 ranks in
# $work/gpt2...

. "$(dirname "$0")/../cli/lib.sh"
unset OMP_NUM_THREADS ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA APC_RANK RANK WORLD_SIZE MASTER_ADDR MASTER_PORT SLURM_STEP_ID PMI_RANK PMIX_RANK OMPI_COMM_WORLD_RANK APC_ADDR APC_TRANSPORT
inputs=$source_dir/examples/gpt-tiny.inputs.npz

# program NAME RANKS OPTIONS...: compiles the example model for that many ranks, and runs it once with ranks of its own
# for the expected output.
program() {
  local name=$1 ranks=$2
  shift 2
  expect 0 "" "$apc" "$source_dir/examples/gpt-tiny.onnx" --target "cpux$ranks" "$@" --dim-hint batch=4 --dim-hint seq=32 -o "$name"
  expect 0 "" "./$name" --inputs "$inputs" --outputs "$name.alone.npz"
}
same() { check "$1 and $2 differ" cmp "$1" "$2"; }
