/* codegen/cuda/print_cuda.c - prints row programs in the CUDA dialect.
 *
 * choose.c chooses the schedule record; then one of five loop skeletons is printed around the text of nodes that
 * print_c.c uses as well.  Sums are canonical in every skeleton: lane l of a warp adds the elements of index l mod 32
 * in a block of 1024 elements, a butterfly joins the lanes, and the lanes of every warp hold the pairwise tree over the
 * blocks.  So no sum depends on the number of threads, and the bits equal those of the CPU kernels.
 *
 * Extents are arguments.  If the reduced one is a constant that fits, values that later stages need stay in registers
 * (loops of a constant count, unrolled); else they are computed again from memory, served by the L1 and L2 caches.
 *
 * A result may share memory with an operand (units.h).  No stage after the store loads it; each stage before the store
 * ends with a barrier, and so does the code before stores of values of a whole row: no thread loads an element that
 * another has overwritten.
 *
 * Not done: a single long row uses one block; rows that exceed the registers are not kept in shared memory.
 */
#include "codegen/cuda/print_cuda.h"

#include <string.h>

#include "codegen/cuda/choose.h"

static bool is_unit(const Expr *e) { return e && ex_is_const(e, 1); }
static bool is_zero(const Expr *e) { return !e || ex_is_const(e, 0); }

/* ---- pieces of text */

/* True for a part of sums that begins elsewhere than at global index 0.  Element i then counts as lead + i, where lead
 * is the position of the part in its first block; the blocks before belong to another rank and are zeros in the
 * tree. */
static bool has_start(const RowPrinter *c) { return !ex_is_const(c->p->start, 0); }
static const char *limit(const RowPrinter *c) { return has_start(c) ? "n + lead" : "n"; }
static void print_start(const RowPrinter *c) {
  if (has_start(c)) rp_line(c, "const int64_t first = %s, lead = first & %d;", rp_scalar(c, c->p->start), BLOCK - 1);
}

static const char *format_int(const Cuda *k, const char *format, int v) {
  return arena_printf(k->r.m->arena, format, v);
}

static void shared(Cuda *k, const char *type, size_t size, const char *name, int count) {
  rp_line(&k->r, "SHARED(%s, %s, %d);", type, name, count);
  k->s->shared += (int)size * count;
}

static void print_accumulate(const RowPrinter *c, size_t i) {
  const RowAcc *a = &c->p->accs.items[i];
  rp_line(c, "t%zu = %s_%s(t%zu, v%d);", i, rp_combine_name(a->op), rp_suffix(a->dtype), i, a->node);
}

/* Prints one element: nodes, kept values, stores, accumulations. */
static void print_element(const RowPrinter *c, int stage) {
  const RowProgram *p = c->p;
  rp_element(c, stage);
  for (size_t i = 0; i < p->nodes.n; i++)
    if (c->kept[i] >= 0 && p->nodes.items[i].stage == stage)
      rp_line(c, "k%d[%s] = v%zu;", c->kept[i], c->kept_index, i);
  for (size_t i = 0; i < p->stores.n; i++)
    if (p->stores.items[i].inner && p->stores.items[i].stage == stage) rp_store(c, &p->stores.items[i]);
  for (size_t i = 0; i < p->accs.n; i++)
    if (p->accs.items[i].stage == stage) print_accumulate(c, i);
}

static void print_acc_start(const RowPrinter *c, int stage) {
  for (size_t i = 0; i < c->p->accs.n; i++) {
    const RowAcc *a = &c->p->accs.items[i];
    if (a->stage != stage) continue;
    if (rp_is_float_sum(a))
      rp_line(c, "Tree_%s s%zu = {0, %s};", rp_suffix(a->dtype), i, has_start(c) ? "(uint32_t)(first / 1024)" : "0");
    else rp_line(c, "%s a%zu = %s;", rp_value_type(a->dtype), i, rp_identity(a));
  }
}

static void print_lane_start(const RowPrinter *c, int stage) {
  for (size_t i = 0; i < c->p->accs.n; i++) {
    const RowAcc *a = &c->p->accs.items[i];
    if (a->stage == stage) rp_line(c, "%s t%zu = %s;", rp_value_type(a->dtype), i, rp_identity(a));
  }
}

