/* codegen/cpu/kernel_templates.h - kernels written by hand: update, rope, attention.  Part of every generated text,
 * behind kernel_prelude.h; kernel_template.c prints the calls. */

/* Work from which a second thread pays off, in vectorised additions: about 10 us of one core.  A region of threads that
 * spin costs about 1 us, waking one that sleeps a system call (runtime/stub/threads.c); libgomp's sleeping threads cost
 * 9 us. */
#ifndef PARALLEL_WORK /* tests share small loops too */
#define PARALLEL_WORK (1 << 20)
#endif

/* ---- update: x[outer, rows, inner] with u[outer, urows, inner] written from row `first` on; rows outside are dropped.
 * Writes only the changed rows when y is x. */
static __attribute__((unused)) void update_rows(char *y, const char *x, const char *u, int64_t position, int64_t start,
                                                int64_t outer, int64_t rows, int64_t urows, int64_t inner,
                                                int64_t size) {
  int64_t row = inner * size, first, from, to;
  if (y != x) {
    int64_t bytes = outer * rows * row, pieces = (bytes + 65535) / 65536;
#pragma omp parallel for schedule(static) if (bytes >= 1 << 20)
    for (int64_t i = 0; i < pieces; i++) {
      int64_t n = bytes - i * 65536 < 65536 ? bytes - i * 65536 : 65536;
      memcpy(y + i * 65536, x + i * 65536, (size_t)n);
    }
  }
  if (__builtin_sub_overflow(position, start, &first)) return;
  if (first >= rows || first <= -urows) return;
  from = first < 0 ? -first : 0;
  to = rows - first < urows ? rows - first : urows;
  for (int64_t o = 0; o < outer; o++)
    memcpy(y + (o * rows + first + from) * row, u + (o * urows + from) * row, (size_t)((to - from) * row));
}

/* ---- rope: x[outer, s, h, k]; the angles of one position serve all heads and batches */

FN void rope_table_f32(float *c, float *s, const double *frequency, int64_t half, double position) {
  for (int64_t i = 0; i < half; i++) {
    double x = position * frequency[i], n = __builtin_rint(x * 0x1.45f306dc9c883p-1);
    double wide = __builtin_fma(n, -0x1.921fb54442d18p+0, x);
    float r = (float)__builtin_fma(n, -0x1.1a62633145c07p-54, wide), z = r * r;
    float q = (float)(n - 4.0 * __builtin_floor(n * 0.25));
    float a = __builtin_fmaf(-1.9515295891e-4f, z, 8.3321608736e-3f);
    a = __builtin_fmaf(a, z, -1.6666654611e-1f);
    a = __builtin_fmaf(a * z, r, r);
    float b = __builtin_fmaf(2.443315711809948e-5f, z, -1.388731625493765e-3f);
    b = __builtin_fmaf(b, z, 4.166664568298827e-2f);
    b = __builtin_fmaf(b * z, z, __builtin_fmaf(-0.5f, z, 1.0f));
    _Bool odd = q == 1.0f || q == 3.0f;
    float sine = odd ? b : a, cosine = odd ? a : b;
    s[i] = q >= 2.0f ? -sine : sine;
    c[i] = q == 1.0f || q == 2.0f ? -cosine : cosine;
  }
}
FN void rope_table_f64(double *c, double *s, const double *frequency, int64_t half, double position) {
  for (int64_t i = 0; i < half; i++)
    s[i] = __builtin_sin(position * frequency[i]), c[i] = __builtin_cos(position * frequency[i]);
}

