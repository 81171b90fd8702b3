/* codegen/cuda/dialect_attention_grad.h - the gradients of attention in the dialect.  After dialect_attention.h;
 * attention.c prints the calls.
 *
 * A row of the result belongs to a query, key or value: its own row.  The rows summed into it, keys or queries, are the
 * others; their factors, the weights, are recomputed from scores, the largest of each query and the sum (Dao,
 * "FlashAttention-2", 2023): exp(score - max) / sum.  A score that another order of its sum makes larger than the
 * largest counts as that.  No score is stored and nothing is added atomically: a row's bits depend on its operands and
 * the variant alone.
 *
 * One launch computes all gradients of an attention: each block those of queries, of keys or of values.  On tensor
 * cores with heads of at most 64, a block computes those of keys and values together, from the same scores.
 */
/* Adjacent names of macros are no statements. */
/* clang-format off */

typedef struct AttentionGrad {
  char of; /* q, k or v; b: keys and values */
  const void *o, *max, *sum, *d;
  Lines of_o, of_d;
} AttentionGrad;

/* ---- a warp has a row of the result and up to 256 elements of it; it reads 32 others at a time, one per lane */

#define ATTENTION_GRAD(T, stored, C, type) \
  /* The factor of the other row in the sum of query `row` of all: the weight, or the gradient of the score. */ \
  FN type grad_pair_##T(const Attention *a, const AttentionGrad *g, const stored *query, const stored *keys, \
      const stored *values, type scale, int64_t row, int64_t key) { \
    int64_t group = row / a->rows, i = row % a->rows; \
    type sum = ((const type *)g->sum)[row], score = 0, change = 0; \
    if (attention_where(a, key) > attention_last(a, i) || sum == 0) return 0; \
    const stored *d = (const stored *)g->d + lines_of(&g->of_d, group) + line_at(&g->of_d, i); \
    const stored *o = (const stored *)g->o + lines_of(&g->of_o, group) + line_at(&g->of_o, i); \
    query += lines_of(&a->of_query, group) + line_at(&a->of_query, i); \
    keys += lines_of(&a->of_keys, group) + line_at(&a->of_keys, key); \
    values += lines_of(&a->of_values, group) + line_at(&a->of_values, key); \
    for (int64_t c = 0; c < a->k; c++) score += load_##T(query + c) * scale * load_##T(keys + c); \
    if (a->bias) score += load_##T((const stored *)a->bias + attention_bias_row(a, row) + key); \
    score -= ((const type *)g->max)[row]; \
    score = exp_##C(score > 0 ? 0 : score) / sum; \
    if (g->of == 'v') return score; \
    for (int64_t c = 0; c < a->e; c++) change += load_##T(d + c) * (load_##T(values + c) - load_##T(o + c)); \
    return score * change * scale; \
  } \
  FN void attention_grad_row_##T(const Attention *a, const AttentionGrad *g, stored *out, const stored *query, \
      const stored *keys, const stored *values, type scale, int64_t block) { \
    int of_query = g->of == 'q'; \
    int64_t own = of_query ? a->rows : a->t, others = of_query ? a->t : a->rows, n = g->of == 'v' ? a->e : a->k; \
    int64_t chunks = n > 256 ? (n + 255) / 256 : 1, job = block * 4 + warp_index(); \
    if (job >= a->groups * own * chunks) return; \
    int64_t mine = job / chunks, first = job % chunks * 256 + lane_index(), group = mine / own; \
    int left = (int)(n - first < 256 ? n - first : 256); \
    const Lines lines = of_query ? a->of_keys : g->of == 'k' ? a->of_query : g->of_d; \
    const stored *from = of_query ? keys : g->of == 'k' ? query : (const stored *)g->d; \
    from += lines_of(&lines, group) + first; \
    out += lines_of(&a->of_result, group) + line_at(&a->of_result, mine % own) + first; \
    type result[8]; \
    UNROLL for (int i = 0; i < 8; i++) result[i] = 0; \
    for (int64_t other = 0; other < others; other += 32) { \
      int64_t one = other + lane_index(); \
      type weight = 0; \
      if (one < others) \
        weight = grad_pair_##T(a, g, query, keys, values, scale, of_query ? mine : group * a->rows + one, \
            of_query ? one : mine % own); \
      ROLL for (int j = 0; j < 32 && other + j < others; j++) { \
        type w = shuffle_##C(weight, j); \
        const stored *line = from + line_at(&lines, other + j); \
        UNROLL for (int i = 0; i < 8; i++) \
          if (32 * i < left) result[i] += w * load_##T(line + 32 * i); \
      } \
    } \
    UNROLL for (int i = 0; i < 8; i++) \
      if (32 * i < left) store_##T(out + 32 * i, result[i]); \
  }
