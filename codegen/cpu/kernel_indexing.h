/* codegen/cpu/kernel_indexing.h - loops of scatter, put, argsort, topk, scan and within; part of every generated text,
 * after kernel_pools.h.  kernel_indexing.c expands one macro per kernel.  Shapes are [outer, n, inner] along the
 * axis; threads share lines, never an element, and terms are combined in the order of the operand, in the computed
 * type: the result does not depend on threads. */

enum { COLUMNS = 64 }; /* of the inner dimensions processed at a time */

/* BODY sees o, c0 (first column), cs (columns) and acc[count][cs]. */
#define COLUMN_BLOCKS(type, outer, inner, count, ...) \
  do { \
    int64_t blocks_ = ((inner) + COLUMNS - 1) / COLUMNS, work_ = (outer) * (inner) * (count); \
    _Pragma("omp parallel for schedule(static) if (work_ >= PARALLEL_WORK)") for (int64_t at_ = 0; \
                                                                                  at_ < (outer)*blocks_; at_++) { \
      int64_t o = at_ / blocks_, c0 = at_ % blocks_ * COLUMNS, cs = (inner)-c0 < COLUMNS ? (inner)-c0 : COLUMNS; \
      type *acc = scratch(0, (count)*cs * (int64_t)sizeof(type)); \
      __VA_ARGS__ \
    } \
  } while (0)

