#!/usr/bin/env bash
# tests/cli/swapped.sh APC - a dimension cut by two mesh axes changes their order: the members of the exchange hold its
# parts in another order than the group.  On a machine so slow that this pays for a small model.
. "$(dirname "$0")/lib.sh"
cat >slow.topo <<'END_OF_TOPO'
cpu slow {
  title "slow processor";
  arch avx512;
  cores 8;
  memory 16 GB at 1 MB/s;
  launch 1 ns;
  peak f32 1 GFLOPS;
  peak f64 1 GFLOPS;
}
machine slow {
  devices 1 slow;
  link shared-memory at 1000 GB/s latency 1 ns;
}
END_OF_TOPO
expect 0 "" "$apc" verify "$source_dir/examples/vit.apc" -D layers=2 -D d=32 -D heads=4 -D patch=8 -D image=32 -D classes=10 \
  --init random --dim-hint batch=8 --target slow.topox4 --emit=spmd=level2.ir
check "the exchange of swapped axes" grep -Eq 'exchange.*mesh_axes=\[(\w+), (\w+)\], source=\[8\*@\1 \+ [0-9]+\*@\2' level2.ir
summary 2