ATTENTION_GRAD(f32, float, f32, float)
ATTENTION_GRAD(f64, double, f64, double)
ATTENTION_GRAD(f16, uint16_t, f32, float)
ATTENTION_GRAD(bf16, uint16_t, f32, float)

/* ---- tiles: 64 own rows against 64 others at a time; in f32, or on tensor cores */

/* Finds the first 64 queries from t on one of which sees an own key, the first of which is at `lowest`, the last at
 * `highest`; the last positions that they see are valid after the next barrier.  `whole`: all of them see all keys.
 * Every warp finds the same. */
FN int64_t attention_next_queries(const Attention *a, int64_t t, int64_t lowest, int64_t highest, int64_t *last,
                                  int *whole) {
  *whole = 0;
  for (; t < a->rows; t += 64) {
    int64_t one = attention_last(a, t + lane_index()), two = attention_last(a, t + 32 + lane_index());
    if (!warp_max_i32(one >= lowest || two >= lowest)) continue;
    if (warp_index() == 0) last[lane_index()] = one, last[32 + lane_index()] = two;
    *whole = !warp_max_i32(one < highest || two < highest);
    break;
  }
  return t;
}

/* The pairs of 64 own rows with 64 others.  `of_query`: own rows are queries. */
typedef struct AttentionPairs {
  _Bool of_query;
  int64_t group, own, others, first; /* rows of the group; its first own row here */
  int64_t lowest, highest;
  int64_t *where, *last, *bias_row; /* of 64 keys, of 64 queries */
} AttentionPairs;

/* Sets sizes, and the data of the own rows, valid after the next barrier.  Own rows with most others come first. */
FN void attention_pairs(AttentionPairs *p, const Attention *a, int64_t job) {
  int64_t tiles, tile;
  p->own = p->of_query ? a->rows : a->t, p->others = p->of_query ? a->t : a->rows;
  tiles = (p->own + 63) / 64, tile = job % tiles, p->group = job / tiles;
  p->first = (p->of_query ? tiles - 1 - tile : tile) * 64;
  if (p->of_query) {
    p->highest = attention_lasts(a, p->group, p->first, p->last, p->bias_row);
    p->lowest = attention_lowest(a, p->first);
  } else {
    int64_t one = attention_where(a, p->first + lane_index()), two = attention_where(a, p->first + 32 + lane_index());
    if (warp_index() == 0) p->where[lane_index()] = one, p->where[32 + lane_index()] = two;
    p->lowest = warp_min_i64(one < two ? one : two), p->highest = warp_max_i64(one < two ? two : one);
  }
}

/* Finds others from t on that pair with own rows. */
FN int64_t attention_others(const AttentionPairs *p, const Attention *a, int64_t t, int *whole) {
  if (p->of_query) return attention_next(a, t, p->lowest, p->highest, p->where, whole);
  t = attention_next_queries(a, t, p->lowest, p->highest, p->last, whole);
  int64_t row = p->group * a->rows + t + thread_index();
  if (thread_index() < 64 && a->bias) p->bias_row[thread_index()] = attention_bias_row(a, row);
  return t;
}

/* The query and key of an own row and another one, as rows of the tiles; the index of their bias, -1 if one of them is
 * absent. */