/* Reduces x[outer, k, inner] into y[outer, n, inner]; INDEX(i, c): the row of update i, column c. */
#define SCATTER_ROWS(T, stored, type, IDENTITY, COMBINE, INDEX) \
  COLUMN_BLOCKS(type, outer, inner, n, { \
    for (int64_t i = 0; i < n * cs; i++) acc[i] = IDENTITY; \
    for (int64_t i = 0; i < k; i++) \
      for (int64_t c = 0; c < cs; c++) { \
        int64_t row; \
        if (__builtin_sub_overflow((int64_t)(INDEX), start, &row) || row < 0 || row >= n) continue; \
        acc[row * cs + c] = COMBINE(acc[row * cs + c], load_##T(a + (o * k + i) * inner + c0 + c)); \
      } \
    for (int64_t i = 0; i < n; i++) \
      for (int64_t c = 0; c < cs; c++) store_##T(y + (o * n + i) * inner + c0 + c, acc[i * cs + c]); \
  })
#define SCATTER(T, stored, type, IDENTITY, COMBINE, I) SCATTER_ROWS(T, stored, type, IDENTITY, COMBINE, load_##I(b + i))
#define PUT(T, stored, type, IDENTITY, COMBINE, I) \
  SCATTER_ROWS(T, stored, type, IDENTITY, COMBINE, load_##I(b + (o * k + i) * inner + c0 + c))

#define SCAN(T, stored, type, IDENTITY, COMBINE) \
  COLUMN_BLOCKS(type, outer, inner, 1, { \
    for (int64_t c = 0; c < cs; c++) acc[c] = IDENTITY; \
    for (int64_t i = 0; i < n; i++) { \
      int64_t row = (o * n + (reverse ? n - 1 - i : i)) * inner + c0; \
      for (int64_t c = 0; c < cs; c++) { \
        type before = acc[c]; \
        acc[c] = COMBINE(before, load_##T(a + row + c)); \
        store_##T(y + row + c, exclusive ? before : acc[c]); \
      } \
    } \
  })

/* A stable merge sort of the positions of each line; NaN counts as the largest. */
#define SORTS_BEFORE(p, q) \
  (descending ? (key[q] != key[q] ? 0 : key[p] != key[p] || key[p] > key[q]) \
              : (key[p] != key[p] ? 0 : key[q] != key[q] || key[p] < key[q]))
/* BODY sees the line's first element of a, its elements key[0 ... n) and their positions from[0 ... n). */
#define EACH_LINE(T, type, ...) \
  do { \
    _Pragma("omp parallel for schedule(static) if (outer * inner * n >= PARALLEL_WORK)") for (int64_t line = 0; \
                                                                                              line < outer * inner; \
                                                                                              line++) { \
      int64_t first = line / inner * n * inner + line % inner; \
      type *key = scratch(0, n * (int64_t)sizeof(type)); \
      int64_t *from = scratch(1, 2 * n * (int64_t)sizeof(int64_t)), *to = from + n; \
      for (int64_t i = 0; i < n; i++) key[i] = load_##T(a + first + i * inner), from[i] = i; \
      __VA_ARGS__ \
    } \
  } while (0)
#define SORT_LINE() \
  for (int64_t width = 1; width < n; width *= 2) { \
    for (int64_t lo = 0; lo < n; lo += 2 * width) { \
      int64_t mid = lo + width < n ? lo + width : n, hi = lo + 2 * width < n ? lo + 2 * width : n, p = lo, q = mid; \
      for (int64_t i = lo; i < hi; i++) \
        to[i] = p < mid && (q >= hi || !SORTS_BEFORE(from[q], from[p])) ? from[p++] : from[q++]; \
    } \
    int64_t *swap = from; \
    from = to, to = swap; \
  }
/* Keeps the first k in from[], inserting each in order: few are inserted once the largest were seen. */
#define SELECT_LINE() \
  for (int64_t i = 0, found = 0; i < n; i++) { \
    if (found == k && !SORTS_BEFORE(i, from[k - 1])) continue; \
    int64_t at = found < k ? found++ : k - 1; \
    for (; at > 0 && SORTS_BEFORE(i, from[at - 1]); at--) from[at] = from[at - 1]; \
    from[at] = i; \
  }
#define ARGSORT(T, type) \
  EACH_LINE(T, type, { \
    SORT_LINE() \
    for (int64_t i = 0; i < n; i++) y[first + i * inner] = from[i]; \
  })
enum { SELECT_MOST = 128 }; /* above this, sorting all is cheaper than so many insertions */
#define TOPK(T, type) \
  EACH_LINE(T, type, { \
    int64_t at = line / inner * k * inner + line % inner; \
    if (k > SELECT_MOST) SORT_LINE() \
    else if (k > 0) SELECT_LINE() \
    for (int64_t i = 0; i < k; i++) { \
      store_##T(y + at + i * inner, key[from[i]]); \
      z[at + i * inner] = from[i]; \
    } \
  })

/* ---- within: indices y = a[n], all of which must be in [low, below) */

/* The first that is not, program/index_fault.h: the caller of the kernel checks it. */
typedef struct IndexFault {
  int64_t found, value, low, below, rank, place[8];
} IndexFault;
extern IndexFault apc_index_fault;
__attribute__((weak)) IndexFault apc_index_fault;

static __attribute__((unused, noinline)) void note_outside(int64_t at, const IndexFault *fault, const int64_t *extent,
                                                           const int64_t *start) {
  IndexFault *f = &apc_index_fault;
  if (f->found) return;
  *f = *fault;
  for (int64_t d = f->rank - 1; d >= 0; at /= extent[d--]) f->place[d] = start[d] + at % extent[d];
}

enum { WITHIN_PIECE = 16384 };
#define WITHIN(T) \
  do { \
    int64_t pieces = (n + WITHIN_PIECE - 1) / WITHIN_PIECE, outside = 0; \
    _Pragma("omp parallel for schedule(static) if (n >= PARALLEL_WORK)") for (int64_t p_ = 0; p_ < pieces; p_++) { \
      int64_t to_ = n - p_ * WITHIN_PIECE < WITHIN_PIECE ? n : (p_ + 1) * WITHIN_PIECE; \
      int bad_ = 0; \
      for (int64_t i = p_ * WITHIN_PIECE; i < to_; i++) { \
        int64_t v_ = (int64_t)load_##T(a + i); \
        bad_ |= v_ < low || v_ >= below; \
        y[i] = a[i]; \
      } \
      if (bad_) __atomic_store_n(&outside, 1, __ATOMIC_RELAXED); \
    } \
    for (int64_t i = 0; i < n && outside; i++) { \
      int64_t v_ = (int64_t)load_##T(a + i); \
      if (v_ >= low && v_ < below) continue; \
      note_outside(i, &(IndexFault){1, v_, low, below, rank, {0}}, extent, start); \
      outside = 0; \
    } \
  } while (0)