/* Adds the value of one block of 1024 elements to the reduction. */
static void print_combine(const RowPrinter *c, size_t i, const char *value) {
  const RowAcc *a = &c->p->accs.items[i];
  const char *s = rp_suffix(a->dtype);
  if (rp_is_float_sum(a)) rp_line(c, "push_%s(&s%zu, %s);", s, i, value);
  else rp_line(c, "a%zu = %s_%s(a%zu, %s);", i, rp_combine_name(a->op), s, i, value);
}

static void print_butterfly(const RowPrinter *c, size_t i, const char *value) {
  const RowAcc *a = &c->p->accs.items[i];
  rp_line(c, "t%zu = warp_%s_%s(%s);", i, reduction_name(a->op), rp_suffix(a->dtype), value);
}

static void print_totals(const RowPrinter *c, int stage) {
  for (size_t i = 0; i < c->p->accs.n; i++) {
    const RowAcc *a = &c->p->accs.items[i];
    if (a->stage == stage && rp_is_float_sum(a))
      rp_line(c, "const %s a%zu = total_%s(&s%zu);", rp_value_type(a->dtype), i, rp_suffix(a->dtype), i);
  }
}

/* ---- elements */

static void print_packet_loads(Cuda *k, const bool *needed) {
  RowPrinter *c = &k->r;
  int v = k->s->vector;
  for (size_t i = 0; i < c->p->nodes.n; i++) {
    const RowNode *n = &c->p->nodes.items[i];
    if (!needed[i] || !cuda_load_in_packets(c, (int)i)) continue;
    rp_line(c, "%s r%zu[%d];", rp_value_type(n->dtype), i, v);
    rp_line(c, "load%d_%s(r%zu, p%d + (%s), m);", v, dtype_name(c->p->buffers.items[n->buffer].dtype), i, n->buffer,
            rp_affine_text(c, &n->at));
    c->instead[i] = format_int(k, "r%d[e]", (int)i);
  }
  for (size_t i = 0; i < c->p->stores.n; i++)
    if (cuda_store_in_packets(c, &c->p->stores.items[i]))
      rp_line(c, "%s w%zu[%d];", rp_value_type(c->p->nodes.items[c->p->stores.items[i].node].dtype), i, v);
}

static void print_packet_stores(const Cuda *k) {
  const RowPrinter *c = &k->r;
  for (size_t i = 0; i < c->p->stores.n; i++) {
    const RowStore *s = &c->p->stores.items[i];
    if (!cuda_store_in_packets(c, s)) continue;
    rp_line(c, "store%d_%s(p%d + (%s), w%zu, m);", k->s->vector, dtype_name(c->p->buffers.items[s->buffer].dtype),
            s->buffer, rp_affine_text(c, &s->at), i);
  }
}

static void print_element_stores(const Cuda *k, bool packets) {
  const RowPrinter *c = &k->r;
  for (size_t i = 0; i < c->p->stores.n; i++) {
    const RowStore *s = &c->p->stores.items[i];
    if (s->total) rp_line(c, "t%zu = add_f32(t%zu, v%d);", i, i, s->node);
    else if (packets && cuda_store_in_packets(c, s)) rp_line(c, "w%zu[e] = v%d;", i, s->node);
    else rp_store(c, s);
  }
}

/* Prints the nodes that are equal for all elements: computed once per thread. */
static void print_thread_scope(RowPrinter *c) {
  bool *needed = rp_no_nodes(c);
  for (size_t i = 0; i < c->p->nodes.n; i++)
    if (c->wanted[i] && !c->p->nodes.items[i].inner) needed[i] = true;
  rp_needed(c, needed, 0);
  for (size_t i = 0; i < c->p->nodes.n; i++) c->in_scope[i] = needed[i];
}

static bool *store_needs(const RowPrinter *c) {
  bool *needed = rp_no_nodes(c);
  for (size_t i = 0; i < c->p->stores.n; i++) rp_need(c, needed, c->p->stores.items[i].node, 0);
  return needed;
}

