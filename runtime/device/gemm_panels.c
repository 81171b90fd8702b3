/* runtime/device/gemm_panels.c - see gemm_panels.h.
 *
 * Rows are split into parts, one per thread, as they are before and after a product: rows stay in a core's cache.  A
 * part is split into tasks.  A thread that has finished its own takes tasks that others have not begun, so that a
 * thread without a core delays no other.  A task goes over blocks (Goto and van de Geijn, "Anatomy of high-performance
 * matrix multiplication", 2008): a piece of the summed index, such that two panels of B stay in the first-level cache,
 * is multiplied with all rows of a block, whose part of A stays in the second-level cache.  Tiles prefetch data for
 * their successors: rows of A, panels of B, C.  The epilogue is applied to each tile.
 */
#include "runtime/device/gemm_panels.h"

#include <stdatomic.h>
#include <string.h>

#include "runtime/device/gemm_tiles.h"
#include "runtime/device/onednn.h"

enum {
  ROWS = 108,          /* of a block, whose part of A stays in the second-level cache */
  DEPTH = 256,         /* limit of the summed index in a block: two panels of B are 32 KiB */
  FEW = 12,            /* up to this many rows use B only once, so */
  DEPTH_FEW = 1024,    /* ... it is read in longer pieces */
  COLUMNS = 512,       /* of a block */
  SMALL_B = 96 * 1024, /* elements of a B that fits the second-level cache */
  PART_ROWS = 24,      /* least rows of a part */
  TASK_ROWS = 48,      /* least rows of a task; twice that if B does not fit the second-level cache */
  TASK_COLUMNS = 128,
  TASKS_PER_THREAD = 4,       /* so that threads end at the same time */
  PAGE = 1024,                /* floats in 4 KiB, after which the sets of the first-level cache repeat */
  APART = 16,                 /* extra floats between rows of a copy */
  COPY = ROWS * (DEPTH + 16), /* FEW rows of DEPTH_FEW fit as well */
  THREADS = 64                /* limit of threads in a product */
};

/* Rows are cut into parts, at most as many as threads, and a part into tasks. */
typedef struct Tasks {
  const PanelProduct *p;
  int threads;
  int (*number)(void);          /* number of the calling thread */
  int64_t parts, rows, columns; /* rows and columns of a task */
  int64_t across;               /* tasks side by side */
  struct {
    _Alignas(64) _Atomic int64_t task;
  } next[THREADS]; /* by part */
} Tasks;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t up(int64_t a, int64_t to) { return (a + to - 1) / to * to; }

/* ---- a task */

typedef struct Block {
  const PanelProduct *p;
  int64_t row, rows, column, columns, depth, k;
} Block;

/* Returns rows of A, contiguous.  Rows are also copied if they are a multiple of a page apart, as they would then evict
 * each other and B from the first-level cache. */
static const float *rows_of(const Block *b, float *copy, int64_t *step) {
  const GemmCall *g = b->p->g;
  const float *a = b->p->a + b->row * g->a_m + b->depth * g->a_k;
  bool contiguous = g->a_k == 1 || b->k == 1;
  *step = g->a_m;
  if (contiguous && (g->a_m % PAGE != 0 || b->rows <= 4)) return a;
  *step = b->k + APART;
  for (int64_t r = 0; r < b->rows; r++)
    if (contiguous) memcpy(copy + r * *step, a + r * g->a_m, (size_t)b->k * sizeof *a);
    else
      for (int64_t l = 0; l < b->k; l++) copy[r * *step + l] = a[r * g->a_m + l * g->a_k];
  return copy;
}

/* Returns rows of A as pairs of bf16; `*step`: pairs from row to row. */
static const float *pairs_of(const Block *b, float *copy, int64_t *step) {
  const GemmCall *g = b->p->g;
  const float *a = b->p->a + b->row * g->a_m + b->depth * g->a_k;
  *step = (b->k + 1) / 2 + APART;
  for (int64_t r = 0; r < b->rows; r++)
    gemm_tiles()->pairs(a + r * g->a_m, g->a_k, b->k, (uint16_t *)(void *)(copy + r * *step));
  return copy;
}

