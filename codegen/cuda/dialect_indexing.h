/* codegen/cuda/dialect_indexing.h - bodies of the kernels of scatter, put, argsort, topk, scan and within in the
 * dialect.  After dialect.h; indexing.c prints the sizes and expands one macro per kernel.  Shapes are [outer, n,
 * inner] along the axis; values and index are the operands, y the result.
 *
 * Every element of a result has one owner, which combines its terms in the order of the operand: no atomic additions,
 * and the bits of the CPU kernels.  Put, argsort and topk read the whole line for each element: their work is quadratic
 * in its length. */
/* Adjacent names of macros are no statements. */
/* clang-format off */

/* Returns the sum of `count` over the threads before this one; *all is the sum over the 256 threads of the block. */
FN int count_before(int count, int *all, int32_t *sums) {
  int upto = count, before;
  UNROLL for (int w = 1; w < 32; w *= 2) {
    int other = shuffle_i32(upto, (lane_index() - w) & 31);
    upto += lane_index() < w ? 0 : other;
  }
  barrier();
  if (lane_index() == 31) sums[warp_index()] = upto;
  barrier();
  before = upto - count, *all = 0;
  UNROLL for (int w = 0; w < 8; w++) before += w < warp_index() ? sums[w] : 0, *all += sums[w];
  return before;
}

/* Reduces x[outer, k, inner] into y[outer, n, inner] by index[k]: a block has 128 columns of 8 * OWN rows and lists, in
 * ascending order, the indices that name one of these rows, 1024 indices at a time.  Then each warp has every eighth
 * row, and adds what the list names, four elements at a time in flight.  So a block reads the indices once, and a row
 * takes time in proportion to the elements that it sums. */
#define SCATTER(T, stored, type, S, IDENTITY, COMBINE, I, OWN) do { \
    SHARED(int64_t, list, 2048); \
    SHARED(int32_t, sums, 8); \
    int64_t chunks = (inner + 127) / 128, parts = (n + 8 * OWN - 1) / (8 * OWN), job = block_index(); \
    int64_t c = job % chunks * 128 + lane_index(), first = job / chunks % parts * 8 * OWN, o = job / chunks / parts; \
    type acc[OWN][4]; \
    UNROLL for (int u = 0; u < OWN; u++) UNROLL for (int v = 0; v < 4; v++) acc[u][v] = IDENTITY; \
    for (int64_t i = 0; i < k;) { \
      int used = 0; \
      for (; i < k && used <= 1024; i += 1024) { \
        int64_t at = i + 4 * thread_index(), row[4]; \
        int named = 0, all; \
        UNROLL for (int t = 0; t < 4; t++) { \
          row[t] = at + t < k ? (int64_t)load_##I(index + at + t) - start - first : -1; \
          named += row[t] >= 0 && row[t] < 8 * OWN; \
        } \
        int place = used + count_before(named, &all, sums); \
        UNROLL for (int t = 0; t < 4; t++) \
          if (row[t] >= 0 && row[t] < 8 * OWN) list[place++] = (at + t) * (8 * OWN) + row[t]; \
        used += all; \
      } \
      barrier(); \
      UNROLL for (int u = 0; u < OWN; u++) ROLL for (int e = 0; e < used; e += 4) { \
        _Bool named[4]; \
        type r[4][4]; \
        UNROLL for (int t = 0; t < 4; t++) { \
          int64_t entry = e + t < used ? list[e + t] : -1, from = (o * k + entry / (8 * OWN)) * inner + c; \
          named[t] = entry >= 0 && entry % (8 * OWN) == 8 * u + warp_index(); \
          UNROLL for (int v = 0; v < 4; v++) \
            r[t][v] = named[t] && c + 32 * v < inner ? load_##T(values + from + 32 * v) : IDENTITY; \
        } \
        UNROLL for (int t = 0; t < 4; t++) UNROLL for (int v = 0; v < 4; v++) \
          acc[u][v] = named[t] ? COMBINE(acc[u][v], r[t][v]) : acc[u][v]; \
      } \
      barrier(); \
    } \
    UNROLL for (int u = 0; u < OWN; u++) { \
      int64_t row = first + 8 * u + warp_index(); \
      UNROLL for (int v = 0; v < 4; v++) \
        if (row < n && c + 32 * v < inner) store_##T(y + (o * n + row) * inner + c + 32 * v, acc[u][v]); \
    } \
  } while (0)

/* The same with index[outer, k, inner]: a thread has one element of y. */
#define PUT(T, stored, type, S, IDENTITY, COMBINE, I) do { \
    int64_t i = block_index() * 256 + thread_index(), c = i % inner, row = i / inner % n, o = i / inner / n; \
    if (i >= outer * n * inner) return; \
    type acc = IDENTITY; \
    for (int64_t j = 0; j < k; j++) { \
      int64_t at = (o * k + j) * inner + c; \
      if ((int64_t)load_##I(index + at) == start + row) acc = COMBINE(acc, load_##T(values + at)); \
    } \
    store_##T(y + i, acc); \
  } while (0)

