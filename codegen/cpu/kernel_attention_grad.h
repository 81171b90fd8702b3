/* codegen/cpu/kernel_attention_grad.h - the gradients of attention on CPUs; part of every generated text, after
 * kernel_attention.h, whose operands, tiles and panels it uses.
 *
 * Weights are recomputed, a panel of 32 rows by a block of 64 keys at a time, from scores, the largest of each row, and
 * the sum (Dao, "FlashAttention-2", 2023): no matrix of scores is stored.  The gradient of the queries is computed per
 * panel, over all blocks of keys; those of keys and values per few blocks of keys, over all panels.  Threads share
 * panels, or these blocks; each gradient is summed in one order, so that bits do not depend on threads.
 *
 * Not done: panels of some blocks are not split among threads, and the three gradients, which are separate operations,
 * do not share weights. */

typedef struct AttentionGrad {
  char of; /* q, k or v */
  const void *o, *max, *sum, *d;
} AttentionGrad;

/* A panel of rows: `weight.p` holds scores and then weights times the sums of their rows, `change.p` the gradients of
 * the weights and then those of the scores. */
typedef struct GradPanel {
  AttentionPanel weight, change; /* q: queries times the scale, and gradients of the result, transposed */
  float *q, *d;                  /* both as rows; for v, d is divided by the sums */
  float delta[LANES], shift[LANES], share[LANES]; /* shift: largest scores; share: the scale over the sum */
  int64_t row, n, lowest, highest;
} GradPanel;

typedef struct GradCall {
  AttentionCall c;
  const AttentionGrad *g;
  float *delta; /* [groups, rows]; NULL for v, which needs none */
} GradCall;

enum { GRAD_TALL = 8, GRAD_BLOCKS = 4 };

/* Allocates memory of the thread for a panel; slots 0 and 1 belong to attention_rows. */
FN void grad_panel_memory(const GradCall *g, GradPanel *b) {
  const AttentionCall *c = &g->c;
  b->weight.q = scratch(2, 4 * LANES * c->kwide), b->change.q = scratch(3, 4 * LANES * c->ewide);
  b->q = scratch(4, 4 * LANES * c->kwide), b->d = scratch(5, 4 * LANES * c->ewide);
}

/* Transposes n rows of `wide` floats, padded with zeros. */
FN void grad_transpose(float *y, const float *x, int64_t n, int64_t wide, float factor) {
  for (int64_t i = 0; i < wide; i++)
    for (int64_t r = 0; r < LANES; r++) y[i * LANES + r] = r < n ? x[r * wide + i] * factor : 0;
}

/* Computes the dot product of each row of the result and its gradient, which is subtracted from the gradients of all of
 * its weights. */
APART void grad_deltas(const GradCall *g, int64_t first, int64_t n) {
  const AttentionCall *c = &g->c;
  int64_t e = c->a->e, wide = c->ewide, bytes = e * c->type->size;
  float *o = scratch(4, 4 * LANES * wide), *d = scratch(5, 4 * LANES * wide);
  c->type->load(o, (const char *)g->g->o + first * bytes, n, e, wide);
  c->type->load(d, (const char *)g->g->d + first * bytes, n, e, wide);
  for (int64_t r = 0; r < n; r++) {
    vector sums = vector_of(0);
    float sum = 0;
    for (int64_t i = r * wide; i < (r + 1) * wide; i += VECTOR)
      sums = vector_fma(vector_at(o + i), vector_at(d + i), sums);
    for (int l = 0; l < VECTOR; l++) sum += sums[l];
    g->delta[first + r] = sum;
  }
}

