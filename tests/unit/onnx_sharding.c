/* tests/unit/onnx_sharding.c - sharding specs of ONNX and layouts on a mesh: the examples of ONNX's proposal 0006,
 * every layout of some meshes through a spec and back, and specs that no mesh has. */
#include "base/arena.h"
#include "frontend/onnx/sharding_spec.h"
#include "tests/test.h"

typedef OnnxOverlay__ShardingSpecProto Spec;

static Arena *arena;

static Mesh mesh_with(int stages, int n, const int *sizes) {
  Mesh mesh = {.naxes = n, .stages = stages};
  for (int i = 0; i < n; i++) mesh.axes[i] = (MeshAxis){.size = sizes[i]};
  return mesh;
}

static bool same_layout(const Layout *a, const Layout *b) {
  bool same = a->rank == b->rank;
  for (int d = 0; same && d < a->rank; d++) {
    same = a->dims[d].n == b->dims[d].n;
    for (int i = 0; same && i < a->dims[d].n; i++) same = a->dims[d].axes[i] == b->dims[d].axes[i];
  }
  return same;
}

/* Writes the layout, reads it again, and finds the layout in the specs of all layouts of the mesh. */
static void check_layout(const Mesh *mesh, int stage, const Layout *l) {
  const char *why = "";
  const int n = mesh_ranks(mesh) / mesh->stages;
  const Spec *spec = onnx_shards_write(arena, "x", onnx_shards_of(arena, mesh, stage, l));
  const OnnxShards *s = onnx_shards_read(arena, spec, l->rank, mesh_ranks(mesh), &why);
  CHECKF(s, "%s", why);
  if (!s) return;
  Layout back = onnx_shards_layout(mesh, s, stage * n);
  CHECK(same_layout(l, &back));
  OnnxDigits digits = {.ranks = n};
  CHECKF(onnx_digits_add(&digits, arena, s, stage * n, &why), "%s", why);
  const Mesh found = onnx_digits_mesh(&digits);
  CHECK(mesh_ranks(&found) == n && found.naxes <= mesh->naxes);
  const Layout on = onnx_shards_layout(&found, s, stage * n);
  const OnnxShards *again = onnx_shards_of(arena, &found, 0, &on);
  for (int d = 0; d < l->rank; d++)
    for (int r = 0; r < n; r++) CHECK(again->at[d][r] == s->at[d][stage * n + r]);
}

/* Gives axis `axis` and later ones to every dimension, as the major or the minor one, and to none. */
static void check_layouts(const Mesh *mesh, int stage, int axis, const Layout *l, int *count) {
  if (axis == mesh->naxes) {
    check_layout(mesh, stage, l), ++*count;
    return;
  }
  check_layouts(mesh, stage, axis + 1, l, count);
  for (int d = 0; d < l->rank; d++)
    for (int at = 0; at <= l->dims[d].n; at++) {
      Layout next = *l;
      DimLayout *dim = &next.dims[d];
      for (int k = dim->n++; k > at; k--) dim->axes[k] = dim->axes[k - 1];
      dim->axes[at] = (uint8_t)axis;
      check_layouts(mesh, stage, axis + 1, &next, count);
    }
}

static void every_layout_has_a_spec(void) {
  static const int sizes[][3] = {{2, 2, 2}, {2, 3, 2}, {3, 2, 4}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const Mesh mesh = mesh_with(2, 3, sizes[i]);
    int count = 0;
    check_layouts(&mesh, (int)i % 2, 0, &(Layout){.rank = 2}, &count);
    CHECK(count == 1 + 3 * 2 + 3 * 6 + 24);
  }
}

