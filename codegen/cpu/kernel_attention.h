/* codegen/cpu/kernel_attention.h - attention on CPUs; part of every generated text, after kernel_templates.h.
 *
 * q[groups, rows, k], key[groups, t, k], value[groups, t, e]; row i has position query_position[i % s].  Positions and
 * the number of valid keys may be other ones in every batch; keys after the last that a batch sees are not read, so
 * that a cache costs what is used of it.  If there is a `bias`, t of its elements are added to the row's scores;
 * strides give the first of them.  A row whose scores are all -inf, hidden or not, gives 0.  Scores are never stored
 * whole: the kernel iterates over blocks of keys, with a running maximum and sum per row (Dao, "FlashAttention-2",
 * 2023).  The number of rows alone chooses one of two variants:
 *
 * - Many rows: a panel of 32 rows at a time, one row per lane.  Queries are transposed, so a tile of scores is some
 *   keys by 32 rows, a tile of the result some columns by 32 rows; keys and values are read in place element by
 *   element, and maximum, exponential and sum need no step across lanes.  Threads share panels and groups.
 * - Few rows, as in decoding: most of the work is to read keys and values once.  Lanes are elements of a key or value.
 *   Keys are split into chunks of fixed length that threads share; the chunks' results are joined in ascending order,
 *   so that the bits do not depend on threads.
 *
 * Keys and values may be in two parts: a past, and a part appended to it in every group.  Then both together are
 * written as well, for the next call to read: with few rows by the thread that reads a block, while it is in its cache,
 * so that memory is read once; with many rows before everything else.
 *
 * Computed in f32: keys and values of other types, or of rows that do not fill vectors, are loaded a block at a time
 * into memory of the thread.  Not done: long keys of few panels are not split among threads. */

/* Separate functions: together they would need more registers than there are. */
#define APART static __attribute__((unused, noinline))
/* Compiled small: every attention is compiled with them, and they take little of its time.  Not for functions that a
 * hot loop always calls: gcc then takes the loop for cold as well. */
#define SMALL static __attribute__((unused, noinline, cold))

#if defined(__AVX512F__)
enum { TALL = 8, BROAD = 4 };
#else
enum { TALL = 4, BROAD = 8 };
#endif
/* Tiles are TALL keys or columns by ACROSS vectors of rows, or a row by BROAD vectors.  CHUNK is a multiple of KEYS,
 * KEYS of TALL. */
enum { LANES = 32, ACROSS = 2, KEYS = 64, CHUNK = 512, FEW = 16 };

/* Keys or values in two parts: [groups, past, ...], the operand of the attention, and `more`; both together, [groups,
 * t, ...], become `whole`.  NULL if there is one part. */
typedef struct AttentionGrowth {
  void *whole;
  const void *more;
  int64_t past;
} AttentionGrowth;

typedef struct Attention {
  int64_t rows, s, t, k, e;
  float scale;
  int causal;
  const int64_t *query_position, *key_position, *length;
  int64_t each[3];           /* those of batch b begin b times these further; 0: all batches have the same */
  const void *bias;          /* NULL if none */
  int64_t heads;             /* a group is heads * b + g, a row s * r + i: element [0] of their bias has the index
                                ... */
  int64_t stride[4];         /* ... b, g, r, i times these */
  void *max, *sum;           /* of each row, [groups, rows] of floats or doubles: its largest score, and the sum of
                                exp(score - max); both 0 if the row gives 0.  NULL if not needed */
  AttentionGrowth growth[2]; /* of keys, of values */
  int64_t room[2];           /* keys, values of a group in memory, of which the first t count; 0: there are t */
} Attention;

/* How many keys (side 0) or values (1) the next group is further. */
FN int64_t attention_room(const Attention *a, int side) { return a->room[side] ? a->room[side] : a->t; }

FN const int64_t *attention_queries(const Attention *a, int64_t group) {
  return a->query_position + group / a->heads * a->each[0];
}
FN const int64_t *attention_places(const Attention *a, int64_t group) {
  return a->key_position + group / a->heads * a->each[1];
}
FN int64_t attention_length(const Attention *a, int64_t group) { return a->length[group / a->heads * a->each[2]]; }

/* Returns the index of the row's bias for key 0. */
FN int64_t attention_bias_row(const Attention *a, int64_t group, int64_t row) {
  return group / a->heads * a->stride[0] + group % a->heads * a->stride[1] + row / a->s * a->stride[2] +
         row % a->s * a->stride[3];
}

