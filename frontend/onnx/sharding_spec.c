/* frontend/onnx/sharding_spec.c - see sharding_spec.h. */
#include "frontend/onnx/sharding_spec.h"

#include <inttypes.h>

/* ---- reading */

const int64_t *onnx_spec_devices(const OnnxOverlay__ShardingSpecProto *s, size_t i, size_t *n) {
  for (size_t k = 0; k < s->n_index_to_device_group_map; k++) {
    const OnnxOverlay__IntIntListEntryProto *group = s->index_to_device_group_map[k];
    if (group->key != s->device[i]) continue;
    *n = group->n_value;
    return group->value;
  }
  *n = 1;
  return &s->device[i];
}

/* Sets the number of parts of the dimension.  Of several blocks only the parts of leading ones are contiguous: a block
 * may only be divided if those before it are divided into single elements. */
static bool dim_parts(Arena *a, const OnnxOverlay__ShardedDimProto *dim, int64_t *parts, const char **why) {
  bool single = true;
  *parts = 1;
  for (size_t i = 0; i < dim->n_simple_sharding; i++) {
    const OnnxOverlay__SimpleShardedDimProto *x = dim->simple_sharding[i];
    if (x->num_shards < 1 || __builtin_mul_overflow(*parts, x->num_shards, parts) || *parts > INT32_MAX)
      return *why = arena_printf(a, "has %" PRId64 " shards along axis %" PRId64, x->num_shards, dim->axis), false;
    if (!single && x->num_shards > 1)
      return *why = arena_printf(a, "has strided shards along axis %" PRId64, dim->axis), false;
    single =
        single && x->dim_case == ONNX_OVERLAY__SIMPLE_SHARDED_DIM_PROTO__DIM_DIM_VALUE && x->dim_value == x->num_shards;
  }
  return true;
}

/* Sets parts of all dimensions, and the dimensions in the order of the spec. */
static bool read_dims(Arena *a, const OnnxOverlay__ShardingSpecProto *spec, OnnxShards *s, int *order,
                      const char **why) {
  for (int d = 0; d < s->rank; d++) s->parts[d] = 0;
  for (size_t i = 0; i < spec->n_sharded_dim; i++) {
    const OnnxOverlay__ShardedDimProto *dim = spec->sharded_dim[i];
    const int64_t at = dim->axis < 0 ? dim->axis + s->rank : dim->axis;
    if (at < 0 || at >= s->rank)
      return *why = arena_printf(a, "is along axis %" PRId64 " of %d dimensions", dim->axis, s->rank), false;
    if (s->parts[at]) return *why = arena_printf(a, "has axis %" PRId64 " twice", dim->axis), false;
    if (!dim_parts(a, dim, &s->parts[at], why)) return false;
    order[i] = (int)at;
  }
  for (int d = 0; d < s->rank; d++)
    if (!s->parts[d]) s->parts[d] = 1;
  return true;
}

/* Gives entry i of the device list its shard. */
static bool read_entry(Arena *a, const OnnxOverlay__ShardingSpecProto *spec, size_t i, const int *order, OnnxShards *s,
                       bool *holds, int *const *at, const char **why) {
  size_t n, rest = i;
  const int64_t *list = onnx_spec_devices(spec, i, &n);
  int shard[MAX_RANK] = {0};
  for (size_t k = spec->n_sharded_dim; k-- > 0;) {
    const int d = order[k];
    shard[d] = (int)(rest % (size_t)s->parts[d]), rest /= (size_t)s->parts[d];
  }
  for (size_t k = 0; k < n; k++) {
    if (list[k] < 0 || list[k] >= s->devices)
      return *why = arena_printf(a, "names device %" PRId64 " of %d", list[k], s->devices), false;
    if (holds[list[k]]) return *why = arena_printf(a, "names device %" PRId64 " twice", list[k]), false;
    holds[list[k]] = true;
    for (int d = 0; d < s->rank; d++) at[d][list[k]] = shard[d];
  }
  return true;
}

