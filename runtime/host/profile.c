/* runtime/host/profile.c - apc_profile: the ranks' recordings, as a table or JSON.
 *
 * The table shows, per pipeline stage, the rank that worked longest: the other ranks of its stage do the same on other
 * parts, and wait for it.  Equal instructions (of equal layers) share a line.  Sums of every rank follow.  JSON has
 * every instruction of every rank.
 *
 * The Program carries the predicted time of each instruction and of a request (program/program.h), which stands beside
 * the measured one.  A prediction covers what the plan's price covers; "-" stands beside other work.
 *
 * An operation's fraction of the peak is the time it would take at the measured speeds, by arithmetic or by memory,
 * whichever is longer, over its time (Williams, Waterman and Patterson, "Roofline", 2009).
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "base/text.h"
#include "runtime/host/host.h"

enum { LINES_MOST = 40 };

/* Kinds of work that an instruction's time counts as. */
typedef enum Sort { PRODUCT, CONVOLUTION, KERNEL, COPY, MOVING, WAITING, PORTS, REST, SORTS } Sort;

static const struct {
  const char *name, *key;
} sorts[SORTS] = {
    {"products", "products"},        {"convolutions", "convolutions"},    {"kernels", "kernels"},
    {"copies and fills", "copies"},  {"communication, moving", "moving"}, {"communication, waiting", "waiting"},
    {"inputs and outputs", "ports"}, {"everything else", "other"}};

static Sort sort_of(uint32_t kind) {
  switch ((ProgramInstrKind)kind) {
    case PI_gemm: return PRODUCT;
    case PI_conv: return CONVOLUTION;
    case PI_launch: return KERNEL;
    case PI_copy:
    case PI_fill: return COPY;
    case PI_wait: return MOVING;
    case PI_feed:
    case PI_fetch:
    case PI_load: return PORTS;
    default: return program_instr_is_comm(kind) ? MOVING : REST;
  }
}

/* Sums over all recorded runs of a rank. */
typedef struct Sums {
  RecordRow of[SORTS];
  double run_ns, work_ns;     /* work: run time without waiting */
  double predicted_ns[SORTS]; /* of the same calls */
} Sums;

static double predicted_ns(const Program *p, uint32_t instr, uint64_t calls) {
  return p->n_predicted ? 1e9 * (double)p->predicted[instr] * (double)calls : 0;
}

/* Returns the predicted nanoseconds of a run, of the only entry that the rank executed; 0 if unknown. */
static double predicted_run_ns(const Program *p, RecordHead *h) {
  const RecordRow *rows = record_rows(h);
  uint32_t entry = PROGRAM_NONE;
  for (uint32_t b = 0; b < p->n_bodies; b++) {
    const ProgramBody *body = &p->bodies[b];
    bool called = false;
    for (uint32_t i = body->instrs; i < body->instrs + body->n && !called; i++) called = rows[i].calls > 0;
    if (!called || p->entries[body->entry].prepare) continue;
    if (entry != PROGRAM_NONE && entry != body->entry) return 0;
    entry = body->entry;
  }
  return entry == PROGRAM_NONE ? 0 : 1e9 * p->entries[entry].seconds;
}

static void add_row(RecordRow *to, const RecordRow *r) {
  to->calls += r->calls;
  to->ns += r->ns;
  to->wait_ns += r->wait_ns;
  to->flops += r->flops;
  to->bytes += r->bytes;
}

static Sums sums_of(const Program *p, RecordHead *h) {
  Sums s = {.run_ns = (double)h->run_ns};
  const RecordRow *rows = record_rows(h);
  uint64_t in_calls = 0;
  for (uint32_t i = 0; i < p->n_instrs; i++) {
    add_row(&s.of[sort_of(p->instrs[i].kind)], &rows[i]);
    s.predicted_ns[sort_of(p->instrs[i].kind)] += predicted_ns(p, i, rows[i].calls);
    in_calls += rows[i].ns;
  }
  RecordRow *moving = &s.of[MOVING];
  s.of[WAITING].ns = moving->wait_ns < moving->ns ? moving->wait_ns : moving->ns;
  moving->ns -= s.of[WAITING].ns;
  s.of[REST].ns += h->run_ns > in_calls ? h->run_ns - in_calls : 0;
  double rest = predicted_run_ns(p, h) * (double)h->requests; /* for the host, or for other stages */
  const double least = 1e-3 * rest;                           /* the sum of single times is not exact */
  for (int k = 0; k < SORTS; k++) rest -= s.predicted_ns[k];
  s.predicted_ns[p->stages > 1 ? WAITING : REST] += rest > least ? rest : 0;
  s.work_ns = s.run_ns - (double)s.of[WAITING].ns;
  return s;
}