/* How elements are stored.  `load` stores rows of n elements at a distance of `wide`, padded with zeros. */
typedef struct AttentionType {
  int64_t size;
  void (*load)(float *y, const void *x, int64_t rows, int64_t n, int64_t wide);
  void (*store)(void *y, const float *x, int64_t n);
} AttentionType;

/* The data that all threads share. */
typedef struct AttentionCall {
  const Attention *a;
  const AttentionType *type;
  char *out;
  const char *q;
  const char *from[2];                /* keys, values */
  const AttentionGrowth *growth[2];   /* of these; NULL if they are in one part */
  int64_t groups, n[2], kwide, ewide; /* n: k and e; kwide, ewide: these rounded up to whole vectors */
  const int64_t *used;                /* by batch: keys from there on are seen by no row; NULL: not known */
} AttentionCall;

/* A block of keys. */
typedef struct AttentionKeys {
  int64_t n;    /* up to the last that some row sees; 0 if none */
  _Bool hidden; /* some row does not see all n */
  int64_t length;
  const int64_t *position;
  const float *key, *value;
} AttentionKeys;

/* Splits rows from t on, of a group of keys or values in two parts: returns how many of them are in the first part, and
 * the address of both. */
FN int64_t attention_parts(const AttentionGrowth *g, const void *from, int64_t all, int64_t group, int64_t t,
                           int64_t rows, int64_t bytes, const char *part[2]) {
  int64_t first = g->past - t < 0 ? 0 : g->past - t < rows ? g->past - t : rows;
  part[0] = first ? (const char *)from + (group * g->past + t) * bytes : NULL;
  part[1] = first < rows ? (const char *)g->more + (group * (all - g->past) + t + first - g->past) * bytes : NULL;
  return first;
}

FN void attention_copy(char *to, const char *from, int64_t bytes, _Bool far) {
  if (bytes && far) copy_far(to, from, bytes);
  else if (bytes) memcpy(to, from, (size_t)bytes);
}

/* Writes such rows to their place in `whole`. */
APART void attention_grow(const Attention *a, const AttentionGrowth *g, const void *from, int64_t groups, int64_t group,
                          int64_t t, int64_t bytes) {
  int64_t rows = a->t - t < KEYS ? a->t - t : KEYS;
  const char *part[2];
  int64_t first = attention_parts(g, from, a->t, group, t, rows, bytes, part);
  char *to = (char *)g->whole + (group * a->t + t) * bytes;
  _Bool far = groups * a->t * bytes >= FAR;
  attention_copy(to, part[0], first * bytes, far);
  attention_copy(to + first * bytes, part[1], (rows - first) * bytes, far);
}

/* Writes all of them before they are read; returns their new address. */
SMALL const void *attention_grown(const Attention *a, int side, const void *from, int64_t groups, int64_t bytes) {
  const AttentionGrowth *g = &a->growth[side];
  int64_t blocks = (a->t + KEYS - 1) / KEYS;
  if (!g->whole) return from;
#pragma omp parallel for schedule(static) if (groups * a->t * bytes / 4 >= PARALLEL_WORK)
  for (int64_t i = 0; i < groups * blocks; i++)
    attention_grow(a, g, from, groups, i / blocks, i % blocks * KEYS, bytes);
  far_end();
  return g->whole;
}

/* Returns rows of keys (side 0) or values (1) of a group from t on: in place, or loaded. */
APART const float *attention_rows(const AttentionCall *c, int side, int64_t group, int64_t t, int64_t rows) {
  const AttentionType *type = c->type;
  const AttentionGrowth *g = c->growth[side];
  int64_t n = c->n[side], wide = side ? c->ewide : c->kwide, bytes = n * type->size, first = rows;
  const char *part[2];
  if (g) first = attention_parts(g, c->from[side], c->a->t, group, t, rows, bytes, part);
  else part[0] = c->from[side] + (group * attention_room(c->a, side) + t) * bytes;
  if (type->size == 4 && n == wide && (first == 0 || first == rows)) return (const float *)part[first == 0];
  float *y = scratch(side, 4 * KEYS * wide);
  if (first) type->load(y, part[0], first, n, wide);
  if (first < rows) type->load(y + first * wide, part[1], rows - first, n, wide);
  return y;
}

