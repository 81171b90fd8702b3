/* solver/step.c - the numbers of a compiled elimination: the table of every step, then a cheapest choice.
 *
 * A table is out[scope] = min over the variable's classes c of least[c] + the operands.  The last place of the scope is
 * the inner loop.  Operands that do not depend on it are added outside; those that depend on nothing else form one
 * matrix for the whole step.  Operands that are read many times are copied first, so that the inner loop reads
 * contiguous memory.  All tables are >= 0, so a class is skipped if it cannot beat the values that every entry of the
 * row already has, or if its total exceeds the limit of interest even when everything else is at its cheapest.  First,
 * the parts of a split join share their least costs, by value of the variable, equally.
 */
#include <math.h>
#include <string.h>

#include "base/wide.h"
#include "solver/private.h"
#include "solver/watch.h"

/* A copied operand.  With the last place and others: [its other places][class][last place].  Without the last place:
 * [its places][class]. */
typedef struct Packed {
  int operand;
  bool in_a_row;   /* entries are contiguous by class already */
  size_t *strides; /* by place: rows */
  double *values;  /* NULL if not copied */
  double *least;   /* by row, class; only with the last place */
} Packed;

/* One step while it is computed. */
typedef struct Rows {
  const StepProgram *p;
  const Step *s;
  int last, inner, classes; /* last place, its classes; classes of the variable */
  int nouter;               /* operands without the last place */
  Packed *outer;
  int npacked, nvarying; /* operands with the last place and others; the copied ones come first */
  Packed *varying;
  double *matrix; /* [class][inner]: sum of the operands with the last place only; included in the first copy, if there
                     is one */
  double *matrix_least; /* by class */
} Rows;

static const double *values_of(const StepProgram *p, const Operand *o) {
  return o->step < 0 ? o->input : p->steps[o->step]->table;
}

static bool has_place(const Operand *o, int place) {
  for (int i = 0; i < o->n; i++)
    if (o->places[i] == place) return true;
  return false;
}

void step_begin(Step *s, double lambda, Arena *a) {
  int classes = s->classes[s->n];
  if (!s->least) s->least = ARENA_ARRAY(a, double, classes);
  for (int c = 0; c < classes; c++) s->least[c] = INFINITY;
  for (int v = 0; v < s->domain; v++) {
    double own = step_own_cost(s, lambda, v);
    int c = s->maps[s->n][v];
    if (own < s->least[c]) s->least[c] = own;
  }
}

PART_OF_WIDE void add_picked(double *restrict out, const double *restrict table, const size_t *restrict offsets,
                             int n) {
  for (int k = 0; k < n; k++) out[k] += table[offsets[k]];
}

PART_OF_WIDE void lower_row(double *restrict out, const double *restrict row, double value, int n) {
  for (int k = 0; k < n; k++) {
    double sum = row[k] + value;
    out[k] = sum < out[k] ? sum : out[k];
  }
}

/* Lowers `out` by four rows at once, to read and write it only once. */
PART_OF_WIDE void lower_rows(double *restrict out, const double *const *rows, const double *values, int n) {
  const double *restrict a = rows[0], *restrict b = rows[1], *restrict c = rows[2], *restrict d = rows[3];
  const double u = values[0], v = values[1], w = values[2], x = values[3];
  for (int k = 0; k < n; k++) {
    double first = a[k] + u, second = b[k] + v, third = c[k] + w, fourth = d[k] + x;
    double low = second < first ? second : first, high = fourth < third ? fourth : third;
    low = high < low ? high : low;
    out[k] = low < out[k] ? low : out[k];
  }
}

/* Lowers `out` by two sums of two rows each. */
PART_OF_WIDE void lower_sums(double *restrict out, const double *const *rows, const double *const *others,
                             const double *values, int n) {
  const double *restrict a = rows[0], *restrict b = rows[1], *restrict c = others[0], *restrict d = others[1];
  const double u = values[0], v = values[1];
  for (int k = 0; k < n; k++) {
    double first = a[k] + c[k] + u, second = b[k] + d[k] + v, low = second < first ? second : first;
    out[k] = low < out[k] ? low : out[k];
  }
}