/* Returns the address of a panel's row; of bf16 an even one. */
static const void *panel_at(const PanelProduct *p, int64_t column, int64_t depth) {
  const int64_t at = column / PROGRAM_PANEL * p->g->b_panel + depth * PROGRAM_PANEL;
  return (const char *)p->b + at * (int64_t)dtype_bytes(p->g->panels);
}

/* Returns panel i of those after columns j of the block; NULL if this block of columns has no more. */
static const void *panel_after(const Block *b, int64_t j, int64_t i) {
  int64_t depth = b->depth, column = j + i * PROGRAM_PANEL;
  if (j >= b->columns) depth += b->k, column -= j;
  if (depth >= b->p->g->k || column >= b->columns) return NULL;
  return panel_at(b->p, b->column + column, depth);
}

/* True if contiguous whole rows of A follow row `end` of the block.  Their first read is worth more than panels that
 * other rows have read before. */
static bool a_after(const Block *b, int64_t a_m, int64_t end) {
  return a_m == b->k && b->row + end + FEW <= b->p->g->m;
}

/* The panels of a tile stay in the first-level cache while the rows pass; each tile prefetches a part of the next ones.
 * Rows are distributed evenly over tiles. */
static void run_block(const Block *b) {
  const PanelProduct *p = b->p;
  const GemmCall *g = p->g;
  const GemmTiles *tiles = gemm_tiles();
  int64_t n = (b->rows + tiles->rows - 1) / tiles->rows, wide = tiles->panels * PROGRAM_PANEL, a_m;
  float copy[COPY];
  const bool pairs = g->narrow && tiles->pairs != NULL;
  const float *a = pairs ? pairs_of(b, copy, &a_m) : rows_of(b, copy, &a_m);
  for (int64_t j = 0; j < b->columns; j += wide) {
    GemmTile t = {.type = g->panels,
                  .pairs = pairs,
                  .k = pairs ? (b->k + 1) / 2 : b->k,
                  .a_m = a_m,
                  .b_panel = g->b_panel,
                  .c_m = g->c_m,
                  .add = g->accumulate || b->depth > 0};
    t.columns = least(b->columns - j, wide);
    t.b = panel_at(p, b->column + j, b->depth);
    if (b->depth + b->k == g->k) t.epilogue = g->epilogue;
    t.bias = t.epilogue.bias ? (const float *)g->bias + b->column + j : NULL;
    for (int64_t i = 0; i < n; i++) {
      int64_t row = i * b->rows / n, end = (i + 1) * b->rows / n, at = (b->row + row) * g->c_m + b->column + j;
      t.rows = end - row;
      t.a = a + row * a_m;
      t.c = p->c + at;
      t.residual = t.epilogue.residual ? p->residual + at : NULL;
      t.ahead = j == 0 && a_after(b, a_m, end) ? t.a + t.rows * a_m
                : n > 1 && i < tiles->panels   ? panel_after(b, j + wide, i)
                                               : NULL;
      t.next = i + 1 < n ? t.c + t.rows * g->c_m : NULL;
      tiles->run(&t);
    }
  }
}

/* Returns where part `i` of the summed index begins: at an even place, as panels of bf16 have pairs of rows.  No part
 * is longer than the limit of a block: rounded up, border i is at most i times that limit. */
static int64_t border(int64_t k, int64_t i, int64_t parts) { return i == parts ? k : up(i * k / parts, 2); }