/* ---- one operation, or several alike */

typedef struct Line {
  uint32_t instr, kind, kernel, alike; /* kernel: PROGRAM_NONE if it has none */
  RecordRow row;
  double predicted_ns;
} Line;

/* Comparison with the peak, which data in caches may exceed, and so may any work if the machine was busy when the peak
 * was measured.  bound: "arithmetic", "memory", or NULL if unknown, as for work that neither cores nor memory of this
 * machine limit. */
typedef struct Speed {
  double flops, bytes, of_peak;
  const char *bound;
} Speed;

static Speed speed_of(const RecordHead *h, const RecordRow *r, Sort sort) {
  double seconds = (double)r->ns * 1e-9;
  Speed s = {0};
  if (seconds <= 0) return s;
  s.flops = r->flops / seconds;
  s.bytes = r->bytes / seconds;
  if ((sort >= MOVING && sort != PORTS) || r->bytes <= 0 || h->peak_flops <= 0 || h->peak_bytes <= 0) return s;
  double arithmetic = s.flops / h->peak_flops, memory = s.bytes / h->peak_bytes;
  s.of_peak = arithmetic > memory ? arithmetic : memory;
  s.bound = arithmetic > memory ? "arithmetic" : "memory";
  return s;
}

static uint32_t kernel_of(const ProgramInstr *x) {
  return program_instr_object(x->kind) == PO_KERNEL ? x->object : PROGRAM_NONE;
}

static int order_of(double a, double b) { return (a > b) - (a < b); }

/* Returns 0 if the lines differ only in name and time. */
static int compare_alike(const void *a, const void *b) {
  const Line *x = a, *y = b;
  int c = order_of(x->kind, y->kind);
  if (!c) c = order_of(x->kernel, y->kernel);
  if (!c) c = order_of((double)x->row.calls, (double)y->row.calls);
  if (!c) c = order_of(x->row.flops, y->row.flops);
  if (!c) c = memcmp(x->row.size, y->row.size, sizeof x->row.size);
  return c ? c : order_of(x->row.bytes, y->row.bytes);
}

static int compare_whole(const void *a, const void *b) {
  const Line *x = a, *y = b;
  int c = compare_alike(a, b);
  return c ? c : order_of(x->instr, y->instr);
}

static int compare_time(const void *a, const void *b) {
  const Line *x = a, *y = b;
  int c = order_of((double)y->row.ns, (double)x->row.ns);
  return c ? c : order_of(x->instr, y->instr);
}

/* The time that a prediction is about: another rank may come late to communication. */
static double moving_ns(const RecordRow *r) {
  return (double)r->ns - (double)(r->wait_ns < r->ns ? r->wait_ns : r->ns);
}

static double fault_of(const Line *l) { return fabs(moving_ns(&l->row) - l->predicted_ns); }

static int compare_fault(const void *a, const void *b) {
  const Line *x = a, *y = b;
  int c = order_of(fault_of(y), fault_of(x));
  return c ? c : order_of(x->instr, y->instr);
}

/* Lists the instructions that the rank executed, equal ones as one line, the longest first, or those that differ most
 * from their prediction. */
static size_t lines_of(const Program *p, RecordHead *h, bool worst, Line *lines) {
  size_t n = 0, kept = 0;
  const RecordRow *rows = record_rows(h);
  for (uint32_t i = 0; i < p->n_instrs; i++)
    if (rows[i].calls)
      lines[n++] =
          (Line){i, p->instrs[i].kind, kernel_of(&p->instrs[i]), 0, rows[i], predicted_ns(p, i, rows[i].calls)};
  qsort(lines, n, sizeof *lines, compare_whole);
  for (size_t i = 0, end; i < n; i = end, kept++) {
    Line all = lines[i];
    for (end = i + 1; end < n && compare_alike(&lines[i], &lines[end]) == 0; end++) {
      add_row(&all.row, &lines[end].row);
      all.predicted_ns += lines[end].predicted_ns;
      all.alike++;
    }
    lines[kept] = all;
  }
  qsort(lines, kept, sizeof *lines, worst ? compare_fault : compare_time);
  return kept;
}