/* Fills the panel of rows from `row` on of a group.  Rows that see no key, and lanes without a row, have weights 0. */
APART void grad_panel(const GradCall *g, GradPanel *b, int64_t group, int64_t row) {
  const AttentionCall *c = &g->c;
  const Attention *a = c->a;
  int64_t first = group * a->rows + row;
  b->row = row, b->n = a->rows - row < LANES ? a->rows - row : LANES;
  c->type->load(b->q, c->q + first * a->k * c->type->size, b->n, a->k, c->kwide);
  c->type->load(b->d, (const char *)g->g->d + first * a->e * c->type->size, b->n, a->e, c->ewide);
  grad_transpose(b->weight.q, b->q, b->n, c->kwide, a->scale);
  if (g->g->of != 'v') grad_transpose(b->change.q, b->d, b->n, c->ewide, 1);
  for (int64_t r = 0; r < LANES; r++) {
    float sum = r < b->n ? ((const float *)g->g->sum)[first + r] : 0;
    b->delta[r] = r < b->n && g->delta ? g->delta[first + r] : 0;
    b->shift[r] = sum == 0 ? __builtin_inff() : ((const float *)g->g->max)[first + r];
    b->share[r] = sum == 0 ? 0 : (g->g->of == 'v' ? 1 : a->scale) / sum;
    for (int64_t i = 0; g->g->of == 'v' && r < b->n && i < c->ewide; i++) b->d[r * c->ewide + i] *= b->share[r];
    b->weight.position[r] = a->causal ? attention_queries(a, group)[(row + (r < b->n ? r : 0)) % a->s] : INT64_MAX;
  }
  attention_range(b->weight.position, LANES, &b->lowest, &b->highest);
}

FN void grad_hide(AttentionPanel *b, const AttentionKeys *keys) {
  for (int64_t j = 0; j < keys->n; j++)
    for (int l = 0; l < LANES; l++) {
      int64_t at = keys->position[j];
      b->p[j][l] = at < keys->length && at <= b->position[l] ? b->p[j][l] : -__builtin_inff();
    }
}

/* Clears keys from n on, up to whole tiles. */
FN void grad_clear(AttentionPanel *b, int64_t n) {
  for (int64_t j = n; j < (n + GRAD_TALL - 1) / GRAD_TALL * GRAD_TALL; j++)
    for (int l = 0; l < LANES; l++) b->p[j][l] = 0;
}

/* Computes the weights of a panel and a block of keys from t on, and the gradients of the scores; 0 for keys after the
 * last, up to whole tiles. */
APART void grad_weights(const GradCall *g, GradPanel *b, const AttentionKeys *keys, int64_t group, int64_t t) {
  const AttentionCall *c = &g->c;
  const Attention *a = c->a;
  AttentionKeys values = *keys;
  values.key = keys->value;
  attention_scores(&b->weight, keys, a->k, c->kwide);
  if (a->bias) attention_add_bias(c, &b->weight, group, b->row, b->n, t, keys->n);
  if (keys->hidden) grad_hide(&b->weight, keys);
  for (int64_t j = 0; j < keys->n; j++)
    for (int l = 0; l < LANES;
         l++) { /* another order of sums than in the attention may make the largest score larger */
      float x = b->weight.p[j][l] - b->shift[l];
      b->weight.p[j][l] = attention_exp(x > 0 ? 0 : x);
    }
  grad_clear(&b->weight, keys->n);
  if (g->g->of == 'v') return;
  attention_scores(&b->change, &values, a->e, c->ewide);
  for (int64_t j = 0; j < keys->n; j++)
    for (int l = 0; l < LANES; l++)
      b->change.p[j][l] = b->weight.p[j][l] * (b->change.p[j][l] - b->delta[l]) * b->share[l];
  grad_clear(&b->change, keys->n);
}

/* sums[j] += p[j][l] x[l]: rows x of `wide` floats, for n keys. */
APART void grad_add(float *sums, float (*p)[LANES], const float *x, int64_t n, int64_t rows, int64_t wide) {
  for (int64_t j = 0; j < n; j += GRAD_TALL)
    for (int64_t i = 0; i < wide; i += VECTOR) {
      vector acc[GRAD_TALL];
      const float *line = x + i;
      for (int r = 0; r < GRAD_TALL; r++) acc[r] = vector_at(sums + (j + r) * wide + i);
      for (int64_t l = 0; l < rows; l++, line += wide) {
        vector y = vector_at(line);
        for (int r = 0; r < GRAD_TALL; r++) acc[r] = vector_fma(vector_of(p[j + r][l]), y, acc[r]);
      }
      for (int r = 0; r < GRAD_TALL; r++) *(vector *)(sums + (j + r) * wide + i) = acc[r];
    }
}