FN int attention_query(const AttentionPairs *p, int own, int other) { return p->of_query ? own : other; }
FN int attention_key(const AttentionPairs *p, int own, int other) { return p->of_query ? other : own; }
FN int64_t attention_bias_at(const AttentionPairs *p, const Attention *a, int64_t t, int own, int other) {
  int64_t key = p->of_query ? t + other : p->first + own;
  if (p->first + own >= p->own || t + other >= p->others) return -1;
  return p->bias_row[attention_query(p, own, other)] + key;
}

/* Returns the largest score of a query; infinity if it gets 0, so that all weights are 0. */
FN float attention_top(const AttentionGrad *g, int64_t row, _Bool there) {
  return there && ((const float *)g->sum)[row] != 0 ? ((const float *)g->max)[row] : __builtin_inff();
}
/* Returns `factor` over the sum of a query; 0 if it gets 0. */
FN float attention_share(const AttentionGrad *g, int64_t row, _Bool there, float factor) {
  float sum = there ? ((const float *)g->sum)[row] : 0;
  return sum == 0 ? 0 : factor / sum;
}

#define ATTENTION_GRAD_TILES(T, stored) \
  /* d times o of 64 queries of a group, by the 256 threads; their largest scores; and `factor` over their sums */ \
  FN void attention_grad_sums_##T(float *tops, float *shares, float *deltas, const Attention *a, \
      const AttentionGrad *g, int64_t group, int64_t first, float factor, _Bool change) { \
    int mine = thread_index() / 4; \
    int64_t row = first + mine, e = a->e; \
    const stored *from = (const stored *)g->d + lines_of(&g->of_d, group) + line_at(&g->of_d, row); \
    const stored *result = (const stored *)g->o + lines_of(&g->of_o, group) + line_at(&g->of_o, row); \
    float delta = 0; \
    ROLL for (int64_t i = thread_index() % 4 * 4; change && row < a->rows && i < e; i += 16) { \
      float d[4], o[4]; \
      load4_##T(d, from + i, e - i < 4 ? e - i : 4); \
      load4_##T(o, result + i, e - i < 4 ? e - i : 4); \
      UNROLL for (int j = 0; j < 4; j++) delta = fused_f32(d[j], o[j], delta); \
    } \
    delta = quad_sum(delta); \
    if (thread_index() % 4 != 0) return; \
    deltas[mine] = delta, tops[mine] = attention_top(g, group * a->rows + row, row < a->rows); \
    shares[mine] = attention_share(g, group * a->rows + row, row < a->rows, factor); \
  } \
  /* 4 x 4 products of 64 rows with 64 rows */ \
  FN void attention_products_##T(float (*r)[4], float *both, const stored *own, const Lines *of_own, int64_t first, \
      int64_t rows, const stored *other, const Lines *of_other, int64_t t, int64_t others, int64_t width, \
      float scale) { \
    const int x = thread_index() % 16, y = thread_index() / 16; \
    UNROLL for (int i = 0; i < 16; i++) r[i / 4][i % 4] = 0; \
    int64_t deep = 0; \
    do { \
      barrier(); \
      attention_load_##T(both, own, of_own, first, rows, width, deep, scale); \
      attention_load_##T(both + ATTENTION_HALF, other, of_other, t, others, width, deep, 1); \
      barrier(); \
      ROLL for (int some = 0; some < ATTENTION_DEPTH; some += 2) UNROLL for (int d = some; d < some + 2; d++) { \
        float q[4], k[4]; \
        load_wide(q, both + tile_place(some, 4 * y) + 64 * (d - some), 16); \
        load_wide(k, both + ATTENTION_HALF + tile_place(some, 4 * x) + 64 * (d - some), 16); \
        UNROLL for (int i = 0; i < 4; i++) \
          UNROLL for (int j = 0; j < 4; j++) r[i][j] = fused_f32(q[i], k[j], r[i][j]); \
      } \
      deep += ATTENTION_DEPTH; \
    } while (deep < width); \
  } \
  /* a block of 256 threads per 64 own rows and 64 elements of the result of each */ \
  FN void attention_grad_tile_##T(const Attention *a, const AttentionGrad *g, stored *out, const stored *query, \
      const stored *keys, const stored *values, float scale, int64_t block) { \
    SHARED(float, both, 2 * ATTENTION_HALF); \
    SHARED(float, weights, 64 * 64); \
    SHARED(float, tops, 64); \
    SHARED(float, shares, 64); \
    SHARED(float, deltas, 64); \
    SHARED(int64_t, where, 64); \
    SHARED(int64_t, last, 64); \
    SHARED(int64_t, bias_row, 64); \
    AttentionPairs p; \
    p.of_query = g->of == 'q', p.where = where, p.last = last, p.bias_row = bias_row; \
    const int x = thread_index() % 16, y = thread_index() / 16; \
    int64_t n = g->of == 'v' ? a->e : a->k, panels = n > 64 ? (n + 63) / 64 : 1, panel = block % panels; \
    attention_pairs(&p, a, block / panels); \
    const stored *d = (const stored *)g->d + lines_of(&g->of_d, p.group); \
    query += lines_of(&a->of_query, p.group), keys += lines_of(&a->of_keys, p.group); \
    values += lines_of(&a->of_values, p.group), out += lines_of(&a->of_result, p.group); \
    const stored *own = p.of_query ? query : keys, *other = p.of_query ? keys : query; \
    const stored *from = p.of_query ? keys : g->of == 'k' ? query : d; \
    /* copies: pointers that depend on g would keep all of `a` in local memory */ \
    const Lines of_own = p.of_query ? a->of_query : a->of_keys, of_other = p.of_query ? a->of_keys : a->of_query; \
    const Lines of_from = p.of_query ? a->of_keys : g->of == 'k' ? a->of_query : g->of_d; \
    const Lines of_mine = p.of_query ? g->of_d : a->of_values, of_others = p.of_query ? a->of_values : g->of_d; \
    float result[4][4]; \
    UNROLL for (int i = 0; i < 16; i++) result[i / 4][i % 4] = 0; \
    const float factor = g->of == 'v' ? 1 : scale; \
    if (p.of_query) attention_grad_sums_##T(tops, shares, deltas, a, g, p.group, p.first, factor, 1); \
    for (int64_t t = 0; t < p.others; t += 64) { \
      int whole; \
      barrier(); /* the previous tile is done */ \
      t = attention_others(&p, a, t, &whole); \
      if (t >= p.others) break; \
      if (!p.of_query) attention_grad_sums_##T(tops, shares, deltas, a, g, p.group, t, factor, g->of == 'k'); \
      float score[4][4], change[4][4]; \
      attention_products_##T(score, both, own, &of_own, p.first, p.own, other, &of_other, t, p.others, a->k, scale); \
      if (g->of != 'v') \
        attention_products_##T(change, both, p.of_query ? d : values, &of_mine, p.first, p.own, \
            p.of_query ? values : d, &of_others, t, p.others, a->e, 1); \
      UNROLL for (int j = 0; j < 4; j++) \
        UNROLL for (int i = 0; i < 4; i++) { \
          int q = attention_query(&p, 4 * y + i, 4 * x + j), k = attention_key(&p, 4 * y + i, 4 * x + j); \
          int64_t bias = a->bias ? attention_bias_at(&p, a, t, 4 * y + i, 4 * x + j) : -1; \
          float s = score[i][j] + (bias >= 0 ? load_##T((const stored *)a->bias + bias) : 0) - tops[q]; \
          float w = exp_f32(s > 0 ? 0 : s) * shares[q]; \
          if (g->of != 'v') w *= change[i][j] - deltas[q]; \
          weights[tile_place(4 * x + j, 4 * y) + i] = whole || where[k] <= last[q] ? w : 0; \
        } \
      barrier(); /* products are done, and weights are stored */ \
      attention_values_##T(both, from, &of_from, t, p.others, n, panel * 64, 64); \
      barrier(); \
      ROLL for (int some = 0; some < 64; some += 2) UNROLL for (int row = some; row < some + 2; row++) { \
        float w[4], v[4]; \
        load_wide(w, weights + tile_place(some, 4 * y) + 64 * (row - some), 16); \
        load_wide(v, both + row * 64 + 4 * x, 16); \
        UNROLL for (int i = 0; i < 4; i++) \
          UNROLL for (int c = 0; c < 4; c++) result[i][c] = fused_f32(w[i], v[c], result[i][c]); \
      } \
    } \
    UNROLL for (int i = 0; i < 4; i++) { \
      int64_t row = p.first + 4 * y + i, column = panel * 64 + 4 * x, left = n - column; \
      if (row < p.own && left > 0) \
        store4_##T(out + line_at(&a->of_result, row) + column, result[i], left < 4 ? left : 4); \
    } \
  }
