/* runtime/host/trace.c - the recorded calls as a timeline in the Trace Event Format.
 *
 * A rank is a process with one thread; a run is an event that contains its calls.  A call has its predicted time beside
 * the measured one.  Ranks of one machine share a clock.  Ranks of several machines all begin at 0, since their clocks
 * cannot be compared, and have no arrows.
 *
 * Arrows (flow events) lead from a send to the call in which its receiver gets the data: the receive, or the wait for
 * it.  The members of a collective are joined by a chain, from the one that came first to the one that came last.
 * Calls belong together if their communication has the same key in the same run, micro-batch and round.
 *
 * A second process per rank shows the first run as it was predicted: the same calls, each with its predicted time and
 * as soon as the call before it and the ranks that it meets allow.
 */
#define _GNU_SOURCE /* qsort_r */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "runtime/host/host.h"

/* The calls of a rank that communicate, by key, run, micro-batch and round. */
typedef struct Meetings {
  const Program *p;
  const RecordEvent *events;
  size_t nevents;
  uint32_t *items; /* numbers of events */
  size_t n;
} Meetings;

typedef struct Trace {
  FileWriter *w;
  const Program *p;
  uint64_t origin;
  uint32_t rank;
  bool any; /* an event is already written */
  uint64_t arrows;
  Meetings *meetings; /* by rank */
} Trace;