/* Returns the block from key t on; rows have positions from `lowest` to `highest`. */
APART AttentionKeys attention_keys(const AttentionCall *c, int64_t group, int64_t t, int64_t lowest, int64_t highest) {
  const Attention *a = c->a;
  AttentionKeys b = {.position = attention_places(a, group) + t, .length = attention_length(a, group)};
  int64_t all = a->t - t < KEYS ? a->t - t : KEYS, largest = INT64_MIN;
  for (int64_t j = 0; j < all; j++) {
    if (b.position[j] < b.length && (!a->causal || b.position[j] <= highest)) b.n = j + 1;
  }
  for (int64_t j = 0; j < b.n; j++) largest = b.position[j] > largest ? b.position[j] : largest;
  b.hidden = largest >= b.length || (a->causal && largest > lowest);
  if (!b.n) return b;
  b.key = attention_rows(c, 0, group, t, b.n);
  b.value = attention_rows(c, 1, group, t, b.n);
  return b;
}

APART void attention_range(const int64_t *position, int64_t n, int64_t *lowest, int64_t *highest) {
  *lowest = INT64_MAX, *highest = INT64_MIN;
  for (int64_t r = 0; r < n; r++) {
    *lowest = position[r] < *lowest ? position[r] : *lowest;
    *highest = position[r] > *highest ? position[r] : *highest;
  }
}

/* Returns for each batch the number of keys up to the last that some row sees. */
SMALL int64_t *attention_used(const Attention *a, int64_t groups) {
  int64_t batches = groups / a->heads, lowest, highest, *used = scratch(6, 8 * batches);
  for (int64_t b = 0; b < batches; b++) {
    int64_t g = b * a->heads, n = a->t, length = attention_length(a, g);
    const int64_t *position = attention_places(a, g);
    attention_range(attention_queries(a, g), a->s, &lowest, &highest);
    while (n > 0 && (position[n - 1] >= length || (a->causal && position[n - 1] > highest))) n--;
    used[b] = n;
  }
  return used;
}
FN int64_t attention_end(const AttentionCall *c, int64_t group) {
  return c->used ? c->used[group / c->a->heads] : c->a->t;
}

/* Returns e^x for x <= 0; 0 if that is below 2^-126. */
FN float attention_exp(float x) {
  float c = x < -87.0f ? -87.0f : x, n = __builtin_rintf(c * 1.44269504088896341f);
  float r = __builtin_fmaf(n, -0.693359375f, c);
  r = __builtin_fmaf(n, 2.12194440e-4f, r);
  float p = __builtin_fmaf(exp_reduced(r), r * r, r) + 1.0f;
  p *= float_of((uint32_t)((int32_t)n + 127) << 23);
  return x < -87.0f ? 0 : p;
}

/* ---- many rows */

typedef struct AttentionPanel {
  float *q, *o; /* [k][LANES], [ewide][LANES] */
  float p[KEYS][LANES] __attribute__((aligned(64)));
  float max[LANES], sum[LANES], keep[LANES]; /* keep: factor of the result so far */
  int64_t position[LANES];
} AttentionPanel;

/* p = key q.  Rows past the last key repeat it. */
APART void attention_scores(AttentionPanel *b, const AttentionKeys *keys, int64_t k, int64_t wide) {
  for (int64_t j = 0; j < keys->n; j += TALL)
    for (int l = 0; l < LANES; l += VECTOR * ACROSS) {
      const float *line[TALL], *q = b->q + l;
      vector acc[TALL][ACROSS];
      for (int r = 0; r < TALL; r++) line[r] = keys->key + (j + r < keys->n ? j + r : keys->n - 1) * wide;
      for (int r = 0; r < TALL; r++)
        for (int c = 0; c < ACROSS; c++) acc[r][c] = vector_of(0);
      for (int64_t i = 0; i < k; i++, q += LANES) {
        vector x = vector_at(q), y = vector_at(q + VECTOR);
        for (int r = 0; r < TALL; r++) {
          vector z = vector_of(line[r][i]);
          acc[r][0] = vector_fma(z, x, acc[r][0]), acc[r][1] = vector_fma(z, y, acc[r][1]);
        }
      }
      for (int r = 0; r < TALL; r++)
        for (int c = 0; c < ACROSS; c++) ((vector *)(b->p[j + r] + l))[c] = acc[r][c];
    }
}

