#!/usr/bin/env bash
# tests/launch/same_run.sh APC - ranks of different programs, runtimes, weights or damaged files never compute together:
# all end with 1 and name the rank, over TCP and under mpirun.  Equal weights at different paths are equal.
. "$(dirname "$0")/lib.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
command -v mpirun >/dev/null || { echo "mpirun is missing (Debian: openmpi-bin, libopenmpi-dev)"; exit 1; }

program tp2 2 --tp 2
program tp4 4 --tp 4
cp "$source_dir/examples/gpt-tiny.onnx" model.onnx
expect 0 "" "$apc" model.onnx --target cpux2 --tp 2 --dim-hint batch=4 --dim-hint seq=32 --weights ref -o refers
expect 0 "" "$apc" convert model.onnx same.safetensors
cp same.safetensors again.safetensors
# change FILE PLACE: changes the byte there.
change() { /usr/bin/python3 -c 'import sys; f = open(sys.argv[1], "r+b"); f.seek(int(sys.argv[2])); b = f.read(1); f.seek(-1, 1); f.write(bytes([b[0] ^ 1]))' "$1" "$2"; }
/usr/bin/python3 - <<'END'
data = bytearray(open("same.safetensors", "rb").read())
begin = 8 + int.from_bytes(data[:8], "little")
data[begin:] = bytes(b ^ 1 for b in data[begin:])
open("other.safetensors", "wb").write(data)
END
cp model.onnx damaged.onnx
change damaged.onnx $(($(stat -c %s model.onnx) / 2))
# The kernels are the last ELF file in the program; a letter of the list of options is a constant of the runtime.
cp tp2 kernels
change kernels $(($(LC_ALL=C grep -abo $'\x7fELF' tp2 | tail -1 | cut -d: -f1) + 4099))
cp tp2 runtime
change runtime "$(LC_ALL=C grep -abo 'take the weights from this' tp2 | head -1 | cut -d: -f1)"
cp tp2 tables
change tables $(($(od -An -tu8 -j $(($(stat -c %s tp2) - 32)) -N8 tp2) + 400)) # the trailer begins with the offset of the program
cp tp2 trailer
change trailer $(($(stat -c %s tp2) - 20))
head -c -100 tp2 >short
chmod +x short
expect 0 "" ./tp2 --inputs "$inputs" --outputs other.alone.npz --weights other.safetensors
check "other weights give other results" test "$(cksum <other.alone.npz)" != "$(cksum <tp2.alone.npz)"

port=$((20000 + $$ * 7 % 12000))
# pair CODE TEXT "RANK 0" "RANK 1": both end with the code and text, over TCP; outputs to pair.npz
pair() {
  port=$((port + 1)) last="rank 0: $3, rank 1: $4"
  rm -f pair.npz
  timeout -k 1 60 $4 --rank 1 --world 2 --rendezvous "127.0.0.1:$port" >one.out 2>one.err </dev/null &
  timeout -k 1 60 $3 --rank 0 --world 2 --rendezvous "127.0.0.1:$port" --inputs "$inputs" --outputs pair.npz >zero.out 2>zero.err </dev/null
  local zero=$? one
  wait $!
  one=$?
  check "rank 0: exit $zero, wanted $1: $(cat zero.err)" test $zero -eq "$1"
  check "rank 1: exit $one, wanted $1: $(cat one.err)" test $one -eq "$1"
  [ -z "$2" ] || for rank in zero one; do check "rank $rank does not say '$2': $(cat $rank.err)" grep -qF -- "$2" $rank.err; done
  check "there are results" test "$1" -eq 0 -o ! -e pair.npz
}
pair 0 "" "./tp2 --weights same.safetensors" "./tp2 --weights again.safetensors"
same tp2.alone.npz pair.npz
# Inputs and sizes are rank 0's.
pair 0 "" "./tp2" "./tp2 --inputs missing.npz --input ids=zeros --dim batch=3 --dim seq=7"
same tp2.alone.npz pair.npz
pair 0 "" "./tp2 --weights other.safetensors" "./tp2 --weights other.safetensors"
same other.alone.npz pair.npz
pair 0 "" "./refers" "./refers --weights $source_dir/examples/gpt-tiny.onnx"
same tp2.alone.npz pair.npz
pair 1 "rank 1 has other weights than rank 0" "./tp2" "./tp2 --weights other.safetensors"
pair 1 "rank 1 has other weights than rank 0" "./tp2 --weights other.safetensors" "./tp2"
pair 1 "rank 1 has other weights than rank 0" "./tp2 --weights same.safetensors" "./tp2 --weights other.safetensors"
pair 1 "rank 1: damaged.onnx is not the file with the weights: its content has changed" "./refers" "./refers --weights damaged.onnx"
pair 1 "rank 0: damaged.onnx is not the file with the weights: its content has changed" "./refers --weights damaged.onnx" "./refers"
pair 1 "rank 1: the weights in missing.onnx cannot be read" "./refers" "./refers --weights missing.onnx"
pair 1 "rank 1: the compiled model is damaged: its kernels do not match their checksum" "./tp2" "./kernels"
pair 1 "rank 1 runs the program with another runtime than rank 0" "./tp2" "./runtime"
pair 1 "rank 1 runs another program than rank 0" "./tp2" "./refers"
# The program itself cannot be read, or is for another number of ranks: the others learn it at once, not after a
# timeout.
for damaged in tables trailer short; do
  pair 1 "rank 1: this program" "./tp2" "./$damaged"
  pair 1 "rank 0: this program" "./$damaged" "./tp2"
  pair 1 "rank 0: this program" "./$damaged" "./$damaged"