/* Prints the elements first .. first + m of a row. */
static void print_packet(Cuda *k) {
  RowPrinter *c = &k->r;
  int v = k->s->vector, d = c->p->inner;
  if (v > 1) rp_line(c, "const int64_t m = n - first < %d ? n - first : %d;", v, v);
  rp_outer_indices(c, "row");
  if (!c->p->blocks || c->p->ndims > 1) print_thread_scope(c);
  if (v == 1) {
    rp_needed(c, store_needs(c), 0);
    print_element_stores(k, false);
    return;
  }
  print_packet_loads(k, store_needs(c));
  rp_open(c, arena_printf(c->m->arena, "UNROLL for (int e = 0; e < %d; e++)", v));
  rp_line(c, "const int64_t i%d = first + e;", d);
  rp_open(c, "if (e < m)");
  rp_needed(c, store_needs(c), 0);
  print_element_stores(k, true);
  rp_close(c), rp_close(c);
  print_packet_stores(k);
}

/* Prints the packet's row and its position in the row. */
static void print_place(const Cuda *k) {
  const RowPrinter *c = &k->r;
  int v = k->s->vector, d = c->p->inner;
  if (c->p->ndims == 1) rp_line(c, "const int64_t first = piece * %d, i%d = first;", v, d);
  else rp_line(c, "const int64_t row = piece / pieces, first = piece %% pieces * %d, i%d = first;", v, d);
}

/* Prints the block's share of `count` packets or tiles: from `begin` to `end`. */
static void print_share(const Cuda *k, const char *count) {
  const RowPrinter *c = &k->r;
  const char *blocks = rp_scalar(c, c->p->blocks);
  rp_line(c, "const int64_t count = %s, share = (count + %s - 1) / %s, begin = %s * share;", count, blocks, blocks,
          k->block);
  rp_line(c, "const int64_t end = begin + share < count ? begin + share : count;");
  for (size_t i = 0; i < c->p->stores.n; i++)
    if (c->p->stores.items[i].total) rp_line(c, "float t%zu = 0;", i);
}

/* Adds the sums of all threads: by a butterfly in each warp, then warp by warp. */
static void print_total_stores(Cuda *k) {
  RowPrinter *c = &k->r;
  for (size_t i = 0; i < c->p->stores.n; i++) {
    if (!c->p->stores.items[i].total) continue;
    shared(k, "float", sizeof(float), format_int(k, "total%d", (int)i), k->s->threads / 32);
    rp_line(c, "t%zu = warp_sum_f32(t%zu);", i, i);
    rp_line(c, "if (lane_index() == 0) total%zu[warp_index()] = t%zu;", i, i);
    rp_line(c, "barrier();");
    rp_open(c, "if (thread_index() == 0)");
    rp_open(c, arena_printf(c->m->arena, "UNROLL for (int w = 1; w < %d; w++)", k->s->threads / 32));
    rp_line(c, "t%zu = add_f32(t%zu, total%zu[w]);", i, i, i);
    rp_close(c);
    rp_line(c, "p%d[%s] = t%zu;", c->p->stores.items[i].buffer, k->block, i);
    rp_close(c);
  }
}

static void print_elements(Cuda *k) {
  RowPrinter *c = &k->r;
  int v = k->s->vector;
  rp_line(c, "const int64_t n = %s, rows = %s, pieces = (n + %d) / %d;", rp_extent(c, c->p->inner), rp_row_count(c),
          v - 1, v);
  if (!c->p->blocks) {
    rp_line(c, "const int64_t piece = %s * %d + thread_index();", k->block, k->s->threads);
    rp_line(c, "if (piece >= rows * pieces) return;");
    print_place(k);
    print_packet(k);
    return;
  }
  print_share(k, "rows * pieces");
  if (c->p->ndims == 1) print_thread_scope(c);
  rp_open(c, arena_printf(c->m->arena, "for (int64_t piece = begin + thread_index(); piece < end; piece += %d)",
                          k->s->threads));
  print_place(k);
  print_packet(k);
  rp_close(c);
  print_total_stores(k);
}

/* ---- tiles */

