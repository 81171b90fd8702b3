/* codegen/cuda/dialect_grouped.h - grouped_dot in the dialect.  After dialect.h; grouped.c prints the calls.
 *
 * A block of 256 threads has 32 columns of one group's matrix, or of the rows of no group, which become zeros.  It
 * selects its rows, 32 at a time in ascending order, and multiplies them through shared memory, 8 terms at a time.
 * Every sum runs in the order of k with one rounding per term, as on CPUs.  No tensor cores, and the blocks of a group
 * with many rows work longer than others.
 */
/* Adjacent names of macros are no statements. */
/* clang-format off */

typedef struct Grouped {
  int64_t rows, k, n, groups, start;
} Grouped;

FN int64_t grouped_group(const Grouped *g, int64_t index) {
  int64_t group = (int64_t)((uint64_t)index - (uint64_t)g->start);
  _Bool wraps = ((index ^ g->start) & (index ^ group)) < 0;
  return wraps || group < 0 || group >= g->groups ? g->groups : group;
}

FN float fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
FN double fma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }

/* Returns the sum over the lanes before this one. */
FN int lanes_before(int v) {
  int sum = v;
  UNROLL for (int w = 1; w < 32; w *= 2) {
    int other = shuffle_i32(sum, (lane_index() - w) & 31);
    if (lane_index() >= w) sum += other;
  }
  return sum - v;
}

/* 256 threads: each loads one element of each factor */
enum { GROUPED_ROWS = 32, GROUPED_COLUMNS = 32, GROUPED_DEPTH = 8 };

#define GROUPED(T, stored, C, type) \
  FN void grouped_##T(const Grouped *g, stored *y, const stored *x, const int64_t *index, const stored *w) { \
    SHARED(int64_t, row, GROUPED_ROWS); \
    SHARED(type, a, GROUPED_DEPTH * GROUPED_ROWS); \
    SHARED(type, b, GROUPED_DEPTH * GROUPED_COLUMNS); \
    int64_t panels = (g->n + GROUPED_COLUMNS - 1) / GROUPED_COLUMNS, group = block_index() / panels, \
        column = block_index() % panels * GROUPED_COLUMNS; \
    int64_t terms = group < g->groups ? g->k : 0; \
    int across = thread_index() % 8, down = thread_index() / 8; \
    w += (group < g->groups ? group : 0) * g->k * g->n; \
    for (int64_t next = 0; next < g->rows;) { \
      int count = 0; \
      while (next < g->rows && count < GROUPED_ROWS) { /* every warp finds the same rows */ \
        int64_t mine = next + lane_index(); \
        int own = mine < g->rows && grouped_group(g, index[mine]) == group, place = count + lanes_before(own), \
            taken = place + own <= GROUPED_ROWS; \
        if (own && taken && warp_index() == 0) row[place] = mine; \
        count += warp_sum_i32(taken ? own : 0); \
        next += warp_sum_i32(taken); \
      } \
      barrier(); \
      type sum[4]; \
      UNROLL for (int c = 0; c < 4; c++) sum[c] = 0; \
      for (int64_t p = 0; p < terms && count; p += GROUPED_DEPTH) { \
        int deep = thread_index() % GROUPED_DEPTH, r = thread_index() / GROUPED_DEPTH; \
        a[deep * GROUPED_ROWS + r] = r < count && p + deep < terms ? load_##T(x + row[r] * g->k + p + deep) : 0; \
        int64_t d = p + thread_index() / GROUPED_COLUMNS, c = column + thread_index() % GROUPED_COLUMNS; \
        b[thread_index()] = d < terms && c < g->n ? load_##T(w + d * g->n + c) : 0; \
        barrier(); \
        UNROLL for (int i = 0; i < GROUPED_DEPTH; i++) \
          UNROLL for (int j = 0; j < 4; j++) \
              sum[j] = fma_##C(a[i * GROUPED_ROWS + down], b[i * GROUPED_COLUMNS + across + 8 * j], sum[j]); \
        barrier(); \
      } \
      UNROLL for (int j = 0; j < 4; j++) \
        if (down < count && column + across + 8 * j < g->n) \
            store_##T(y + row[down] * g->n + column + across + 8 * j, sum[j]); \
      barrier(); \
    } \
  }
GROUPED(f32, float, f32, float)
GROUPED(f64, double, f64, double)
GROUPED(f16, uint16_t, f32, float)
GROUPED(bf16, uint16_t, f32, float)
