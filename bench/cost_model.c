/* bench/cost_model.c - the cost model against published measurements: bench_cost_model [-v|--csv] [--bound PERCENT
 * PERCENT] [--means PERCENT PERCENT] FOLDER
 *
 * FOLDER holds collectives.csv and products.csv (bench/published): one measurement per row, with its source.  Rows with
 * `use` fit served to choose the constants of targets/; rows with `check` come from other sources.  Prints mean, median
 * and largest relative error per source; with --csv, prints instead one line per row for bench/accuracy.py: table,
 * target, operation or type, use, published and predicted seconds, source.  With --bound or --means it fails if the
 * median or the mean over all check rows of collectives or of products exceeds its bound.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "frontend/topo/target.h"
#include "passes/cost/comm.h"
#include "passes/cost/kernel.h"

enum { COLUMNS = 10 };

typedef struct Errors {
  double *items;
  size_t n, cap;
} Errors;

typedef struct Source {
  const char *target, *what, *use, *name;
  Errors errors;
} Source;

typedef struct Bench {
  Arena *arena;
  Diags *diags;
  bool verbose, csv;
  const char *table;
  struct {
    Source *items;
    size_t n, cap;
  } sources;
  Errors fit, check;
} Bench;

static int ascending(const void *x, const void *y) {
  double a = fabs(*(const double *)x), b = fabs(*(const double *)y);
  return a < b ? -1 : a > b;
}

static double median(Errors *e) {
  if (!e->n) return NAN;
  qsort(e->items, e->n, sizeof *e->items, ascending);
  return fabs(e->items[e->n / 2]);
}

static double mean(const Errors *e) {
  double sum = 0;
  for (size_t i = 0; i < e->n; i++) sum += fabs(e->items[i]);
  return e->n ? sum / (double)e->n : NAN;
}

/* Returns the text before the revision. */
static const char *short_name(Arena *a, const char *source) { return arena_strndup(a, source, strcspn(source, "@ ")); }

static void record(Bench *b, char **row, const char *what, const char *use, const char *source, double predicted,
                   double published) {
  double error = predicted / published - 1;
  Source *s = NULL;
  const char *name = short_name(b->arena, source);
  for (size_t i = 0; i < b->sources.n && !s; i++) {
    Source *x = &b->sources.items[i];
    if (strcmp(x->target, row[0]) == 0 && strcmp(x->what, what) == 0 && strcmp(x->name, name) == 0 &&
        strcmp(x->use, use) == 0)
      s = x;
  }
  if (!s) {
    ARENA_PUSH(b->arena, &b->sources, ((Source){.target = row[0], .what = what, .use = use, .name = name}));
    s = &b->sources.items[b->sources.n - 1];
  }
  ARENA_PUSH(b->arena, &s->errors, error);
  ARENA_PUSH(b->arena, strcmp(use, "fit") == 0 ? &b->fit : &b->check, error);
  if (b->csv) printf("%s,%s,%s,%s,%.9g,%.9g,%s\n", b->table, row[0], what, use, published, predicted, source);
  if (b->verbose)
    printf("%-18s %-5s %-14s %10s %10s %6s  published %10.1f us, predicted %10.1f us, %+6.1f %%\n", row[0], row[1],
           what, row[2], row[3], row[4], published * 1e6, predicted * 1e6, error * 100);
}

static double collective_seconds(const Target *t, const char *op, int ranks, double bytes) {
  static const struct {
    const char *name;
    CommKind kind;
  } kinds[] = {{"all_reduce", COMM_all_reduce},
               {"all_gather", COMM_all_gather},
               {"reduce_scatter", COMM_reduce_scatter},
               {"all_to_all", COMM_all_to_all}};
  CommGroup g = cost_group_block(t, ranks);
  CommCosts c = cost_comms(t, &g);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].name, op) == 0) return cost_comm_seconds(&c, kinds[i].kind, bytes);
  return cost_send_seconds(t, ranks, bytes);
}

/* target, ranks, op, bytes, us, use, source */
static bool collective_row(Bench *b, char **row) {
  const Target *t = topo_target_find(b->diags, b->arena, arena_printf(b->arena, "%sx%s", row[0], row[1]));
  if (!t) return false;
  record(b, row, row[2], row[5], row[6], collective_seconds(t, row[2], atoi(row[1]), atof(row[3])),
         atof(row[4]) * 1e-6);
  return true;
}

/* target, dtype, m, n, k, batch, tflops, use, source, host_us: the least time of the host to issue one product, if the
 * measured time includes it.  Results of fp8 products have 16 bits. */
