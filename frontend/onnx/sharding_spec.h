/* frontend/onnx/sharding_spec.h - ONNX's sharding specs (IR version 11) and layouts on a mesh, in both directions.
 *
 * A spec lists devices in the order of the shards of a tensor: with several sharded axes, the first that is listed is
 * the outermost.  An entry is a device, or the key of a group of devices that all hold the shard.  Device d of a
 * configuration is rank d: stages one after the other, and in a stage the coordinates on the spatial axes of the mesh,
 * the last axis the fastest (ir.h).
 *
 *   mesh [dp=2, tp=2], layout [_, tp]     devices -1, -2 with -1: {0, 2}, -2: {1, 3}; axis 1: 2 shards
 *   mesh [dp=2, tp=2], layout [dp, tp]    devices 0, 1, 2, 3; axis 0: 2 shards, axis 1: 2 shards
 *   mesh [dp=2, tp=2], layout [tp.dp, _]  devices 0, 2, 1, 3; axis 0: 4 shards
 *   mesh [dp=2, tp=2], layout [_, _]      device -1 with -1: {0, 1, 2, 3}
 *
 * Between the two is the number of the shard that each device holds (OnnxShards).  As a function of the rank, the
 * number of a shard along one dimension is a sum of digits of the rank; a mesh has an axis for each digit.
 *
 * Source: the Multi-Device Proposal (0006) and the Sharding Formalism (0007) of ONNX.  Not in a spec: partial
 * sums, since communication is implicit: the value is meant after they are added.  Nor are micro-batches, and parts of
 * unequal shares (ir/shares.h).
 */
#ifndef APC_FRONTEND_ONNX_SHARDING_SPEC_H
#define APC_FRONTEND_ONNX_SHARDING_SPEC_H

#include "ir/ir.h"
#include "onnx_overlay.pb-c.h"

/* The shards of a tensor on the devices of a configuration. */
typedef struct OnnxShards {
  int rank, devices;
  const bool *holds;       /* by device: it holds a shard */
  int64_t parts[MAX_RANK]; /* by dimension */
  const int *at[MAX_RANK]; /* by dimension and device: the number of its shard; 0 if it holds none */
} OnnxShards;

/* Returns the devices that entry i of ShardingSpecProto.device stands for: a group of the map, or itself. */
const int64_t *onnx_spec_devices(const OnnxOverlay__ShardingSpecProto *s, size_t i, size_t *n);

/* Reads a spec of a tensor with `rank` dimensions.  NULL after setting *why to a text that continues "the sharding". */
const OnnxShards *onnx_shards_read(Arena *a, const OnnxOverlay__ShardingSpecProto *spec, int rank, int devices,
                                   const char **why);

/* Returns the shards of a layout on the ranks of a stage.  Partial sums count as added. */
const OnnxShards *onnx_shards_of(Arena *a, const Mesh *mesh, int stage, const Layout *l);

/* Returns the spec of the shards, in the arena. */
OnnxOverlay__ShardingSpecProto *onnx_shards_write(Arena *a, const char *tensor, const OnnxShards *s);

/* A mesh of one stage in the making: the places of its digits.  Start with {.ranks = ranks of a stage}. */
typedef struct OnnxDigits {
  int ranks, n;
  int places[MAX_AXES + 1]; /* ascending: where axes begin, without 1 and `ranks` */
} OnnxDigits;

/* Adds the digits of the shards on the devices from `first` on.  False after setting *why: no mesh has both these and
 * the earlier ones. */
bool onnx_digits_add(OnnxDigits *d, Arena *a, const OnnxShards *s, int first, const char **why);

/* Returns the mesh of the digits: axes from the highest place on, without names. */
Mesh onnx_digits_mesh(const OnnxDigits *d);

/* Divides those axes of that mesh (a bit set) into primes while it has fewer than `most`: a search may then use the
 * parts of an axis that no shards use for different dimensions. */
void onnx_digits_divide(OnnxDigits *d, uint32_t axes, int most);

/* Returns the layout of shards on the devices from `first` on, whose digits the mesh has.  Its units are not set. */
Layout onnx_shards_layout(const Mesh *mesh, const OnnxShards *s, int first);

#endif
