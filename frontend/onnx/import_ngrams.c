/* frontend/onnx/import_ngrams.c - TfIdfVectorizer of integers: how often each n-gram of a list occurs in a row.
 *
 * An n-gram is n elements at a distance of 1 + skip.  All n-grams of one length are compared at once with all places
 * of a row, for each skip; the counts of the n-grams then go to the columns that the node names.
 *
 * Not done: strings.
 */
#include <string.h>

#include "frontend/onnx/import_private.h"

typedef struct Grams {
  const int64_t *pool, *starts, *columns;
  int npool, nstarts, ncolumns;
  int64_t shortest, longest, skips, width; /* width: of the result */
  const Expr *length;                      /* of a row */
} Grams;

/* A list of integers of an integer type. */
static Val constant(ImportNode *n, DType type, int64_t count, const int64_t *items) {
  Attr a = attr_ints(n->m, AT_ints, (int)count, items);
  const Type *t = type_of_ints(n->m, type, 1, &count);
  return build_op(n->b, &(OpSpec){.kind = OP_const, .type = t, .nattrs = 1, .attrs = &a});
}

static bool read_grams(ImportNode *n, Grams *g, const Type *t) {
  int64_t first = 0;
  int gram = 0;
  g->pool = node_ints(n, "pool_int64s", &g->npool);
  g->starts = node_ints(n, "ngram_counts", &g->nstarts);
  g->columns = node_ints(n, "ngram_indexes", &g->ncolumns);
  g->shortest = node_int(n, "min_gram_length", 1), g->longest = node_int(n, "max_gram_length", 1);
  g->skips = node_int(n, "max_skip_count", 0);
  if (dtype_is_float(t->dtype) || t->rank < 1 || t->rank > 2)
    return node_error(n, "rows of integers are expected, not %s", import_type_string(n->m, t));
  if (g->npool < 0 || g->nstarts < 1 || g->ncolumns < 0)
    return node_error(n, "only integers in pool_int64s are supported");
  if (g->shortest < 1 || g->longest < g->shortest || g->longest > KNOWN_MAX || g->skips < 0 || g->skips > KNOWN_MAX)
    return node_error(n, "the lengths of n-grams do not fit");
  for (int k = 0; k < g->nstarts; k++) {
    int64_t end = k + 1 < g->nstarts ? g->starts[k + 1] : g->npool;
    if (g->starts[k] != first || end < first || end > g->npool || (end - first) % (k + 1))
      return node_error(n, "ngram_counts does not divide pool_int64s");
    gram += (int)((end - first) / (k + 1)), first = end;
  }
  if (gram != g->ncolumns) return node_error(n, "%d n-grams for %d columns", gram, g->ncolumns);
  for (int i = 0; i < gram; i++) {
    if (g->columns[i] < 0 || g->columns[i] >= INT32_MAX) return node_error(n, "column %d is negative or too large", i);
    if (g->columns[i] >= g->width) g->width = g->columns[i] + 1;
  }
  g->length = t->dims[t->rank - 1];
  return true;
}

/* How often each of `count` n-grams of that length, from pool[first], occurs in each row of x, [rows, length]; 0 where
 * the row is too short.  [rows, count] */
static Val occurrences(ImportNode *n, const Grams *g, Val x, int64_t first, int length, int count) {
  DType type = type_of(n->b->f, x)->dtype;
  Val sum = 0;
  int64_t of_row;
  if (!ex_get_const(g->length, &of_row)) return node_error(n, "the length of a row is not a constant");
  for (int64_t skip = 0; skip <= (length > 1 ? g->skips : 0); skip++) {
    int64_t places = of_row - (length - 1) * (skip + 1);
    Val all = 0;
    if (places < 1) break;
    for (int k = 0; k < length; k++) {
      int64_t *elements = ARENA_ARRAY(n->m->arena, int64_t, count);
      for (int i = 0; i < count; i++) elements[i] = g->pool[first + (int64_t)i * length + k];
      Val wanted = insert_dims(n, constant(n, type, count, elements), 3u, 3);
      Val part = build_slice(n->b, x, 1, ex_const(n->m, k * (skip + 1)), ex_const(n->m, places), 1);
      Val same = binary(n, OP_eq, insert_dims(n, part, 1u << 2, 3), wanted);
      all = all ? binary(n, OP_and, all, same) : same;
    }
    if (!all) return 0;
    Val found = import_reduce_axes(n, RED_SUM, build_cast(n->b, all, DT_f32), 1u << 1, false);
    sum = sum ? binary(n, OP_add, sum, found) : found;
  }
  const Expr *dims[] = {type_of(n->b->f, x)->dims[0], ex_const(n->m, count)};
  return sum ? sum : build_splat(n->b, type_get(n->m, DT_f32, 2, dims), 0);
}