/* Stores n rows of `wide` floats, their first `columns` columns, into the result. */
FN void grad_store(const AttentionCall *c, const float *x, int64_t first, int64_t n, int64_t columns, int64_t wide) {
  for (int64_t r = 0; r < n; r++) c->type->store(c->out + (first + r) * columns * c->type->size, x + r * wide, columns);
}

/* Computes the queries' gradient of a panel. */
APART void grad_of_panel(const GradCall *g, int64_t group, int64_t row) {
  const AttentionCall *c = &g->c;
  const Attention *a = c->a;
  GradPanel b;
  grad_panel_memory(g, &b);
  grad_panel(g, &b, group, row);
  b.change.o = scratch(7, 4 * LANES * c->kwide);
  memset(b.change.o, 0, (size_t)(4 * LANES * c->kwide));
  for (int l = 0; l < LANES; l++) b.change.keep[l] = 1;
  for (int64_t t = 0; t < a->t; t += KEYS) {
    AttentionKeys keys = attention_keys(c, group, t, b.lowest, b.highest), by_key = keys;
    if (!keys.n) continue;
    grad_weights(g, &b, &keys, group, t);
    by_key.value = keys.key;
    attention_values(&b.change, &by_key, c->kwide);
  }
  for (int64_t r = 0; r < b.n; r++)
    for (int64_t i = 0; i < c->kwide; i++) b.q[r * c->kwide + i] = b.change.o[i * LANES + r];
  grad_store(c, b.q, group * a->rows + row, b.n, a->k, c->kwide);
}

/* Computes the gradient of some blocks of keys, or of their values: each panel is loaded once for all of them. */
APART void grad_of_keys(const GradCall *g, int64_t group, int64_t from) {
  const AttentionCall *c = &g->c;
  const Attention *a = c->a;
  _Bool values = g->g->of == 'v';
  int64_t wide = values ? c->ewide : c->kwide, n = a->t - from < GRAD_BLOCKS * KEYS ? a->t - from : GRAD_BLOCKS * KEYS;
  GradPanel b;
  grad_panel_memory(g, &b);
  float *sums = scratch(7, 4 * GRAD_BLOCKS * KEYS * wide);
  memset(sums, 0, (size_t)(4 * GRAD_BLOCKS * KEYS * wide));
  for (int64_t row = 0; row < a->rows; row += LANES) {
    grad_panel(g, &b, group, row);
    for (int64_t t = 0; t < n; t += KEYS) {
      AttentionKeys keys = attention_keys(c, group, from + t, b.lowest, b.highest);
      if (!keys.n) continue;
      grad_weights(g, &b, &keys, group, from + t);
      grad_add(sums + t * wide, values ? b.weight.p : b.change.p, values ? b.d : b.q, keys.n, b.n, wide);
    }
  }
  grad_store(c, sums, group * a->t + from, n, values ? a->e : a->k, wide);
}