/* Four lanes, so that an iteration does not wait for the one before. */
PART_OF_WIDE double largest(const double *row, int n) {
  double most[4] = {0};
  int k = 0;
  for (; k + 4 <= n; k += 4)
    for (int i = 0; i < 4; i++) most[i] = row[k + i] > most[i] ? row[k + i] : most[i];
  for (; k < n; k++) most[0] = row[k] > most[0] ? row[k] : most[0];
  for (int i = 1; i < 4; i++) most[0] = most[i] > most[0] ? most[i] : most[0];
  return most[0];
}

PART_OF_WIDE double least_of(const double *row, int n) {
  double least = INFINITY;
  for (int k = 0; k < n; k++) least = row[k] < least ? row[k] : least;
  return least;
}

/* Offset of an operand's entries for the classes of all places but the last. */
PART_OF_WIDE size_t base_of(const Rows *r, int operand, const int *at) {
  size_t base = 0;
  for (int i = 0; i < r->last; i++) base += r->s->offsets[i][operand][at[i]];
  return base;
}

/* Copies the rows of an operand, adding the matrix; false if it is read too seldom, or is too large. */
static bool pack(const Rows *r, Packed *p, const double *matrix, Arena *a) {
  const double most = 4e6;
  const Step *s = r->s;
  const Operand *o = &s->operands[p->operand];
  size_t rows = 1, width = (size_t)r->classes * (size_t)r->inner;
  for (int i = r->last - 1; i >= 0; i--) {
    p->strides[i] = has_place(o, i) ? rows : 0;
    rows *= has_place(o, i) ? (size_t)s->classes[i] : 1;
  }
  double size = (double)rows * (double)width;
  if (size > most || 2 * size > s->work) return false;
  p->values = arena_alloc(a, sizeof(double) * rows * width);
  p->least = arena_alloc(a, sizeof(double) * rows * (size_t)r->classes);
  int *at = ARENA_ARRAY(a, int, s->n + 1);
  for (size_t row = 0; row < rows; row++) {
    const double *base = values_of(r->p, o);
    for (int i = 0; i < r->last; i++) base += s->offsets[i][p->operand][at[i]];
    for (int c = 0; c < r->classes; c++) {
      double *out = p->values + row * width + (size_t)c * (size_t)r->inner;
      if (matrix) memcpy(out, matrix + (size_t)c * (size_t)r->inner, sizeof *out * (size_t)r->inner);
      else memset(out, 0, sizeof *out * (size_t)r->inner);
      add_picked(out, base + s->offsets[s->n][p->operand][c], s->offsets[r->last][p->operand], r->inner);
      p->least[row * (size_t)r->classes + (size_t)c] = least_of(out, r->inner);
    }
    for (int i = r->last - 1; i >= 0; i--) {
      if (!p->strides[i]) continue;
      if (++at[i] < s->classes[i]) break;
      at[i] = 0;
    }
  }
  return true;
}

/* Copies an operand without the last place, unless its entries are contiguous already. */
static void pack_outer(const Rows *r, Packed *p, Arena *a) {
  const double most = 4e6;
  const Step *s = r->s;
  const Operand *o = &s->operands[p->operand];
  const size_t *offsets = s->offsets[s->n][p->operand];
  size_t rows = 1, width = (size_t)r->classes;
  int c = 0;
  while (c < r->classes && offsets[c] == (size_t)c) c++;
  p->in_a_row = c == r->classes;
  p->strides = ARENA_ARRAY(a, size_t, s->n + 1);
  for (int i = r->last - 1; i >= 0; i--) {
    p->strides[i] = has_place(o, i) ? rows : 0;
    rows *= has_place(o, i) ? (size_t)s->classes[i] : 1;
  }
  double size = (double)rows * (double)width;
  if (p->in_a_row || size > most || 2 * size * r->inner > s->work) return;
  p->values = arena_alloc(a, sizeof(double) * rows * width);
  int *at = ARENA_ARRAY(a, int, s->n + 1);
  for (size_t row = 0; row < rows; row++) {
    const double *table = values_of(r->p, o) + base_of(r, p->operand, at);
    for (c = 0; c < r->classes; c++) p->values[row * width + (size_t)c] = table[offsets[c]];
    for (int i = r->last - 1; i >= 0; i--) {
      if (!p->strides[i]) continue;
      if (++at[i] < s->classes[i]) break;
      at[i] = 0;
    }
  }
}

