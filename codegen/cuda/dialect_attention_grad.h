/* codegen/cuda/dialect_attention_grad.h - the gradients of attention in the dialect.  Behind dialect_attention.h;
 * attention.c prints the calls.
 *
 * A warp has a row of the result, of a query, key or value, and up to 256 elements of it.  What adds to it, keys or
 * queries, comes in 32s, one per lane, which makes its weight again (Dao, "FlashAttention-2", 2023) and hands it to
 * all.  No score is stored and nothing is added atomically: a row's bits depend on its operands alone.
 *
 * Not done: tiles in shared memory, tensor cores.
 */
/* Names of macros in a row are no statements. */
/* clang-format off */

typedef struct AttentionGrad {
  char of; /* q, k or v */
  const void *o, *lse, *d;
} AttentionGrad;

#define ATTENTION_GRAD(T, stored, C, type) \
  /* What query `row` of all adds the other's row with: its weight, or what its score changes. */ \
  FN type grad_pair_##T(const Attention *a, const AttentionGrad *g, const stored *query, const stored *keys, \
      const stored *values, type scale, int64_t row, int64_t key) { \
    int64_t group = row / a->rows, at = group * a->t + key; \
    type lse = ((const type *)g->lse)[row], score = 0, change = 0; \
    if (attention_where(a, key) > attention_last(a, row % a->rows) || lse == -__builtin_inff()) return 0; \
    const stored *d = (const stored *)g->d + row * a->e, *o = (const stored *)g->o + row * a->e; \
    for (int64_t i = 0; i < a->k; i++) \
      score += load_##T(query + row * a->k + i) * scale * load_##T(keys + at * a->k + i); \
    if (a->bias) score += load_##T((const stored *)a->bias + attention_bias_row(a, row) + key); \
    score = exp_##C(score - lse); \
    if (g->of == 'v') return score; \
    for (int64_t i = 0; i < a->e; i++) \
      change += load_##T(d + i) * (load_##T(values + at * a->e + i) - load_##T(o + i)); \
    return score * change * scale; \
  } \
  FN void attention_grad_##T(const Attention *a, const AttentionGrad *g, stored *out, const stored *query, \
      const stored *keys, const stored *values, type scale) { \
    int of_query = g->of == 'q'; \
    int64_t own = of_query ? a->rows : a->t, others = of_query ? a->t : a->rows, n = g->of == 'v' ? a->e : a->k; \
    int64_t chunks = n > 256 ? (n + 255) / 256 : 1, job = block_index() * 4 + warp_index(); \
    if (job >= a->groups * own * chunks) return; \
    int64_t mine = job / chunks, first = job % chunks * 256 + lane_index(), group = mine / own; \
    int left = (int)(n - first < 256 ? n - first : 256); \
    const stored *from = of_query ? keys : g->of == 'k' ? query : (const stored *)g->d; \
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
        const stored *line = from + (group * others + other + j) * n + first; \
        UNROLL for (int i = 0; i < 8; i++) \
          if (32 * i < left) result[i] += w * load_##T(line + 32 * i); \
      } \
    } \
    UNROLL for (int i = 0; i < 8; i++) \
      if (32 * i < left) store_##T(out + mine * n + first + 32 * i, result[i]); \
  }
ATTENTION_GRAD(f32, float, f32, float)
ATTENTION_GRAD(f64, double, f64, double)
ATTENTION_GRAD(f16, uint16_t, f32, float)
ATTENTION_GRAD(bf16, uint16_t, f32, float)
