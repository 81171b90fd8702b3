/* codegen/cpu/kernel_grouped.h - grouped_dot on CPUs; part of every generated text, after kernel_templates.h.
 * kernel_grouped.c prints the calls.
 *
 * Row numbers are sorted by group (a counting sort, memory by the number of rows), then every group's rows are
 * multiplied with its matrix in panels of columns: a panel is copied to dense f32 memory, unless few rows would make
 * the copy the larger part of the work.  Every sum runs in the order of k with one rounding per term, whatever threads,
 * tiles and other rows there are: sharding rows, columns or groups over ranks changes no bit.
 */

typedef struct Grouped {
  int64_t rows, k, n, groups, start;
} Grouped;

/* Some rows of one group. */
typedef struct GroupedBlock {
  int64_t group, first, rows; /* order[first] ... */
} GroupedBlock;

#ifdef __AVX512F__
enum { GROUPED_VECTORS = 4 }; /* 6 rows of them are 24 of 32 registers */
#else
enum { GROUPED_VECTORS = 2 }; /* 12 of 16 */
#endif
enum { GROUPED_WIDTH = VECTOR * GROUPED_VECTORS, GROUPED_ROWS = 240, GROUPED_FEW = 6 };

/* Returns the group on this rank of a row with this index; g->groups if none. */
FN int64_t grouped_group(const Grouped *g, int64_t index) {
  int64_t group;
  return __builtin_sub_overflow(index, g->start, &group) || group < 0 || group >= g->groups ? g->groups : group;
}

/* Sorts rows by group, ascending in each, rows of no group last; end[i] is the end of group i. */
static __attribute__((unused)) void grouped_order(const Grouped *g, const int64_t *index, int64_t *order,
                                                  int64_t *end) {
  memset(end, 0, sizeof *end * (size_t)(g->groups + 2));
  for (int64_t r = 0; r < g->rows; r++) end[grouped_group(g, index[r]) + 1]++;
  for (int64_t i = 0; i <= g->groups; i++) end[i + 1] += end[i];
  for (int64_t r = 0; r < g->rows; r++) order[end[grouped_group(g, index[r])]++] = r;
}

/* Lists the blocks: at most groups + rows / GROUPED_ROWS of them. */
static __attribute__((unused)) int64_t grouped_blocks(const Grouped *g, const int64_t *end, GroupedBlock *blocks) {
  int64_t n = 0;
  for (int64_t i = 0; i < g->groups; i++)
    for (int64_t first = i ? end[i - 1] : 0; first < end[i]; first += GROUPED_ROWS)
      blocks[n++] = (GroupedBlock){i, first, end[i] - first < GROUPED_ROWS ? end[i] - first : GROUPED_ROWS};
  return n;
}

