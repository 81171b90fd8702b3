/* tools/calibrate_gpu.c - the probes of a GPU; see calibrate.h.
 *
 * Copies the text of the known target with measured figures in place of its own: sustained rates of products, the rate
 * of memory, launches, and links between ranks.  Tiles, attention and all figures that are not measured stay.
 */
#include <math.h>
#include <string.h>

#include "frontend/topo/target.h"
#include "tools/calibrate.h"

enum { MANY = 64, MOVES = 2, SIZES = 2 };

static const ComputeType types[] = {CT_f32, CT_tf32, CT_f16, CT_bf16};
enum { TYPES = sizeof types / sizeof *types, ALL = 4 + MOVES + TYPES + 1 };

typedef struct GpuFigures {
  double launch, host;
  double share[CT_COUNT]; /* of the peak that products sustain; NAN if not measured */
  double bandwidth, ramp; /* share of the memory rate; bytes */
} GpuFigures;

static double share(double x) { return fmin(2, fmax(1e-3, x)); }

/* ---- probes */

static const char *small_kernels(Arena *a, int n) {
  Text inputs = {.arena = a}, body = {.arena = a};
  for (int i = 0; i < n; i++) {
    text_printf(&inputs, "%sx%d: f32[16]", i ? ", " : "", i);
    text_printf(&body, "output p%d = relu(x%d)\n", i, i);
  }
  return arena_printf(a, "entry main(%s) {\n%s}\n", text_str(&inputs), text_str(&body));
}

static long rows_of(const Calibrate *c, int level) {
  return calibrate_is_rehearsal(c) ? 64 << level : level ? 65536 : 4096;
}

static const char *moves_text(Calibrate *c, int level) {
  const long n = rows_of(c, level);
  return arena_printf(c->arena, "entry main(x: f32[%ld, 1024], y: f32[%ld, 1024]) {\n  output p0 = x + y\n}\n", n, n);
}

static int side_of(const Calibrate *c, int i) { return calibrate_is_rehearsal(c) ? 64 << i : 4096 << i; }

static const char *products_text(Calibrate *c) {
  Text inputs = {.arena = c->arena}, body = {.arena = c->arena};
  for (int i = 0; i < SIZES; i++) {
    int n = side_of(c, i);
    text_printf(&inputs, "%sx%d: f32[%d, %d]", i ? ", " : "", i, n, n);
    text_printf(&body, "weight w%d : f32[%d, %d] = normal(0.1)\noutput p%d = matmul(x%d, w%d)\n", i, n, n, i, i, i);
  }
  return arena_printf(c->arena, "entry main(%s) {\n%s}\n", text_str(&inputs), text_str(&body));
}

/* Returns the target with one rank of the machine. */
static const Target *one_rank(Calibrate *c) {
  return topo_target_find(c->t->diags, c->arena, arena_printf(c->arena, "%sx1", c->target->machine));
}

static int list_probes(Calibrate *c, const Target *one, Probe *out, int *products) {
  int n = 0;
  for (int eager = 0; eager < 2; eager++)
    for (int many = 0; many < 2; many++)
      out[n++] = (Probe){.name = arena_printf(c->arena, "%s%s", many ? "launches" : "request", eager ? "-issued" : ""),
                         .text = small_kernels(c->arena, many ? MANY : 1),
                         .target = one,
                         .eager = eager};
  for (int i = 0; i < MOVES; i++)
    out[n++] = (Probe){.name = arena_printf(c->arena, "moves%d", i), .text = moves_text(c, i), .target = one};
  for (int i = 0; i < TYPES; i++) {
    const Target *in = topo_target_computing_in(c->arena, one, types[i]);
    products[i] = in ? n : -1;
    if (in)
      out[n++] = (Probe){.name = arena_printf(c->arena, "products-%s", compute_name(types[i])),
                         .text = products_text(c),
                         .target = in,
                         .floats = compute_storage(types[i])};
  }
  if (c->target->ranks > 1) out[n++] = calibrate_comm_probe(c);
  return n;
}

/* ---- figures */

static void fit_moves(Calibrate *c, const Target *one, const Probe *p, GpuFigures *f) {
  double bytes[MOVES], seconds[MOVES];
  for (int i = 0; i < MOVES; i++) {
    bytes[i] = 12. * 1024 * (double)rows_of(c, i);
    seconds[i] = calibrate_time(&p[i].times, 0, "launch");
    calibrate_note(c, "move", arena_printf(c->arena, "%.0f bytes", bytes[i]), seconds[i], 0, bytes[i]);
  }
  double rate = (bytes[1] - bytes[0]) / fmax(1e-9, seconds[1] - seconds[0]);
  f->bandwidth = share(rate / one->memory_bandwidth);
  f->ramp = fmax(0, seconds[0] * f->bandwidth * one->memory_bandwidth - bytes[0]);
}

static void fit_products(Calibrate *c, const Target *one, ComputeType type, const ProbeTimes *x, GpuFigures *f) {
  double most = 0;
  for (int i = 0; i < SIZES; i++) {
    double n = side_of(c, i), work = 2 * n * n * n, seconds = calibrate_time(x, i, "gemm");
    calibrate_note(c, arena_printf(c->arena, "product, %s", compute_name(type)),
                   arena_printf(c->arena, "%.0fx%.0fx%.0f", n, n, n), seconds, work, 0);
    if (seconds > 0) most = fmax(most, work / seconds);
  }
  if (most > 0) f->share[type] = share(most / one->flops[type]);
}