const OnnxShards *onnx_shards_read(Arena *a, const OnnxOverlay__ShardingSpecProto *spec, int rank, int devices,
                                   const char **why) {
  OnnxShards *s = ARENA_NEW(a, OnnxShards);
  int order[MAX_RANK], *at[MAX_RANK];
  bool *holds = ARENA_ARRAY(a, bool, devices + 1);
  *s = (OnnxShards){.rank = rank, .devices = devices, .holds = holds};
  if (spec->n_sharded_dim > (size_t)rank) return *why = "has more axes than the tensor", NULL;
  if (!read_dims(a, spec, s, order, why)) return NULL;
  for (int d = 0; d < rank; d++) s->at[d] = at[d] = ARENA_ARRAY(a, int, devices + 1);
  int64_t parts = 1;
  for (int d = 0; d < rank; d++)
    if (__builtin_mul_overflow(parts, s->parts[d], &parts)) parts = INT64_MAX;
  if (!spec->n_device) return *why = "names no devices", NULL;
  if (parts > 1 && (uint64_t)parts != spec->n_device)
    return *why = arena_printf(a, "has %" PRId64 " shards for %zu devices or groups", parts, spec->n_device), NULL;
  for (size_t i = 0; i < spec->n_device; i++)
    if (!read_entry(a, spec, parts > 1 ? i : 0, order, s, holds, at, why)) return NULL;
  return s;
}

/* ---- layouts */

/* The place of an axis: how far apart the ranks are that differ by 1 on it. */
static int place_of(const Mesh *mesh, int axis) {
  int place = 1;
  for (int i = axis + 1; i < mesh->naxes; i++)
    if (!mesh->axes[i].temporal) place *= mesh->axes[i].size;
  return place;
}

static int part_at(const Mesh *mesh, const DimLayout *dim, int r) {
  int at = 0;
  for (int i = 0; i < dim->n; i++) {
    const MeshAxis *axis = &mesh->axes[dim->axes[i]];
    if (!axis->temporal) at = at * axis->size + r / place_of(mesh, dim->axes[i]) % axis->size;
  }
  return at;
}

const OnnxShards *onnx_shards_of(Arena *a, const Mesh *mesh, int stage, const Layout *l) {
  OnnxShards *s = ARENA_NEW(a, OnnxShards);
  const int devices = mesh_ranks(mesh), n = devices / mesh->stages, first = stage * n;
  bool *holds = ARENA_ARRAY(a, bool, devices);
  *s = (OnnxShards){.rank = l->rank, .devices = devices, .holds = holds};
  for (int r = 0; r < n; r++) holds[first + r] = true;
  for (int d = 0; d < l->rank; d++) {
    const DimLayout *dim = &l->dims[d];
    int *at = ARENA_ARRAY(a, int, devices);
    s->parts[d] = 1;
    for (int i = 0; i < dim->n; i++)
      if (!mesh->axes[dim->axes[i]].temporal) s->parts[d] *= mesh->axes[dim->axes[i]].size;
    for (int r = 0; r < n; r++) at[first + r] = part_at(mesh, dim, r);
    s->at[d] = at;
  }
  return s;
}

/* ---- writing */

static OnnxOverlay__ShardedDimProto *write_dim(Arena *a, int d, int64_t parts) {
  OnnxOverlay__ShardedDimProto *dim = ARENA_NEW(a, OnnxOverlay__ShardedDimProto);
  OnnxOverlay__SimpleShardedDimProto *x = ARENA_NEW(a, OnnxOverlay__SimpleShardedDimProto);
  onnx_overlay__sharded_dim_proto__init(dim);
  onnx_overlay__simple_sharded_dim_proto__init(x);
  x->has_num_shards = 1, x->num_shards = parts;
  dim->has_axis = 1, dim->axis = d;
  dim->simple_sharding = ARENA_ARRAY(a, OnnxOverlay__SimpleShardedDimProto *, 1);
  dim->simple_sharding[dim->n_simple_sharding++] = x;
  return dim;
}

