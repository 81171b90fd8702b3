/* tools/inspect_trace.c - apc inspect of a trace in the Trace Event Format (chrome://tracing, Perfetto): its length,
 * how busy every process was, and the events with the most time; for traces of compiled programs also the predicted
 * times beside the measured ones, by operation and by kind, and the worst predictions.
 *
 * Reads complete events (ph "X": name, ts, dur in microseconds, pid, tid); only counts other kinds, and the predicted
 * run of a measured trace (category "predicted").  An event may contain others of its row, as a run contains its calls.
 * A process is busy while an event runs that contains no other; events of several rows at the same time count once.  A
 * prediction ("predicted_us" of an event) is compared with the time in which the event did not wait for other ranks
 * ("waiting_us").  All these numbers are 0 to MOST_US.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "program/program.h"
#include "tools/inspect.h"

typedef struct Sum {
  const char *name;
  int64_t n;
  double us;
  double predicted, measured; /* us of the events that have a prediction */
} Sum;

typedef struct Sums {
  Sum *items;
  size_t n, cap;
} Sums;

typedef struct Span {
  const char *process;
  long long row;
  double begin, end; /* us */
  bool contains;     /* other events of its row */
} Span;

typedef struct Trace {
  struct {
    Span *items;
    size_t n, cap;
  } spans;
  size_t events;
  double begin, end; /* us */
  Sums names, processes, kinds;
} Trace;

enum { SHOWN = 10, WORST = 5 };
#define MOST_US 1e15 /* more than 30 years; sums of whole numbers of that size are still exact */

static Sum *add(Arena *a, Sums *sums, const char *name, double us) {
  size_t i = 0;
  while (i < sums->n && strcmp(sums->items[i].name, name) != 0) i++;
  if (i == sums->n) ARENA_PUSH(a, sums, ((Sum){.name = arena_strdup(a, name)}));
  sums->items[i].n++;
  sums->items[i].us += us;
  return &sums->items[i];
}

static void add_predicted(Sum *sum, double predicted, double measured) {
  if (predicted > 0) sum->predicted += predicted, sum->measured += measured;
}

/* Returns the kind of work of an event of a compiled program by its category, an instruction; NULL for others. */
static const char *kind_of(const char *category) {
  for (uint32_t k = 0; k < PI_COUNT && category; k++) {
    if (strcmp(category, program_instr_name(k)) != 0) continue;
    if (program_instr_is_comm(k) || k == PI_wait) return "communication";
    return k == PI_launch ? "kernels" : k == PI_gemm ? "products" : k == PI_conv ? "convolutions" : "everything else";
  }
  return NULL;
}

static int longest_first(const void *x, const void *y) {
  const Sum *a = x, *b = y;
  return a->us != b->us ? (a->us < b->us ? 1 : -1) : strcmp(a->name, b->name);
}

static double fault_of(const Sum *s) { return fabs(s->measured - s->predicted); }

static int worst_first(const void *x, const void *y) {
  const Sum *a = x, *b = y;
  const double p = fault_of(a), q = fault_of(b);
  return p != q ? (p < q ? 1 : -1) : strcmp(a->name, b->name);
}

/* ---- how busy processes were */

static int compare(double x, double y) { return (x > y) - (x < y); }

/* By process and row; containing events before those in them. */
static int by_row(const void *x, const void *y) {
  const Span *a = x, *b = y;
  const int process = strcmp(a->process, b->process);
  if (process) return process;
  if (a->row != b->row) return a->row < b->row ? -1 : 1;
  return a->begin != b->begin ? compare(a->begin, b->begin) : compare(b->end, a->end);
}

static int by_time(const void *x, const void *y) {
  const Span *a = x, *b = y;
  const int process = strcmp(a->process, b->process);
  return process ? process : compare(a->begin, b->begin);
}

