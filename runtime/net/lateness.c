/* runtime/net/lateness.c - see lateness.h.
 *
 * Lateness is measured on a separate clock that advances at most CLOCK_STEP_MS per look, so that suspending the whole
 * program (Ctrl-Z, a debugger) makes no rank late.
 *
 * If ranks wait for each other, the message names a stopped rank first; then a rank that is not waiting in a
 * collective, the one that moved least recently; then the rank at the smallest order key.
 */
#include "runtime/net/lateness.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "program/comm.h"

enum { CLOCK_STEP_MS = 200 };

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void add_text(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void add_text(char *text, size_t size, const char *format, ...) {
  size_t n = strlen(text);
  va_list args;
  va_start(args, format);
  vsnprintf(text + n, size - n, format, args);
  va_end(args);
}

static void step_text(const Lateness *l, int rank, uint32_t step, char *text, size_t size) {
  if (l->step_text) l->step_text(l->step_context, rank, step, text, size);
}

void lateness_place(const Lateness *l, int rank, char *text, size_t size) {
  const SessionSlot *slot = &l->slots[rank];
  uint32_t step = atomic_load(&slot->place.step), last = atomic_load(&slot->place.last);
  char what[512] = "";
  if (atomic_load(&slot->place.beats) == 0) {
    add_text(text, size, " before it was ready");
    return;
  }
  step_text(l, rank, step, what, sizeof what / 2);
  add_text(text, size, " at step %u", step);
  if (last != step) {
    add_text(text, size, " to %u", last);
    if (what[0]) add_text(what, sizeof what, " to ");
    step_text(l, rank, last, what + strlen(what), sizeof what - strlen(what));
  }
  uint64_t round = atomic_load(&slot->place.round);
  if (what[0]) add_text(text, size, round ? " (%s, round %llu)" : " (%s)", what, (unsigned long long)round);
  if (atomic_load(&slot->progress.waiting))
    add_text(text, size, ", waiting in %s at order key %llu",
             program_comm_kind_name((CommKind)atomic_load(&slot->progress.kind)),
             (unsigned long long)atomic_load(&slot->progress.key));
}

static bool is_busy(const Lateness *l, int rank) {
  uint32_t command = atomic_load(l->command);
  return command > 0 && atomic_load(&l->slots[rank].command) != command;
}

static void note_progress(Lateness *l, int rank) {
  RankSigns *p = &l->ranks[rank];
  const SessionSlot *slot = &l->slots[rank];
  uint64_t beats = atomic_load(&slot->place.beats), moves = atomic_load(&slot->progress.moves);
  if (is_busy(l, rank) && p->busy && beats == p->beats && moves == p->moves) return;
  p->busy = is_busy(l, rank);
  p->beats = beats;
  p->moves = moves;
  p->changed_ms = l->clock_ms;
}

/* True if rank a rather than b causes the wait; see the top of the file. */
static bool more_guilty(const Lateness *l, int a, int b) {
  const RankSigns *p = &l->ranks[a], *q = &l->ranks[b];
  const CommProgress *x = &l->slots[a].progress, *y = &l->slots[b].progress;
  if (p->stopped != q->stopped) return p->stopped;
  uint32_t waits = atomic_load(&x->waiting), other_waits = atomic_load(&y->waiting);
  if (waits != other_waits) return !waits;
  if (waits) return atomic_load(&x->key) < atomic_load(&y->key);
  return p->changed_ms < q->changed_ms;
}

static double quiet_seconds(const Lateness *l, int rank) {
  return (double)(l->clock_ms - l->ranks[rank].changed_ms) / 1000.0;
}

static RtStatus report_late(const Lateness *l, int late, int guilty, RtError *error) {
  char text[RT_ERROR_TEXT] = "", place[RT_ERROR_TEXT / 2] = "";
  lateness_place(l, guilty, place, sizeof place);
  if (quiet_seconds(l, guilty) * 1000 > l->timeout_ms || l->ranks[guilty].stopped) {
    add_text(text, sizeof text, "rank %d is late: no progress for %.1f s%s", guilty, quiet_seconds(l, guilty), place);
  } else { /* it makes progress, but not to the point where another rank waits for it */
    add_text(text, sizeof text, "rank %d is late%s", guilty, place);
    place[0] = 0;
    lateness_place(l, late, place, sizeof place);
    add_text(text, sizeof text, "; rank %d made no progress for %.1f s%s", late, quiet_seconds(l, late), place);
  }
  if (l->ranks[guilty].stopped) add_text(text, sizeof text, "; rank %d is stopped", guilty);
  return rt_error(error, RT_LATE, "%s", text);
}

void lateness_begin(Lateness *l) { l->before_ms = now_ms(); }

RtStatus lateness_find(Lateness *l, RtError *error) {
  int64_t now = now_ms(), passed = now - l->before_ms;
  l->before_ms = now;
  l->clock_ms += passed < CLOCK_STEP_MS ? passed : CLOCK_STEP_MS;
  int guilty = -1, late = -1;
  for (int i = 0; i < l->world; i++) {
    note_progress(l, i);
    if (!l->ranks[i].busy) continue;
    int limit_ms = l->stopped_ms && l->ranks[i].stopped ? l->stopped_ms : l->timeout_ms;
    if (late < 0 && quiet_seconds(l, i) * 1000 > limit_ms) late = i;
    if (guilty < 0 || more_guilty(l, i, guilty)) guilty = i;
  }
  return late < 0 ? RT_OK : report_late(l, late, guilty, error);
}