/* Copies operands where that pays, and moves the copied ones to the front. */
static void pack_operands(Rows *r, Arena *a) {
  for (int i = 0; i < r->nvarying; i++) {
    Packed p = r->varying[i];
    p.strides = ARENA_ARRAY(a, size_t, r->last + 1);
    if (!pack(r, &p, r->npacked ? NULL : r->matrix, a)) continue;
    r->varying[i] = r->varying[r->npacked];
    r->varying[r->npacked++] = p;
  }
}

static void sort_operands(Rows *r, Arena *a) {
  const Step *s = r->s;
  r->outer = ARENA_ARRAY(a, Packed, s->noperands + 1);
  r->varying = ARENA_ARRAY(a, Packed, s->noperands + 1);
  r->matrix = ARENA_ARRAY(a, double, r->classes * r->inner);
  r->matrix_least = ARENA_ARRAY(a, double, r->classes);
  for (int f = 0; f < s->noperands; f++) {
    const Operand *o = &s->operands[f];
    bool with = r->last >= 0 && has_place(o, r->last), other = false;
    for (int i = 0; i < r->last; i++) other |= has_place(o, i);
    if (!with) r->outer[r->nouter++].operand = f;
    else if (other) r->varying[r->nvarying++].operand = f;
    for (int c = 0; c < r->classes && with && !other; c++)
      add_picked(r->matrix + (size_t)c * (size_t)r->inner, values_of(r->p, o) + s->offsets[s->n][f][c],
                 s->offsets[r->last][f], r->inner);
  }
  pack_operands(r, a);
  for (int i = 0; i < r->nouter; i++) pack_outer(r, &r->outer[i], a);
  for (int c = 0; c < r->classes && !r->npacked; c++)
    r->matrix_least[c] = least_of(r->matrix + (size_t)c * (size_t)r->inner, r->inner);
}

PART_OF_WIDE size_t row_of(const Rows *r, const Packed *p, const int *at) {
  size_t row = 0;
  for (int k = 0; k < r->last; k++) row += p->strides[k] * (size_t)at[k];
  return row;
}

PART_OF_WIDE void add_row(double *restrict out, const double *restrict row, int n) {
  for (int k = 0; k < n; k++) out[k] += row[k];
}

PART_OF_WIDE void add_outer(const Rows *r, const Packed *p, const int *at, double *sums) {
  const double *table = values_of(r->p, &r->s->operands[p->operand]);
  if (p->values) add_row(sums, p->values + row_of(r, p, at) * (size_t)r->classes, r->classes);
  else if (p->in_a_row) add_row(sums, table + base_of(r, p->operand, at), r->classes);
  else add_picked(sums, table + base_of(r, p->operand, at), r->s->offsets[r->s->n][p->operand], r->classes);
}

/* Four lanes, as above. */
PART_OF_WIDE int first_least(const double *keys, int n) {
  double least[4] = {INFINITY, INFINITY, INFINITY, INFINITY};
  int k = 0;
  for (; k + 4 <= n; k += 4)
    for (int i = 0; i < 4; i++) least[i] = keys[k + i] < least[i] ? keys[k + i] : least[i];
  for (; k < n; k++) least[0] = keys[k] < least[0] ? keys[k] : least[0];
  for (int i = 1; i < 4; i++) least[0] = least[i] < least[0] ? least[i] : least[0];
  int first = 0;
  while (first < n && keys[first] != least[0]) first++;
  return first;
}

/* Computes the cost of each class without the last place; returns the class that looks best.  `rows`: those of the
 * copied operands. */
PART_OF_WIDE int outer_costs(const Rows *r, const int *at, size_t *base, size_t *rows, double *sums, double *keys) {
  const Step *s = r->s;
  for (int i = r->npacked; i < r->nvarying; i++) base[r->varying[i].operand] = base_of(r, r->varying[i].operand, at);
  memcpy(sums, s->least, sizeof(double) * (size_t)r->classes);
  for (int i = 0; i < r->nouter; i++) add_outer(r, &r->outer[i], at, sums);
  for (int c = 0; c < r->classes; c++) keys[c] = sums[c] + r->matrix_least[c];
  for (int i = 0; i < r->npacked; i++) {
    const Packed *p = &r->varying[i];
    rows[i] = row_of(r, p, at);
    add_row(keys, p->least + rows[i] * (size_t)r->classes, r->classes);
  }
  return first_least(keys, r->classes);
}

/* The row of a class that depends on the last place: of the first copy, or of the matrix. */
PART_OF_WIDE const double *first_row(const Rows *r, int c, const size_t *rows) {
  size_t at = (size_t)c * (size_t)r->inner, width = (size_t)r->classes * (size_t)r->inner;
  return r->npacked ? r->varying[0].values + rows[0] * width + at : r->matrix + at;
}