/* The number of the shard that a device holds, in the order of the spec. */
static size_t shard_of(const OnnxShards *s, int device) {
  int64_t shard = 0;
  for (int d = 0; d < s->rank; d++) shard = shard * s->parts[d] + s->at[d][device];
  return (size_t)shard;
}

/* A shard on several devices becomes a group, with the key -1 - shard. */
static void write_devices(Arena *a, const OnnxShards *s, size_t shards, OnnxOverlay__ShardingSpecProto *spec) {
  OnnxOverlay__IntIntListEntryProto *groups = ARENA_ARRAY(a, OnnxOverlay__IntIntListEntryProto, shards);
  spec->device = ARENA_ARRAY(a, int64_t, shards);
  spec->n_device = shards;
  spec->index_to_device_group_map = ARENA_ARRAY(a, OnnxOverlay__IntIntListEntryProto *, shards);
  for (size_t i = 0; i < shards; i++) onnx_overlay__int_int_list_entry_proto__init(&groups[i]);
  for (int r = 0; r < s->devices; r++)
    if (s->holds[r]) groups[shard_of(s, r)].n_value++;
  for (size_t i = 0; i < shards; i++)
    groups[i].value = ARENA_ARRAY(a, int64_t, groups[i].n_value), groups[i].n_value = 0;
  for (int r = 0; r < s->devices; r++) {
    OnnxOverlay__IntIntListEntryProto *g = &groups[s->holds[r] ? shard_of(s, r) : 0];
    if (s->holds[r]) g->value[g->n_value++] = r;
  }
  for (size_t i = 0; i < shards; i++) {
    OnnxOverlay__IntIntListEntryProto *g = &groups[i];
    spec->device[i] = g->n_value == 1 ? g->value[0] : -1 - (int64_t)i;
    g->has_key = 1, g->key = spec->device[i];
    if (g->n_value != 1) spec->index_to_device_group_map[spec->n_index_to_device_group_map++] = g;
  }
}

OnnxOverlay__ShardingSpecProto *onnx_shards_write(Arena *a, const char *tensor, const OnnxShards *s) {
  OnnxOverlay__ShardingSpecProto *spec = ARENA_NEW(a, OnnxOverlay__ShardingSpecProto);
  onnx_overlay__sharding_spec_proto__init(spec);
  spec->tensor_name = arena_strdup(a, tensor);
  spec->sharded_dim = ARENA_ARRAY(a, OnnxOverlay__ShardedDimProto *, s->rank + 1);
  size_t shards = 1;
  for (int d = 0; d < s->rank; d++) {
    shards *= (size_t)s->parts[d];
    if (s->parts[d] > 1) spec->sharded_dim[spec->n_sharded_dim++] = write_dim(a, d, s->parts[d]);
  }
  write_devices(a, s, shards, spec);
  return spec;
}

/* ---- digits */

/* The shard's number is a sum of weights times digits of the rank.  From the lowest place on, each digit is the largest
 * that has one weight. */
static bool find_digits(const int *at, int ranks, int *places, int *n) {
  int weights[32], size[32];
  *n = 0;
  for (int place = 1; place < ranks;) {
    int k = 1;
    while (place * k < ranks && at[place * k] == at[place] * k) k++;
    if ((ranks / place) % k) return false;
    places[*n] = place, weights[*n] = at[place], size[(*n)++] = k;
    place *= k;
  }
  for (int r = 0; r < ranks; r++) {
    int sum = 0;
    for (int i = 0; i < *n; i++) sum += r / places[i] % size[i] * weights[i];
    if (sum != at[r]) return false;
  }
  return true;
}

/* Inserts a place in order; false if it neither divides its neighbours nor is divided by them, or there are too many.
 */
static bool insert_place(OnnxDigits *d, int place) {
  int i = 0;
  while (i < d->n && d->places[i] < place) i++;
  if (place == 1 || (i < d->n && d->places[i] == place)) return true;
  const int below = i ? d->places[i - 1] : 1, above = i < d->n ? d->places[i] : d->ranks;
  if (place % below || above % place || d->n + 2 > MAX_AXES) return false;
  for (int k = d->n; k > i; k--) d->places[k] = d->places[k - 1];
  d->places[i] = place, d->n++;
  return true;
}