/* Fills the microseconds of `processes`. */
static void find_busy(Trace *t) {
  Span *spans = t->spans.items;
  const size_t n = t->spans.n;
  if (!n) return;
  qsort(spans, n, sizeof *spans, by_row);
  for (size_t i = 0; i + 1 < n; i++) {
    const Span *a = &spans[i], *b = a + 1; /* the first one in it, if any, follows it */
    spans[i].contains =
        strcmp(a->process, b->process) == 0 && a->row == b->row && b->begin < a->end && b->end <= a->end;
  }
  qsort(spans, n, sizeof *spans, by_time);
  double until = 0; /* the end of the events so far */
  for (size_t i = 0, k = 0; i < n; i++) {
    const Span *x = &spans[i];
    if (i == 0 || strcmp(x->process, x[-1].process) != 0) {
      for (k = 0; strcmp(t->processes.items[k].name, x->process) != 0;) k++;
      until = x->begin;
    }
    if (x->contains || x->end <= until) continue;
    t->processes.items[k].us += x->end - (x->begin > until ? x->begin : until);
    until = x->end;
  }
}

/* ---- events */

static bool bad_event(Tool *t, const char *path, size_t i, const char *what) {
  return diag_error(t->diags, DIAG_trace, (Loc){.file = path}, "event %zu: %s", i, what);
}

/* Fails if the event has a number of microseconds that is negative or beyond MOST_US. */
static bool check_number(Tool *t, const char *path, size_t i, const json_t *of, const char *name) {
  const double us = json_number_value(json_object_get(of, name));
  return (us >= 0 && us <= MOST_US) ||
         bad_event(t, path, i, arena_printf(t->arena, "\"%s\" is %g; it must be 0 to %g", name, us, MOST_US));
}

static bool check_numbers(Tool *t, const char *path, size_t i, const json_t *event) {
  const json_t *args = json_object_get(event, "args");
  return check_number(t, path, i, event, "ts") && check_number(t, path, i, event, "dur") &&
         check_number(t, path, i, args, "predicted_us") && check_number(t, path, i, args, "waiting_us");
}

static bool read_event(Tool *t, const char *path, size_t i, const json_t *event, Trace *out) {
  if (!json_is_object(event)) return bad_event(t, path, i, "it is not an object");
  const char *phase = json_string_value(json_object_get(event, "ph"));
  if (!phase) return bad_event(t, path, i, "it has no phase (\"ph\")");
  out->events++;
  const char *category = json_string_value(json_object_get(event, "cat"));
  if (strcmp(phase, "X") != 0 || (category && strcmp(category, "predicted") == 0)) return true;
  const json_t *name = json_object_get(event, "name"), *ts = json_object_get(event, "ts"),
               *dur = json_object_get(event, "dur");
  const json_t *pid = json_object_get(event, "pid");
  if (!json_is_string(name) || !json_is_number(ts) || !json_is_number(dur))
    return bad_event(t, path, i, "it lacks name, ts or dur");
  if (!check_numbers(t, path, i, event)) return false;
  double begin = json_number_value(ts), us = json_number_value(dur);
  if (!out->names.n || begin < out->begin) out->begin = begin;
  if (!out->names.n || begin + us > out->end) out->end = begin + us;
  const json_t *args = json_object_get(event, "args");
  const double predicted = json_number_value(json_object_get(args, "predicted_us"));
  const double measured = us - json_number_value(json_object_get(args, "waiting_us"));
  add_predicted(add(t->arena, &out->names, json_string_value(name), us), predicted, measured);
  const char *kind = kind_of(category);
  if (kind) add_predicted(add(t->arena, &out->kinds, kind, us), predicted, measured);
  const char *process =
      json_is_string(pid) ? json_string_value(pid) : arena_printf(t->arena, "%lld", (long long)json_integer_value(pid));
  Span span = {.process = process, .begin = begin, .end = begin + us};
  span.row = (long long)json_integer_value(json_object_get(event, "tid"));
  ARENA_PUSH(t->arena, &out->spans, span);
  add(t->arena, &out->processes, process, 0);
  return true;
}

/* One line of the table: the time, and of calls with a prediction the time without waiting, the predicted one and their
 * ratio. */
static void show_sum(Arena *a, const char *title, const Sum *s) {
  const char *time = show_seconds(a, s->us * 1e-6), *work = "-", *predicted = "-", *ratio = "-";
  if (s->predicted > 0) {
    work = show_seconds(a, s->measured * 1e-6), predicted = show_seconds(a, s->predicted * 1e-6);
    ratio = arena_printf(a, "%.2f", s->measured / s->predicted);
  }
  printf("  %-12s %10s %10s %10s %7s %8lld  %s\n", title, time, work, predicted, ratio, (long long)s->n,
         text_shown(a, s->name));
}