/* o = o keep + value p. */
APART void attention_values(AttentionPanel *b, const AttentionKeys *keys, int64_t wide) {
  for (int64_t e = 0; e < wide; e += TALL)
    for (int l = 0; l < LANES; l += VECTOR * ACROSS) {
      float *o = b->o + e * LANES + l;
      vector acc[TALL][ACROSS];
      for (int r = 0; r < TALL; r++)
        for (int c = 0; c < ACROSS; c++)
          acc[r][c] = ((vector *)(o + r * LANES))[c] * ((const vector *)(b->keep + l))[c];
      const float *line = keys->value + e;
      for (int64_t t = 0; t < keys->n; t++, line += wide) {
        vector x = vector_at(b->p[t] + l), y = vector_at(b->p[t] + l + VECTOR);
        for (int r = 0; r < TALL; r++) {
          vector z = vector_of(line[r]);
          acc[r][0] = vector_fma(z, x, acc[r][0]), acc[r][1] = vector_fma(z, y, acc[r][1]);
        }
      }
      for (int r = 0; r < TALL; r++)
        for (int c = 0; c < ACROSS; c++) ((vector *)(o + r * LANES))[c] = acc[r][c];
    }
}

/* Returns n elements of the bias from element `first` on, as floats. */
FN const float *attention_bias(const AttentionCall *c, int64_t first, int64_t n, float *loaded) {
  const char *x = (const char *)c->a->bias + first * c->type->size;
  if (c->type->size == 4) return (const float *)x;
  c->type->load(loaded, x, 1, n, n);
  return loaded;
}

/* Adds the bias of `rows` rows from `row` on at keys from t on. */
APART void attention_add_bias(const AttentionCall *c, AttentionPanel *b, int64_t group, int64_t row, int64_t rows,
                              int64_t t, int64_t n) {
  const Attention *a = c->a;
  float loaded[KEYS];
  if (!a->stride[2] && !a->stride[3]) { /* equal for all rows */
    const float *x = attention_bias(c, attention_bias_row(a, group, row) + t, n, loaded);
    for (int64_t j = 0; j < n; j++)
      for (int l = 0; l < LANES; l++) b->p[j][l] += x[j];
    return;
  }
  for (int64_t l = 0; l < rows; l++) {
    const float *x = attention_bias(c, attention_bias_row(a, group, row + l) + t, n, loaded);
    for (int64_t j = 0; j < n; j++) b->p[j][l] += x[j];
  }
}

/* Hides keys, updates the running maximum, turns scores into weights. */
APART void attention_weights(AttentionPanel *b, const AttentionKeys *keys) {
  float max[LANES], sum[LANES];
  if (keys->hidden)
    for (int64_t j = 0; j < keys->n; j++)
      for (int l = 0; l < LANES; l++) {
        int64_t at = keys->position[j];
        b->p[j][l] = at < keys->length && at <= b->position[l] ? b->p[j][l] : -__builtin_inff();
      }
  for (int l = 0; l < LANES; l++) max[l] = b->max[l];
  for (int64_t j = 0; j < keys->n; j++)
    for (int l = 0; l < LANES; l++) max[l] = b->p[j][l] > max[l] ? b->p[j][l] : max[l];
  for (int l = 0; l < LANES; l++) {
    float shift = max[l] == -__builtin_inff() ? 0 : max[l];
    b->keep[l] = attention_exp(b->max[l] - shift);
    b->max[l] = max[l], max[l] = shift, sum[l] = 0;
  }
  for (int64_t j = 0; j < keys->n; j++)
    for (int l = 0; l < LANES; l++) {
      float p = attention_exp(b->p[j][l] - max[l]);
      b->p[j][l] = p, sum[l] += p;
    }
  for (int l = 0; l < LANES; l++) b->sum[l] = b->sum[l] * b->keep[l] + sum[l];
}

/* Writes largest scores and sums of rows from `first` on; rarely needed. */
SMALL void attention_sums(const Attention *a, int64_t first, int64_t n, const float *max, const float *sum) {
  for (int64_t r = 0; r < n; r++) {
    ((float *)a->max)[first + r] = max[r] == -__builtin_inff() ? 0 : max[r];
    ((float *)a->sum)[first + r] = sum[r];
  }
}

