/* tools/verify_matrix.c - the formulas of optimizers that update a whole weight, in doubles.  See verify_gradient.h.
 *
 * Written from docs/train.md and the definitions of Muon and Adafactor, not from the code that builds the update.
 */
#include <math.h>
#include <string.h>

#include "tools/verify_gradient.h"

static int64_t product(int n, const int64_t *dims) {
  int64_t p = 1;
  for (int d = 0; d < n; d++) p *= dims[d];
  return p;
}

static double norm_of(const double *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
  return sqrt(sum);
}

/* z = x y, of [n, k] and [k, m]. */
static void multiply(int64_t n, int64_t k, int64_t m, const double *x, const double *y, double *z) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) {
      double sum = 0;
      for (int64_t l = 0; l < k; l++) sum += x[i * k + l] * y[l * m + j];
      z[i * m + j] = sum;
    }
}

static void turn(int64_t n, int64_t m, const double *x, double *y) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) y[j * n + i] = x[i * m + j];
}

/* The Newton-Schulz iteration of a matrix with at most as many rows as columns. */
static void orthogonalise(Arena *a, int steps, int64_t n, int64_t m, double *x) {
  double *turned = ARENA_ARRAY(a, double, n *m), *gram = ARENA_ARRAY(a, double, n *n);
  double *square = ARENA_ARRAY(a, double, n *n), *moved = ARENA_ARRAY(a, double, n *m);
  double size = fmax(norm_of(x, n * m), 1e-7);
  for (int64_t i = 0; i < n * m; i++) x[i] /= size;
  for (int s = 0; s < steps; s++) {
    turn(n, m, x, turned);
    multiply(n, m, n, x, turned, gram);
    multiply(n, n, n, gram, gram, square);
    for (int64_t i = 0; i < n * n; i++) gram[i] = -4.7750 * gram[i] + 2.0315 * square[i];
    multiply(n, n, m, gram, x, moved);
    for (int64_t i = 0; i < n * m; i++) x[i] = 3.4445 * x[i] + moved[i];
  }
}

bool formula_is_whole(const Optimizer *o, const char *weight, int rank) {
  if (o->kind == OPTIMIZER_adafactor) return true;
  return o->kind == OPTIMIZER_muon && rank == 2 && !(o->adamw && training_glob(o->adamw, weight));
}

static void muon(Arena *a, const Optimizer *o, double rate, double decay, const UpdateWhole *x) {
  const int64_t rows = x->dims[0], columns = x->dims[1], n = rows * columns;
  double *u = ARENA_ARRAY(a, double, n), *turned = ARENA_ARRAY(a, double, n);
  for (int64_t i = 0; i < n; i++) {
    x->m[i] += (1 - o->momentum) * (x->g[i] - x->m[i]);
    u[i] = strcmp(o->nesterov, "yes") == 0 ? x->g[i] + o->momentum * (x->m[i] - x->g[i]) : x->m[i];
  }
  if (rows > columns) {
    turn(rows, columns, u, turned);
    orthogonalise(a, (int)o->ns_steps, columns, rows, turned);
    turn(columns, rows, turned, u);
  } else {
    orthogonalise(a, (int)o->ns_steps, rows, columns, u);
  }
  double ratio = sqrt(fmax(1, (double)rows / (double)columns));
  if (strcmp(o->adjust, "match_rms_adamw") == 0) ratio = 0.2 * sqrt((double)(rows > columns ? rows : columns));
  for (int64_t i = 0; i < n; i++) x->w[i] = x->w[i] * (1 - rate * decay) - rate * ratio * u[i];
}

/* The second moments of matrices of the last two dimensions, from means of their rows and columns. */
static void factor(const Optimizer *o, double part, const UpdateWhole *x, double *v) {
  const int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
  for (int64_t b = 0; b < product(x->rank - 2, x->dims); b++) {
    const double *g = x->g + b * rows * columns;
    double *row = x->row + b * rows, *column = x->column + b * columns, mean = 0;
    for (int64_t i = 0; i < rows; i++) {
      row[i] += part * (pow(norm_of(g + i * columns, columns), 2) / (double)columns - row[i]);
      mean += row[i] / (double)rows;
    }
    for (int64_t j = 0; j < columns; j++) {
      double sum = 0;
      for (int64_t i = 0; i < rows; i++) sum += g[i * columns + j] * g[i * columns + j];
      column[j] += part * (sum / (double)rows - column[j]);
    }
    for (int64_t i = 0; i < rows * columns; i++)
      v[b * rows * columns + i] = row[i / columns] * column[i % columns] / fmax(mean, o->eps1);
  }
}

static void adafactor(Arena *a, const Optimizer *o, double t, double rate, double decay, const UpdateWhole *x) {
  const int64_t n = product(x->rank, x->dims);
  double part = pow(t, o->beta2_decay), *v = ARENA_ARRAY(a, double, n);
  double size = fmax(o->eps2, norm_of(x->w, n) / sqrt((double)n)), step = fmin(rate, 1 / sqrt(t));
  if (x->rank > 1) factor(o, part, x, v);
  for (int64_t i = 0; i < n && x->rank <= 1; i++) v[i] = x->m[i] += part * (x->g[i] * x->g[i] - x->m[i]);
  for (int64_t i = 0; i < n; i++) v[i] = x->g[i] / sqrt(fmax(v[i], o->eps1 * o->eps1));
  double above = fmax(1, norm_of(v, n) / sqrt((double)n) / o->d);
  for (int64_t i = 0; i < n; i++) x->w[i] = x->w[i] * (1 - rate * decay) - size * step / above * v[i];
}

void formula_whole(Arena *a, const Optimizer *o, const char *weight, double t, const UpdateWhole *x) {
  double rate = formula_rate(o, t), decay = formula_decays(o, weight) ? o->weight_decay : 0;
  if (o->kind == OPTIMIZER_muon) muon(a, o, rate, decay, x);
  else adafactor(a, o, t, rate, decay, x);
}