static bool is_staged(const RowPrinter *c, int i) {
  const RowNode *n = &c->p->nodes.items[i];
  return n->kind == RN_LOAD && n->nargs == 0 && n->guard < 0 && is_unit(n->at.coef[c->across]) &&
         !is_zero(n->at.coef[c->p->inner]) && !is_unit(n->at.coef[c->p->inner]);
}

/* Prints the reads of operands that are contiguous across: along that dimension, transposed in shared memory. */
static void print_staging(Cuda *k, const bool *needed) {
  RowPrinter *c = &k->r;
  int d = c->p->inner, a = c->across;
  for (size_t i = 0; i < c->p->nodes.n; i++) {
    DType stored = c->p->buffers.items[c->p->nodes.items[i].buffer].dtype;
    size_t bytes = dtype_bytes(stored);
    if (!needed[i] || !is_staged(c, (int)i) || k->s->shared + (int)bytes * TILE * (TILE + 1) > MAX_TILE_BYTES) continue;
    shared(k, rp_stored_type(stored), bytes, format_int(k, "tile%d", (int)i), TILE * (TILE + 1));
    c->instead[i] = arena_printf(c->m->arena, "load_%s(&tile%zu[tx * %d + r])", dtype_name(stored), i, TILE + 1);
  }
  if (!k->s->shared) return;
  rp_open(c, arena_printf(c->m->arena, "UNROLL for (int r = ty; r < %d; r += %d)", TILE, TILE_ROWS));
  rp_line(c, "const int64_t i%d = from + r, i%d = top + tx;", d, a);
  rp_open(c, "if (from + r < n && top + tx < all)");
  for (size_t i = 0; i < c->p->nodes.n; i++)
    if (c->instead[i])
      rp_line(c, "tile%zu[r * %d + tx] = p%d[%s];", i, TILE + 1, c->p->nodes.items[i].buffer,
              rp_affine_text(c, &c->p->nodes.items[i].at));
  rp_close(c), rp_close(c);
  rp_line(c, "barrier();");
}

static void print_tile(Cuda *k) {
  RowPrinter *c = &k->r;
  int d = c->p->inner, a = c->across;
  rp_line(c, "const int64_t row = tile / (high * wide), top = tile / wide %% high * 32, from = tile %% wide * 32;");
  rp_outer_indices(c, "row");
  print_staging(k, store_needs(c));
  rp_open(c, arena_printf(c->m->arena, "UNROLL for (int r = ty; r < %d; r += %d)", TILE, TILE_ROWS));
  rp_line(c, "const int64_t i%d = top + r, i%d = from + tx;", a, d);
  rp_open(c, "if (top + r < all && from + tx < n)");
  rp_needed(c, store_needs(c), 0);
  print_element_stores(k, false);
  rp_close(c), rp_close(c);
}

static void print_tiles(Cuda *k) {
  RowPrinter *c = &k->r;
  rp_line(c, "const int64_t n = %s, all = %s, wide = (n + 31) / 32, high = (all + 31) / 32;", rp_extent(c, c->p->inner),
          rp_extent(c, c->across));
  rp_line(c, "const int tx = thread_index() %% %d, ty = thread_index() / %d;", TILE, TILE);
  if (!c->p->blocks) {
    rp_line(c, "const int64_t tile = %s;", k->block);
    print_tile(k);
    return;
  }
  print_share(k, arena_printf(c->m->arena, "%s * high * wide", rp_row_count(c)));
  rp_open(c, "for (int64_t tile = begin; tile < end; tile++)");
  print_tile(k);
  if (k->s->shared) rp_line(c, "barrier();");
  rp_close(c);
  print_total_stores(k);
}

/* ---- rows */

static const char *who_stores(const Cuda *k) { return k->s->warps == 1 ? "lane_index() == 0" : "thread_index() == 0"; }

static bool stores_rows(const RowProgram *p, int stage) {
  for (size_t i = 0; i < p->stores.n; i++)
    if (!p->stores.items[i].inner && p->stores.items[i].stage == stage) return true;
  return false;
}