APART void grad_any(GradCall *g) {
  const Attention *a = g->c.a;
  _Bool of_query = g->g->of == 'q';
  int64_t rows = g->c.groups * a->rows, wide = of_query ? LANES : GRAD_BLOCKS * KEYS,
          blocks = ((of_query ? a->rows : a->t) + wide - 1) / wide, all = g->c.groups * blocks, next = 0;
  if (g->g->of != 'v') {
    g->delta = scratch(8, 4 * rows);
#pragma omp parallel for schedule(static) if (rows * a->e >= PARALLEL_WORK)
    for (int64_t row = 0; row < rows; row += LANES) grad_deltas(g, row, rows - row < LANES ? rows - row : LANES);
  }
  /* The last queries and the first keys, which have most pairs, come first. */
#pragma omp parallel if (rows * a->t * (a->k + a->e) >= PARALLEL_WORK)
  for (int64_t i; (i = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < all;) {
    if (of_query) grad_of_panel(g, i % g->c.groups, (blocks - 1 - i / g->c.groups) * wide);
    else grad_of_keys(g, i % g->c.groups, i / g->c.groups * wide);
  }
}

#define ATTENTION_GRAD(T, stored) \
  static __attribute__((unused)) void attention_grad_##T(stored *out, const stored *q, const stored *key, \
                                                         const stored *value, int64_t groups, const Attention *a, \
                                                         const AttentionGrad *g) { \
    static const AttentionType type = {sizeof(stored), attention_load_##T, attention_store_##T}; \
    GradCall call = {.c = {.a = a, \
                           .type = &type, \
                           .out = (char *)out, \
                           .q = (const char *)q, \
                           .from = {(const char *)key, (const char *)value}, \
                           .groups = groups, \
                           .n = {a->k, a->e}, \
                           .kwide = (a->k + 15) / 16 * 16, \
                           .ewide = (a->e + 15) / 16 * 16}, \
                     .g = g}; \
    grad_any(&call); \
  }
ATTENTION_GRAD(f32, float)
ATTENTION_GRAD(f16, uint16_t)
ATTENTION_GRAD(bf16, uint16_t)

/* ---- the same pair by pair in double: a thread has a row of the result */

typedef struct GradDoubles {
  const double *q, *key, *value, *o, *max, *sum, *d;
  double scale;
} GradDoubles;

FN double grad_product(const double *x, const double *y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

/* Returns the factor of the other row in the sum of query `row` of all: the weight, or the gradient of the score. */
FN double grad_pair(const Attention *a, const GradDoubles *x, char of, int64_t row, int64_t t) {
  int64_t group = row / a->rows, key = group * a->t + t, at = attention_places(a, group)[t];
  if (at >= attention_length(a, group) || (a->causal && at > attention_queries(a, group)[row % a->rows % a->s]) ||
      x->sum[row] == 0)
    return 0;
  double score = grad_product(x->q + row * a->k, x->key + key * a->k, a->k) * x->scale;
  if (a->bias) score += ((const double *)a->bias)[attention_bias_row(a, group, row % a->rows) + t];
  double above = score - x->max[row], p = __builtin_exp(above > 0 ? 0 : above) / x->sum[row];
  if (of == 'v') return p;
  const double *d = x->d + row * a->e;
  return p * (grad_product(d, x->value + key * a->e, a->e) - grad_product(d, x->o + row * a->e, a->e)) * x->scale;
}

static __attribute__((unused)) void attention_grad_f64(double *out, const double *q, const double *key,
                                                       const double *value, int64_t groups, const Attention *a,
                                                       const AttentionGrad *g, double scale) {
  GradDoubles x = {q, key, value, g->o, g->max, g->sum, g->d, scale};
  int64_t own = g->of == 'q' ? a->rows : a->t, others = g->of == 'q' ? a->t : a->rows, n = g->of == 'v' ? a->e : a->k;
  const double *from = g->of == 'q' ? key : g->of == 'k' ? q : x.d;
#pragma omp parallel for schedule(static) if (groups * a->rows * a->t * (a->k + a->e) >= PARALLEL_WORK)
  for (int64_t i = 0; i < groups * own; i++) {
    int64_t group = i / own, at = i % own;
    for (int64_t j = 0; j < n; j++) out[i * n + j] = 0;
    for (int64_t other = 0; other < others; other++) {
      double w =
          g->of == 'q' ? grad_pair(a, &x, g->of, i, other) : grad_pair(a, &x, g->of, group * a->rows + other, at);
      for (int64_t j = 0; j < n; j++) out[i * n + j] += w * from[(group * others + other) * n + j];
    }
  }
}