__attribute__((format(printf, 2, 3))) static bool put(Trace *t, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return file_writer_add(t->w, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

static bool put_text(Trace *t, const char *text) {
  json_t *j = json_text(text);
  char *shown = json_dumps(j, JSON_ENCODE_ANY);
  json_decref(j);
  bool ok = file_writer_add(t->w, shown ? shown : "null", shown ? strlen(shown) : 4);
  free(shown);
  return ok;
}

/* Writes microseconds; three digits after the point make them exact. */
static bool put_time(Trace *t, const char *key, uint64_t ns) {
  return put(t, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

static bool put_event(Trace *t, const RecordEvent *e) {
  const ProgramInstr *x = e->instr == PROGRAM_NONE ? NULL : &t->p->instrs[e->instr];
  uint64_t begin = e->begin < t->origin ? 0 : e->begin - t->origin;
  bool ok = put(t, "%s\n{\"ph\":\"X\",\"name\":", t->any ? "," : "");
  t->any = true;
  ok = ok && put_text(t, x ? program_text(t->p, x->where) : "run") &&
       put(t, ",\"cat\":\"%s\",\"pid\":%u,\"tid\":0", x ? program_instr_name(x->kind) : "run", t->rank) &&
       put_time(t, "ts", begin) && put_time(t, "dur", e->end < e->begin ? 0 : e->end - e->begin) &&
       put(t, ",\"args\":{\"run\":%u", e->request);
  if (!x) return ok && put(t, "}}");
  ok = ok && put(t, ",\"micro_batch\":%u", e->micro_batch);
  if (e->round) ok = ok && put(t, ",\"round\":%u", e->round);
  if (program_instr_object(x->kind) == PO_KERNEL && x->object != PROGRAM_NONE)
    ok = ok && put(t, ",\"kernel\":") && put_text(t, program_text(t->p, t->p->kernels[x->object].name));
  if (e->wait_ns) ok = ok && put_time(t, "waiting_us", e->wait_ns);
  if (t->p->n_predicted && t->p->predicted[e->instr] > 0)
    ok = ok && put_time(t, "predicted_us", (uint64_t)fmin(1e9 * (double)t->p->predicted[e->instr] + 0.5, 1e18));
  return ok && put(t, "}}");
}

static bool put_rank(Trace *t, RecordHead *h) {
  bool ok = put(t, "%s\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"rank %u",
                t->any ? "," : "", t->rank, t->rank);
  t->any = true;
  if (t->p->stages > 1) ok = ok && put(t, " of stage %u", program_stage(t->p, t->rank));
  ok = ok && put(t, "\"}},\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%u,\"args\":{\"sort_index\":%u}}",
                 t->rank, t->rank);
  for (uint64_t i = 0; ok && i < h->events; i++) ok = put_event(t, &record_events(t->p, h)[i]);
  return ok;
}

/* ---- arrows */

static int order_of(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

/* Compares two calls of any ranks by what they are part of. */
static int compare_meeting(const Program *p, const RecordEvent *a, const RecordEvent *b) {
  int c = order_of(p->instrs[a->instr].key, p->instrs[b->instr].key);
  if (!c) c = order_of(a->request, b->request);
  if (!c) c = order_of(a->micro_batch, b->micro_batch);
  return c ? c : order_of(a->round, b->round);
}

static int compare_items(const void *a, const void *b, void *context) {
  const Meetings *m = context;
  const uint32_t *x = a, *y = b;
  int c = compare_meeting(m->p, &m->events[*x], &m->events[*y]);
  return c ? c : order_of(*x, *y);
}

static bool find_meetings(const Program *p, RecordHead *h, Meetings *out) {
  *out = (Meetings){.p = p, .events = record_events(p, h), .nevents = h->events};
  out->items = malloc(sizeof *out->items * (h->events + 1));
  if (!out->items) return false;
  for (uint32_t i = 0; i < h->events; i++) {
    const uint32_t instr = out->events[i].instr;
    if (instr != PROGRAM_NONE && program_instr_is_comm(p->instrs[instr].kind)) out->items[out->n++] = i;
  }
  qsort_r(out->items, out->n, sizeof *out->items, compare_items, out);
  return true;
}

/* Returns the rank's call that meets `e`; NULL if it is not recorded. */
static const RecordEvent *meeting_of(const Meetings *m, const RecordEvent *e) {
  size_t from = 0, to = m->n;
  while (from < to) {
    size_t middle = (from + to) / 2;
    if (compare_meeting(m->p, &m->events[m->items[middle]], e) < 0) from = middle + 1;
    else to = middle;
  }
  const RecordEvent *found = from < m->n ? &m->events[m->items[from]] : NULL;
  return found && compare_meeting(m->p, found, e) == 0 ? found : NULL;
}

/* Returns the call in which communication ends: itself, or the wait for its event. */
static const RecordEvent *ending_of(const Meetings *m, const RecordEvent *e) {
  const uint32_t event = m->p->instrs[e->instr].event;
  if (event == PROGRAM_NONE) return e;
  for (size_t i = (size_t)(e - m->events) + 1; i < m->nevents; i++) {
    const uint32_t instr = m->events[i].instr;
    if (instr == PROGRAM_NONE) return e; /* the end of the run */
    if (m->p->instrs[instr].kind == PI_wait && m->p->instrs[instr].event == event) return &m->events[i];
  }
  return e;
}

/* Writes a point of the current arrow: it begins ("s"), passes ("t") or ends ("f") in the rank's call at that time. */
static bool put_point(Trace *t, const char *form, const ProgramInstr *x, uint32_t rank, uint64_t ns) {
  return put(t, ",\n{\"ph\":\"%s\",\"name\":", form) && put_text(t, program_text(t->p, x->where)) &&
         put(t, ",\"cat\":\"%s\",\"id\":%" PRIu64 ",\"pid\":%u,\"tid\":0", program_instr_name(x->kind), t->arrows,
             rank) &&
         put_time(t, "ts", ns < t->origin ? 0 : ns - t->origin) && put(t, "%s}", *form == 'f' ? ",\"bp\":\"e\"" : "");
}

static bool put_transfer(Trace *t, const RecordEvent *e, const ProgramMembers *members) {
  const uint32_t to = program_member(members, 1 - members->place);
  const RecordEvent *receive = meeting_of(&t->meetings[to], e);
  if (!receive) return true;
  const RecordEvent *end = ending_of(&t->meetings[to], receive);
  const uint64_t last = end->end > end->begin ? end->end - 1 : end->end;
  if (last < e->begin) return true; /* the wait is not recorded */
  t->arrows++;
  return put_point(t, "s", &t->p->instrs[e->instr], t->rank, e->begin) &&
         put_point(t, "f", &t->p->instrs[e->instr], to, last);
}

typedef struct Came {
  uint64_t ns;
  uint32_t rank;
} Came;

static int first_came(const void *a, const void *b) {
  const Came *x = a, *y = b;
  int c = order_of(x->ns, y->ns);
  return c ? c : order_of(x->rank, y->rank);
}

static bool put_collective(Trace *t, const RecordEvent *e, const ProgramMembers *members) {
  Came *came = malloc(sizeof *came * members->n);
  uint32_t n = 0;
  if (!came) return false;
  for (uint32_t i = 0; i < members->n; i++) {
    const uint32_t rank = program_member(members, i);
    const RecordEvent *member = meeting_of(&t->meetings[rank], e);
    if (member) came[n++] = (Came){member->begin, rank};
  }
  qsort(came, n, sizeof *came, first_came);
  t->arrows += n > 1;
  bool ok = true;
  for (uint32_t i = 0; i < n && n > 1 && ok; i++)
    ok = put_point(t, i == 0 ? "s" : i + 1 == n ? "f" : "t", &t->p->instrs[e->instr], came[i].rank, came[i].ns);
  free(came);
  return ok;
}

/* Writes the arrows that begin at a rank's calls. */
static bool put_arrows(Trace *t) {
  const Meetings *m = &t->meetings[t->rank];
  bool ok = true;
  for (size_t i = 0; i < m->n && ok; i++) {
    const RecordEvent *e = &m->events[m->items[i]];
    const ProgramInstr *x = &t->p->instrs[e->instr];
    const ProgramMembers members = program_group_of(t->p, x->object, t->rank);
    if (x->kind == PI_send) ok = put_transfer(t, e, &members);
    else if (x->kind != PI_recv && members.place == 0) ok = put_collective(t, e, &members);
  }
  return ok;
}

/* ---- the first run as predicted */

/* A rank's calls of that run; times in nanoseconds from its beginning. */
typedef struct Replay {
  const RecordEvent *events;
  size_t n, at; /* the next call */
  double now;
  double *begin, *end; /* by call; negative before it began or ended */
} Replay;

/* Returns when a call of another rank began; negative if it did not yet, infinite if it is not in the run. */
static double began(const Trace *t, const Replay *all, uint32_t rank, const RecordEvent *e) {
  const RecordEvent *met = meeting_of(&t->meetings[rank], e);
  const Replay *r = &all[rank];
  return met && met < r->events + r->n ? r->begin[met - r->events] : INFINITY;
}

/* Returns when the last of the ranks that communication needs began it; negative if one did not yet. */
static double all_began(const Trace *t, const Replay *all, uint32_t rank, const RecordEvent *e) {
  const ProgramInstr *x = &t->p->instrs[e->instr];
  const ProgramMembers members = program_group_of(t->p, x->object, rank);
  double last = 0;
  for (uint32_t i = 0; i < members.n; i++) {
    if (x->kind == PI_send || (x->kind == PI_recv && i == members.place)) continue;
    const double ns = began(t, all, program_member(&members, i), e);
    if (ns < 0) return ns;
    last = fmax(last, ns);
  }
  return last;
}

/* Returns the communication that the call completes: itself, or that of the event it waits for; NULL if none. */
static const RecordEvent *completes(const Trace *t, const Replay *r) {
  const ProgramInstr *x = &t->p->instrs[r->events[r->at].instr];
  if (program_instr_is_comm(x->kind)) return x->event == PROGRAM_NONE ? &r->events[r->at] : NULL;
  for (size_t i = r->at; x->kind == PI_wait && i-- > 0;) {
    const ProgramInstr *y = &t->p->instrs[r->events[i].instr];
    if (program_instr_is_comm(y->kind) && y->event == x->event) return &r->events[i];
  }
  return NULL;
}

/* Makes the rank's next call; false if it waits for another rank, or none is left. */
static bool replay_call(const Trace *t, Replay *all, uint32_t rank) {
  Replay *r = &all[rank];
  if (r->at == r->n) return false;
  if (r->begin[r->at] < 0) r->begin[r->at] = r->now;
  const RecordEvent *comm = completes(t, r);
  const double ready = comm ? all_began(t, all, rank, comm) : 0;
  if (ready < 0 || isinf(ready)) return false;
  r->now = fmax(r->now, ready) + 1e9 * (double)t->p->predicted[r->events[r->at].instr];
  r->end[r->at++] = r->now;
  return true;
}

static bool put_replayed(Trace *t, const Replay *r) {
  const uint32_t pid = t->p->ranks + t->rank;
  bool ok = put(t,
                ",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"predicted: rank %u\"}},"
                "\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%u,\"args\":{\"sort_index\":%u}}",
                pid, t->rank, pid, pid);
  for (size_t i = 0; i < r->n && ok; i++) {
    const ProgramInstr *x = &t->p->instrs[r->events[i].instr];
    const uint64_t begin = (uint64_t)r->begin[i], ns = r->end[i] < 0 ? 0 : (uint64_t)r->end[i] - begin;
    if (ns == 0) continue;
    ok = put(t, ",\n{\"ph\":\"X\",\"name\":") && put_text(t, program_text(t->p, x->where)) &&
         put(t, ",\"cat\":\"predicted\",\"pid\":%u,\"tid\":0", pid) && put_time(t, "ts", begin) &&
         put_time(t, "dur", ns) && put(t, ",\"args\":{\"micro_batch\":%u}}", r->events[i].micro_batch);
  }
  return ok;
}

/* Takes the rank's calls of the first run; false without memory. */
static bool replay_begin(const Program *p, RecordHead *h, Replay *out) {
  *out = (Replay){.events = record_events(p, h)};
  while (out->n < h->events && out->events[out->n].instr != PROGRAM_NONE) out->n++;
  out->begin = malloc(sizeof(double) * (out->n + 1));
  out->end = malloc(sizeof(double) * (out->n + 1));
  if (!out->begin || !out->end) return false;
  for (size_t i = 0; i < out->n; i++) out->begin[i] = out->end[i] = -1;
  return true;
}

static bool put_prediction(Trace *t, ApcModel *m) {
  const uint32_t ranks = t->p->ranks;
  Replay *all = calloc(ranks, sizeof *all);
  bool ok = all != NULL, more = true;
  for (uint32_t r = 0; r < ranks && ok; r++) ok = replay_begin(t->p, host_record_of(m, r), &all[r]);
  while (ok && more) {
    more = false;
    for (uint32_t r = 0; r < ranks; r++)
      while (replay_call(t, all, r)) more = true;
  }
  for (t->rank = 0; t->rank < ranks && ok; t->rank++) ok = put_replayed(t, &all[t->rank]);
  for (uint32_t r = 0; r < ranks && all; r++) free(all[r].begin), free(all[r].end);
  free(all);
  return ok;
}

/* Writes what concerns several ranks: arrows and the predicted run. */
static bool put_together(Trace *t, ApcModel *m) {
  const uint32_t ranks = t->p->ranks;
  bool ok = (t->meetings = calloc(ranks, sizeof *t->meetings)) != NULL;
  for (uint32_t r = 0; r < ranks && ok; r++) ok = find_meetings(t->p, host_record_of(m, r), &t->meetings[r]);
  for (t->rank = 0; t->rank < ranks && ok; t->rank++) ok = put_arrows(t);
  if (ok && t->p->n_predicted) ok = put_prediction(t, m);
  for (uint32_t r = 0; r < ranks && t->meetings; r++) free(t->meetings[r].items);
  free(t->meetings);
  return ok;
}

/* ---- */

/* A run is recorded after its calls, so this searches for the earliest time. */
static uint64_t first_of(const Program *p, RecordHead *h) {
  uint64_t first = UINT64_MAX;
  for (uint64_t i = 0; i < h->events; i++)
    if (record_events(p, h)[i].begin < first) first = record_events(p, h)[i].begin;
  return first;
}

bool host_trace_write(ApcModel *m, FileWriter *w, uint64_t *dropped) {
  const Program *p = &m->artifact.program;
  Trace t = {.w = w, .p = p, .origin = UINT64_MAX};
  bool one_clock = !m->launched || launched_here(m->launched) == (int)p->ranks;
  uint64_t lost = 0;
  for (uint32_t r = 0; r < p->ranks; r++) {
    uint64_t first = first_of(p, host_record_of(m, r));
    lost += host_record_of(m, r)->dropped;
    if (first < t.origin) t.origin = first;
  }
  bool ok = put(&t, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"schema\":\"apc.trace/1\",\"program\":") &&
            put_text(&t, program_text(p, p->header->name)) &&
            put(&t, ",\"dropped\":%" PRIu64 "},\"traceEvents\":[", lost);
  for (uint32_t r = 0; ok && r < p->ranks; r++) {
    t.rank = r;
    if (!one_clock) t.origin = first_of(p, host_record_of(m, r));
    ok = put_rank(&t, host_record_of(m, r));
  }
  if (ok && one_clock) ok = put_together(&t, m);
  if (dropped) *dropped = lost;
  return ok && put(&t, "\n]}\n");
}