/* Writes rows of o, divided by their sums, in order. */
FN void attention_out(const AttentionCall *c, const AttentionPanel *b, int64_t first, int64_t n) {
  int64_t e = c->a->e;
  _Bool here = c->type->size == 4;
  float *y = here ? (float *)c->out + first * e : scratch(4, 4 * LANES * e);
  for (int64_t r = 0; r < n; r++) {
    float over = 1 / b->sum[r];
    for (int64_t i = 0; i < e; i++) y[r * e + i] = b->sum[r] == 0 ? 0 : b->o[i * LANES + r] * over;
  }
  if (!here) c->type->store(c->out + first * e * c->type->size, y, n * e);
  if (c->a->max) attention_sums(c->a, first, n, b->max, b->sum);
}

/* Computes the rows from `row` on of a group. */
APART void attention_panel(const AttentionCall *c, int64_t group, int64_t row) {
  const Attention *a = c->a;
  int64_t n = a->rows - row < LANES ? a->rows - row : LANES, k = a->k, lowest, highest;
  AttentionPanel b = {.q = scratch(2, 4 * LANES * k), .o = scratch(3, 4 * LANES * c->ewide)};
  const float *q = (const float *)(c->q + (group * a->rows + row) * k * c->type->size);
  if (c->type->size != 4) {
    float *loaded = scratch(4, 4 * LANES * k);
    c->type->load(loaded, q, n, k, k), q = loaded;
  }
  if (n < LANES) memset(b.q, 0, (size_t)(4 * LANES * k));
  for (int64_t r = 0; r < n; r++)
    for (int64_t i = 0; i < k; i++) b.q[i * LANES + r] = q[r * k + i] * a->scale;
  memset(b.o, 0, (size_t)(4 * LANES * c->ewide));
  for (int64_t r = 0; r < LANES; r++) {
    b.max[r] = -__builtin_inff(), b.sum[r] = 0;
    b.position[r] = a->causal ? attention_queries(a, group)[(row + (r < n ? r : 0)) % a->s] : INT64_MAX;
  }
  attention_range(b.position, LANES, &lowest, &highest);
  for (int64_t t = 0, end = attention_end(c, group); t < end; t += KEYS) {
    AttentionKeys keys = attention_keys(c, group, t, lowest, highest);
    if (!keys.n) continue;
    attention_scores(&b, &keys, k, c->kwide);
    if (a->bias) attention_add_bias(c, &b, group, row, n, t, keys.n);
    attention_weights(&b, &keys);
    attention_values(&b, &keys, c->ewide);
  }
  attention_out(c, &b, group * a->rows + row, n);
}

/* ---- few rows */

/* The result of a chunk of keys for all rows of a group. */
typedef struct AttentionPart {
  float max[FEW], sum[FEW], o[]; /* o[rows][ewide] */
} AttentionPart;

FN int64_t attention_part_bytes(const AttentionCall *c) {
  return (int64_t)sizeof(AttentionPart) + 4 * c->a->rows * c->ewide;
}
FN AttentionPart *attention_part(const AttentionCall *c, char *parts, int64_t i) {
  return (AttentionPart *)(parts + i * attention_part_bytes(c));
}

/* Copies of a block of keys and of its values, interleaved with products, which then wait less for memory. */
typedef struct AttentionCopy {
  char *to;
  const char *from;
  int64_t left, step; /* bytes left, and bytes per step */
  _Bool far;
} AttentionCopy;

/* Sets up the copies of the next block of keys and values.  Copies a block that spans both parts at once. */
APART void attention_copies(const AttentionCall *c, int64_t group, int64_t t, AttentionCopy copy[2]) {
  const Attention *a = c->a;
  int64_t rows = a->t - t < KEYS ? a->t - t : KEYS;
  for (int side = 0; side < 2; side++) {
    const AttentionGrowth *g = c->growth[side];
    int64_t bytes = c->n[side] * c->type->size;
    const char *part[2];
    copy[side] = (AttentionCopy){0};
    if (!g) continue;
    int64_t first = attention_parts(g, c->from[side], a->t, group, t, rows, bytes, part);
    if (first > 0 && first < rows) {
      attention_grow(a, g, c->from[side], c->groups, group, t, bytes);
      continue;
    }
    copy[side] = (AttentionCopy){(char *)g->whole + (group * a->t + t) * bytes, part[first == 0], rows * bytes,
                                 4 * bytes, c->groups * a->t * bytes >= FAR};
  }
}