/* Prints the values that are one per row: every thread computes them, one stores them. */
static void print_row_scope(Cuda *k, int stage) {
  RowPrinter *c = &k->r;
  bool *needed = rp_no_nodes(c);
  for (size_t i = 0; i < c->p->nodes.n; i++)
    if (c->wanted[i] && !c->p->nodes.items[i].inner && c->p->nodes.items[i].stage == stage) needed[i] = true;
  rp_needed(c, needed, 0);
  for (size_t i = 0; i < c->p->nodes.n; i++) c->in_scope[i] = c->in_scope[i] || needed[i];
  if (!stores_rows(c->p, stage)) return;
  rp_line(c, k->s->warps == 1 ? "warp_barrier();" : "barrier();");
  rp_open(c, arena_printf(c->m->arena, "if (%s)", who_stores(k)));
  for (size_t i = 0; i < c->p->stores.n; i++)
    if (!c->p->stores.items[i].inner && c->p->stores.items[i].stage == stage) rp_store(c, &c->p->stores.items[i]);
  rp_close(c);
}

/* Opens a loop over a lane's elements of one block.  A compiler that unrolls the loop over columns freely keeps 16-bit
 * elements in more registers than there are. */
static void open_lane_loop(RowPrinter *c, const char *unroll, const char *lane) {
  int d = c->p->inner;
  if (!has_start(c)) {
    rp_open(c, arena_printf(c->m->arena, "%sfor (int64_t i%d = %s; i%d < n && i%d < block + %d; i%d += 32)", unroll, d,
                            lane, d, d, BLOCK, d));
    return;
  }
  rp_open(c, arena_printf(c->m->arena, "%sfor (int64_t j = %s; j < n + lead && j < block + %d; j += 32)", unroll, lane,
                          BLOCK));
  rp_line(c, "const int64_t i%d = j - lead;", d);
  rp_line(c, "if (i%d < 0) continue;", d);
}

/* True if a warp has all elements of its steps, or none.  No element is then tested by itself, which would prevent
 * overlapping loads: softmax of rows of 4096 takes 85 us instead of 200 (8192 rows on an H200). */
static bool steps_are_whole(const Cuda *k) {
  const RowPrinter *c = &k->r;
  int64_t n;
  return ex_get_const(c->p->extent[c->p->inner], &n) && n % (32 * k->s->steps) == 0;
}

static void print_lane_loop(Cuda *k, int stage) {
  RowPrinter *c = &k->r;
  int d = c->p->inner;
  if (k->s->steps) {
    bool whole = steps_are_whole(k);
    if (whole) rp_open(c, "if (block < n)");
    rp_open(c, arena_printf(c->m->arena, "UNROLL for (int t = 0; t < %d; t++)", k->s->steps));
    rp_line(c, "const int64_t i%d = block + 32 * t + lane;", d);
    if (!whole) rp_open(c, arena_printf(c->m->arena, "if (i%d < n)", d));
    print_element(c, stage);
    rp_close(c);
  } else {
    open_lane_loop(c, "", "block + lane");
    print_element(c, stage);
  }
  rp_close(c);
}

/* Collects the values of the warps' blocks in shared memory; every warp combines them all, in the order of the
 * blocks. */
static void print_warp_values(Cuda *k, int stage) {
  RowPrinter *c = &k->r;
  for (size_t i = 0; i < c->p->accs.n; i++)
    if (c->p->accs.items[i].stage == stage) print_butterfly(c, i, format_int(k, "t%d", (int)i));
  if (k->s->warps > 1) {
    for (size_t i = 0; i < c->p->accs.n; i++)
      if (c->p->accs.items[i].stage == stage) rp_line(c, "if (lane == 0) part%zu[warp_index()] = t%zu;", i, i);
    rp_line(c, "barrier();");
    rp_open(c, arena_printf(c->m->arena, "for (int w = 0; w < %d && base + %d * w < %s; w++)", k->s->warps, BLOCK,
                            limit(c)));
  }
  for (size_t i = 0; i < c->p->accs.n; i++)
    if (c->p->accs.items[i].stage == stage)
      print_combine(c, i, k->s->warps > 1 ? format_int(k, "part%d[w]", (int)i) : format_int(k, "t%d", (int)i));
  if (k->s->warps > 1) {
    rp_close(c);
    rp_line(c, "barrier();");
  }
}

