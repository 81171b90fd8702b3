/* codegen/cuda/choose.c - the schedule of a row program for a GPU: skeleton, threads, packets and registers.
 *
 * In: a row printer with the schedule of the CPU printer.  Out: the record of print_cuda.h.  Sizes are constants or the
 * hints of symbols. */
#include "codegen/cuda/choose.h"

#include "codegen/rows/row_work.h"

enum {
  THREADS = 256,
  BLOCK_ROW_FROM = 2048, /* expected elements of a row from which a block per row is better than a warp */
  MAX_ROW_WARPS = 16,    /* with the row in registers: 16 x 1024 elements */
  MAX_PACKET_WORDS = 40, /* registers per thread for packets */
  MAX_KEPT_WORDS = 48,   /* registers per thread for kept values */
  MAX_UNROLLED = 1024    /* nodes times steps */
};

static bool is_unit(const Expr *e) { return e && ex_is_const(e, 1); }

static const Expr *row_count(const RowPrinter *c) {
  const Expr *e = ex_const(c->m, 1);
  for (int d = 0; d < c->p->ndims; d++)
    if (d != c->p->inner && d != c->across) e = ex_mul(c->m, e, c->p->extent[d]);
  return e;
}

bool cuda_load_in_packets(const RowPrinter *c, int node) {
  const RowNode *n = &c->p->nodes.items[node];
  return n->kind == RN_LOAD && n->nargs == 0 && n->guard < 0 && is_unit(n->at.coef[c->p->inner]);
}

bool cuda_store_in_packets(const RowPrinter *c, const RowStore *s) {
  return s->inner && is_unit(s->at.coef[c->p->inner]);
}

/* Counts the registers per element of packets, and the bytes of the narrowest buffer in packets. */
static void count_packets(const RowPrinter *c, const bool *needed, int *words, size_t *narrow) {
  *words = 0, *narrow = 8;
  for (size_t i = 0; i < c->p->nodes.n + c->p->stores.n; i++) {
    const RowStore *s = i < c->p->nodes.n ? NULL : &c->p->stores.items[i - c->p->nodes.n];
    if (s ? !cuda_store_in_packets(c, s) : !needed[i] || !cuda_load_in_packets(c, (int)i)) continue;
    size_t bytes = dtype_bytes(c->p->buffers.items[s ? s->buffer : c->p->nodes.items[i].buffer].dtype);
    *words += bytes == 8 ? 2 : 1;
    if (bytes < *narrow) *narrow = bytes;
  }
}

/* Returns the elements of a packet: sixteen bytes of the narrowest buffer, at most eight elements, limited by
 * registers. */
static int packet_elements(const RowPrinter *c) {
  int words;
  size_t narrow;
  count_packets(c, c->wanted, &words, &narrow);
  if (words == 0 || work_expected(c->m, c->p->extent[c->p->inner]) < 2) return 1;
  int v = narrow == 8 ? 2 : narrow == 4 ? 4 : 8;
  while (v > 1 && v * words > MAX_PACKET_WORDS) v /= 2;
  return v;
}

static int count_inner(const RowProgram *p) {
  int n = 0;
  for (size_t i = 0; i < p->nodes.n; i++) n += p->nodes.items[i].inner;
  return n;
}

/* Chooses registers for kept values, if the row is constant and short enough. */
static void choose_registers(Cuda *k) {
  RowPrinter *c = &k->r;
  CudaSchedule *s = k->s;
  int64_t n;
  if (c->p->nstages < 2 || !ex_is_const(c->p->start, 0) || !ex_get_const(c->p->extent[c->p->inner], &n) || n < 1 ||
      n > MAX_ROW_WARPS * BLOCK)
    return;
  int steps = n < BLOCK ? (int)(n + 31) / 32 : 32, words = 0;
  if (count_inner(c->p) * steps > MAX_UNROLLED) return;
  int kept = rp_choose_kept(c, 1, MAX_KEPT_WORDS / steps);
  for (size_t i = 0; i < c->p->nodes.n; i++)
    if (c->kept[i] >= 0) words += steps * (dtype_bytes(c->p->nodes.items[i].dtype) == 8 ? 2 : 1);
  if (kept == 0 || words > MAX_KEPT_WORDS) {
    for (size_t i = 0; i < c->p->nodes.n; i++) c->kept[i] = -1;
    return;
  }
  s->kept = kept, s->steps = steps;
  s->warps = (int)((n + BLOCK - 1) / BLOCK);
}

