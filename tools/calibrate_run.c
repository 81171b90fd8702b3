/* tools/calibrate_run.c - see calibrate.h.
 *
 * A probe runs in its ranks like any program.  Every call of an instruction is recorded, and the least time counts:
 * other load on the machine only adds time.  If ranks wait for each other, the time of the last rank to arrive counts.
 */
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_text.h"
#include "tools/calibrate.h"
#include "tools/execute.h"

enum { EVENTS = 1 << 15, WARM = 3, LEAST_RUNS = 3, ROUNDS = 4, CALLS = 150 }; /* CALLS: at most this many per run */

static bool failed(Calibrate *c) { return c->code = tool_failed(c->t->diags), false; }

static bool ran(Calibrate *c, ApcModel *m, ApcStatus status) {
  c->code = tool_program_status(c->t, m, status);
  return status == APC_OK;
}

/* ---- compiling */

static bool compile(Calibrate *c, const Probe *p, Build *b, const char *out) {
  const char *path = arena_printf(c->arena, "%s/%s.apc", c->scratch.path, p->name);
  DriverOptions o = {
      .model = {.arena = c->arena, .diags = c->t->diags, .path = path, .computes = true, .floats = p->floats},
      .target = p->target,
      .target_text = "a probe",
      .plan = {.pins = p->pins, .npins = p->npins},
      .save_temps = tool_temps(c->t, "calibrate"),
      .stub = tool_stub(c->arena),
      .producer = "apc " APC_VERSION};
  if (p->target->ranks > 1) o.plan.degree[DEGREE_tp] = p->target->ranks;
  driver_begin(b, &o);
  return file_write(c->t->diags, path, 0666, p->text, strlen(p->text)) && driver_run(b, DRIVER_lower) &&
         driver_write(b, p->target->device, out);
}

/* ---- running */

static bool bind(Calibrate *c, ApcModel *m) {
  ApcTensorInfo info;
  ApcStatus status = APC_OK;
  for (int i = 0; i < apc_inputs(m) && !status; i++) {
    status = apc_input_info(m, i, &info);
    if (!status) status = apc_bind_input_text(m, info.name, "random");
  }
  return ran(c, m, status);
}

/* Repeats runs for that long; gives the least time of a run. */
static bool repeat(Calibrate *c, ApcModel *m, double seconds, long most, double *least) {
  double begin = tool_now_ms();
  for (long i = 0; i < most && (i < LEAST_RUNS || tool_now_ms() - begin < seconds * 1e3); i++) {
    double before = tool_now_ms();
    if (!ran(c, m, apc_run_again(m))) return false;
    *least = fmin(*least, (tool_now_ms() - before) / 1e3);
  }
  return true;
}

/* ---- the recorded calls */

static ProbeTime *time_of(Calibrate *c, ProbeTimes *x, const char *name, const char *kind) {
  for (size_t i = 0; i < x->n; i++)
    if (strcmp(x->items[i].name, name) == 0 && strcmp(x->items[i].kind, kind) == 0) return &x->items[i];
  ARENA_PUSH(
      c->arena, x,
      ((ProbeTime){.name = arena_strdup(c->arena, name), .kind = arena_strdup(c->arena, kind), .seconds = INFINITY}));
  return &x->items[x->n - 1];
}

static bool read_trace(Calibrate *c, const char *path, ProbeTimes *out) {
  json_error_t error;
  json_t *j = json_load_file(path, 0, &error), *event;
  size_t i;
  if (!j) return diag_error(c->t->diags, DIAG_trace, (Loc){.file = path}, "%s", error.text), failed(c);
  json_array_foreach(json_object_get(j, "traceEvents"), i, event) {
    const char *name = json_string_value(json_object_get(event, "name")),
               *kind = json_string_value(json_object_get(event, "cat"));
    const json_t *us = json_object_get(event, "dur"); /* arrows between ranks have none */
    if (!name || !kind || !us || strcmp(kind, "predicted") == 0) continue;
    ProbeTime *t = time_of(c, out, name, kind);
    t->seconds = fmin(t->seconds, json_number_value(us) * 1e-6);
  }
  json_decref(j);
  return true;
}

/* ---- all probes */