PART_OF_WIDE void lower_by(const Rows *r, int c, double sum, const size_t *base, const size_t *rows, double *row,
                           double *out) {
  const Step *s = r->s;
  size_t at = (size_t)c * (size_t)r->inner, width = (size_t)r->classes * (size_t)r->inner;
  memcpy(row, first_row(r, c, rows), sizeof(double) * (size_t)r->inner);
  for (int i = 1; i < r->npacked; i++) add_row(row, r->varying[i].values + rows[i] * width + at, r->inner);
  for (int i = r->npacked; i < r->nvarying; i++) {
    int f = r->varying[i].operand;
    add_picked(row, values_of(r->p, &s->operands[f]) + base[f] + s->offsets[s->n][f][c], s->offsets[r->last][f],
               r->inner);
  }
  lower_row(out, row, sum, r->inner);
}

/* Lowers `out` by some classes, four at a time, when only one copy or the matrix depends on the last place. */
PART_OF_WIDE void lower_simply(const Rows *r, const int *some, int n, const double *sums, const size_t *rows,
                               double *out) {
  const double *four[4];
  double values[4];
  int i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int k = 0; k < 4; k++) four[k] = first_row(r, some[i + k], rows), values[k] = sums[some[i + k]];
    lower_rows(out, four, values, r->inner);
  }
  for (; i < n; i++) lower_row(out, first_row(r, some[i], rows), sums[some[i]], r->inner);
}

/* Lowers `out` by some classes, two at a time, when two copies depend on the last place. */
PART_OF_WIDE void lower_pairs(const Rows *r, const int *some, int n, const double *sums, const size_t *rows,
                              double *out) {
  const Packed *second = &r->varying[1];
  for (int i = 0; i < n; i += 2) {
    const double *two[2], *others[2];
    double values[2];
    for (int k = 0; k < 2; k++) {
      int c = some[i + k < n ? i + k : i];
      two[k] = first_row(r, c, rows), values[k] = sums[c];
      others[k] = second->values + (rows[1] * (size_t)r->classes + (size_t)c) * (size_t)r->inner;
    }
    lower_sums(out, two, others, values, r->inner);
  }
}

/* Fills the table of a step; entries above `most` may stay infinite. */
WIDE static void fill_table(const StepProgram *p, Step *s, double most) {
  Arena *a = arena_new();
  Rows r = {.p = p, .s = s, .last = s->n - 1, .classes = s->classes[s->n]};
  r.inner = r.last >= 0 ? s->classes[r.last] : 1;
  sort_operands(&r, a);
  int *at = ARENA_ARRAY(a, int, s->n + 1);
  size_t *base = ARENA_ARRAY(a, size_t, s->noperands + 1), *rows = ARENA_ARRAY(a, size_t, s->noperands + 1);
  double *sums = ARENA_ARRAY(a, double, r.classes), *keys = ARENA_ARRAY(a, double, r.classes),
         *row = ARENA_ARRAY(a, double, r.inner);
  const bool simple = r.nvarying == r.npacked && r.npacked <= 1, pairs = r.nvarying == 2 && r.npacked == 2;
  for (size_t e = 0; e < s->entries; e += (size_t)r.inner) {
    double *out = s->table + e;
    if (solve_watch_work(p->p->watch, (double)r.inner * r.classes)) break;
    for (int k = 0; k < r.inner; k++) out[k] = INFINITY;
    int best = outer_costs(&r, at, base, rows, sums, keys);
    double worst = most;
    int some[8], n = 0;
    for (int i = -1; i < r.classes; i++) {
      int c = i < 0 ? best : i;
      if (i != best && keys[c] <= worst && keys[c] != INFINITY) some[n++] = c;
      bool last = i + 1 == r.classes;
      if (!n || (n < 8 && i >= 0 && !last)) continue;
      if (simple) lower_simply(&r, some, n, sums, rows, out);
      if (pairs) lower_pairs(&r, some, n, sums, rows, out);
      for (int k = 0; k < n && !simple && !pairs; k++) lower_by(&r, some[k], sums[some[k]], base, rows, row, out);
      n = 0;
      if (!last) worst = fmin(most, largest(out, r.inner));
    }
    for (int i = r.last - 1; i >= 0 && ++at[i] == s->classes[i]; i--) at[i] = 0;
  }
  arena_free(a);
}