APART void attention_copy_some(AttentionCopy *x, int64_t bytes) {
  int64_t n = bytes < x->left ? bytes : x->left;
  attention_copy(x->to, x->from, n, x->far);
  x->to += n, x->from += n, x->left -= n;
}

/* Prefetches n floats, which are needed after some thousand cycles. */
FN void attention_ahead(const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) __builtin_prefetch(x + i, 0, 2);
}

/* Computes scores of a row against keys j to j + 3, or up to the last. */
FN void attention_four(const float *q, const AttentionKeys *keys, int64_t j, int64_t wide, float *p) {
  typedef float four __attribute__((vector_size(16)));
  union {
    vector w[4];
    four f[4][VECTOR / 4];
    float x[4][VECTOR];
  } u;
  const float *line[4];
  for (int r = 0; r < 4; r++) line[r] = keys->key + (j + r < keys->n ? j + r : keys->n - 1) * wide;
  for (int r = 0; r < 4; r++) u.w[r] = vector_of(0);
  for (int64_t i = 0; i < wide; i += VECTOR)
    for (int r = 0; r < 4; r++) u.w[r] = vector_fma(*(const vector *)(q + i), *(const vector *)(line[r] + i), u.w[r]);
  for (int w = VECTOR / 8; w; w /= 2)
    for (int r = 0; r < 4; r++)
      for (int l = 0; l < w; l++) u.f[r][l] += u.f[r][l + w];
  for (int r = 0; r < 4; r++) p[r] = (u.x[r][0] + u.x[r][2]) + (u.x[r][1] + u.x[r][3]);
}

/* o += p value for `across` vectors of columns. */
FN void attention_columns(const float *p, const AttentionKeys *keys, int64_t wide, int64_t e, int across, float *o,
                          const float *next) {
  vector acc[BROAD];
  const float *line = keys->value + e;
  for (int c = 0; c < across; c++) acc[c] = ((const vector *)(o + e))[c];
  for (int64_t t = 0; t < keys->n; t++, line += wide) {
    if (next) attention_ahead(next + t * wide + e, VECTOR * across);
    for (int c = 0; c < across; c++) acc[c] = vector_fma(vector_of(p[t]), ((const vector *)line)[c], acc[c]);
  }
  for (int c = 0; c < across; c++) ((vector *)(o + e))[c] = acc[c];
}

/* Processes one row against a block of keys; `bias`: index for the first key, -1 if none; `copy`: copies to start. */
APART void attention_row(const AttentionCall *c, const AttentionKeys *keys, const float *q, int64_t position,
                         int64_t bias, AttentionCopy *copy, float *max, float *sum, float *o) {
  float p[KEYS] __attribute__((aligned(64)));
  int64_t e = 0;
  const float *next = keys->key + KEYS * c->kwide;
  for (int64_t j = 0; j < keys->n; j += 4) {
    for (int side = 0; side < 2; side++)
      if (copy[side].left) attention_copy_some(&copy[side], copy[side].step);
    attention_ahead(keys->value + j * c->ewide, 4 * c->ewide);
    attention_four(q, keys, j, c->kwide, p + j);
  }
  if (bias >= 0) {
    float loaded[KEYS];
    const float *x = attention_bias(c, bias, keys->n, loaded);
    for (int64_t j = 0; j < keys->n; j++) p[j] += x[j];
  }
  if (keys->hidden)
    for (int64_t j = 0; j < keys->n; j++)
      p[j] = keys->position[j] < keys->length && keys->position[j] <= position ? p[j] : -__builtin_inff();
  for (int64_t j = keys->n; j < KEYS; j++) p[j] = -__builtin_inff();
  float higher = max_f32(block_max_f32(p, KEYS), *max), shift = higher == -__builtin_inff() ? 0 : higher;
  float keep = attention_exp(*max - shift);
  for (int j = 0; j < KEYS; j++) p[j] = attention_exp(p[j] - shift);
  *sum = *sum * keep + block_sum_f32(p, KEYS), *max = higher;
  for (int64_t i = 0; i < c->ewide; i++) o[i] *= keep;
  for (; e + VECTOR * BROAD <= c->ewide; e += VECTOR * BROAD) attention_columns(p, keys, c->ewide, e, BROAD, o, next);
  for (; e < c->ewide; e += 16) attention_columns(p, keys, c->ewide, e, 16 / VECTOR, o, next);
}