/* c += x b for M rows and GROUPED_WIDTH columns, `depth` terms from p on. */
#define GROUPED_TILE(T, stored, M) \
  static __attribute__((unused, noinline)) void grouped_tile##M##_##T( \
      const stored *const *x, int64_t p, const float *b, int64_t b_step, int64_t depth, float *c, int64_t c_step) { \
    vector acc[M][GROUPED_VECTORS]; \
    for (int r = 0; r < M; r++) \
      for (int j = 0; j < GROUPED_VECTORS; j++) acc[r][j] = ((const vector *)(c + r * c_step))[j]; \
    for (int64_t i = p; i < p + depth; i++, b += b_step) { \
      vector line[GROUPED_VECTORS]; \
      for (int j = 0; j < GROUPED_VECTORS; j++) line[j] = vector_at(b + VECTOR * j); \
      for (int r = 0; r < M; r++) { \
        vector a = vector_of(load_##T(x[r] + i)); \
        for (int j = 0; j < GROUPED_VECTORS; j++) acc[r][j] = vector_fma(a, line[j], acc[r][j]); \
      } \
    } \
    for (int r = 0; r < M; r++) \
      for (int j = 0; j < GROUPED_VECTORS; j++) ((vector *)(c + r * c_step))[j] = acc[r][j]; \
  }

#define GROUPED(T, stored) \
  GROUPED_TILE(T, stored, 6) \
  GROUPED_TILE(T, stored, 1) \
  /* The product of a block's rows with `columns` columns of its matrix from `column` on, `most` terms at a time. */ \
  static __attribute__((unused, noinline)) void grouped_block_##T(const Grouped *g, stored *y, const stored *x, \
                                                                  const stored *w, const int64_t *row, int64_t rows, \
                                                                  int64_t column, int64_t columns, int64_t most) { \
    int64_t wide = (columns + GROUPED_WIDTH - 1) / GROUPED_WIDTH * GROUPED_WIDTH; \
    _Bool dense = sizeof(stored) == 4 && wide == columns && rows <= GROUPED_FEW; \
    float *packed = scratch(0, 4 * wide * most), *c = scratch(1, 4 * wide * rows); \
    const stored *at[GROUPED_ROWS]; \
    for (int64_t r = 0; r < rows; r++) at[r] = x + row[r] * g->k; \
    memset(c, 0, (size_t)(4 * wide * rows)); \
    for (int64_t p = 0; p < g->k; p += most) { \
      int64_t depth = g->k - p < most ? g->k - p : most, step = dense ? g->n : wide; \
      const stored *from = w + p * g->n + column; \
      for (int64_t i = 0; i < depth && !dense; i++) \
        for (int64_t j = 0; j < wide; j++) packed[i * wide + j] = j < columns ? load_##T(from + i * g->n + j) : 0; \
      const float *b = dense ? (const float *)from : packed; \
      for (int64_t j = 0; j < wide; j += GROUPED_WIDTH) { \
        int64_t r = 0; \
        for (; r + 6 <= rows; r += 6) grouped_tile6_##T(at + r, p, b + j, step, depth, c + r * wide + j, wide); \
        for (; r < rows; r++) grouped_tile1_##T(at + r, p, b + j, step, depth, c + r * wide + j, wide); \
      } \
    } \
    for (int64_t r = 0; r < rows; r++) \
      for (int64_t j = 0; j < columns; j++) store_##T(y + row[r] * g->n + column + j, c[r * wide + j]); \
  } \
  static __attribute__((unused)) void grouped_##T(stored *y, const stored *x, const int64_t *index, const stored *w, \
                                                  const Grouped *g) { \
    int64_t *end = scratch(2, 8 * (g->groups + 2)), *order = scratch(3, 8 * g->rows + 8), largest = 0; \
    GroupedBlock *blocks = scratch(4, (int64_t)sizeof(GroupedBlock) * (g->groups + g->rows / GROUPED_ROWS + 1)); \
    grouped_order(g, index, order, end); \
    int64_t n = grouped_blocks(g, end, blocks); \
    for (int64_t i = 0; i < n; i++) largest = blocks[i].rows > largest ? blocks[i].rows : largest; \
    for (int64_t i = g->groups ? end[g->groups - 1] : 0; i < g->rows; i++) \
      memset(y + order[i] * g->n, 0, sizeof(stored) * (size_t)g->n); \
    /* Few rows: whole pages of the matrix in sequence, as suits memory.  Many: reused data stays in the cache. */ \
    int64_t wide = largest <= GROUPED_FEW ? 1024 : 128, most = largest <= GROUPED_FEW ? 16 : 256, \
            panels = (g->n + wide - 1) / wide; \
    _Pragma("omp parallel for schedule(static, 1) if (g->rows * g->k * g->n >= PARALLEL_WORK)") for (int64_t i = 0; \
                                                                                                     i < n * panels; \
                                                                                                     i++) { \
      const GroupedBlock *k = &blocks[i % n]; \
      int64_t column = i / n * wide, columns = g->n - column < wide ? g->n - column : wide; \
      grouped_block_##T(g, y, x, w + k->group * g->k * g->n, order + k->first, k->rows, column, columns, most); \
    } \
  }
GROUPED(f32, float)
GROUPED(f16, uint16_t)
GROUPED(bf16, uint16_t)

/* The same row by row in double. */
static __attribute__((unused)) void grouped_f64(double *y, const double *x, const int64_t *index, const double *w,
                                                const Grouped *g) {
#pragma omp parallel for schedule(static) if (g->rows * g->k * g->n >= PARALLEL_WORK)
  for (int64_t r = 0; r < g->rows; r++) {
    int64_t group = grouped_group(g, index[r]);
    double *to = y + r * g->n;
    for (int64_t j = 0; j < g->n; j++) to[j] = 0;
    for (int64_t p = 0; p < g->k && group < g->groups; p++)
      for (int64_t j = 0; j < g->n; j++)
        to[j] = __builtin_fma(x[r * g->k + p], w[(group * g->k + p) * g->n + j], to[j]);
  }
}