/* Shows the sums by kind, and the names whose time differs most from the predicted one. */
static void show_predictions(Tool *t, const Trace *trace) {
  Sum all = {.name = "all calls"};
  for (size_t i = 0; i < trace->kinds.n; i++) {
    const Sum *s = &trace->kinds.items[i];
    all.predicted += s->predicted, all.measured += s->measured, all.us += s->us, all.n += s->n;
  }
  if (all.predicted <= 0) return;
  for (size_t i = 0; i < trace->kinds.n; i++) show_sum(t->arena, i ? "" : "kinds", &trace->kinds.items[i]);
  show_sum(t->arena, "", &all);
  Sum *worst = ARENA_ARRAY(t->arena, Sum, trace->names.n + 1);
  size_t n = 0;
  for (size_t i = 0; i < trace->names.n; i++)
    if (trace->names.items[i].predicted > 0) worst[n++] = trace->names.items[i];
  qsort(worst, n, sizeof *worst, worst_first);
  for (size_t i = 0; i < n && i < WORST; i++) show_sum(t->arena, i ? "" : "mispredicted", &worst[i]);
}

static void show(Tool *t, const char *path, const Trace *trace) {
  printf("%s\n  trace        %zu events, %s\n", path, trace->events,
         show_seconds(t->arena, (trace->end - trace->begin) * 1e-6));
  for (size_t i = 0; i < trace->processes.n; i++)
    printf("  process      %s: busy %s\n", trace->processes.items[i].name,
           show_seconds(t->arena, trace->processes.items[i].us * 1e-6));
  printf("  %-12s %10s %10s %10s %7s %8s\n", "", "time", "no waiting", "predicted", "ratio", "times");
  for (size_t i = 0; i < trace->names.n && i < SHOWN; i++)
    show_sum(t->arena, i ? "" : "longest", &trace->names.items[i]);
  show_predictions(t, trace);
}

/* Without a prediction it has none of the last two. */
static json_t *sum_json(const Sum *s) {
  json_t *j = json_pack("{s:s, s:I, s:f}", "name", s->name, "events", (json_int_t)s->n, "time_us", s->us);
  if (s->predicted <= 0) return j;
  json_object_set_new(j, "predicted_us", json_real(s->predicted));
  json_object_set_new(j, "compared_us", json_real(s->measured));
  return j;
}

static json_t *sums_json(const Sums *sums) {
  json_t *array = json_array();
  for (size_t i = 0; i < sums->n; i++) json_array_append_new(array, sum_json(&sums->items[i]));
  return array;
}

int inspect_trace(Tool *t, const char *path) {
  json_error_t error;
  json_t *document = json_load_file(path, 0, &error);
  const json_t *events = json_is_array(document) ? document : json_object_get(document, "traceEvents");
  Trace trace = {0};
  bool ok = true;
  if (!document)
    ok = diag_error(t->diags, DIAG_trace,
                    (Loc){.file = path, .line = error.line, .col = error.column > 0 ? error.column : 1}, "%s",
                    error.text);
  else if (!json_is_array(events))
    ok = diag_error(t->diags, DIAG_trace, (Loc){.file = path},
                    "this JSON document is no trace: it has no list \"traceEvents\"");
  for (size_t i = 0; ok && i < json_array_size(events); i++)
    ok = read_event(t, path, i, json_array_get(events, i), &trace);
  find_busy(&trace);
  if (ok && trace.names.n) qsort(trace.names.items, trace.names.n, sizeof(Sum), longest_first);
  if (ok && !option_given(&t->options, OPT_json)) show(t, path, &trace);
  else if (ok)
    tool_json(t, json_pack("{s:s, s:o, s:s, s:I, s:f, s:o, s:o, s:o}", "schema", "apc.inspect/1", "file",
                           json_text(path), "kind", "trace", "events", (json_int_t)trace.events, "time_us",
                           trace.end - trace.begin, "processes", sums_json(&trace.processes), "kinds",
                           sums_json(&trace.kinds), "names", sums_json(&trace.names)));
  json_decref(document);
  return ok ? EXIT_OK : EXIT_BAD_INPUT;
}