/* ---- text */

/* Returns the size of a product or convolution: "128x768x3072", "12 of 128x64x128"; "14x14, 256 to 256, 3x3", "56x56,
 * 144 groups, 3x3"; "" for other instructions. */
static const char *size_text(Arena *a, uint32_t kind, const int64_t *size) {
  Text t = {.arena = a};
  if (kind != PI_gemm && kind != PI_conv) return "";
  if (size[0] != 1) text_printf(&t, "%" PRId64 " of ", size[0]);
  if (kind == PI_gemm) {
    text_printf(&t, "%" PRId64 "x%" PRId64 "x%" PRId64, size[1], size[2], size[3]);
    return text_str(&t);
  }
  const int64_t *output = size + 4, *window = size + 7;
  int first = 0; /* a two-dimensional image has leading 1s */
  while (first < 2 && output[first] == 1 && window[first] == 1) first++;
  for (int i = first; i < 3; i++) text_printf(&t, "%s%" PRId64, i > first ? "x" : "", output[i]);
  if (size[1] != 1) text_printf(&t, ", %" PRId64 " groups", size[1]);
  if (size[1] == 1 || size[2] * size[3] != 1) text_printf(&t, ", %" PRId64 " to %" PRId64, size[2], size[3]);
  for (int i = first; i < 3; i++) text_printf(&t, "%s%" PRId64, i > first ? "x" : ", ", window[i]);
  return text_str(&t);
}

typedef struct Report {
  ApcModel *m;
  const Program *p;
  Arena *arena;
  Text *t;
  Line *lines;
  double runs;
  bool worst; /* the worst predictions first */
} Report;

/* Prints a number with that width, or "-" if it is unknown. */
static void print_rate(const Report *r, const char *format, int width, double value) {
  if (value > 0) text_printf(r->t, format, width, value);
  else text_printf(r->t, "%*s", width, "-");
}

static void print_speed(const Report *r, const RecordHead *h, const RecordRow *row, Sort sort) {
  Speed s = speed_of(h, row, sort);
  print_rate(r, " %*.1f", 8, s.flops * 1e-9);
  print_rate(r, " %*.1f", 7, s.bytes * 1e-9);
  if (s.bound && s.of_peak > 1) text_printf(r->t, "  >100 %% %c", *s.bound);
  else if (s.bound) text_printf(r->t, "  %4.0f %% %c", s.of_peak * 100, *s.bound);
  else text_add(r->t, "       - ");
}

/* Prints the predicted milliseconds of a run and how many times as long the measured ones are.  "!" marks a factor of 2
 * that costs 1 % of the run. */
static void print_predicted(const Report *r, double run_ns, double ns, double predicted) {
  if (predicted <= 0) {
    text_printf(r->t, " %9s %7s ", "-", "-");
    return;
  }
  const double ratio = ns / predicted;
  const bool wrong = (ratio > 2 || ratio < 0.5) && fabs(ns - predicted) > 0.01 * run_ns;
  text_printf(r->t, " %9.3f", predicted * 1e-6 / r->runs);
  if (ratio < 999.5) text_printf(r->t, " %7.2f%s", ratio, wrong ? "!" : " ");
  else text_printf(r->t, "   >999 !");
}

static void print_line(const Report *r, const RecordHead *h, const Line *l) {
  const ProgramInstr *x = &r->p->instrs[l->instr];
  double ms = (double)l->row.ns * 1e-6 / r->runs;
  text_printf(r->t, "  %9.3f", ms);
  print_predicted(r, (double)h->run_ns, moving_ns(&l->row), l->predicted_ns);
  text_printf(r->t, "  %4.1f %% %8.1f %9.1f", 100 * (double)l->row.ns / ((double)h->run_ns + 1),
              (double)l->row.calls / r->runs, (double)l->row.ns * 1e-3 / (double)l->row.calls);
  print_speed(r, h, &l->row, sort_of(x->kind));
  text_printf(r->t, "  %s", program_instr_name(x->kind));
  if (l->kernel != PROGRAM_NONE) text_printf(r->t, " %s", program_text(r->p, r->p->kernels[l->kernel].name));
  const char *size = size_text(r->arena, x->kind, l->row.size);
  text_printf(r->t, "%s%s  %s", *size ? " " : "", size, text_shown(r->arena, program_text(r->p, x->where)));
  if (l->alike) text_printf(r->t, "  and %u alike", l->alike);
  text_add(r->t, "\n");
}