/* Prepares scaled queries and their positions, and an empty part of a chunk. */
APART void attention_start(const AttentionCall *c, int64_t group, float *q, int64_t *position, AttentionPart *part) {
  const Attention *a = c->a;
  c->type->load(q, c->q + group * a->rows * a->k * c->type->size, a->rows, a->k, c->kwide);
  for (int64_t i = 0; i < a->rows * c->kwide; i++) q[i] *= a->scale;
  for (int64_t i = 0; i < a->rows * c->ewide; i++) part->o[i] = 0;
  for (int64_t r = 0; r < a->rows; r++) {
    part->max[r] = -__builtin_inff(), part->sum[r] = 0;
    position[r] = a->causal ? attention_queries(a, group)[r % a->s] : INT64_MAX;
  }
}

APART void attention_chunk(const AttentionCall *c, int64_t group, int64_t first, AttentionPart *part) {
  const Attention *a = c->a;
  int64_t position[FEW], lowest, highest, end = attention_end(c, group);
  if (first >= end && first > 0) {
    for (int64_t r = 0; r < a->rows; r++) part->sum[r] = 0, part->max[r] = -__builtin_inff();
    return;
  }
  float *q = scratch(2, 4 * FEW * c->kwide);
  attention_start(c, group, q, position, part);
  attention_range(position, a->rows, &lowest, &highest);
  for (int64_t t = first; t < first + CHUNK && t < end; t += KEYS) {
    AttentionCopy copy[2];
    attention_copies(c, group, t, copy);
    AttentionKeys keys = attention_keys(c, group, t, lowest, highest);
    for (int64_t r = 0; r < a->rows && keys.n; r++)
      attention_row(c, &keys, q + r * c->kwide, position[r], a->bias ? attention_bias_row(a, group, r) + t : -1, copy,
                    &part->max[r], &part->sum[r], part->o + r * c->ewide);
    for (int side = 0; side < 2; side++) attention_copy_some(&copy[side], copy[side].left);
  }
}

/* Joins the chunks of one row of a group, in ascending order. */
SMALL void attention_join(const AttentionCall *c, char *parts, int64_t chunks, int64_t group, int64_t row) {
  int64_t e = c->a->e, at = group * c->a->rows + row;
  float *o = scratch(4, 4 * e), max = -__builtin_inff(), sum = 0;
  for (int64_t i = 0; i < e; i++) o[i] = 0;
  for (int64_t j = 0; j < chunks; j++) max = max_f32(attention_part(c, parts, group * chunks + j)->max[row], max);
  for (int64_t j = 0; j < chunks; j++) {
    const AttentionPart *part = attention_part(c, parts, group * chunks + j);
    if (part->sum[row] == 0) continue; /* no key seen */
    float share = attention_exp(part->max[row] - max);
    sum += part->sum[row] * share;
    for (int64_t i = 0; i < e; i++) o[i] += part->o[row * c->ewide + i] * share;
  }
  for (int64_t i = 0; i < e; i++) o[i] = sum == 0 ? 0 : o[i] / sum;
  c->type->store(c->out + at * e * c->type->size, o, e);
  if (c->a->max) attention_sums(c->a, at, 1, &max, &sum);
}

/* ---- entry points */

