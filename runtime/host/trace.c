/* runtime/host/trace.c - the recorded calls as a timeline in the Trace Event Format.
 *
 * A rank is a process with one thread; a run is an event that contains its calls.  Ranks of one machine share a clock.
 * Ranks of several machines all begin at 0, since their clocks cannot be compared.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "runtime/host/host.h"

typedef struct Trace {
  FileWriter *w;
  const Program *p;
  uint64_t origin;
  uint32_t rank;
  bool any; /* an event is already written */
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
  if (dropped) *dropped = lost;
  return ok && put(&t, "\n]}\n");
}