ATTENTION_GRAD_TILES(f32, float)
ATTENTION_GRAD_TILES(f16, uint16_t)
ATTENTION_GRAD_TILES(bf16, uint16_t)

/* Tensor cores: a block of 4 warps has 64 own rows, 16 per warp, which stay in registers as the results do.  Others
 * pass through shared memory, 64 at a time, laid out as in attention_tensor, and are processed 32 at a time.  Weights
 * are rounded to 16 bits before they are multiplied.
 *
 * `both`: 64 * (16 * ks + 8 + 16 * es + 8) numbers; numbers: 192; places: 192. */
#define ATTENTION_GRAD_TENSOR(T) \
  /* the largest scores of 64 queries, d, which is in shared memory, times o, and `factor` over sums; 128 threads */ \
  FN void attention_grad_tensor_sums_##T(float *numbers, const Attention *a, const AttentionGrad *g, int64_t group, \
      int64_t first, const uint16_t *d, const int stride, float factor, _Bool change) { \
    int mine = thread_index() / 2; \
    int64_t row = first + mine, e = a->e; \
    const uint16_t *result = (const uint16_t *)g->o + lines_of(&g->of_o, group) + line_at(&g->of_o, row); \
    float delta = 0; \
    ROLL for (int64_t i = thread_index() % 2 * 8; change && row < a->rows && i < e; i += 16) { \
      float o[8]; \
      load8_##T(o, result + i, e - i < 8 ? e - i : 8); \
      UNROLL for (int j = 0; j < 8; j++) delta = fused_f32(load_##T(d + mine * stride + i + j), o[j], delta); \
    } \
    delta += shuffle_f32(delta, lane_index() ^ 1); \
    if (thread_index() % 2 != 0) return; \
    numbers[mine] = attention_top(g, group * a->rows + row, row < a->rows) * attention_unit(a); \
    numbers[64 + mine] = delta; \
    numbers[128 + mine] = attention_share(g, group * a->rows + row, row < a->rows, factor); \
  } \
  /* adds the products of 16 x 32 factors of a warp with 32 rows of 16 * ns numbers in shared memory */ \
  FN void attention_grad_add_##T(float (*result)[4], float (*factors)[4], const int ns, const uint16_t *rows, \
      const int stride) { \
    const int lane = lane_index(); \
    UNROLL for (int s = 0; s < 2; s++) { \
      uint32_t w[4]; \
      UNROLL for (int i = 0; i < 4; i++) \
        w[i] = pack_##T(factors[2 * s + i / 2][i % 2 * 2], factors[2 * s + i / 2][i % 2 * 2 + 1]); \
      UNROLL for (int i = 0; i < ns; i++) { \
        uint32_t b[4]; \
        load_matrices_turned(b, rows + (16 * s + lane % 16) * stride + 16 * i + lane / 16 * 8); \
        tensor_##T(result[2 * i], w, b); \
        tensor_##T(result[2 * i + 1], w, b + 2); \
      } \
    } \
  } \
  /* stores the 16 rows of a warp, which gathers them in `both` first; `here` of the 64 rows exist */ \
  FN void attention_grad_store_##T(uint16_t *out, const Lines *lines, float (*result)[4], uint16_t *both, \
      const int ns, int64_t n, int64_t first, int here, _Bool wide) { \
    const int lane = lane_index(), pair = lane % 4 * 2, row = 16 * warp_index() + lane / 4, stride = 16 * ns + 8; \
    UNROLL for (int r = 0; r < 2; r++) \
      UNROLL for (int i = 0; i < 2 * ns; i++) \
        *(uint32_t *)(both + (row + 8 * r) * stride + 8 * i + pair) = \
            pack_##T(result[i][2 * r], result[i][2 * r + 1]); \
    warp_barrier(); \
    ROLL for (int i = lane; i < 32 * ns; i += 32) { \
      int line = 16 * warp_index() + i / (2 * ns), at = i % (2 * ns) * 8; \
      if (line >= here || at >= n) continue; \
      uint16_t *to = out + line_at(lines, first + line) + at; \
      if (wide) store_wide(to, both + line * stride + at, 16); \
      else \
        for (int j = 0; j < 8 && at + j < n; j++) to[j] = both[line * stride + at + j]; \
    } \
  } \
  FN void attention_grad_tensor_##T(const Attention *a, const AttentionGrad *g, uint16_t *out, const uint16_t *query, \
      const uint16_t *keys, const uint16_t *values, float scale, int64_t block, const int of, const int ks, \
      const int es, uint16_t *both, float *numbers, int64_t *places, uint16_t *more, const Lines *of_more) { \
    const int kstride = 16 * ks + 8, estride = 16 * es + 8, lane = lane_index(), pair = lane % 4 * 2; \
    const int ns = of == 'v' ? es : ks, nstride = 16 * ns + 8, row = 16 * warp_index() + lane / 4; \
    uint16_t *first_tile = both, *second_tile = both + 64 * kstride; \
    AttentionPairs p; \
    p.of_query = of == 'q', p.where = places, p.last = places + 64, p.bias_row = places + 128; \
    attention_pairs(&p, a, block); \
    int64_t n = of == 'v' ? a->e : a->k; \
    int here = p.own - p.first < 64 ? (int)(p.own - p.first) : 64; \
    const uint16_t *d = (const uint16_t *)g->d + lines_of(&g->of_d, p.group); \
    query += lines_of(&a->of_query, p.group), keys += lines_of(&a->of_keys, p.group); \
    values += lines_of(&a->of_values, p.group), out += lines_of(&a->of_result, p.group); \
    if (of == 'b') more += lines_of(of_more, p.group); \
    _Bool wide = a->k % 8 == 0 && a->e % 8 == 0 && lines_wide(&a->of_query) && lines_wide(&a->of_keys) && \
        lines_wide(&a->of_values) && lines_wide(&g->of_d) && lines_wide(&a->of_result) && \
        ((uintptr_t)query | (uintptr_t)keys | (uintptr_t)values | (uintptr_t)d | (uintptr_t)out) % 16 == 0; \
    if (of == 'b') wide = wide && lines_wide(of_more) && (uintptr_t)more % 16 == 0; \
    const uint16_t *own = p.of_query ? query : keys, *other = p.of_query ? keys : query; \
    const uint16_t *own_values = p.of_query ? d : values, *other_values = p.of_query ? values : d; \
    const Lines *of_own = p.of_query ? &a->of_query : &a->of_keys; \
    const Lines *of_other = p.of_query ? &a->of_keys : &a->of_query; \
    const Lines *of_own_values = p.of_query ? &g->of_d : &a->of_values; \
    const Lines *of_other_values = p.of_query ? &a->of_values : &g->of_d; \
    attention_copy(first_tile, kstride, own, of_own, p.first, here, a->k, ks, wide); \
    if (of != 'v') attention_copy(second_tile, estride, own_values, of_own_values, p.first, here, a->e, es, wide); \
    copy_wait(); \
    barrier(); \
    uint32_t mine[8][4], mine_values[8][4]; \
    UNROLL for (int s = 0; s < ks; s++) \
      load_matrices(mine[s], first_tile + (16 * warp_index() + lane % 16) * kstride + 16 * s + lane / 16 * 8); \
    UNROLL for (int s = 0; of != 'v' && s < es; s++) \
      load_matrices(mine_values[s], second_tile + (16 * warp_index() + lane % 16) * estride + 16 * s + lane / 16 * 8); \
    const float factor = of == 'v' || of == 'b' ? 1 : scale; \
    if (of == 'q') \
      attention_grad_tensor_sums_##T(numbers, a, g, p.group, p.first, second_tile, estride, factor, 1); \
    float result[16][4], of_values[16][4]; /* of values: with of == 'b' */ \
    UNROLL for (int i = 0; i < 64; i++) result[i / 4][i % 4] = of_values[i / 4][i % 4] = 0; \
    for (int64_t t = 0; t < p.others; t += 64) { \
      int whole; \
      barrier(); /* the previous tile is done */ \
      t = attention_others(&p, a, t, &whole); \
      if (t >= p.others) break; \
      attention_copy(first_tile, kstride, other, of_other, t, p.others - t, a->k, ks, wide); \
      attention_copy(second_tile, estride, other_values, of_other_values, t, p.others - t, a->e, es, wide); \
      copy_wait(); \
      barrier(); \
      if (of != 'q') { \
        attention_grad_tensor_sums_##T(numbers, a, g, p.group, t, second_tile, estride, factor, of != 'v'); \
        barrier(); \
      } \
      ROLL for (int part = 0; part < 64; part += 32) { \
        float score[4][4], change[4][4]; \
        UNROLL for (int i = 0; i < 16; i++) score[i / 4][i % 4] = change[i / 4][i % 4] = 0; \
        const int line = part + lane % 8 + lane / 16 * 8, at = lane / 8 % 2 * 8; \
        UNROLL for (int s = 0; s < ks; s++) \
          UNROLL for (int i = 0; i < 2; i++) { \
            uint32_t b[4]; \
            load_matrices(b, first_tile + (16 * i + line) * kstride + 16 * s + at); \
            tensor_##T(score[2 * i], mine[s], b); \
            tensor_##T(score[2 * i + 1], mine[s], b + 2); \
          } \
        UNROLL for (int s = 0; of != 'v' && s < es; s++) \
          UNROLL for (int i = 0; i < 2; i++) { \
            uint32_t b[4]; \
            load_matrices(b, second_tile + (16 * i + line) * estride + 16 * s + at); \
            tensor_##T(change[2 * i], mine_values[s], b); \
            tensor_##T(change[2 * i + 1], mine_values[s], b + 2); \
          } \
        UNROLL for (int i = 0; i < 16; i++) { \
          int own_row = row + i / 2 % 2 * 8, other_row = part + i / 4 * 8 + pair + i % 2; \
          int q = attention_query(&p, own_row, other_row), k = attention_key(&p, own_row, other_row); \
          int64_t bias = a->bias ? attention_bias_at(&p, a, t, own_row, other_row) : -1; \
          float *x = &score[i / 4][i % 4], *y = &change[i / 4][i % 4]; \
          *x *= scale * attention_unit(a); \
          if (bias >= 0) *x += load_##T((const uint16_t *)a->bias + bias); \
          *x -= numbers[q]; \
          *x = exp2_fast(attention_exponent(a, *x > 0 ? 0 : *x)) * numbers[128 + q]; \
          _Bool seen = whole || p.where[k] <= p.last[q]; \
          if (of == 'b') *y = seen ? *x * (*y - numbers[64 + q]) * scale : 0; \
          if (of == 'q' || of == 'k') *x *= *y - numbers[64 + q]; \
          *x = seen ? *x : 0; \
        } \
        if (of == 'b') { \
          attention_grad_add_##T(of_values, score, es, second_tile + part * estride, estride); \
          attention_grad_add_##T(result, change, ks, first_tile + part * kstride, kstride); \
        } else { \
          attention_grad_add_##T(result, score, ns, (of == 'v' ? second_tile : first_tile) + part * nstride, nstride); \
        } \
      } \
    } \
    barrier(); /* all warps are done */ \
    attention_grad_store_##T(out, &a->of_result, result, both, ns, n, p.first, here, wide); \
    if (of != 'b') return; \
    barrier(); /* the other rows may be longer */ \
    attention_grad_store_##T(more, of_more, of_values, both, es, a->e, p.first, here, wide); \
  }
ATTENTION_GRAD_TENSOR(f16)
ATTENTION_GRAD_TENSOR(bf16)