done
pair 1 "rank 1 runs another program than rank 0" "./tp2" "./tp4"
pair 1 "rank 1 runs another program than rank 0" "./tp4" "./tp2"
pair 1 "rank 1: this program" "./tp4" "./tables"
pair 2 "started 2 processes, but this program was compiled for 4 ranks" "./tp4" "./tp4"
pair 1 "rank 1 computes with DNNL_DEFAULT_FPMATH_MODE='BF16', rank 0 with ''" "./tp2" "env DNNL_DEFAULT_FPMATH_MODE=BF16 ./tp2"
pair 1 "rank 1 computes with ONEDNN_MAX_CPU_ISA='', rank 0 with 'SSE41'" "env ONEDNN_MAX_CPU_ISA=SSE41 ./tp2" "./tp2"
pair 1 "rank 1 would compute with 2 threads, rank 0 with 1" "env OMP_NUM_THREADS=1 ./tp2" "env OMP_NUM_THREADS=2 ./tp2"
pair 0 "" "./tp2" "env OMP_NUM_THREADS=1 ./tp2"

# threads_of_rank_0 "RANK 1" PORT: the most threads of rank 0 in a run without a given number of threads.  The whole run
# is watched, as the duration of loading depends on the build.
threads_of_rank_0() {
  local place=127.0.0.1:$2 most=0 n zero
  timeout -k 1 120 $1 --rank 1 --world 2 --rendezvous "$place" >one.out 2>one.err </dev/null &
  ./wide --rank 0 --world 2 --rendezvous "$place" --bench=300 --timeout 60 >zero.out 2>zero.err </dev/null &
  zero=$!
  while kill -0 $zero 2>/dev/null; do
    n=$(find "/proc/$zero/task" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)
    [ "$n" -le "$most" ] || most=$n
    sleep 0.02
  done
  wait $zero || most="no known number of"
  wait
  echo "$most"
}
cat >wide.apc <<'END'
import nn
entry main(x: f32[3, 6000]) {
  h = linear(x, 2000) as "up"
  output y = linear(h, 5) as "down"
}
END
expect 0 "" "$apc" wide.apc --target cpux2 --tp 2 -o wide
if [ "$(nproc)" -ge 2 ]; then
  unset OMP_NUM_THREADS
  many=$(threads_of_rank_0 ./wide $((port + 1)))
  few=$(threads_of_rank_0 "env OMP_NUM_THREADS=1 ./wide" $((port + 2)))
  check "rank 0 has $many threads, and $few when rank 1 computes with one: $(cat zero.err)" test "$few" -lt "$many"
else
  echo "not run: the number of threads, on one processor"
fi

expect 1 "rank 1 has other weights than rank 0" mpirun -np 1 ./tp2 --inputs "$inputs" --outputs mpi.npz : -np 1 ./tp2 --weights other.safetensors
check "reported once" test "$(grep -c 'has other weights' err)" -eq 1
expect 1 "rank 1: the compiled model is damaged" mpirun -np 1 ./tp2 --inputs "$inputs" --outputs mpi.npz : -np 1 ./kernels
expect 1 "rank 1: this program" mpirun -np 1 ./tp2 --inputs "$inputs" --outputs mpi.npz : -np 1 ./tables
expect 1 "rank 1 runs another program than rank 0" mpirun -np 1 ./tp2 --inputs "$inputs" --outputs mpi.npz : -np 1 ./tp4
check "there are no results" test ! -e mpi.npz
summary 150