static double per_kernel(Calibrate *c, const char *what, const Probe *one, const Probe *many) {
  double seconds = fmax(1e-9, (many->times.request - one->times.request) / (MANY - 1));
  calibrate_note(c, what, "", seconds, 0, 0);
  return seconds;
}

/* ---- the text, line by line */

typedef struct Rewrite {
  Calibrate *c;
  const GpuFigures *f;
  const char *kind; /* of the block */
  double link;      /* bytes per second; 0 if not measured */
  bool linked;      /* the first link has been written */
} Rewrite;

static bool begins(const char *line, const char *word) { return strncmp(line, word, strlen(word)) == 0; }

static void write_sustained(const Rewrite *r, Text *o) {
  for (int i = 0; i < CT_COUNT; i++)
    if (!isnan(r->f->share[i])) text_printf(o, "  sustained %s %.3g;\n", compute_name((ComputeType)i), r->f->share[i]);
  text_printf(o, "  bandwidth %.3g", r->f->bandwidth);
  if (r->f->ramp > 0) text_printf(o, " ramp %.4g KB", r->f->ramp / 1e3);
  text_add(o, ";\n");
}

static bool is_measured_type(const Rewrite *r, const char *line) {
  for (int i = 0; i < CT_COUNT; i++)
    if (!isnan(r->f->share[i]) &&
        begins(line, arena_printf(r->c->arena, "  sustained %s ", compute_name((ComputeType)i))))
      return true;
  return false;
}

/* Writes a statement of the text, with the measured figure if there is one. */
static void write_statement(Rewrite *r, Text *o, const char *line) {
  const bool kernels = strcmp(r->kind, "kernels") == 0, gpu = strcmp(r->kind, "gpu") == 0;
  size_t n = strlen(line) - 1; /* without the semicolon */
  if (kernels && (is_measured_type(r, line) || begins(line, "  bandwidth "))) return;
  if (r->link > 0 && begins(line, "  note \"assumed: ") && !strstr(line, "network")) return;
  if (gpu && begins(line, "  launch ")) text_printf(o, "  launch %.4g us;\n", r->f->launch * 1e6);
  else if (gpu && begins(line, "  host ")) text_printf(o, "  host %.4g us;\n", r->f->host * 1e6);
  else if (gpu && begins(line, "  kernels ")) text_printf(o, "%.*s-measured;\n", (int)n, line);
  else if (begins(line, "  devices ")) text_printf(o, "%.*s-measured;\n", (int)n, line);
  else if (begins(line, "  link ") && r->link > 0 && !r->linked) {
    text_printf(o, "  link %.*s joins %d at %.4g GB/s with ranks-measured;\n", (int)strcspn(line + 7, " "), line + 7,
                r->c->target->per_machine, r->link / 1e9);
    r->linked = true;
  } else if (!(begins(line, "  link ") && r->linked)) text_printf(o, "%s\n", line);
}

static void write_blocks(Rewrite *r, const char *text) {
  Text *o = &r->c->blocks;
  bool drops = false;
  for (const char *end; *text; text = end + (*end == '\n')) {
    end = text + strcspn(text, "\n");
    const char *line = arena_strndup(r->c->arena, text, (size_t)(end - text));
    if (*line != ' ' && strchr(line, '{')) {
      r->kind = arena_strndup(r->c->arena, line, strcspn(line, " "));
      drops = strcmp(r->kind, "protocols") == 0 ? r->link > 0 && !strstr(r->c->target->tiers[0].name, "network")
                                                : strcmp(r->kind, "target") == 0;
      bool renamed = strcmp(r->kind, "kernels") == 0 || strcmp(r->kind, "gpu") == 0;
      if (drops) continue;
      text_printf(o, "%.*s%s {\n", (int)strlen(line) - 2, line, renamed ? "-measured" : "");
      if (strcmp(r->kind, "kernels") == 0) write_sustained(r, o);
    } else if (!drops && strcmp(line, "}") == 0) {
      if (strcmp(r->kind, "machine") != 0) text_add(o, "}\n");
    } else if (!drops && *line) {
      write_statement(r, o, line);
    }
  }
}

bool calibrate_gpu(Calibrate *c) {
  GpuFigures f = {.ramp = 0};
  Probe probes[ALL];
  int products[TYPES];
  const Target *one = one_rank(c);
  const char *text = topo_target_text(c->t->diags, c->arena, c->target->machine, NULL);
  Rewrite r = {.c = c, .f = &f};
  if (!one || !text) return c->code = tool_failed(c->t->diags), false;
  const int n = list_probes(c, one, probes, products);
  if (!calibrate_run(c, probes, n)) return false;
  for (int i = 0; i < CT_COUNT; i++) f.share[i] = NAN;
  f.launch = per_kernel(c, "launch", &probes[0], &probes[1]);
  f.host = per_kernel(c, "issue", &probes[2], &probes[3]);
  fit_moves(c, one, probes + 4, &f);
  for (int i = 0; i < TYPES; i++)
    if (products[i] >= 0) fit_products(c, one, types[i], &probes[products[i]].times, &f);
  if (c->target->ranks > 1 && !calibrate_comm(c, &probes[n - 1].times, "ranks-measured", &r.link)) return false;
  write_blocks(&r, text);
  return true;
}