static void print_rank(const Report *r, uint32_t rank) {
  RecordHead *h = host_record_of(r->m, rank);
  const Program *p = r->p;
  size_t n = lines_of(p, h, r->worst, r->lines), most = n > LINES_MOST + 1 ? LINES_MOST : n;
  text_printf(r->t, "\nrank %u", rank);
  if (p->stages > 1) text_printf(r->t, " of stage %u", program_stage(p, rank));
  text_printf(r->t, "%s: %.3f ms a run", p->ranks > 1 ? ", the busiest" : "", (double)h->run_ns * 1e-6 / r->runs);
  const double predicted = predicted_run_ns(p, h);
  if (predicted > 0) text_printf(r->t, ", predicted %.3f ms", predicted * 1e-6);
  if (h->peak_flops > 0)
    text_printf(r->t, "; its %u thread%s can do %.1f GFLOP/s in f32 and read %.1f GB/s", h->threads,
                h->threads == 1 ? "" : "s", h->peak_flops * 1e-9, h->peak_bytes * 1e-9);
  text_add(r->t, "\n");
  text_add(r->t, "     ms/run predicted   ratio   share    calls   us/call  GFLOP/s    GB/s  of peak  what\n");
  for (size_t i = 0; i < most; i++) print_line(r, h, &r->lines[i]);
  Line rest = {0};
  for (size_t i = most; i < n; i++) add_row(&rest.row, &r->lines[i].row), rest.predicted_ns += r->lines[i].predicted_ns;
  if (n > most) {
    text_printf(r->t, "  %9.3f", (double)rest.row.ns * 1e-6 / r->runs);
    print_predicted(r, (double)h->run_ns, moving_ns(&rest.row), rest.predicted_ns);
    text_printf(r->t, "  %4.1f %% in %zu more lines (--profile=json has all)\n",
                100 * (double)rest.row.ns / ((double)h->run_ns + 1), n - most);
  }
  text_add(r->t, "  in all\n");
  Sums s = sums_of(p, h);
  for (int k = 0; k < SORTS; k++) {
    const RecordRow *row = &s.of[k];
    if (!row->calls && !row->ns && s.predicted_ns[k] <= 0) continue;
    text_printf(r->t, "  %9.3f", (double)row->ns * 1e-6 / r->runs);
    print_predicted(r, (double)h->run_ns, (double)row->ns, s.predicted_ns[k]);
    text_printf(r->t, "  %4.1f %% %8.1f %9s", 100 * (double)row->ns / ((double)h->run_ns + 1),
                (double)row->calls / r->runs, "");
    print_speed(r, h, row, (Sort)k);
    text_printf(r->t, "  %s\n", sorts[k].name);
  }
}

/* Returns the rank of the stage that worked longest. */
static uint32_t busiest(const Report *r, uint32_t stage) {
  uint32_t first = stage * r->p->ranks_per_stage, best = first;
  double most = -1;
  for (uint32_t i = first; i < first + r->p->ranks_per_stage; i++) {
    double work = sums_of(r->p, host_record_of(r->m, i)).work_ns;
    if (work > most) most = work, best = i;
  }
  return best;
}

static void print_ranks(const Report *r) {
  text_add(r->t, "\nms/run   all  products  convol.  kernels   copies   moving  waiting    ports     else\n");
  for (uint32_t i = 0; i < r->p->ranks; i++) {
    Sums s = sums_of(r->p, host_record_of(r->m, i));
    text_printf(r->t, "rank %-3u %8.3f", i, s.run_ns * 1e-6 / r->runs);
    for (int k = 0; k < SORTS; k++) text_printf(r->t, " %8.3f", (double)s.of[k].ns * 1e-6 / r->runs);
    text_add(r->t, "\n");
  }
}