/* Lower bound of a table: the sum of the cheapest values of the variables it stands for. */
static double least_sum(const StepProgram *p, const Step *s) {
  double sum = INFINITY;
  for (int c = 0; c < s->classes[s->n]; c++) sum = fmin(sum, s->least[c]);
  for (int f = 0; f < s->noperands; f++)
    if (s->operands[f].step >= 0) sum += p->steps[s->operands[f].step]->floor;
  return sum;
}

static double sum_of_roots(const StepProgram *p, bool floors) {
  double sum = p->p->constant;
  for (int i = 0; i < p->n; i++) {
    const Step *s = p->steps[p->eliminations[i].step];
    if (!s->n) sum += floors ? s->floor : s->table[0];
  }
  return sum;
}

/* ---- joins that were split */

static int local_place(const Operand *o, int place) {
  for (int i = 0; i < o->n; i++)
    if (o->places[i] == place) return i;
  return -1;
}

/* Adds the least cost of an operand for each value of the variable. */
static void add_least(const StepProgram *p, const Step *s, const Operand *o, double *least, Arena *a) {
  int at = local_place(o, s->n), n = o->classes[at];
  size_t inner = 1, outer = 1;
  for (int i = at + 1; i < o->n; i++) inner *= (size_t)o->classes[i];
  for (int i = 0; i < at; i++) outer *= (size_t)o->classes[i];
  const double *table = values_of(p, o);
  double *by_class = ARENA_ARRAY(a, double, n);
  for (int c = 0; c < n; c++) {
    by_class[c] = INFINITY;
    for (size_t i = 0; i < outer; i++)
      by_class[c] = fmin(by_class[c], least_of(table + (i * (size_t)n + (size_t)c) * inner, (int)inner));
  }
  for (int v = 0; v < s->domain; v++) least[v] += by_class[o->maps[at][v]];
}

/* Replaces the own costs of each part by an equal share of all parts' least costs, minus the part's own least cost.
 * The shares sum to the original cost, and no part is below its share. */
static void share_out(const StepProgram *p, const Split *x, double lambda) {
  Arena *a = arena_new();
  int domain = x->parts[0]->domain;
  double **least = ARENA_ARRAY(a, double *, x->n), *all = ARENA_ARRAY(a, double, domain), floor = INFINITY;
  for (int i = 0; i < x->n; i++) {
    const Step *s = x->parts[i];
    least[i] = ARENA_ARRAY(a, double, domain);
    for (int f = 0; f < s->noperands; f++) add_least(p, s, &s->operands[f], least[i], a);
    for (int v = 0; v < domain; v++)
      all[v] += (least[i][v] + s->time[v] + (s->memory ? lambda * s->memory[v] : 0)) / x->n;
  }
  for (int v = 0; v < domain; v++) floor = fmin(floor, all[v]);
  for (int i = 0; i < x->n; i++) {
    Step *s = x->parts[i];
    for (int c = 0; c < s->classes[s->n]; c++) s->least[c] = INFINITY;
    for (int v = 0; v < domain; v++) {
      int c = s->maps[s->n][v];
      if (all[v] < INFINITY) s->least[c] = fmin(s->least[c], all[v] - least[i][v]);
    }
    s->floor = floor;
  }
  arena_free(a);
}

static void find_floors(const StepProgram *p, int done) {
  for (int i = 0; i < p->nsteps; i++)
    if (i >= done || !p->steps[i]->split) p->steps[i]->floor = least_sum(p, p->steps[i]);
}

/* ---- results of the previous run */

static size_t entries_of(const SolveFactor *f) {
  size_t n = 1;
  for (int i = 0; i < f->n; i++) n *= (size_t)f->classes[i];
  return n;
}

/* Finds the inputs that have changed. */
static void find_moved(StepProgram *p) {
  if (!p->p->share || !p->p->nrests) return;
  for (int i = 0; i < p->ninputs; i++) {
    int f = p->inputs[i];
    const SolveFactor *k = &p->p->factors[f];
    if (!k->table) continue;
    size_t bytes = sizeof(double) * entries_of(k);
    p->moved[f] = p->seen[f] && memcmp(p->seen[f], k->table, bytes) != 0;
    if (!p->seen[f]) p->seen[f] = arena_alloc(p->arena, bytes);
    memcpy(p->seen[f], k->table, bytes);
  }
}