/* A thread has a line: adjacent threads have adjacent columns. */
#define SCAN_COLUMNS(T, stored, type, S, IDENTITY, COMBINE) do { \
    int64_t line = block_index() * 256 + thread_index(), first = line / inner * n * inner + line % inner; \
    if (line >= outer * inner) return; \
    type acc = IDENTITY; \
    for (int64_t i = 0; i < n; i++) { \
      int64_t at = first + (reverse ? n - 1 - i : i) * inner; \
      type before = acc; \
      acc = COMBINE(before, load_##T(values + at)); \
      store_##T(y + at, exclusive ? before : acc); \
    } \
  } while (0)

/* inner is 1: a warp loads and stores 32 elements of its line at once and combines them one after another. */
#define SCAN_ROWS(T, stored, type, S, IDENTITY, COMBINE) do { \
    int64_t line = block_index() * 8 + warp_index(); \
    if (line >= outer) return; \
    type acc = IDENTITY; \
    for (int64_t i = 0; i < n; i += 32) { \
      int64_t mine = i + lane_index(), at = line * n + (reverse ? n - 1 - mine : mine); \
      type v = mine < n ? load_##T(values + at) : IDENTITY, result = IDENTITY; \
      UNROLL for (int j = 0; j < 32; j++) { \
        type before = acc; \
        acc = COMBINE(before, shuffle_##S(v, j)); \
        if (lane_index() == j) result = exclusive ? before : acc; \
      } \
      if (mine < n) store_##T(y + at, result); \
    } \
  } while (0)

/* A thread has an element; its position is the number of elements that come before it.  Equal ones keep their order,
 * NaN is the largest. */
#define COMES_BEFORE(p, q) (descending ? (q != q ? 0 : p != p || p > q) : (p != p ? 0 : q != q || p < q))
#define BY_PLACE(T, type, ...) do { \
    int64_t i = block_index() * 256 + thread_index(); \
    if (i >= outer * n * inner) return; \
    int64_t own = i / inner % n, first = i - own * inner, place = 0; \
    const type key = load_##T(values + i); \
    for (int64_t q = 0; q < own; q++) { \
      const type other = load_##T(values + first + q * inner); \
      place += !COMES_BEFORE(key, other); \
    } \
    for (int64_t q = own + 1; q < n; q++) { \
      const type other = load_##T(values + first + q * inner); \
      place += COMES_BEFORE(other, key); \
    } \
    __VA_ARGS__ \
  } while (0)
#define ARGSORT(T, type) BY_PLACE(T, type, y[first + place * inner] = own;)
/* Writes y[outer, k, inner] and z. */
#define TOPK(T, type) BY_PLACE(T, type, { \
    int64_t at = i / inner / n * k * inner + i % inner + place * inner; \
    if (place < k) store_##T(y + at, key), z[at] = own; \
  })

/* program/index_fault.h */
typedef struct IndexNote { int64_t found, value, low, below, rank, place[8], instr; } IndexNote;

/* The state of the current launch: its first element outside, and the number of blocks done.  Between launches both
 * have the values they have here. */
enum { NONE_OUTSIDE = -1 };
typedef struct IndexLook { uint64_t first; uint32_t done; } IndexLook;
STATE(IndexLook, index_look) = {(uint64_t)NONE_OUTSIDE, 0};

/* Copies indices values[n] into y; all must be in [low, below).  A thread has 4 elements.  The last block to finish
 * knows the first one outside, whatever the order of blocks, and notes it for the host, unless an earlier launch has
 * noted one.  If none is outside, it writes only y and the count, and a single block not even the count.  The arguments
 * after T compute place[] of element `at`. */
#define WITHIN(T, ...) do { \
    int64_t from = block_index() * 1024 + thread_index(); \
    uint64_t mine = (uint64_t)NONE_OUTSIDE; \
    UNROLL for (int u = 3; u >= 0; u--) { \
      int64_t i = from + 256 * u, v = i < n ? (int64_t)load_##T(values + i) : low; \
      if (i < n) y[i] = values[i]; \
      if (i < n && (v < low || v >= below)) mine = (uint64_t)i; \
    } \
    if (mine != (uint64_t)NONE_OUTSIDE) least_u64(&index_look.first, mine); \
    barrier(); \
    if (thread_index() || (blocks > 1 && !count_to(&index_look.done, (uint32_t)blocks))) return; \
    int64_t at = (int64_t)least_u64(&index_look.first, (uint64_t)NONE_OUTSIDE), *place = a.note->place; \
    if (at == NONE_OUTSIDE) return; \
    index_look.first = (uint64_t)NONE_OUTSIDE; \
    if (a.note->found) return; \
    a.note->value = (int64_t)load_##T(values + at); \
    a.note->low = low, a.note->below = below, a.note->rank = rank, a.note->instr = a.instr; \
    __VA_ARGS__ \
    a.note->found = 1; \
  } while (0)