static void choose_rows(Cuda *k) {
  const RowPrinter *c = &k->r;
  CudaSchedule *s = k->s;
  int64_t n = work_expected(c->m, c->p->extent[c->p->inner]), rows = work_expected(c->m, row_count(c));
  s->warps = n < BLOCK_ROW_FROM && rows >= ROWS_PER_BLOCK ? 1 : n >= 16 * BLOCK ? 32 : 8;
  choose_registers(k);
  s->shape = s->warps == 1 ? CUDA_WARP_ROW : CUDA_BLOCK_ROW;
  s->threads = 32 * (s->warps == 1 ? ROWS_PER_BLOCK : s->warps);
  s->blocks = s->warps == 1 ? ex_ceil_div(c->m, row_count(c), ex_const(c->m, ROWS_PER_BLOCK)) : row_count(c);
}

/* Changes the schedule of columns to that of rows if the accumulations would exceed shared memory. */
static void limit_columns(RowPrinter *c) {
  size_t bytes = 0;
  for (size_t i = 0; i < c->p->accs.n; i++)
    bytes += dtype_bytes(c->p->accs.items[i].dtype) * (32 * (COLUMNS_PER_BLOCK + 1) + COLUMNS_PER_BLOCK);
  if (c->schedule != COLUMNS || bytes <= MAX_TILE_BYTES) return;
  c->schedule = ROWS;
  c->across = -1;
}

void cuda_choose(Cuda *k) {
  RowPrinter *c = &k->r;
  limit_columns(c);
  Module *m = c->m;
  const Expr *n = c->p->extent[c->p->inner], *all = c->across >= 0 ? c->p->extent[c->across] : NULL,
             *rows = row_count(c);
  *k->s = (CudaSchedule){.threads = THREADS, .vector = 1};
  switch (c->schedule) {
    case ELEMENTS:
      k->s->shape = CUDA_ELEMENTS;
      k->s->vector = packet_elements(c);
      k->s->blocks =
          ex_ceil_div(m, ex_mul(m, rows, ex_ceil_div(m, n, ex_const(m, k->s->vector))), ex_const(m, THREADS));
      break;
    case TILES:
      k->s->shape = CUDA_TILES;
      k->s->blocks =
          ex_mul(m, rows, ex_mul(m, ex_ceil_div(m, n, ex_const(m, TILE)), ex_ceil_div(m, all, ex_const(m, TILE))));
      break;
    case ROWS: choose_rows(k); break;
    case COLUMNS:
      k->s->shape = CUDA_COLUMNS;
      k->s->threads = 32 * COLUMNS_PER_BLOCK;
      k->s->blocks = ex_mul(m, rows, ex_ceil_div(m, all, ex_const(m, COLUMNS_PER_BLOCK)));
      break;
  }
  if (c->p->blocks) k->s->blocks = c->p->blocks;
}

const char *cuda_schedule_text(Arena *a, const CudaSchedule *s) {
  static const char *const shapes[] = {"elements", "tiles of 32 x 32", "warp per row", "block per row",
                                       "16 columns per block"};
  Text t = {.arena = a};
  text_printf(&t, "%s, %d threads", shapes[s->shape], s->threads);
  if (s->vector > 1) text_printf(&t, ", packets of %d", s->vector);
  if (s->kept) text_printf(&t, ", %d value%s x %d steps in registers", s->kept, s->kept > 1 ? "s" : "", s->steps);
  if (s->shared) text_printf(&t, ", %d bytes shared", s->shared);
  return text_str(&t);
}