/* True if the step already has the numbers that this run would give it, up to `most`. */
static bool is_known(const StepProgram *p, const Step *s, double lambda, double most) {
  if (!s->table || s->split || most > s->reach || (s->weighs && lambda != s->lambda)) return false;
  for (int f = 0; f < s->noperands; f++) {
    const Operand *o = &s->operands[f];
    if (o->step < 0 ? p->moved[o->number] : p->steps[o->step]->changed) return false;
  }
  return true;
}

/* Notes the weight and the range of a run: if no entry is above `most`, all are exact. */
static void note_run(const StepProgram *p, Step *s, double lambda, double most) {
  double dearest = 0;
  size_t row = (size_t)(s->n ? s->classes[s->n - 1] : 1);
  for (size_t e = 0; e < s->entries && dearest <= most; e += row)
    dearest = fmax(dearest, largest(s->table + e, (int)row));
  s->lambda = lambda;
  s->reach = dearest <= most ? INFINITY : most;
  s->weighs = s->memory || s->split;
  for (int f = 0; f < s->noperands; f++) s->weighs |= s->operands[f].step >= 0 && p->steps[s->operands[f].step]->weighs;
}

double elimination_run(StepProgram *p, double lambda, double most) {
  find_moved(p);
  for (int i = 0; i < p->nsteps; i++) {
    step_begin(p->steps[i], lambda, p->arena);
    p->steps[i]->floor = least_sum(p, p->steps[i]);
  }
  double slack = most - sum_of_roots(p, true);
  for (int i = 0; i < p->nsteps; i++) {
    Step *s = p->steps[i];
    if (s->split && s == s->split->parts[0]) {
      share_out(p, s->split, lambda);
      if (most < INFINITY) { /* otherwise floors are not needed */
        find_floors(p, i + s->split->n);
        slack = most - sum_of_roots(p, true);
      }
    }
    s->changed = !is_known(p, s, lambda, s->floor + slack);
    if (!s->changed) {
      if (solve_watch_work(p->p->watch, s->work)) return NAN; /* even if known: searches end at the same point */
      continue;
    }
    if (!s->table) {
      s->table = ARENA_ARRAY(p->arena, double, s->entries);
      s->choice = ARENA_ARRAY(p->arena, int, s->entries);
    }
    s->reach = -INFINITY; /* if interrupted, no entry is valid */
    fill_table(p, s, s->floor + slack);
    if (p->p->watch && p->p->watch->expired) return NAN;
    memset(s->choice, 0xff, sizeof *s->choice * s->entries);
    note_run(p, s, lambda, s->floor + slack);
  }
  return sum_of_roots(p, false);
}

/* ---- assignment */

/* Cost of one join of a variable, given the values of its scope. */
static double join_cost(const StepProgram *p, const Elimination *e, const int *values, int v, double lambda) {
  const Step *s = p->steps[e->step];
  double sum = step_own_cost(s, lambda, v);
  for (int f = 0; f < s->noperands; f++) {
    size_t at = s->offsets[s->n][f][s->maps[s->n][v]];
    for (int i = 0; i < s->n; i++) at += s->offsets[i][f][s->maps[i][values[e->scope[i]]]];
    sum += values_of(p, &s->operands[f])[at];
  }
  return sum;
}

int elimination_best_value(const StepProgram *p, int var, const int *values, double lambda) {
  int best = 0;
  double least = INFINITY;
  for (int v = 0; v < p->p->domain[var]; v++) {
    double sum = 0;
    for (int i = p->first[var]; i < p->last[var] && sum < least; i++)
      sum += join_cost(p, &p->eliminations[i], values, v, lambda);
    if (sum < least) least = sum, best = v;
  }
  return best;
}

/* In reverse order, all variables that a join depends on are known; equal joins with equal scopes have equal
 * answers. */
void elimination_assign(StepProgram *p, double lambda, int *values) {
  for (int k = p->p->nvars - 1; k >= 0; k--) {
    int var = p->order[k];
    const Elimination *e = &p->eliminations[p->first[var]];
    if (p->last[var] - p->first[var] > 1) {
      values[var] = elimination_best_value(p, var, values, lambda);
      continue;
    }
    int *known = &p->steps[e->step]->choice[step_entry(p, e, values)];
    if (*known < 0) *known = elimination_best_value(p, var, values, lambda);
    values[var] = *known;
  }
}
