/* frontend/onnx/import_matmul.c - MatMul, FusedMatMul, Gemm and Einsum as IR dots.
 *
 * A dot names its dimensions by letters.  So transposed operands, batch dimensions of only one operand, and
 * broadcast batch dimensions (whose extent of 1 is dropped) need no data movement.
 */
#include <string.h>

#include "frontend/contract.h"
#include "frontend/onnx/import_private.h"

/* ---- MatMul */

/* Appends the letters of x's batch dimensions to `spec`, and drops extents of 1 that are broadcast against the other
 * operand.  Batch dimension d of the result, counted from the left of `batch`, has letter 'a' + d. */
static Val batch_letters(ImportNode *n, Val x, const Type *other, int batch, int own, char *spec) {
  const Type *t = type_of(n->b->f, x);
  unsigned drop = 0;
  for (int d = 0; d < own; d++) {
    int at = batch - own + d, theirs = at - (batch - (other->rank > 2 ? other->rank - 2 : 0));
    bool stretched = ex_is_const(t->dims[d], 1) && theirs >= 0 && !ex_is_const(other->dims[theirs], 1);
    if (stretched) drop |= 1u << d;
    else *spec++ = (char)('a' + at);
  }
  *spec = '\0';
  return drop ? drop_dims(n, x, drop) : x;
}

static Val refused(ImportNode *n, const char *why, const Type *tx, const Type *ty) {
  node_error(n, "%s and %s %s", import_type_string(n->m, tx), import_type_string(n->m, ty), why);
  return 0;
}

Val matmul(ImportNode *n, Val x, Val y) {
  if (!x || !y) return 0;
  const Type *tx = type_of(n->b->f, x), *ty = type_of(n->b->f, y);
  if (tx->rank < 1 || ty->rank < 1) return refused(n, "cannot be multiplied", tx, ty);
  int bx = tx->rank > 2 ? tx->rank - 2 : 0, by = ty->rank > 2 ? ty->rank - 2 : 0, batch = bx > by ? bx : by;
  for (int d = 0; d < (bx < by ? bx : by); d++) {
    const Expr *p = tx->dims[bx - 1 - d], *q = ty->dims[by - 1 - d];
    if (!extents_broadcast(n, p, q)) return refused(n, "have batch dimensions that do not broadcast", tx, ty);
  }
  if (!equal_extents(n, tx->dims[tx->rank - 1], ty->dims[ty->rank > 1 ? ty->rank - 2 : 0]))
    return refused(n, "cannot be multiplied", tx, ty);
  char left[MAX_RANK + 1], right[MAX_RANK + 1], result[MAX_RANK + 1] = "";
  x = batch_letters(n, x, ty, batch, bx, left);
  y = batch_letters(n, y, tx, batch, by, right);
  if (!x || !y) return 0;
  for (int d = 0; d < batch; d++) result[d] = (char)('a' + d);
  const char *spec = arena_printf(n->m->arena, "%s%sk,%sk%s->%s%s%s", left, tx->rank > 1 ? "m" : "", right,
                                  ty->rank > 1 ? "n" : "", result, tx->rank > 1 ? "m" : "", ty->rank > 1 ? "n" : "");
  return build_dot(n->b, x, y, spec);
}

bool import_matmul(ImportNode *n) { return import_set_output(n, 0, matmul(n, input(n, 0), input(n, 1))); }

/* ---- FusedMatMul, of ONNX Runtime */

/* The operand of a MatMul.  With `batches` its first dimension is stored before those of the batch; with `swapped`
 * its last two are exchanged, in that order. */
static Val matrix(ImportNode *n, size_t i, bool swapped, bool batches) {
  int rank = input_type(n, i)->rank, perm[MAX_RANK];
  Val x = input(n, i);
  if (!x || rank < 2) return x; /* a vector has nothing to exchange */
  for (int d = 0; d < rank; d++) perm[d] = d;
  if (batches)
    for (int d = 0; d < rank - 1; d++) perm[d] = d + 1 < rank - 1 ? d + 1 : 0;
  if (swapped) {
    int last = perm[rank - 1];
    perm[rank - 1] = perm[rank - 2], perm[rank - 2] = last;
  }
  return swapped || batches ? build_transpose(n->b, x, perm) : x;
}