#define ROPE(T, stored, C, type) \
  static __attribute__((unused)) void rope_##T(stored *y, const stored *x, const int64_t *position, int64_t outer, \
                                               int64_t s, int64_t h, int64_t k, double base, int interleaved) { \
    int64_t half = k / 2, step = interleaved ? 2 : 1, other = interleaved ? 1 : half; \
    if (outer * s * h * k == 0) return; \
    double *frequency = malloc(sizeof(double) * (size_t)half); \
    if (!frequency) abort(); \
    for (int64_t i = 0; i < half; i++) frequency[i] = __builtin_pow(base, -2.0 * (double)i / (double)k); \
    _Pragma("omp parallel for schedule(static) if (outer * s * h * k >= PARALLEL_WORK / 5)") for (int64_t p = 0; \
                                                                                                  p < s; p++) { \
      type *c = scratch(0, half * (int64_t)sizeof(type)), *sine = scratch(1, half * (int64_t)sizeof(type)); \
      rope_table_##C(c, sine, frequency, half, (double)position[p]); \
      for (int64_t o = 0; o < outer; o++) \
        for (int64_t head = 0; head < h; head++) { \
          const stored *a = x + ((o * s + p) * h + head) * k; \
          stored *b = y + ((o * s + p) * h + head) * k; \
          _Pragma("GCC ivdep") for (int64_t i = 0; i < half; i++) { \
            type u = load_##T(a + i * step), v = load_##T(a + i * step + other); \
            store_##T(b + i * step, u * c[i] - v * sine[i]); \
            store_##T(b + i * step + other, u * sine[i] + v * c[i]); \
          } \
        } \
    } \
    free(frequency); \
  }
ROPE(f32, float, f32, float)
ROPE(f64, double, f64, double)
ROPE(f16, uint16_t, f32, float)
ROPE(bf16, uint16_t, f32, float)

/* ---- attention: blocks of query rows against blocks of keys with a running maximum and sum, so that the scores are
 * never stored whole (Dao, "FlashAttention-2", 2023).  q[groups, rows, k], key[groups, t, k], value[groups, t, e]; row
 * i has position query_position[i % s].  A row whose scores are all -inf, hidden or not, gives 0. */

typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
FN v16 v16_of(float x) { return (v16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
FN v16 v16_fma(v16 a, v16 b, v16 c) {
#if defined(__AVX512F__) && !defined(__clang__)
  return __builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4);
#elif defined(__FMA__) && !defined(__clang__)
  typedef float v8 __attribute__((vector_size(32)));
  union {
    v16 w;
    v8 h[2];
  } x = {a}, y = {b}, z = {c};
  z.h[0] = __builtin_ia32_vfmaddps256(x.h[0], y.h[0], z.h[0]);
  z.h[1] = __builtin_ia32_vfmaddps256(x.h[1], y.h[1], z.h[1]);
  return z.w;
#else
  return a * b + c;
#endif
}

enum { QUERIES = 64, KEYS = 64, FEW = 4 };

typedef struct Attention {
  int64_t rows, s, t, k, e, wide; /* wide: e rounded up to 32 */
  float scale;
  int causal;
  const int64_t *query_position, *key_position;
  int64_t length;
  void *lse; /* [groups, rows] of floats or doubles; NULL: nobody asks */
} Attention;

typedef struct AttentionBlock {
  float *q, *kt, *v, *o; /* [QUERIES][k], [k][KEYS], [KEYS][wide], [QUERIES][wide] */
  float p[QUERIES][KEYS] __attribute__((aligned(64)));
  float max[QUERIES], sum[QUERIES];
} AttentionBlock;

/* p = q kt for 4 rows. */
FN void attention_scores(AttentionBlock *b, int64_t row, int64_t k) {
  v16 acc[4][4];
  for (int r = 0; r < 4; r++)
    for (int j = 0; j < 4; j++) acc[r][j] = v16_of(0);
  for (int64_t i = 0; i < k; i++) {
    const v16 *line = (const v16 *)(b->kt + i * KEYS);
    for (int r = 0; r < 4; r++) {
      v16 x = v16_of(b->q[(row + r) * k + i]);
      for (int j = 0; j < 4; j++) acc[r][j] = v16_fma(x, line[j], acc[r][j]);
    }
  }
  for (int r = 0; r < 4; r++)
    for (int j = 0; j < 4; j++) ((v16 *)b->p[row + r])[j] = acc[r][j];
}

/* o += p v for 4 rows. */
FN void attention_values(AttentionBlock *b, int64_t row, int64_t wide, int64_t keys) {
  for (int64_t e = 0; e < wide; e += 32) {
    v16 acc[4][2];
    for (int r = 0; r < 4; r++)
      for (int j = 0; j < 2; j++) acc[r][j] = ((const v16 *)(b->o + (row + r) * wide + e))[j];
    for (int64_t t = 0; t < keys; t++) {
      const v16 *line = (const v16 *)(b->v + t * wide + e);
      for (int r = 0; r < 4; r++)
        for (int j = 0; j < 2; j++) acc[r][j] = v16_fma(v16_of(b->p[row + r][t]), line[j], acc[r][j]);
    }
    for (int r = 0; r < 4; r++)
      for (int j = 0; j < 2; j++) ((v16 *)(b->o + (row + r) * wide + e))[j] = acc[r][j];
  }
}

/* Hides keys, moves the running maximum, turns scores into weights. */
FN void attention_weights(const Attention *a, AttentionBlock *b, int64_t r, int64_t row, const int64_t *position) {
  float *p = b->p[r], max = -__builtin_inff(), sum;
  int64_t last = a->causal ? a->query_position[row % a->s] : INT64_MAX;
  for (int j = 0; j < KEYS; j++) p[j] = position[j] < a->length && position[j] <= last ? p[j] : -__builtin_inff();
  max = block_max_f32(p, KEYS);
  if (max == -__builtin_inff()) {
    memset(p, 0, sizeof b->p[r]);
    return;
  }
  max = max_f32(max, b->max[r]);
  float keep = exp_f32(b->max[r] - max);
  for (int j = 0; j < KEYS; j++) p[j] = exp_f32(p[j] - max);
  sum = block_sum_f32(p, KEYS);
  b->max[r] = max, b->sum[r] = b->sum[r] * keep + sum;
  if (keep != 1.0f)
    for (int64_t e = 0; e < a->wide; e++) b->o[r * a->wide + e] *= keep;
}

/* Rarely asked for: compiled small, since every attention is compiled with it. */
static __attribute__((unused, noinline, cold)) void attention_lse(const AttentionBlock *b, int64_t n, float *lse) {
  for (int64_t r = 0; r < n; r++) lse[r] = b->sum[r] == 0 ? -__builtin_inff() : b->max[r] + log_f32(b->sum[r]);
}

/* One block of queries, and all of them; `stored` matters in loads and stores only. */
#define ATTENTION(T, stored) \
  /* One score, for decoding: with few queries, all of them, the keys are not worth transposing. */ \
  FN float attention_score_##T(const float *q, const stored *key, int64_t k) { \
    float lane[16] = {0}; \
    int64_t i = 0; \
    for (; i + 16 <= k; i += 16) \
      for (int l = 0; l < 16; l++) lane[l] += q[i + l] * load_##T(key + i + l); \
    for (int l = 0; i + l < k; l++) lane[l] += q[i + l] * load_##T(key + i + l); \
    for (int w = 8; w; w /= 2) \
      for (int l = 0; l < w; l++) lane[l] += lane[l + w]; \
    return lane[0]; \
  } \
  static __attribute__((unused, noinline)) void attention_block_##T(const Attention *a, stored *out, float *lse, \
                                                                    const stored *q, const stored *key, \
                                                                    const stored *value, int64_t row) { \
    int64_t n = a->rows - row < QUERIES ? a->rows - row : QUERIES; \
    AttentionBlock b = {.q = scratch(0, 4 * QUERIES * a->k), \
                        .kt = scratch(1, 4 * KEYS * a->k), \
                        .v = scratch(2, 4 * KEYS * a->wide), \
                        .o = scratch(3, 4 * QUERIES * a->wide)}; \
    int64_t first = INT64_MIN; \
    memset(b.q, 0, (size_t)(4 * QUERIES * a->k)), memset(b.o, 0, (size_t)(4 * QUERIES * a->wide)); \
    for (int64_t i = 0; i < n * a->k; i++) b.q[i] = load_##T(q + row * a->k + i) * a->scale; \
    for (int64_t r = 0; r < QUERIES; r++) b.max[r] = -__builtin_inff(), b.sum[r] = 0; \
    for (int64_t r = 0; r < n; r++) \
      first = a->query_position[(row + r) % a->s] > first ? a->query_position[(row + r) % a->s] : first; \
    for (int64_t t = 0; t < a->t; t += KEYS) { \
      int64_t keys = a->t - t < KEYS ? a->t - t : KEYS, position[KEYS]; \
      _Bool any = 0; \
      for (int64_t j = 0; j < KEYS; j++) { \
        position[j] = j < keys ? a->key_position[t + j] : INT64_MAX; \
        any |= position[j] < a->length && (!a->causal || position[j] <= first); \
      } \
      if (!any) continue; \
      if (a->rows < FEW) { \
        for (int64_t r = 0; r < n; r++) \
          for (int64_t j = 0; j < KEYS; j++) \
            b.p[r][j] = j < keys ? attention_score_##T(b.q + r * a->k, key + (t + j) * a->k, a->k) : 0; \
      } else { \
        for (int64_t j = 0; j < KEYS; j++) \
          for (int64_t i = 0; i < a->k; i++) b.kt[i * KEYS + j] = j < keys ? load_##T(key + (t + j) * a->k + i) : 0; \
        for (int64_t r = 0; r < n; r += 4) attention_scores(&b, r, a->k); \
      } \
      for (int64_t j = 0; j < keys; j++) \
        for (int64_t e = 0; e < a->wide; e++) \
          b.v[j * a->wide + e] = e < a->e ? load_##T(value + (t + j) * a->e + e) : 0; \
      for (int64_t r = 0; r < n; r++) attention_weights(a, &b, r, row + r, position); \
      for (int64_t r = n; r < (n + 3) / 4 * 4; r++) memset(b.p[r], 0, sizeof b.p[r]); \
      for (int64_t r = 0; r < n; r += 4) attention_values(&b, r, a->wide, keys); \
    } \
    for (int64_t r = 0; r < n; r++) \
      for (int64_t e = 0; e < a->e; e++) \
        store_##T(out + (row + r) * a->e + e, b.sum[r] == 0 ? 0 : b.o[r * a->wide + e] / b.sum[r]); \
    if (lse) attention_lse(&b, n, lse + row); \
  } \
  static __attribute__((unused)) void attention_##T(stored *out, const stored *q, const stored *key, \
                                                    const stored *value, int64_t groups, const Attention *a) { \
    int64_t blocks = (a->rows + QUERIES - 1) / QUERIES, next = 0; /* rows differ in how many keys they see */ \
    _Pragma( \
        "omp parallel if (groups * a->rows * a->t * (a->k + a->e) >= PARALLEL_WORK)") for (int64_t i; \
                                                                                           (i = __atomic_fetch_add( \
                                                                                                &next, 1, \
                                                                                                __ATOMIC_RELAXED)) < \
                                                                                           groups * blocks;) { \
      int64_t g = i / blocks; \
      float *lse = a->lse ? (float *)a->lse + g * a->rows : (float *)0; \
      attention_block_##T(a, out + g * a->rows * a->e, lse, q + g * a->rows * a->k, key + g * a->t * a->k, \
                          value + g * a->t * a->e, i % blocks * QUERIES); \
    } \
  }