/* Ranks start as many threads as cores are allowed: allows the first n. */
static void keep_cores(int n, cpu_set_t *all) {
  cpu_set_t few;
  CPU_ZERO(&few);
  sched_getaffinity(0, sizeof *all, all);
  for (size_t i = 0; i < CPU_SETSIZE && n > 0; i++)
    if (CPU_ISSET(i, all)) CPU_SET(i, &few), n--;
  sched_setaffinity(0, sizeof few, &few);
}

/* Starts the ranks by a first run. */
static bool begin(Calibrate *c, Probe *p, ApcModel *m) {
  cpu_set_t all;
  if (p->eager) setenv("APC_EAGER", "1", 1);
  if (p->threads) keep_cores(p->threads, &all);
  bool ok = bind(c, m) && ran(c, m, apc_run(m, NULL)) && repeat(c, m, 0, WARM, &p->times.request);
  if (p->eager) unsetenv("APC_EAGER");
  if (p->threads) sched_setaffinity(0, sizeof all, &all);
  return ok;
}

static ApcModel *open_probe(Calibrate *c, Probe *p) {
  Build b;
  const char *program = arena_printf(c->arena, "%s/%s", c->scratch.path, p->name);
  p->times = (ProbeTimes){.request = INFINITY};
  bool ok = compile(c, p, &b, program) || failed(c);
  driver_free(&b);
  ApcModel *m = ok ? tool_program_open(c->t, program, NULL, &c->code) : NULL;
  if (m && begin(c, p, m)) return m;
  apc_close(m);
  return NULL;
}

/* Measures whole runs first, then runs with every call recorded. */
static bool measure(Calibrate *c, Probe *p, ApcModel *m, double seconds) {
  enum { MOST = 10000 };
  const char *trace = arena_printf(c->arena, "%s/trace.json", c->scratch.path);
  double recorded = INFINITY;
  return repeat(c, m, seconds / 3, MOST, &p->times.request) && ran(c, m, apc_record(m, EVENTS)) &&
         repeat(c, m, seconds * 2 / 3, EVENTS / CALLS / p->target->ranks, &recorded) &&
         ran(c, m, apc_write_trace(m, trace, NULL)) && read_trace(c, trace, &p->times);
}

bool calibrate_run(Calibrate *c, Probe *probes, int n) {
  ApcModel **models = ARENA_ARRAY(c->arena, ApcModel *, n);
  bool ok = true;
  for (int i = 0; i < n && ok; i++) {
    tool_stage(c->t, "Compiling", "probes: %s (%d of %d)", probes[i].name, i + 1, n);
    ok = (models[i] = open_probe(c, &probes[i])) != NULL;
  }
  const int rounds = calibrate_is_rehearsal(c) ? 1 : ROUNDS;
  for (int round = 0; round < rounds && ok; round++) {
    tool_stage(c->t, "Measuring", "round %d of %d", round + 1, rounds);
    for (int i = 0; i < n && ok; i++) ok = measure(c, &probes[i], models[i], c->seconds / rounds / n);
  }
  for (int i = 0; i < n; i++) apc_close(models[i]);
  return ok;
}

/* True for "p3", and for "p3" followed by a point. */
static bool is_probe(const char *name, int i) {
  char *end;
  return name[0] == 'p' && strtol(name + 1, &end, 10) == i && end > name + 1 && (*end == 0 || *end == '.');
}

double calibrate_time(const ProbeTimes *x, int i, const char *kind) {
  double most = NAN;
  for (size_t k = 0; k < x->n; k++)
    if (strcmp(x->items[k].kind, kind) == 0 && is_probe(x->items[k].name, i)) most = fmax(most, x->items[k].seconds);
  return most;
}

void calibrate_note(Calibrate *c, const char *what, const char *size, double seconds, double flops, double bytes) {
  json_t *o = json_pack("{s:s, s:s, s:o}", "what", what, "size", size, "time_us", tool_json_real(seconds * 1e6));
  if (flops > 0) json_object_set_new(o, "gflop_per_s", tool_json_real(flops / seconds * 1e-9));
  if (bytes > 0) json_object_set_new(o, "gb_per_s", tool_json_real(bytes / seconds * 1e-9));
  json_array_append_new(c->measured, o);
}
