/* tools/calibrate_comm.c - measures collectives between ranks; see calibrate.h.
 *
 * Pins force layouts between which each collective is the only conversion.  The times of a ring, over all sizes and
 * kinds, are one linear function of its steps and bytes (passes/cost/comm.c), and so are those of messages between
 * pairs.
 */
#include <math.h>
#include <string.h>

#include "tools/calibrate.h"

typedef struct Kind {
  const char *name;
  bool sums; /* shards the summed dimension of the product; else its result */
  bool ring;
  int rounds;                   /* of the ring */
  const char *operand, *result; /* the sharded dimension: 0, 1 or "" for none */
} Kind;

static const Kind kinds[] = {{"all_reduce", true, true, 2, "1", ""},
                             {"reduce_scatter", true, true, 1, "1", "0"},
                             {"all_gather", false, true, 1, "0", ""},
                             {"all_to_all", false, false, 1, "0", "1"}};
enum { KINDS = sizeof kinds / sizeof *kinds, SIZES = 4, COLUMNS = 256, DEPTH = 32 };

static const int rows_of[SIZES] = {32, 128, 512, 2048}; /* 32 KiB to 2 MiB */

/* The leading dimension counts as the batch, so the probes have one before the sharded dimensions. */
static int dim_of(int d) { return d + 1; }

static void add_pins(PlanPin *pins, int *n, const char *glob, const char *cut) {
  for (int d = 0; d < 2; d++) {
    if (*cut && *cut - '0' != d) continue;
    pins[(*n)++] = (PlanPin){.text = glob, .glob = glob, .dim = dim_of(d), .degree = *cut ? DEGREE_tp : PIN_NO_DEGREE};
  }
}

/* Every conversion between a product and its user is one collective. */
static const char *probe_text(Arena *a) {
  Text inputs = {.arena = a}, body = {.arena = a};
  for (int k = 0; k < KINDS; k++)
    for (int i = 0; i < SIZES; i++) {
      text_printf(&inputs, "%sx%d_%d: f32[1, %d, %d]", inputs.n ? ", " : "", k, i, rows_of[i], DEPTH);
      text_printf(&body,
                  "  a%d_%d = relu(x%d_%d)\n  weight w%d_%d : f32[%d, %d] = normal(0.1)\n"
                  "  m%d_%d = matmul(a%d_%d, w%d_%d)\n  output p%d_%d = exp(m%d_%d)\n",
                  k, i, k, i, k, i, DEPTH, COLUMNS, k, i, k, i, k, i, k, i, k, i);
    }
  return arena_printf(a, "import nn\nentry main(%s) {\n%s}\n", text_str(&inputs), text_str(&body));
}

static bool is_of(const char *name, int k, int i) {
  int n = 0, kind, size;
  return name[0] && sscanf(name + 1, "%d_%d%n", &kind, &size, &n) == 2 && kind == k && size == i;
}

/* Returns the least time of the collective's slowest instruction; NAN if the plan has none. */
static double time_of(const ProbeTimes *x, int k, int i) {
  double seconds = NAN;
  for (size_t j = 0; j < x->n; j++)
    if (strcmp(x->items[j].kind, kinds[k].name) == 0 && is_of(x->items[j].name, k, i))
      seconds = fmax(seconds, x->items[j].seconds);
  return seconds;
}

Probe calibrate_comm_probe(Calibrate *c) {
  PlanPin *pins = ARENA_ARRAY(c->arena, PlanPin, 4 * KINDS);
  int n = 0;
  for (int k = 0; k < KINDS; k++) {
    add_pins(pins, &n, arena_printf(c->arena, "%c%d_*", kinds[k].sums ? 'a' : 'm', k), kinds[k].operand);
    add_pins(pins, &n, arena_printf(c->arena, "p%d_*", k), kinds[k].result);
  }
  return (Probe){.name = "collectives", .text = probe_text(c->arena), .target = c->target, .pins = pins, .npins = n};
}

/* base and step cannot be separated if all collectives have one step per round, as between two ranks. */
static void print_way(Calibrate *c, const char *word, const double factor[FIT_FEATURES], double rate) {
  text_printf(&c->blocks, "  %s measured base %.4g us step %.4g us share %.4g;\n", word, factor[0] * 1e6,
              factor[1] * 1e6, fmin(2, fmax(1e-3, 1 / (factor[2] * rate))));
}

bool calibrate_comm(Calibrate *c, const ProbeTimes *x, const char *name, double *rate) {
  FitRow ring[KINDS * SIZES], direct[SIZES];
  int nring = 0, ndirect = 0;
  const double n = c->target->ranks;
  double factor[FIT_FEATURES], pairs[FIT_FEATURES];
  for (int k = 0; k < KINDS; k++)
    for (int i = 0; i < SIZES; i++) {
      double seconds = time_of(x, k, i), bytes = 4. * rows_of[i] * COLUMNS;
      calibrate_note(c, kinds[k].name, arena_printf(c->arena, "%.0f bytes", bytes), seconds, 0, bytes);
      if (kinds[k].ring)
        ring[nring++] = (FitRow){{1, kinds[k].rounds * (n - 1), kinds[k].rounds * (n - 1) / n * bytes}, seconds, 0};
      else direct[ndirect++] = (FitRow){{1, n - 1, (n - 1) / n * bytes}, seconds, 0};
    }
  calibrate_fit(nring, ring, 3, factor);
  calibrate_fit(ndirect, direct, 3, pairs);
  if (!(factor[2] > 0))
    return diag_error(c->t->diags, DIAG_run, (Loc){0},
                      "collectives of any size take the same time: "
                      "the machine is too busy to measure them"),
           c->code = EXIT_RUN, false;
  if (!(pairs[2] > 0)) pairs[2] = factor[2];
  double link = 1 / fmin(factor[2], pairs[2]);
  text_printf(&c->blocks, "protocols %s {\n", name);
  print_way(c, "ring", factor, link);
  print_way(c, "direct", pairs, link);
  text_add(&c->blocks, "}\n");
  *rate = link * (c->target->device->shared_memory ? n : 1); /* a CPU's link figure is that of the whole machine */
  return true;
}