/* A spec: devices; groups as keys and devices, each list ended by 99; parts along dimensions. */
static Spec *spec_of(const int64_t *devices, size_t n, const int64_t (*groups)[6], size_t ngroups, const int64_t *parts,
                     int rank) {
  Layout l = {.rank = rank};
  Mesh mesh = {.stages = 1};
  for (int d = 0; d < rank; d++) {
    if (parts[d] == 1) continue;
    mesh.axes[mesh.naxes] = (MeshAxis){.size = (int)parts[d]};
    l.dims[d] = (DimLayout){.n = 1, .axes = {(uint8_t)mesh.naxes++}};
  }
  Spec *s = onnx_shards_write(arena, "x", onnx_shards_of(arena, &mesh, 0, &l));
  s->device = ARENA_ARRAY(arena, int64_t, n + 1), s->n_device = n;
  memcpy(s->device, devices, n * sizeof *devices);
  s->index_to_device_group_map = ARENA_ARRAY(arena, OnnxOverlay__IntIntListEntryProto *, ngroups + 1);
  s->n_index_to_device_group_map = ngroups;
  for (size_t g = 0; g < ngroups; g++) {
    OnnxOverlay__IntIntListEntryProto *e = ARENA_NEW(arena, OnnxOverlay__IntIntListEntryProto);
    onnx_overlay__int_int_list_entry_proto__init(e);
    e->has_key = 1, e->key = groups[g][0], e->value = ARENA_ARRAY(arena, int64_t, 6);
    for (size_t k = 1; k < 6 && groups[g][k] != 99; k++) e->value[e->n_value++] = groups[g][k];
    s->index_to_device_group_map[g] = e;
  }
  return s;
}

static void examples_of_the_proposal(void) {
  const char *why;
  const OnnxShards *s =
      onnx_shards_read(arena, spec_of((int64_t[]){0, 1}, 2, NULL, 0, (int64_t[]){1, 2}, 2), 2, 2, &why);
  CHECK(s && s->parts[0] == 1 && s->parts[1] == 2 && s->at[1][0] == 0 && s->at[1][1] == 1);
  s = onnx_shards_read(arena, spec_of((int64_t[]){0, 1, 2, 3}, 4, NULL, 0, (int64_t[]){2, 2}, 2), 2, 4, &why);
  for (int r = 0; r < 4; r++) CHECK(s && s->at[0][r] == r / 2 && s->at[1][r] == r % 2);
  s = onnx_shards_read(arena, spec_of((int64_t[]){-1}, 1, (int64_t[][6]){{-1, 0, 1, 99}}, 1, (int64_t[]){1, 1}, 2), 2,
                       2, &why);
  CHECK(s && s->holds[0] && s->holds[1] && s->at[0][1] == 0);
  const int64_t groups[][6] = {{-1, 0, 1, 99}, {-2, 2, 3, 99}};
  s = onnx_shards_read(arena, spec_of((int64_t[]){-1, -2}, 2, groups, 2, (int64_t[]){2, 1}, 2), 2, 4, &why);
  for (int r = 0; r < 4; r++) CHECK(s && s->at[0][r] == r / 2 && s->at[1][r] == 0);
}

/* Reads the spec and looks for a mesh; returns why there is none. */
static const char *refused(const Spec *spec, int devices) {
  const char *why = "";
  OnnxDigits digits = {.ranks = devices};
  const OnnxShards *s = onnx_shards_read(arena, spec, 2, devices, &why);
  return s && onnx_digits_add(&digits, arena, s, 0, &why) ? "" : why;
}

static void specs_without_a_mesh(void) {
  const char *order = "has an order of devices along axis 0 that no mesh has";
  const int64_t halves[] = {2, 1}, quarters[] = {4, 1}, thirds[] = {3, 1};
  const int64_t uneven[][6] = {{-1, 0, 99}, {-2, 1, 2, 3, 99}}, crossed[][6] = {{-1, 0, 3, 99}, {-2, 1, 2, 99}};
  CHECK_STR(refused(spec_of((int64_t[]){1, 0}, 2, NULL, 0, halves, 2), 2), order);
  CHECK_STR(refused(spec_of((int64_t[]){0, 1, 3, 2}, 4, NULL, 0, quarters, 2), 4), order);
  CHECK_STR(refused(spec_of((int64_t[]){-1, -2}, 2, uneven, 2, halves, 2), 4), "has groups of unequal sizes");
  CHECK_STR(refused(spec_of((int64_t[]){-1, -2}, 2, crossed, 2, halves, 2), 4), order);
  CHECK_STR(refused(spec_of((int64_t[]){0, 2, 1, 3}, 4, NULL, 0, quarters, 2), 4), "");
  CHECK_STR(refused(spec_of((int64_t[]){0, 1}, 2, NULL, 0, halves, 2), 4),
            "does not use device 2, where the node runs on devices 0 to 3");
  CHECK_STR(refused(spec_of((int64_t[]){0, 1}, 2, NULL, 0, thirds, 2), 3), "has 3 shards for 2 devices or groups");
  CHECK_STR(refused(spec_of((int64_t[]){0, 0}, 2, NULL, 0, halves, 2), 2), "names device 0 twice");
  CHECK_STR(refused(spec_of((int64_t[]){0, 7}, 2, NULL, 0, halves, 2), 2), "names device 7 of 2");
  CHECK_STR(refused(spec_of((int64_t[]){0}, 0, NULL, 0, (int64_t[]){1, 1}, 2), 2), "names no devices");
}