/* Counts of all n-grams of the wanted lengths, 0 for the others: [rows, n-grams]. */
static Val all_occurrences(ImportNode *n, const Grams *g, Val x) {
  Val parts[KNOWN_MAX];
  int count = 0;
  if (g->nstarts > KNOWN_MAX) return node_error(n, "n-grams of more than %d elements", KNOWN_MAX);
  for (int k = 0; k < g->nstarts; k++) {
    int64_t end = k + 1 < g->nstarts ? g->starts[k + 1] : g->npool;
    int grams = (int)((end - g->starts[k]) / (k + 1));
    if (grams == 0) continue;
    const Expr *dims[] = {type_of(n->b->f, x)->dims[0], ex_const(n->m, grams)};
    bool wanted = k + 1 >= g->shortest && k + 1 <= g->longest;
    parts[count] = wanted ? occurrences(n, g, x, g->starts[k], k + 1, grams)
                          : build_splat(n->b, type_get(n->m, DT_f32, 2, dims), 0);
    if (!parts[count++]) return 0;
  }
  return count > 1 ? build_concat(n->b, count, parts, 1) : parts[0];
}

/* Applies the mode and the weights, which are those of n-grams, to the counts. */
static Val weighted(ImportNode *n, const Grams *g, Val x) {
  const char *mode = node_string(n, "mode", "");
  size_t nweights;
  const float *weights = node_floats(n, "weights", &nweights);
  bool idf = strcmp(mode, "IDF") == 0, both = strcmp(mode, "TFIDF") == 0;
  if (!idf && !both && strcmp(mode, "TF") != 0) return node_error(n, "mode \"%s\" is not supported", mode);
  if (idf) x = clamp_numbers(n, x, 0, 1);
  if (!(idf || both) || !weights) return x;
  if (nweights != (size_t)g->ncolumns) return node_error(n, "%zu weights for %d n-grams", nweights, g->ncolumns);
  double *list = ARENA_ARRAY(n->m->arena, double, nweights);
  for (size_t i = 0; i < nweights; i++) list[i] = (double)weights[i];
  Attr a = {.key = AT_floats, .n = (int)nweights, .u.floats = list};
  const Type *t = type_of_ints(n->m, DT_f32, 2, (int64_t[]){1, (int64_t)nweights});
  return binary(n, OP_mul, x, build_op(n->b, &(OpSpec){.kind = OP_const, .type = t, .nattrs = 1, .attrs = &a}));
}

/* Column c of the result is the n-gram whose column it is; 0 if there is none. */
static Val in_columns(ImportNode *n, const Grams *g, Val x) {
  int64_t *from = ARENA_ARRAY(n->m->arena, int64_t, g->width);
  for (int64_t c = 0; c < g->width; c++) from[c] = g->ncolumns; /* the column of zeros after the others */
  for (int i = 0; i < g->ncolumns; i++) {
    if (from[g->columns[i]] < g->ncolumns)
      return node_error(n, "two n-grams have the column %lld", (long long)g->columns[i]);
    from[g->columns[i]] = i;
  }
  if (!x) return 0;
  const Expr *dims[] = {type_of(n->b->f, x)->dims[0], ex_const(n->m, 1)};
  Val padded = build_concat(n->b, 2, (Val[]){x, build_splat(n->b, type_get(n->m, DT_f32, 2, dims), 0)}, 1);
  return build_gather(n->b, padded, constant(n, DT_i64, g->width, from), 1);
}

bool import_ngrams(ImportNode *n) {
  Grams g = {0};
  const Type *t = input_type(n, 0);
  Val x = input(n, 0);
  if (!x || !read_grams(n, &g, t)) return false;
  const Expr *rows[] = {t->rank == 2 ? t->dims[0] : ex_const(n->m, 1), g.length};
  x = all_occurrences(n, &g, build_reshape(n->b, x, 2, rows));
  if (!x || !(x = weighted(n, &g, x)) || !(x = in_columns(n, &g, x))) return false;
  const Expr *dims[] = {t->dims[0], ex_const(n->m, g.width)};
  return import_set_output(n, 0, build_reshape(n->b, x, t->rank, t->rank == 2 ? dims : dims + 1));
}