static void print_stage(Cuda *k, int stage) {
  RowPrinter *c = &k->r;
  int d = c->p->inner, step = BLOCK * k->s->warps;
  if (rp_has_accs(c, stage)) {
    print_acc_start(c, stage);
    if (k->s->steps) rp_open(c, "for (int64_t base = 0; base < 1; base++)"); /* the whole row at once */
    else rp_open(c, arena_printf(c->m->arena, "for (int64_t base = 0; base < %s; base += %d)", limit(c), step));
    rp_line(c, k->s->warps == 1 ? "const int64_t block = base;" : "const int64_t block = base + %d * warp_index();",
            BLOCK);
    print_lane_start(c, stage);
    print_lane_loop(k, stage);
    print_warp_values(k, stage);
    rp_close(c);
    print_totals(c, stage);
  } else if (rp_has_elements(c, stage) && k->s->steps) {
    rp_open(c, "");
    rp_line(c, k->s->warps == 1 ? "const int64_t block = 0;" : "const int64_t block = %d * warp_index();", BLOCK);
    print_lane_loop(k, stage);
    rp_close(c);
  } else if (rp_has_elements(c, stage)) {
    rp_open(c, arena_printf(c->m->arena, "for (int64_t i%d = %s; i%d < n; i%d += %d)", d,
                            k->s->warps == 1 ? "lane" : "thread_index()", d, d, 32 * k->s->warps));
    print_element(c, stage);
    rp_close(c);
  }
}

static void print_rows(Cuda *k) {
  RowPrinter *c = &k->r;
  rp_line(c, "const int64_t n = %s, rows = %s;", rp_extent(c, c->p->inner), rp_row_count(c));
  rp_line(c, "const int lane = lane_index();");
  print_start(c);
  if (k->s->warps == 1) rp_line(c, "const int64_t row = %s * %d + warp_index();", k->block, ROWS_PER_BLOCK);
  else rp_line(c, "const int64_t row = %s;", k->block);
  for (size_t i = 0; i < c->p->accs.n && k->s->warps > 1; i++)
    shared(k, rp_value_type(c->p->accs.items[i].dtype),
           dtype_bytes(c->p->accs.items[i].dtype) < 4 ? 4 : dtype_bytes(c->p->accs.items[i].dtype),
           format_int(k, "part%d", (int)i), k->s->warps);
  rp_line(c, "if (row >= rows) return;");
  rp_outer_indices(c, "row");
  for (size_t i = 0; i < c->p->nodes.n; i++)
    if (c->kept[i] >= 0) rp_line(c, "%s k%d[%d];", rp_value_type(c->p->nodes.items[i].dtype), c->kept[i], k->s->steps);
  for (int stage = 0; stage < c->p->nstages; stage++) {
    print_row_scope(k, stage);
    print_stage(k, stage);
  }
}

/* ---- columns */

static void print_column_sums(Cuda *k) {
  RowPrinter *c = &k->r;
  print_acc_start(c, 0);
  rp_open(c, arena_printf(c->m->arena, "for (int64_t block = 0; block < %s; block += %d)", limit(c), BLOCK));
  print_lane_start(c, 0);
  rp_open(c, "if (inside)");
  open_lane_loop(c, "UNROLL_4 ", "block + turn");
  print_element(c, 0);
  rp_close(c), rp_close(c);
  for (size_t i = 0; i < c->p->accs.n; i++)
    rp_line(c, "lanes%zu[turn * %d + column] = t%zu;", i, COLUMNS_PER_BLOCK + 1, i);
  rp_line(c, "barrier();");
  for (size_t i = 0; i < c->p->accs.n; i++) {
    print_butterfly(c, i,
                    arena_printf(c->m->arena, "lanes%zu[lane_index() * %d + warp_index()]", i, COLUMNS_PER_BLOCK + 1));
    print_combine(c, i, format_int(k, "t%d", (int)i));
  }
  rp_line(c, "barrier();");
  rp_close(c);
  print_totals(c, 0);
}