/* True if the digits of the dimension, major to minor, count its parts. */
static bool counts(const Mesh *mesh, const DimLayout *dim, const int *at, int64_t parts) {
  int64_t below = 1;
  for (int i = dim->n - 1; i >= 0; i--) {
    if (at[place_of(mesh, dim->axes[i])] != below) return false;
    below *= mesh->axes[dim->axes[i]].size;
  }
  return below == parts;
}

/* True if as many devices hold each shard. */
static bool even(Arena *a, const OnnxShards *s) {
  size_t shards = 1, held = 0;
  for (int d = 0; d < s->rank; d++) shards *= (size_t)s->parts[d];
  size_t *devices = ARENA_ARRAY(a, size_t, shards);
  for (int r = 0; r < s->devices; r++)
    if (s->holds[r]) devices[shard_of(s, r)]++, held++;
  bool same = true;
  for (size_t i = 0; i < shards; i++) same &= devices[i] * shards == held;
  return same;
}

bool onnx_digits_add(OnnxDigits *d, Arena *a, const OnnxShards *s, int first, const char **why) {
  for (int r = 0; r < s->devices; r++)
    if (s->holds[r] != (r >= first && r < first + d->ranks))
      return *why = arena_printf(a, "%s device %d, where the node runs on devices %d to %d",
                                 s->holds[r] ? "uses" : "does not use", r, first, first + d->ranks - 1),
             false;
  if (!even(a, s)) return *why = "has groups of unequal sizes", false;
  for (int dim = 0; dim < s->rank; dim++) {
    int places[32], n;
    bool ok = s->at[dim][first] == 0 && find_digits(s->at[dim] + first, d->ranks, places, &n);
    for (int i = 0; ok && i < n; i++) ok = insert_place(d, places[i]);
    if (!ok) return *why = arena_printf(a, "has an order of devices along axis %d that no mesh has", dim), false;
  }
  Mesh mesh = onnx_digits_mesh(d);
  Layout l = onnx_shards_layout(&mesh, s, first);
  for (int dim = 0; dim < s->rank; dim++)
    if (!counts(&mesh, &l.dims[dim], s->at[dim] + first, s->parts[dim]))
      return *why = arena_printf(a, "has an order of devices along axis %d that no mesh has", dim), false;
  return true;
}

Mesh onnx_digits_mesh(const OnnxDigits *d) {
  Mesh mesh = {.stages = 1};
  for (int i = d->n; i >= 0; i--) {
    const int above = i < d->n ? d->places[i] : d->ranks, below = i ? d->places[i - 1] : 1;
    if (above > below) mesh.axes[mesh.naxes++] = (MeshAxis){.size = above / below};
  }
  return mesh;
}

void onnx_digits_divide(OnnxDigits *d, uint32_t axes, int most) {
  const Mesh mesh = onnx_digits_mesh(d);
  int n = mesh.naxes;
  for (int i = 0; i < mesh.naxes; i++) {
    int place = place_of(&mesh, i), size = mesh.axes[i].size;
    if (!(axes >> i & 1)) continue;
    for (int p = 2; p * p <= size && n < most;)
      if (size % p == 0) insert_place(d, place *= p), size /= p, n++;
      else p++;
  }
}

Layout onnx_shards_layout(const Mesh *mesh, const OnnxShards *s, int first) {
  Layout l = {.rank = s->rank};
  for (int d = 0; d < s->rank; d++) {
    DimLayout *dim = &l.dims[d];
    const int *at = s->at[d] + first;
    for (int i = 0; i < mesh->naxes; i++) {
      const int weight = mesh->axes[i].temporal || mesh->axes[i].size == 1 ? 0 : at[place_of(mesh, i)];
      if (!weight) continue;
      int k = dim->n++;
      for (; k > 0 && at[place_of(mesh, dim->axes[k - 1])] < weight; k--) dim->axes[k] = dim->axes[k - 1];
      dim->axes[k] = (uint8_t)i;
    }
  }
  return l;
}