APART void attention_few(const AttentionCall *c) {
  const Attention *a = c->a;
  int64_t chunks = (a->t + CHUNK - 1) / CHUNK, next = 0, work = 0;
  for (int64_t g = 0; g < c->groups; g++) work += attention_end(c, g) * a->rows * (a->k + a->e);
  char *parts = scratch(5, c->groups * chunks * attention_part_bytes(c));
#pragma omp parallel if (work >= PARALLEL_WORK / 4)
  for (int64_t i; (i = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < c->groups * chunks;)
    attention_chunk(c, i / chunks, i % chunks * CHUNK, attention_part(c, parts, i));
  far_end();
  for (int64_t i = 0; i < c->groups * a->rows; i++) attention_join(c, parts, chunks, i / a->rows, i % a->rows);
}

APART void attention_many(const AttentionCall *c) {
  const Attention *a = c->a;
  int64_t panels = (a->rows + LANES - 1) / LANES, all = c->groups * panels, next = 0;
  /* Rows see different numbers of keys: the last ones, which see most, come first. */
#pragma omp parallel if (c->groups * a->rows * a->t * (a->k + a->e) >= PARALLEL_WORK)
  for (int64_t i; (i = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < all;)
    attention_panel(c, i % c->groups, (panels - 1 - i / c->groups) * LANES);
}

APART void attention_any(AttentionCall *c) {
  for (int side = 0; side < 2; side++) {
    const AttentionGrowth *g = &c->a->growth[side];
    if (!g->whole) continue;
    if (c->a->rows <= FEW) c->growth[side] = g;
    else c->from[side] = attention_grown(c->a, side, c->from[side], c->groups, c->n[side] * c->type->size);
  }
  if (!c->growth[0] && !c->growth[1] && c->groups > 0) c->used = attention_used(c->a, c->groups);
  if (c->a->rows <= FEW) attention_few(c);
  else attention_many(c);
}

#define ATTENTION(T, stored) \
  static __attribute__((unused)) void attention_load_##T(float *y, const void *from, int64_t rows, int64_t n, \
                                                         int64_t wide) { \
    const stored *x = from; \
    for (int64_t r = 0; r < rows; r++) { \
      for (int64_t i = 0; i < n; i++) y[r * wide + i] = load_##T(x + r * n + i); \
      for (int64_t i = n; i < wide; i++) y[r * wide + i] = 0; \
    } \
  } \
  static __attribute__((unused)) void attention_store_##T(void *to, const float *x, int64_t n) { \
    stored *y = to; \
    for (int64_t i = 0; i < n; i++) store_##T(y + i, x[i]); \
  } \
  static __attribute__((unused)) void attention_##T(stored *out, const stored *q, const stored *key, \
                                                    const stored *value, int64_t groups, const Attention *a) { \
    static const AttentionType type = {sizeof(stored), attention_load_##T, attention_store_##T}; \
    AttentionCall c = {.a = a, \
                       .type = &type, \
                       .out = (char *)out, \
                       .q = (const char *)q, \
                       .from = {(const char *)key, (const char *)value}, \
                       .groups = groups, \
                       .n = {a->k, a->e}, \
                       .kwide = (a->k + 15) / 16 * 16, \
                       .ewide = (a->e + 15) / 16 * 16}; \
    attention_any(&c); \
  }
ATTENTION(f32, float)
ATTENTION(f16, uint16_t)
ATTENTION(bf16, uint16_t)

/* The same row by row in double. */
static __attribute__((unused)) void attention_f64(double *out, const double *q, const double *key, const double *value,
                                                  int64_t groups, const Attention *a, double scale) {
  key = attention_grown(a, 0, key, groups, a->k * (int64_t)sizeof *key);
  value = attention_grown(a, 1, value, groups, a->e * (int64_t)sizeof *value);
#pragma omp parallel for schedule(static) if (groups * a->rows * a->t * (a->k + a->e) >= PARALLEL_WORK)
  for (int64_t i = 0; i < groups * a->rows; i++) {
    int64_t g = i / a->rows, last = a->causal ? attention_queries(a, g)[i % a->rows % a->s] : INT64_MAX;
    const int64_t *position = attention_places(a, g), length = attention_length(a, g);
    double max = -__builtin_inf(), sum = 0, *o = out + i * a->e;
    for (int64_t e = 0; e < a->e; e++) o[e] = 0;
    for (int64_t t = 0; t < a->t; t++) {
      if (position[t] >= length || position[t] > last) continue;
      double score = 0;
      for (int64_t j = 0; j < a->k; j++) score += q[i * a->k + j] * key[(g * attention_room(a, 0) + t) * a->k + j];
      score *= scale;
      if (a->bias) score += ((const double *)a->bias)[attention_bias_row(a, g, i % a->rows) + t];
      if (score == -__builtin_inf()) continue;
      double higher = max_f64(max, score), keep = __builtin_exp(max - higher), p = __builtin_exp(score - higher);
      max = higher, sum = sum * keep + p;
      for (int64_t e = 0; e < a->e; e++) o[e] = o[e] * keep + p * value[(g * attention_room(a, 1) + t) * a->e + e];
    }
    for (int64_t e = 0; e < a->e; e++) o[e] = sum == 0 ? 0 : o[e] / sum;
    if (a->max) ((double *)a->max)[i] = max == -__builtin_inf() ? 0 : max, ((double *)a->sum)[i] = sum;
  }
}