ATTENTION(f32, float)
ATTENTION(f16, uint16_t)
ATTENTION(bf16, uint16_t)

/* The same by rows in double. */
static __attribute__((unused)) void attention_f64(double *out, const double *q, const double *key, const double *value,
                                                  int64_t groups, const Attention *a, double scale) {
#pragma omp parallel for schedule(static) if (groups * a->rows * a->t * (a->k + a->e) >= PARALLEL_WORK)
  for (int64_t i = 0; i < groups * a->rows; i++) {
    int64_t g = i / a->rows, last = a->causal ? a->query_position[i % a->rows % a->s] : INT64_MAX;
    double max = -__builtin_inf(), sum = 0, *o = out + i * a->e;
    for (int64_t e = 0; e < a->e; e++) o[e] = 0;
    for (int64_t t = 0; t < a->t; t++) {
      if (a->key_position[t] >= a->length || a->key_position[t] > last) continue;
      double score = 0;
      for (int64_t j = 0; j < a->k; j++) score += q[i * a->k + j] * key[(g * a->t + t) * a->k + j];
      score *= scale;
      if (score == -__builtin_inf()) continue;
      double higher = max_f64(max, score), keep = __builtin_exp(max - higher), p = __builtin_exp(score - higher);
      max = higher, sum = sum * keep + p;
      for (int64_t e = 0; e < a->e; e++) o[e] = o[e] * keep + p * value[(g * a->t + t) * a->e + e];
    }
    for (int64_t e = 0; e < a->e; e++) o[e] = sum == 0 ? 0 : o[e] / sum;
    if (a->lse) ((double *)a->lse)[i] = sum == 0 ? -__builtin_inf() : max + __builtin_log(sum);
  }
}
