/* runtime/device/gemm_panels.c - see gemm_panels.h.
 *
 * Rows are cut into parts, one for each thread, since what comes before and behind a product is cut so: rows stay in a
 * core's cache.  A part is cut into tasks; a thread that has done its own takes those that others have not begun, so
 * that one that gets no core holds nobody up.  A task goes over blocks of columns and of the summed index, small enough
 * that B's part stays in the second cache while all rows of the task pass, and does what follows the product while its
 * tile of C is in the first.
 */
#include "runtime/device/gemm_panels.h"

#include <stdatomic.h>
#include <string.h>

#include "runtime/device/gemm_tiles.h"
#include "runtime/device/onednn.h"

enum {
  DEPTH = 1024,         /* most of the summed index in a block */
  COLUMNS = 128,        /* of a block: 512 KiB of B with DEPTH */
  SMALL_B = 96 * 1024,  /* elements of B that stay in the second cache whole: then tasks are rows alone */
  PART_ROWS = 24,       /* a part has at least so many */
  ROWS_LEAST = 48,      /* of a task that is rows alone */
  TASKS_PER_THREAD = 4, /* so that they end at the same time */
  TILE_ROWS = 12,       /* at most */
  PAGE = 1024,          /* 4 KiB of floats: the first cache has as many sets */
  COPY = DEPTH + 16,    /* from row to row of a copy */
  THREADS = 64          /* more than that take part in no product */
};

/* Rows are cut into parts, at most as many as threads, and a part into tasks. */
typedef struct Tasks {
  const PanelProduct *p;
  int threads;
  int (*number)(void);          /* of a thread */
  int64_t parts, rows, columns; /* rows and columns of a task */
  int64_t across;               /* tasks beside each other */
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

/* Rows of A that are not contiguous are copied; so are those a multiple of a page apart, which would drive each other
 * out of the first cache. */
static const float *rows_of(const Block *b, int64_t row, int64_t rows, float *copy, int64_t *step) {
  const GemmCall *g = b->p->g;
  const float *a = b->p->a + row * g->a_m + b->depth * g->a_k;
  bool contiguous = g->a_k == 1 || b->k == 1;
  *step = g->a_m;
  if (contiguous && (g->a_m % PAGE != 0 || rows <= 4)) return a;
  for (int64_t r = 0; r < rows; r++)
    if (contiguous) memcpy(copy + r * COPY, a + r * g->a_m, (size_t)b->k * sizeof *a);
    else
      for (int64_t l = 0; l < b->k; l++) copy[r * COPY + l] = a[r * g->a_m + l * g->a_k];
  *step = COPY;
  return copy;
}

/* Rows are shared out evenly among tiles. */
static void run_block(const Block *b) {
  const PanelProduct *p = b->p;
  const GemmCall *g = p->g;
  const GemmTiles *tiles = gemm_tiles();
  int64_t n = (b->rows + tiles->rows - 1) / tiles->rows, wide = tiles->panels * PROGRAM_PANEL;
  float copy[TILE_ROWS * COPY];
  for (int64_t i = 0; i < n; i++) {
    int64_t row = b->row + i * b->rows / n, rows = b->row + (i + 1) * b->rows / n - row;
    GemmTile t = {.rows = rows, .k = b->k, .b_panel = g->b_panel, .c_m = g->c_m, .add = g->accumulate || b->depth > 0};
    t.a = rows_of(b, row, rows, copy, &t.a_m);
    if (b->depth + b->k == g->k) t.epilogue = g->epilogue;
    for (int64_t j = 0; j < b->columns; j += wide) {
      t.columns = least(b->columns - j, wide);
      t.b = p->b + (b->column + j) / PROGRAM_PANEL * g->b_panel + b->depth * PROGRAM_PANEL;
      int64_t at = row * g->c_m + b->column + j;
      t.c = p->c + at;
      t.bias = t.epilogue.bias ? (const float *)g->bias + b->column + j : NULL;
      t.residual = t.epilogue.residual ? p->residual + at : NULL;
      tiles->run(&t);
    }
  }
}

/* Tasks side by side come first: threads in different parts are at the same columns of B, which they share. */
static void run_task(const Tasks *t, int64_t row, int64_t rows, int64_t task) {
  const GemmCall *g = t->p->g;
  int64_t column = task % t->across * t->columns, to = least(column + t->columns, g->n);
  int64_t first = task / t->across * t->rows, parts = (g->k + DEPTH - 1) / DEPTH;
  Block b = {.p = t->p, .row = row + first, .rows = least(t->rows, rows - first)};
  for (b.column = column; b.column < to; b.column += COLUMNS) {
    b.columns = least(to - b.column, COLUMNS);
    for (int64_t i = 0; i < parts; i++) {
      b.depth = i * g->k / parts, b.k = (i + 1) * g->k / parts - b.depth;
      run_block(&b);
    }
  }
}

/* ---- all of them */

/* A part has tasks enough for those who are at home there to end at the same time.  Columns of a task are whole pairs
 * of panels, so that every tile but the last is whole. */
static Tasks tasks_of(const PanelProduct *p, int threads) {
  const GemmCall *g = p->g;
  Tasks t = {.p = p, .threads = threads, .parts = most(1, least(g->m / PART_ROWS, threads))};
  int64_t want = threads > 1 ? TASKS_PER_THREAD * threads / t.parts : 1, rows = (g->m + t.parts - 1) / t.parts;
  if (g->k * g->n <= SMALL_B && rows >= 2 * ROWS_LEAST) {
    t.rows = most(ROWS_LEAST, up(rows / most(want, 2), TILE_ROWS));
    t.columns = g->n;
  } else {
    t.rows = rows;
    t.columns = least(COLUMNS, most(2 * PROGRAM_PANEL, up(g->n / want, 2 * PROGRAM_PANEL)));
  }
  t.across = (g->n + t.columns - 1) / t.columns;
  return t;
}

/* At home first, then where others have not come to. */
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

void gemm_panels_pack(const float *from, int64_t row_step, int64_t column_step, int64_t k, int64_t n, float *to,
                      int64_t panel, int64_t part, int64_t parts) {
  int64_t panels = (n + PROGRAM_PANEL - 1) / PROGRAM_PANEL;
  for (int64_t i = part * panels / parts; i < (part + 1) * panels / parts; i++)
    gemm_tiles_pack(from + i * PROGRAM_PANEL * column_step, row_step, column_step, k,
                    least(n - i * PROGRAM_PANEL, PROGRAM_PANEL), to + i * panel);
}