/* Tasks side by side come first: threads in different parts work at the same columns of B, which they share. */
static void run_task(const Tasks *t, int64_t row, int64_t rows, int64_t task) {
  const GemmCall *g = t->p->g;
  int64_t column = task % t->across * t->columns, to = least(column + t->columns, g->n);
  int64_t first = task / t->across * t->rows, end = least(first + t->rows, rows);
  int64_t blocks = (end - first + ROWS - 1) / ROWS, deep = end - first > FEW ? DEPTH : DEPTH_FEW,
          parts = (g->k + deep - 1) / deep;
  Block b = {.p = t->p};
  for (b.column = column; b.column < to; b.column += COLUMNS) {
    b.columns = least(to - b.column, COLUMNS);
    for (int64_t j = 0; j < blocks; j++) {
      b.row = row + first + j * (end - first) / blocks;
      b.rows = row + first + (j + 1) * (end - first) / blocks - b.row;
      for (int64_t i = 0; i < parts; i++) {
        b.depth = border(g->k, i, parts), b.k = border(g->k, i + 1, parts) - b.depth;
        run_block(&b);
      }
    }
  }
}

/* ---- all tasks */

/* Chooses so many tasks per part that its threads end at the same time: split by rows, or by columns if there are few
 * rows.  A task has whole pairs of panels, so that every tile but the last is whole. */
static Tasks tasks_of(const PanelProduct *p, int threads) {
  const GemmCall *g = p->g;
  Tasks t = {.p = p, .threads = threads, .parts = most(1, least(g->m / PART_ROWS, threads))};
  int64_t want = threads > 1 ? TASKS_PER_THREAD * threads / t.parts : 1, rows = (g->m + t.parts - 1) / t.parts;
  int64_t by_rows = least(rows / (g->k * g->n <= SMALL_B ? TASK_ROWS : 2 * TASK_ROWS), want);
  t.rows = rows, t.columns = g->n;
  if (by_rows > 1) t.rows = (rows + by_rows - 1) / by_rows;
  else if (threads > 1)
    t.columns = most(g->m > FEW ? TASK_COLUMNS : 2 * PROGRAM_PANEL, up(g->n / want, 2 * PROGRAM_PANEL));
  t.across = (g->n + t.columns - 1) / t.columns;
  return t;
}

/* Takes the tasks of the thread's own part first, then those that other threads have not begun. */
static void take_tasks(Tasks *t, int thread) {
  int64_t home = thread * t->parts / t->threads, m = t->p->g->m;
  for (int64_t i = 0; i < t->parts; i++) {
    int64_t part = (home + i) % t->parts, row = part * m / t->parts, rows = (part + 1) * m / t->parts - row;
    int64_t n = (rows + t->rows - 1) / t->rows * t->across;
    for (int64_t task; (task = atomic_fetch_add_explicit(&t->next[part].task, 1, memory_order_relaxed)) < n;)
      run_task(t, row, rows, task);
  }
}

static void on_thread(void *data) {
  Tasks *t = data;
  take_tasks(t, t->number());
}

void gemm_panels(const PanelProduct *p, const PanelThreads *threads) {
  Tasks t = tasks_of(p, threads ? threads->n < THREADS ? threads->n : THREADS : 1);
  if (!threads || t.threads == 1) {
    take_tasks(&t, 0);
    return;
  }
  t.number = threads->number;
  threads->parallel(on_thread, &t, (unsigned)t.threads, 0);
}

/* ---- packing */

void gemm_panels_pack(DType type, const void *from, const int64_t *numbers, void *to, int64_t panel, int64_t part,
                      int64_t parts) {
  const int64_t k = numbers[0], n = numbers[1], row_step = numbers[2], column_step = numbers[3];
  const int64_t size = (int64_t)dtype_bytes(type), panels = (n + PROGRAM_PANEL - 1) / PROGRAM_PANEL;
  for (int64_t i = part * panels / parts; i < (part + 1) * panels / parts; i++) {
    const int64_t columns = least(n - i * PROGRAM_PANEL, PROGRAM_PANEL);
    const void *first = (const char *)from + i * PROGRAM_PANEL * column_step * size;
    void *out = (char *)to + i * panel * size;
    if (type == DT_f32) gemm_tiles_pack(first, row_step, column_step, k, columns, out);
    else gemm_tiles_pack_16(type, first, row_step, column_step, k, columns, out);
  }
}