static bool product_row(Bench *b, char **row) {
  const Target *t = topo_target_find(b->diags, b->arena, row[0]);
  ComputeType type;
  if (!t || !compute_find(row[1], &type) || !(t = topo_target_computing_in(b->arena, t, type))) return false;
  double m = atof(row[2]), n = atof(row[3]), k = atof(row[4]), batch = atof(row[5]),
         bytes = type == CT_fp8                      ? 1
                 : type == CT_f32 || type == CT_tf32 ? 4
                                                     : 2;
  double memory = cost_memory_seconds(t, batch * ((m * k + k * n) * bytes + m * n * fmax(bytes, 2)));
  double predicted = t->launch + fmax(cost_product_seconds(t, compute_storage(t->compute), batch, m, n, k), memory);
  record(b, row, row[1], row[7], row[8], fmax(predicted, atof(row[9]) * 1e-6),
         2 * batch * m * n * k / (atof(row[6]) * 1e12));
  return true;
}

static bool read_rows(Bench *b, const char *folder, const char *file, int columns, bool (*each)(Bench *, char **)) {
  const char *path = arena_printf(b->arena, "%s/%s", folder, file),
             *text = file_read_text(b->diags, b->arena, path, NULL);
  if (!text) return false;
  char *at = arena_strdup(b->arena, text), *line, *row[COLUMNS];
  strsep(&at, "\n"); /* names of columns */
  while ((line = strsep(&at, "\n")) && *line) {
    int n = 0;
    while (n < columns && (row[n] = strsep(&line, ","))) n++;
    if (n < columns || !each(b, row)) {
      fprintf(stderr, "%s: a row for %s cannot be used\n", path, row[0]);
      return false;
    }
  }
  return true;
}

static void report(Bench *b) {
  printf(
      "\n%s\n\n| target | what | use | rows | mean error | median | largest | source |\n| --- | --- | --- | --- | --- "
      "| "
      "--- | --- | --- |\n",
      b->table);
  for (size_t i = 0; i < b->sources.n; i++) {
    Source *s = &b->sources.items[i];
    double m = median(&s->errors);
    printf("| %s | %s | %s | %zu | %.1f %% | %.1f %% | %+.1f %% | %s |\n", s->target, s->what, s->use, s->errors.n,
           100 * mean(&s->errors), 100 * m, 100 * s->errors.items[s->errors.n - 1], s->name);
  }
  printf("\n%s: mean error of %zu rows that were fit %.1f %%, median %.1f %%; of %zu rows to check %.1f %%, %.1f %%\n",
         b->table, b->fit.n, 100 * mean(&b->fit), 100 * median(&b->fit), b->check.n, 100 * mean(&b->check),
         100 * median(&b->check));
}

/* Compares one table; false if a row cannot be used or a bound is exceeded. */
static bool compare(Bench *b, const char *folder, const char *file, int columns, bool (*each)(Bench *, char **),
                    const char *table, double most_median, double most_mean) {
  b->table = table;
  b->sources.n = b->fit.n = b->check.n = 0;
  bool ok = read_rows(b, folder, file, columns, each);
  if (!b->csv) report(b);
  if (100 * median(&b->check) <= most_median && 100 * mean(&b->check) <= most_mean) return ok;
  fprintf(stderr, "%s: the error exceeds the bound\n", table);
  return false;
}

static bool two_numbers(char **argv, int argc, int *i, const char *option, double *out) {
  if (*i + 2 >= argc || strcmp(argv[*i], option) != 0) return false;
  out[0] = atof(argv[*i + 1]), out[1] = atof(argv[*i + 2]), *i += 3;
  return true;
}

int main(int argc, char **argv) {
  Bench b = {.arena = arena_new()};
  double medians[2] = {INFINITY, INFINITY}, means[2] = {INFINITY, INFINITY};
  int i = 1;
  b.diags = diags_new(b.arena);
  if (i < argc && strcmp(argv[i], "-v") == 0) b.verbose = true, i++;
  if (i < argc && strcmp(argv[i], "--csv") == 0) b.csv = true, i++;
  while (two_numbers(argv, argc, &i, "--bound", medians) || two_numbers(argv, argc, &i, "--means", means)) continue;
  if (i + 1 != argc)
    return fprintf(stderr, "usage: %s [-v|--csv] [--bound PERCENT PERCENT] [--means PERCENT PERCENT] FOLDER\n",
                   argv[0]),
           2;
  bool ok = compare(&b, argv[i], "collectives.csv", 7, collective_row, "Collectives", medians[0], means[0]);
  ok = compare(&b, argv[i], "products.csv", 10, product_row, "Products", medians[1], means[1]) && ok;
  diags_print(b.diags, stderr, false);
  arena_free(b.arena);
  return ok ? 0 : 1;
}