/* Two specs that need axes of other sizes: 6 = 2 * 3 and 3 * 2. */
static void specs_without_a_common_mesh(void) {
  const char *why = "";
  OnnxDigits digits = {.ranks = 6};
  const int64_t pairs[][6] = {{-1, 0, 1, 99}, {-2, 2, 3, 99}, {-3, 4, 5, 99}};
  const int64_t triples[][6] = {{-1, 0, 1, 2, 99}, {-2, 3, 4, 5, 99}};
  const Spec *a = spec_of((int64_t[]){-1, -2, -3}, 3, pairs, 3, (int64_t[]){3, 1}, 2);
  const Spec *b = spec_of((int64_t[]){-1, -2}, 2, triples, 2, (int64_t[]){2, 1}, 2);
  CHECK(onnx_digits_add(&digits, arena, onnx_shards_read(arena, a, 2, 6, &why), 0, &why));
  CHECK(!onnx_digits_add(&digits, arena, onnx_shards_read(arena, b, 2, 6, &why), 0, &why));
}

/* Two blocks along one axis: 2 of 2 and 4 of 8 are eighths; a divided second block alone is strided. */
static void blocks_of_an_axis(void) {
  const char *why = "";
  Spec *spec = spec_of((int64_t[]){0, 1, 2, 3, 4, 5, 6, 7}, 8, NULL, 0, (int64_t[]){2, 1}, 2);
  OnnxOverlay__SimpleShardedDimProto *outer = spec->sharded_dim[0]->simple_sharding[0], inner = *outer;
  outer->dim_case = ONNX_OVERLAY__SIMPLE_SHARDED_DIM_PROTO__DIM_DIM_VALUE, outer->dim_value = 2, inner.num_shards = 4;
  spec->sharded_dim[0]->simple_sharding = (OnnxOverlay__SimpleShardedDimProto *[]){outer, &inner};
  spec->sharded_dim[0]->n_simple_sharding = 2;
  const OnnxShards *s = onnx_shards_read(arena, spec, 2, 8, &why);
  CHECK(s && s->parts[0] == 8 && s->at[0][5] == 5);
  outer->dim_value = 6;
  CHECK(!onnx_shards_read(arena, spec, 2, 8, &why));
  CHECK_STR(why, "has strided shards along axis 0");
}

static void an_unused_axis_is_divided(void) {
  OnnxDigits digits = {.ranks = 24};
  const char *why;
  const Mesh mesh = mesh_with(1, 2, (int[]){2, 12});
  const OnnxShards *s = onnx_shards_of(arena, &mesh, 0, &(Layout){.rank = 1, .dims = {{.n = 1, .axes = {0}}}});
  CHECK(onnx_digits_add(&digits, arena, s, 0, &why) && onnx_digits_mesh(&digits).naxes == 2);
  onnx_digits_divide(&digits, 2, 4);
  const Mesh found = onnx_digits_mesh(&digits);
  CHECK(found.naxes == 4 && found.axes[0].size == 2 && found.axes[1].size == 3 && found.axes[2].size == 2);
}

int main(void) {
  arena = arena_new();
  RUN(every_layout_has_a_spec);
  RUN(examples_of_the_proposal);
  RUN(specs_without_a_mesh);
  RUN(specs_without_a_common_mesh);
  RUN(blocks_of_an_axis);
  RUN(an_unused_axis_is_divided);
  arena_free(arena);
  return test_summary();
}