static void print_columns(Cuda *k) {
  RowPrinter *c = &k->r;
  const RowProgram *p = c->p;
  rp_line(c, "const int64_t n = %s, all = %s, tiles = (all + %d) / %d;", rp_extent(c, p->inner),
          rp_extent(c, c->across), COLUMNS_PER_BLOCK - 1, COLUMNS_PER_BLOCK);
  rp_line(c, "const int64_t row = %s / tiles, i%d = %s %% tiles * %d + thread_index() %% %d;", k->block, c->across,
          k->block, COLUMNS_PER_BLOCK, COLUMNS_PER_BLOCK);
  rp_line(c, "const int column = thread_index() %% %d, turn = thread_index() / %d;", COLUMNS_PER_BLOCK,
          COLUMNS_PER_BLOCK);
  rp_line(c, "const _Bool inside = i%d < all;", c->across);
  for (size_t i = 0; i < p->accs.n; i++) {
    const char *type = rp_value_type(p->accs.items[i].dtype);
    shared(k, type, dtype_bytes(p->accs.items[i].dtype), format_int(k, "lanes%d", (int)i),
           32 * (COLUMNS_PER_BLOCK + 1));
    shared(k, type, dtype_bytes(p->accs.items[i].dtype), format_int(k, "found%d", (int)i), COLUMNS_PER_BLOCK);
  }
  rp_outer_indices(c, "row");
  print_start(c);
  rp_open(c, ""); /* warp w reduces column w ... */
  print_column_sums(k);
  for (size_t i = 0; i < p->accs.n; i++) rp_line(c, "if (lane_index() == 0) found%zu[warp_index()] = a%zu;", i, i);
  rp_close(c);
  rp_line(c, "barrier();");
  rp_open(c, "if (inside && turn == 0)"); /* ... and one thread per column ends it */
  for (size_t i = 0; i < p->accs.n; i++)
    rp_line(c, "const %s a%zu = found%zu[column];", rp_value_type(p->accs.items[i].dtype), i, i);
  bool *needed = rp_no_nodes(c);
  for (size_t i = 0; i < p->stores.n; i++)
    if (!p->stores.items[i].inner) rp_need(c, needed, p->stores.items[i].node, 0);
  rp_needed(c, needed, 0);
  for (size_t i = 0; i < p->stores.n; i++)
    if (!p->stores.items[i].inner) rp_store(c, &p->stores.items[i]);
  rp_close(c);
}

/* ---- kernel */

static const char *table_element(const Cuda *k, const RowBuffer *b, int i) {
  const Attr *ints = op_attr(b->table, AT_ints), *floats = op_attr(b->table, AT_floats);
  unsigned char bytes[8] = {0};
  uint64_t bits = 0;
  if (ints) dtype_store_i(b->dtype, bytes, ints->u.ints[i]);
  else dtype_store_f(b->dtype, bytes, floats->u.floats[i]);
  memcpy(&bits, bytes, 8);
  return arena_printf(k->r.m->arena, "0x%llxu%s", (unsigned long long)bits, dtype_bytes(b->dtype) == 8 ? "ll" : "");
}

/* Prints a table: its bits, and a pointer of the elements' type. */
static void print_table(const Cuda *k, const RowBuffer *b, size_t i) {
  static const char *const unsigned_of[9] = {[1] = "uint8_t", [2] = "uint16_t", [4] = "uint32_t", [8] = "uint64_t"};
  const Attr *ints = op_attr(b->table, AT_ints), *floats = op_attr(b->table, AT_floats);
  int n = ints ? ints->n : floats->n;
  text_printf(k->r.t, "TABLE(%s, " CUDA_NAME "_table%zu, %d) = {", unsigned_of[dtype_bytes(b->dtype)], i, n ? n : 1);
  for (int e = 0; e < n; e++) text_printf(k->r.t, "%s%s", e ? ", " : "", table_element(k, b, e));
  text_add(k->r.t, n ? "};\n" : "0};\n");
}

void cuda_print_head(Text *t, int threads, int nbuffers, const DType *dtypes, int noutputs, size_t nscalars,
                     bool looks) {
  text_add(t, "typedef struct " CUDA_NAME "_args {\n");
  for (int i = 0; i < nbuffers; i++)
    text_printf(t, "  %s%s *p%d;\n", i < nbuffers - noutputs ? "const " : "", rp_stored_type(dtypes[i]), i);
  if (nscalars) text_printf(t, "  int64_t x[%zu];\n", nscalars);
  if (looks) text_add(t, "  IndexNote *note;\n  int64_t instr;\n");
  text_add(t, "} " CUDA_NAME "_args;\n");
  text_printf(t, "KERNEL(" CUDA_NAME ", " CUDA_NAME "_args, %d) {\n", threads);
  if (nscalars) text_add(t, "  const int64_t *const x = a.x;\n");
}

