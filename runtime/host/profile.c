/* runtime/host/profile.c - apc_profile: the ranks' recordings, as a table or JSON.
 *
 * The table shows, per pipeline stage, the rank that worked longest: the other ranks of its stage do the same on other
 * parts, and wait for it.  Equal instructions (of equal layers) share a line.  Sums of every rank follow.  JSON has
 * every instruction of every rank.
 *
 * An operation's fraction of the peak is the time it would take at the measured speeds, by arithmetic or by memory,
 * whichever is longer, over its time (Williams, Waterman and Patterson, "Roofline", 2009).
 */
#include <inttypes.h>
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
  double run_ns, work_ns; /* work: run time without waiting */
} Sums;

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
    in_calls += rows[i].ns;
  }
  RecordRow *moving = &s.of[MOVING];
  s.of[WAITING].ns = moving->wait_ns < moving->ns ? moving->wait_ns : moving->ns;
  moving->ns -= s.of[WAITING].ns;
  s.of[REST].ns += h->run_ns > in_calls ? h->run_ns - in_calls : 0;
  s.work_ns = s.run_ns - (double)s.of[WAITING].ns;
  return s;
}

/* ---- one operation, or several alike */

typedef struct Line {
  uint32_t instr, kind, kernel, alike; /* kernel: PROGRAM_NONE if it has none */
  RecordRow row;
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

/* Lists the instructions that the rank executed, equal ones as one line, the longest first. */
static size_t lines_of(const Program *p, RecordHead *h, Line *lines) {
  size_t n = 0, kept = 0;
  const RecordRow *rows = record_rows(h);
  for (uint32_t i = 0; i < p->n_instrs; i++)
    if (rows[i].calls) lines[n++] = (Line){i, p->instrs[i].kind, kernel_of(&p->instrs[i]), 0, rows[i]};
  qsort(lines, n, sizeof *lines, compare_whole);
  for (size_t i = 0, end; i < n; i = end, kept++) {
    Line all = lines[i];
    for (end = i + 1; end < n && compare_alike(&lines[i], &lines[end]) == 0; end++) {
      add_row(&all.row, &lines[end].row);
      all.alike++;
    }
    lines[kept] = all;
  }
  qsort(lines, kept, sizeof *lines, compare_time);
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

static void print_line(const Report *r, const RecordHead *h, const Line *l) {
  const ProgramInstr *x = &r->p->instrs[l->instr];
  double ms = (double)l->row.ns * 1e-6 / r->runs;
  text_printf(r->t, "  %9.3f  %4.1f %% %8.1f %9.1f", ms, 100 * (double)l->row.ns / ((double)h->run_ns + 1),
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
  size_t n = lines_of(p, h, r->lines), most = n > LINES_MOST + 1 ? LINES_MOST : n;
  text_printf(r->t, "\nrank %u", rank);
  if (p->stages > 1) text_printf(r->t, " of stage %u", program_stage(p, rank));
  text_printf(r->t, "%s: %.3f ms a run", p->ranks > 1 ? ", the busiest" : "", (double)h->run_ns * 1e-6 / r->runs);
  if (h->peak_flops > 0)
    text_printf(r->t, "; its %u thread%s can do %.1f GFLOP/s in f32 and read %.1f GB/s", h->threads,
                h->threads == 1 ? "" : "s", h->peak_flops * 1e-9, h->peak_bytes * 1e-9);
  text_add(r->t, "\n");
  text_add(r->t, "     ms/run   share    calls   us/call  GFLOP/s    GB/s  of peak  what\n");
  for (size_t i = 0; i < most; i++) print_line(r, h, &r->lines[i]);
  Line rest = {0};
  for (size_t i = most; i < n; i++) add_row(&rest.row, &r->lines[i].row);
  if (n > most)
    text_printf(r->t, "  %9.3f  %4.1f %% in %zu more lines (--profile=json has all)\n",
                (double)rest.row.ns * 1e-6 / r->runs, 100 * (double)rest.row.ns / ((double)h->run_ns + 1), n - most);
  text_add(r->t, "  in all\n");
  Sums s = sums_of(p, h);
  for (int k = 0; k < SORTS; k++) {
    const RecordRow *row = &s.of[k];
    if (!row->calls && !row->ns) continue;
    text_printf(r->t, "  %9.3f  %4.1f %% %8.1f %9s", (double)row->ns * 1e-6 / r->runs,
                100 * (double)row->ns / ((double)h->run_ns + 1), (double)row->calls / r->runs, "");
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
  for (uint32_t s = 0; s < r->p->stages; s++) print_rank(r, busiest(r, s));
  if (r->p->ranks > 1) print_ranks(r);
}

/* ---- JSON; without memory for a part the whole is NULL */

static json_t *add(json_t *list, json_t *item) {
  if (json_array_append_new(list, item) == 0) return list;
  json_decref(list);
  return NULL;
}

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
    list =
        add(list,
            json_pack("{s:I, s:o, s:s, s:o, s:s?, s:I, s:f, s:f, s:o, s:f, s:o, s:f, s:o, s:s?}", "instruction",
                      (json_int_t)i, "name", json_text(program_text(p, x->where)), "kind", program_instr_name(x->kind),
                      "kernel", json_text(kernel == PROGRAM_NONE ? NULL : program_text(p, p->kernels[kernel].name)),
                      "size", size, "calls", (json_int_t)r->calls, "time_us", (double)r->ns * 1e-3, "waiting_us",
                      (double)r->wait_ns * 1e-3, "flops", work ? json_real(r->flops) : json_null(), "bytes", r->bytes,
                      "gflop_per_s", work ? json_real(s.flops * 1e-9) : json_null(), "gb_per_s", s.bytes * 1e-9,
                      "of_peak", of_peak, "bound", s.bound));
  }
  return list;
}

static json_t *rank_json(const Report *r, uint32_t rank) {
  RecordHead *h = host_record_of(r->m, rank);
  Sums s = sums_of(r->p, h);
  json_t *sums = json_object();
  for (int k = 0; k < SORTS; k++) sums = json_set_text(sums, sorts[k].key, json_real((double)s.of[k].ns * 1e-3));
  return json_pack("{s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o, s:o}", "rank", (json_int_t)rank, "stage",
                   (json_int_t)program_stage(r->p, rank), "threads", (json_int_t)h->threads, "peak_gflop_per_s",
                   h->peak_flops * 1e-9, "peak_gb_per_s", h->peak_bytes * 1e-9, "time_us", s.run_ns * 1e-3, "load_us",
                   (double)h->load_ns * 1e-3, "sums_us", sums, "operations", operations_json(r->arena, r->p, h));
}

static char *json_of(const Report *r) {
  json_t *ranks = json_array();
  for (uint32_t i = 0; i < r->p->ranks; i++) ranks = add(ranks, rank_json(r, i));
  json_t *d = json_pack("{s:s, s:o, s:I, s:f, s:o}", "schema", "apc.profile/1", "program",
                        json_text(program_text(r->p, r->p->header->name)), "runs", (json_int_t)r->runs, "asked_us",
                        r->m->profile.asked_s * 1e6, "ranks", ranks);
  char *text = host_json_text(d);
  json_decref(d);
  return text;
}

/* ---- */

static char *report(ApcModel *m, bool json) {
  const Program *p = &m->artifact.program;
  Arena *arena = arena_new();
  Text t = {.arena = arena};
  Report r = {m, p, arena, &t, ARENA_ARRAY(arena, Line, p->n_instrs + 1u), (double)host_record_of(m, 0)->requests};
  char *text = NULL;
  if (json) {
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
  m->profile.text = report(m, json != 0);
  if (m->profile.text && *m->profile.text) return m->profile.text;
  rt_error(&m->error, RT_FAILED, "out of memory");
  return "";
}