/* True if the text begins with that word. */
static bool begins_with(const char *text, const char *word) {
  const size_t n = strlen(word);
  return strncmp(text, word, n) == 0 && (text[n] == 0 || text[n] == ' ');
}

/* Returns why the predicted times are not for this run: they are for other devices, for other sizes, or for a CPU of
 * fixed speeds; NULL if they are for it. */
static const char *prediction_note(const Report *r) {
  const Program *p = r->p;
  const char *planned = program_text(p, p->header->planned), *device = program_text(p, p->header->device);
  const char *arch = host_record_of(r->m, 0)->arch,
             *runs = *arch ? arena_printf(r->arena, "%s %s", device, arch) : device;
  Text t = {.arena = r->arena};
  if (!begins_with(planned, runs))
    text_printf(&t, "planned for another target: for %s, and these ranks run on %s", planned, runs);
  else if (strcmp(device, "cpu") == 0 && !strstr(planned, " calibrated"))
    text_add(&t, "that target has fixed speeds, not those of this machine (apc calibrate measures them)");
  for (uint32_t i = 0; i < p->n_symbols; i++) {
    const int64_t planned_size = program_default_size(&p->symbols[i]);
    if (p->symbols[i].most || planned_size == r->m->symbols[i]) continue;
    text_printf(&t, "%splanned for %s=%" PRId64 ", which is %" PRId64 " here", t.n ? "; " : "",
                program_text(p, p->symbols[i].name), planned_size, r->m->symbols[i]);
  }
  return t.n ? text_str(&t) : NULL;
}

/* Returns the rank with the longest runs. */
static uint32_t longest(const Report *r) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < r->p->ranks; i++)
    if (host_record_of(r->m, i)->run_ns > host_record_of(r->m, best)->run_ns) best = i;
  return best;
}

static void print_prediction(const Report *r) {
  RecordHead *h = host_record_of(r->m, longest(r));
  const double predicted = predicted_run_ns(r->p, h), ns = (double)h->run_ns / r->runs;
  if (predicted <= 0) return;
  const char *note = prediction_note(r);
  text_printf(r->t, "predicted for target %s: %.3f ms a run; the longest rank takes %.2f times as long%s%s\n",
              program_text(r->p, r->p->header->target), predicted * 1e-6, ns / predicted, note ? "\nnote: " : "",
              note ? note : "");
}

static void print_all(const Report *r) {
  double load = 0;
  for (uint32_t i = 0; i < r->p->ranks; i++) {
    double s = (double)host_record_of(r->m, i)->load_ns * 1e-9;
    if (s > load) load = s;
  }
  text_printf(r->t,
              "profile of %.0f run%s on %u rank%s: %.3f ms a run for the caller; loading the weights took %.3f s\n",
              r->runs, r->runs == 1 ? "" : "s", r->p->ranks, r->p->ranks == 1 ? "" : "s",
              r->m->profile.asked_s * 1e3 / r->runs, load);
  print_prediction(r);
  for (uint32_t s = 0; s < r->p->stages; s++) print_rank(r, busiest(r, s));
  if (r->p->ranks > 1) print_ranks(r);
}

/* ---- JSON; without memory for a part the whole is NULL */

static json_t *add(json_t *list, json_t *item) {
  if (json_array_append_new(list, item) == 0) return list;
  json_decref(list);
  return NULL;
}

/* Unknown times are null. */
static json_t *microseconds(double ns) { return ns > 0 ? json_real(ns * 1e-3) : json_null(); }