bool import_fused_matmul(ImportNode *n) {
  Val x = matrix(n, 0, node_int(n, "transA", 0) != 0, node_int(n, "transBatchA", 0) != 0);
  Val y = matrix(n, 1, node_int(n, "transB", 0) != 0, node_int(n, "transBatchB", 0) != 0);
  double alpha = node_float(n, "alpha", 1);
  Val product = matmul(n, x, y);
  return import_set_output(n, 0, alpha == 1 ? product : binary_number(n, OP_mul, product, alpha));
}

/* ---- Gemm: alpha * A' * B' + beta * C */

static Val scaled(ImportNode *n, Val x, double by) { return by == 1 ? x : binary_number(n, OP_mul, x, by); }

bool import_gemm(ImportNode *n) {
  double alpha = node_float(n, "alpha", 1), beta = node_float(n, "beta", 1);
  bool ta = node_int(n, "transA", 0) != 0, tb = node_int(n, "transB", 0) != 0;
  if (input_type(n, 0)->rank != 2 || input_type(n, 1)->rank != 2)
    return node_error(n, "operands are %s and %s, not matrices", import_type_string(n->m, input_type(n, 0)),
                      import_type_string(n->m, input_type(n, 1)));
  Val y = build_dot(n->b, input(n, 0), input(n, 1),
                    arena_printf(n->m->arena, "%s,%s->mn", ta ? "km" : "mk", tb ? "nk" : "kn"));
  y = scaled(n, y, alpha);
  if (y && has_input(n, 2) && beta != 0) {
    const Type *t = type_of(n->b->f, y);
    Val c = scaled(n, input(n, 2), beta);
    y = build_binary(n->b, OP_add, y, broadcast(n, c, t->rank, t->dims));
  }
  return import_set_output(n, 0, y);
}

/* ---- Einsum */

enum { MAX_TERMS = CONTRACT_MAX };

typedef struct Equation {
  int terms;
  char in[MAX_TERMS][MAX_RANK + 1], out[MAX_RANK + 1];
  char ellipsis[MAX_RANK + 1]; /* unused letters for the dimensions of an ellipsis, right-aligned */
} Equation;

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static void choose_ellipsis(Equation *e, const char *equation) {
  int at = MAX_RANK;
  memset(e->ellipsis, 0, sizeof e->ellipsis);
  for (char c = 'Z'; at && c >= 'A'; c--)
    if (!strchr(equation, c)) e->ellipsis[--at] = c;
  for (char c = 'z'; at && c >= 'a'; c--)
    if (!strchr(equation, c)) e->ellipsis[--at] = c;
}

/* Reads one term up to ',' or '-' or the end; false if malformed.  `rank` -1: the output, whose ellipsis has `dots`
 * letters. */
static bool read_term(ImportNode *n, const Equation *e, const char **at, int rank, int *dots, char *out) {
  int count = 0, named = 0;
  for (const char *p = *at; *p && *p != ',' && *p != '-'; p++) named += is_letter(*p);
  for (; **at && **at != ',' && **at != '-'; ++*at) {
    char c = **at;
    if (c == ' ') continue;
    if (strncmp(*at, "...", 3) == 0) {
      int wide = rank >= 0 ? rank - named : *dots;
      if (wide < 0 || count + wide > MAX_RANK || (wide && !e->ellipsis[MAX_RANK - wide]))
        return node_error(n, "the ellipsis does not fit");
      if (rank >= 0 && wide > *dots) *dots = wide;
      for (int i = 0; i < wide; i++) out[count++] = e->ellipsis[MAX_RANK - wide + i];
      *at += 2;
    } else if (is_letter(c)) {
      if (count == MAX_RANK) return node_error(n, "a term of more than %d letters", MAX_RANK);
      out[count++] = c;
    } else {
      return node_error(n, "unexpected '%c' in the equation", c);
    }
  }
  out[count] = '\0';
  return rank < 0 || count == rank || node_error(n, "term \"%s\" does not fit an operand of rank %d", out, rank);
}

