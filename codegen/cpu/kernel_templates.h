/* codegen/cpu/kernel_templates.h - hand-written kernels: update, rope; vectors.  Part of every generated text, after
 * kernel_prelude.h; kernel_template.c prints the calls. */

/* Work from which a second thread pays off, in vectorised additions: about 2.5 us of one core.  A region of spinning
 * threads costs 0.1 to 0.4 us, waking a sleeping one a system call (runtime/stub/threads.c); libgomp's sleeping threads
 * cost 9 us. */
#ifndef PARALLEL_WORK /* tests share small loops too */
#define PARALLEL_WORK (1 << 18)
#endif

/* ---- update: y is x[batch, outer, rows, inner] with the first `count` (NULL: all) rows of u[batch, outer, urows,
 * inner] written from row position - start on; rows outside are dropped.  Positions and counts of batch b are b times
 * `at` and `counted` further.  Writes only the changed rows if y is x. */
static __attribute__((unused)) void update_rows(char *y, const char *x, const char *u, const int64_t *position,
                                                int64_t at, const int64_t *count, int64_t counted, int64_t start,
                                                int64_t batch, int64_t outer, int64_t rows, int64_t urows,
                                                int64_t inner, int64_t size) {
  int64_t row = inner * size;
  if (y != x) {
    int64_t bytes = batch * outer * rows * row, pieces = (bytes + 65535) / 65536;
#pragma omp parallel for schedule(static) if (bytes >= 1 << 20)
    for (int64_t i = 0; i < pieces; i++) {
      int64_t n = bytes - i * 65536 < 65536 ? bytes - i * 65536 : 65536;
      memcpy(y + i * 65536, x + i * 65536, (size_t)n);
    }
  }
  for (int64_t b = 0; b < batch; b++) {
    int64_t first, n = count && count[b * counted] < urows ? count[b * counted] : urows;
    if (n < 0) n = 0; /* INT64_MIN has no negative */
    if (__builtin_sub_overflow(position[b * at], start, &first) || first >= rows || first <= -n) continue;
    int64_t from = first < 0 ? -first : 0, to = rows - first < n ? rows - first : n;
    for (int64_t o = b * outer; from < to && o < (b + 1) * outer; o++)
      memcpy(y + (o * rows + first + from) * row, u + (o * urows + from) * row, (size_t)((to - from) * row));
  }
}

/* ---- rope: x[batch, outer, s, h, k] at positions [batch, s]; the angles of one position serve all its `outer` and
 * heads.  Positions of all batches: batch 1. */

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
  static __attribute__((unused)) void rope_##T(stored *y, const stored *x, const int64_t *position, int64_t batch, \
                                               int64_t outer, int64_t s, int64_t h, int64_t k, double base, \
                                               int interleaved) { \
    int64_t half = k / 2, step = interleaved ? 2 : 1, other = interleaved ? 1 : half; \
    if (batch * outer * s * h * k == 0) return; \
    double *frequency = malloc(sizeof(double) * (size_t)half); \
    if (!frequency) abort(); \
    for (int64_t i = 0; i < half; i++) frequency[i] = __builtin_pow(base, -2.0 * (double)i / (double)k); \
    _Pragma( \
        "omp parallel for schedule(static) if (batch * outer * s * h * k >= PARALLEL_WORK / 5)") for (int64_t at = 0; \
                                                                                                      at < batch * s; \
                                                                                                      at++) { \
      type *c = scratch(0, half * (int64_t)sizeof(type)), *sine = scratch(1, half * (int64_t)sizeof(type)); \
      rope_table_##C(c, sine, frequency, half, (double)position[at]); \
      int64_t b0 = at / s, p = at % s; \
      for (int64_t o = b0 * outer; o < (b0 + 1) * outer; o++) \
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

/* ---- vectors, for the kernels that keep tiles in registers: of one register, as gcc keeps longer ones in memory */

#if defined(__AVX512F__)
enum { VECTOR = 16 };
#elif defined(__AVX__)
enum { VECTOR = 8 };
#else
enum { VECTOR = 4 };
#endif
typedef float vector __attribute__((vector_size(4 * VECTOR), aligned(4), may_alias));
FN vector vector_of(float x) { return x - (vector){0}; }
FN vector vector_fma(vector a, vector b, vector c) {
#if defined(__clang__)
#pragma clang fp contract(fast)
  return a * b + c;
#elif defined(__AVX512F__)
  return __builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4);
#elif defined(__FMA__)
  return __builtin_ia32_vfmaddps256(a, b, c);
#else
  return a * b + c;
#endif
}

/* Loads a vector that serves several multiplications.  Otherwise gcc makes the load an operand of each, and tiles are
 * short of loads. */
FN vector vector_at(const float *x) {
  vector y = *(const vector *)x;
#if defined(__AVX__) && !defined(__clang__)
  __asm__("" : "+v"(y));
#endif
  return y;
}