static json_t *operations_json(Arena *a, const Program *p, RecordHead *h) {
  json_t *list = json_array();
  const RecordRow *rows = record_rows(h);
  for (uint32_t i = 0; i < p->n_instrs; i++) {
    const ProgramInstr *x = &p->instrs[i];
    const RecordRow *r = &rows[i];
    if (!r->calls) continue;
    Speed s = speed_of(h, r, sort_of(x->kind));
    uint32_t kernel = kernel_of(x);
    bool work = x->kind == PI_gemm || x->kind == PI_conv;
    json_t *of_peak = s.bound ? json_real(s.of_peak < 1 ? s.of_peak : 1) : json_null();
    const char *size = work ? size_text(a, x->kind, r->size) : NULL;
    list = add(list, json_pack("{s:I, s:o, s:s, s:o, s:s?, s:I, s:f, s:o, s:f, s:o, s:f, s:o, s:f, s:o, s:s?}",
                               "instruction", (json_int_t)i, "name", json_text(program_text(p, x->where)), "kind",
                               program_instr_name(x->kind), "kernel",
                               json_text(kernel == PROGRAM_NONE ? NULL : program_text(p, p->kernels[kernel].name)),
                               "size", size, "calls", (json_int_t)r->calls, "time_us", (double)r->ns * 1e-3,
                               "predicted_us", microseconds(predicted_ns(p, i, r->calls)), "waiting_us",
                               (double)r->wait_ns * 1e-3, "flops", work ? json_real(r->flops) : json_null(), "bytes",
                               r->bytes, "gflop_per_s", work ? json_real(s.flops * 1e-9) : json_null(), "gb_per_s",
                               s.bytes * 1e-9, "of_peak", of_peak, "bound", s.bound));
  }
  return list;
}

static json_t *rank_json(const Report *r, uint32_t rank) {
  RecordHead *h = host_record_of(r->m, rank);
  Sums s = sums_of(r->p, h);
  json_t *sums = json_object(), *predicted = json_object();
  for (int k = 0; k < SORTS; k++) {
    sums = json_set_text(sums, sorts[k].key, json_real((double)s.of[k].ns * 1e-3));
    predicted = json_set_text(predicted, sorts[k].key, microseconds(s.predicted_ns[k]));
  }
  return json_pack("{s:I, s:I, s:I, s:f, s:f, s:f, s:o, s:f, s:o, s:o, s:o}", "rank", (json_int_t)rank, "stage",
                   (json_int_t)program_stage(r->p, rank), "threads", (json_int_t)h->threads, "peak_gflop_per_s",
                   h->peak_flops * 1e-9, "peak_gb_per_s", h->peak_bytes * 1e-9, "time_us", s.run_ns * 1e-3,
                   "predicted_us", microseconds(predicted_run_ns(r->p, h) * r->runs), "load_us",
                   (double)h->load_ns * 1e-3, "sums_us", sums, "predicted_sums_us", predicted, "operations",
                   operations_json(r->arena, r->p, h));
}

static char *json_of(const Report *r) {
  json_t *ranks = json_array();
  for (uint32_t i = 0; i < r->p->ranks; i++) ranks = add(ranks, rank_json(r, i));
  const Program *p = r->p;
  json_t *d =
      json_pack("{s:s, s:o, s:o, s:o, s:o, s:I, s:f, s:o}", "schema", "apc.profile/1", "program",
                json_text(program_text(p, p->header->name)), "target", json_text(program_text(p, p->header->target)),
                "predicted_us", microseconds(predicted_run_ns(p, host_record_of(r->m, longest(r)))), "prediction_note",
                json_text(prediction_note(r)), "runs", (json_int_t)r->runs, "asked_us", r->m->profile.asked_s * 1e6,
                "ranks", ranks);
  char *text = host_json_text(d);
  json_decref(d);
  return text;
}

/* ---- */

static char *report(ApcModel *m, int form) {
  const Program *p = &m->artifact.program;
  Arena *arena = arena_new();
  Text t = {.arena = arena};
  Report r = {
      m, p, arena, &t, ARENA_ARRAY(arena, Line, p->n_instrs + 1u), (double)host_record_of(m, 0)->requests, form == 2};
  char *text = NULL;
  if (form == 1) {
    text = json_of(&r);
  } else {
    print_all(&r);
    text = strdup(text_str(&t));
  }
  arena_free(arena);
  return text;
}

const char *apc_profile(ApcModel *m, int json) {
  if (!host_begin(m)) return "";
  RtStatus status = host_record_fetch(m);
  if (!status && host_record_of(m, 0)->requests == 0) status = rt_error(&m->error, RT_USAGE, "nothing was recorded");
  if (status) return "";
  free(m->profile.text);
  m->profile.text = report(m, json);
  if (m->profile.text && *m->profile.text) return m->profile.text;
  rt_error(&m->error, RT_FAILED, "out of memory");
  return "";
}