/* Names the buffers p0, p1 ... by their numbers in the program; the struct has no tables. */
static void print_buffers(const Cuda *k, Text *t) {
  int next = 0;
  for (size_t i = 0; i < k->r.p->buffers.n; i++) {
    const RowBuffer *b = &k->r.p->buffers.items[i];
    const char *type = rp_stored_type(b->dtype);
    if (b->table) text_printf(t, "  const %s *const p%zu = (const %s *)" CUDA_NAME "_table%zu;\n", type, i, type, i);
    else text_printf(t, "  %s%s *const p%zu = a.p%d;\n", b->output ? "" : "const ", type, i, next++);
  }
}

static void print_head(const Cuda *k, Text *t) {
  const RowProgram *p = k->r.p;
  DType *dtypes = ARENA_ARRAY(k->r.m->arena, DType, p->buffers.n + 1);
  int n = 0, outputs = 0;
  for (size_t i = 0; i < p->buffers.n; i++) {
    if (p->buffers.items[i].table) continue;
    dtypes[n++] = p->buffers.items[i].dtype;
    outputs += p->buffers.items[i].output;
  }
  cuda_print_head(t, k->s->threads, n, dtypes, outputs, k->r.scalars->n, false);
  print_buffers(k, t);
}

/* Chooses the schedule and prints the body; `block` is the expression for the number of the block. */
static Cuda print_body(Module *m, const RowProgram *p, Scalars *scalars, CudaSchedule *out, const char *block,
                       bool arguments, Text *body) {
  Cuda k = {
      .s = out,
      .block = block,
      .r = {.m = m, .p = p, .scalars = scalars, .t = body, .kept_index = "t", .indent = 1, .arguments = arguments}};
  k.r.instead = ARENA_ARRAY(m->arena, const char *, p->nodes.n + 1);
  rp_start(&k.r);
  cuda_choose(&k);
  switch (out->shape) {
    case CUDA_ELEMENTS: print_elements(&k); break;
    case CUDA_TILES: print_tiles(&k); break;
    case CUDA_WARP_ROW:
    case CUDA_BLOCK_ROW: print_rows(&k); break;
    case CUDA_COLUMNS: print_columns(&k); break;
  }
  return k;
}

const char *cuda_print_kernel(Module *m, const RowProgram *p, Scalars *scalars, CudaSchedule *out) {
  Text body = {.arena = m->arena}, t = {.arena = m->arena};
  Cuda k = print_body(m, p, scalars, out, "block_index()", false, &body);
  k.r.t = &t; /* the head declares what the body uses */
  for (size_t i = 0; i < p->buffers.n; i++)
    if (p->buffers.items[i].table) print_table(&k, &p->buffers.items[i], i);
  print_head(&k, &t);
  text_printf(&t, "%s}\n\n", text_str(&body));
  return text_str(&t);
}

/* Prints a member of a bundle.  The extent of a one-dimensional program is an argument: tensors of all sizes share the
 * text. */
const char *cuda_print_part(Module *m, const RowProgram *p, Scalars *scalars, CudaSchedule *out) {
  Text body = {.arena = m->arena}, t = {.arena = m->arena};
  int ins = 0, outs = 0;
  print_body(m, p, scalars, out, "block", p->ndims == 1, &body);
  for (size_t i = 0; i < p->buffers.n; i++) {
    const char *type = rp_stored_type(p->buffers.items[i].dtype);
    if (p->buffers.items[i].output) text_printf(&t, "  %s *const p%zu = (%s *)out[%d];\n", type, i, type, outs++);
    else text_printf(&t, "  const %s *const p%zu = (const %s *)in[at[%d]];\n", type, i, type, ins++);
  }
  text_add(&t, text_str(&body));
  return text_str(&t);
}