/* The output of an equation without "->": the ellipsis, then letters that occur once, in alphabetical order. */
static bool implied_output(ImportNode *n, Equation *e, int dots) {
  int count = 0;
  for (int i = 0; i < dots; i++) e->out[count++] = e->ellipsis[MAX_RANK - dots + i];
  for (int c = 'A'; c <= 'z'; c++) {
    int seen = 0;
    if (!is_letter((char)c) || memchr(e->ellipsis, c, MAX_RANK)) continue;
    for (int t = 0; t < e->terms; t++)
      for (const char *p = e->in[t]; *p; p++) seen += *p == c;
    if (seen != 1) continue;
    if (count == MAX_RANK) return node_error(n, "a result of more than %d dimensions", MAX_RANK);
    e->out[count++] = (char)c;
  }
  e->out[count] = '\0';
  return true;
}

static bool read_equation(ImportNode *n, Equation *e) {
  const char *at = node_string(n, "equation", "");
  int dots = 0;
  if (n->proto->n_input > MAX_TERMS) return node_error(n, "%zu operands", n->proto->n_input);
  e->terms = (int)n->proto->n_input;
  choose_ellipsis(e, at);
  for (int t = 0; t < e->terms; t++) {
    if (!has_input(n, (size_t)t)) return node_error(n, "input %d is missing", t);
    if (!read_term(n, e, &at, input_type(n, (size_t)t)->rank, &dots, e->in[t])) return false;
    bool more = t + 1 < e->terms;
    if (more != (*at == ',')) return node_error(n, "the equation does not have %d terms", e->terms);
    if (more) at++;
  }
  if (*at == '\0') return implied_output(n, e, dots);
  if (at[0] != '-' || at[1] != '>') return node_error(n, "the equation is malformed at \"%s\"", at);
  at += 2;
  if (!read_term(n, e, &at, -1, &dots, e->out)) return false;
  return *at == '\0' || node_error(n, "the equation is malformed at \"%s\"", at);
}

/* Takes the diagonal over letters that occur twice in a term: reduces over a select of equal positions. */
static Val diagonals(ImportNode *n, Val x, char *term) {
  for (int i = 0; x && term[i]; i++) {
    char *twin = strchr(term + i + 1, term[i]);
    if (!twin) continue;
    const Type *t = type_of(n->b->f, x);
    int j = (int)(twin - term);
    if (t->dims[i] != t->dims[j]) {
      node_error(n, "'%c' has two extents", term[i]);
      return 0;
    }
    Val same = binary(n, OP_eq, iota_i64(n, t->rank, t->dims, i), iota_i64(n, t->rank, t->dims, j));
    x = import_reduce_axes(n, RED_SUM, select3(n, same, x, splat_like(n, x, 0)), 1u << j, false);
    memmove(twin, twin + 1, strlen(twin));
    i--;
  }
  return x;
}

/* Checks that every letter of the output is in an operand, and once in the output. */
static bool check_output(ImportNode *n, const Equation *e, const ContractTerm *terms) {
  for (const char *p = e->out; *p; p++) {
    bool found = false;
    for (int t = 0; t < e->terms; t++) found = found || strchr(terms[t].letters, *p);
    if (!found || strchr(p + 1, *p)) return node_error(n, "letter '%c' of the output is repeated or in no operand", *p);
  }
  return true;
}

/* Checks that a letter has the same extent in all terms, or 1. */
static bool check_letters(ImportNode *n, const Equation *e) {
  for (int t = 1; t < e->terms; t++)
    for (int d = 0; e->in[t][d]; d++)
      for (int before = 0; before < t; before++) {
        const char *at = strchr(e->in[before], e->in[t][d]);
        const Type *x = input_type(n, (size_t)before), *y = input_type(n, (size_t)t);
        if (at && !extents_broadcast(n, x->dims[at - e->in[before]], y->dims[d]))
          return node_error(n, "'%c' has two extents, in %s and %s", e->in[t][d], import_type_string(n->m, x),
                            import_type_string(n->m, y));
      }
  return true;
}

bool import_einsum(ImportNode *n) {
  Equation e;
  ContractTerm terms[MAX_TERMS];
  const char *why;
  if (!read_equation(n, &e) || !check_letters(n, &e)) return false;
  for (int t = 0; t < e.terms; t++) {
    terms[t].value = diagonals(n, input(n, (size_t)t), e.in[t]);
    strcpy(terms[t].letters, e.in[t]);
    if (!terms[t].value) return false;
  }
  if (!check_output(n, &e, terms)) return false;
  Val v = contract_terms(n->b, e.terms, terms, e.out, &why);
  if (why) return node_error(n, "%s", why);
  return import_set_output(n, 0, v);
}
