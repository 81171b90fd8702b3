/* tests/doubles/watch.c - see watch.h. */
#define _GNU_SOURCE
#include "tests/doubles/watch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/doubles/memory.h"
#include "tests/doubles/report.h"

enum { PAGE_BITS = 12, PAGE = 1 << PAGE_BITS, WORDS = PAGE / 64, BUCKETS = 1 << 12, REPORTED = 20 };

typedef struct Range {
  uint64_t begin, end;
} Range;
typedef struct Ranges { /* ascending, disjoint */
  Range *items;
  size_t n, capacity;
} Ranges;

/* The memory that a piece of work has touched. */
typedef struct Access {
  int stream;
  uint32_t epoch;
  char what[64];
  Ranges touched[2]; /* read, written */
  struct Access *next;
} Access;

/* Bytes of a page that a kernel has touched. */
typedef struct Page {
  uint64_t number, bits[2][WORDS];
  struct Page *next, *all;
} Page;

static int watched = -1, streams;
static WatchClock everything, host; /* all requests of streams; work that the host knows to be over */
static uint32_t works, records, waits;
static Access *accesses;
static struct {
  int stream;
  WatchClock clock;
  uint32_t number;
} now;
static Page *buckets[BUCKETS], *pages, *last;
static size_t npages;

bool watch_on(void) {
  if (watched < 0) watched = double_setting("DOUBLES_WATCH", 0) != 0;
  return watched;
}

/* ---- clocks */

static void join(WatchClock *to, const WatchClock *from) {
  for (int i = 0; i < WATCHED; i++)
    if (to->at[i] < from->at[i]) to->at[i] = from->at[i];
}

static void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void trace(const char *format, ...) {
  char line[200];
  va_list list;
  if (!getenv("DOUBLES_TRACE") || !report_is_meant()) return;
  va_start(list, format);
  vsnprintf(line, sizeof line, format, list);
  va_end(list);
  report_add("DOUBLES_TRACE", line);
}

int watch_stream(WatchClock *clock) {
  if (!watch_on() || streams == WATCHED) return -1;
  *clock = everything;
  trace("stream %d\n", streams);
  return streams++;
}

uint32_t watch_work(int stream, WatchClock *clock, const char *what) {
  if (stream < 0) return 0;
  join(clock, &host);
  everything.at[stream] = ++clock->at[stream];
  trace("work %u %d %s\n", ++works, stream, what);
  return works;
}

uint32_t watch_record(int stream, const WatchClock *clock) {
  (void)clock;
  if (stream < 0) return 0;
  trace("record %u %d\n", ++records, stream);
  return records;
}

void watch_capture(unsigned long long graph, int stream) {
  if (stream >= 0) trace("capture %llu %d\n", graph, stream);
}

void watch_captured_work(int stream) {
  if (stream >= 0) trace("captured_work %d\n", stream);
}

void watch_captured_wait(int stream, uint32_t record) {
  if (!watch_on()) return;
  waits++;
  if (stream >= 0) trace("wait %u %d %u\n", waits, stream, record);
}

void watch_captured(unsigned long long graph, int stream) {
  if (stream >= 0) trace("captured %llu %d\n", graph, stream);
}

void watch_launch(unsigned long long graph, int stream, WatchClock *clock, int n) {
  if (stream < 0) return;
  join(clock, &host);
  trace("launch %llu %d %u %d\n", graph, stream, works + 1, n);
}

/* The lane of nodes that are launched in one stream and were captured from another. */
static int lane_of(int stream, int captured) {
  static int lanes[WATCHED][WATCHED]; /* + 1 */
  if (stream < 0 || captured < 0 || stream == captured) return captured < 0 ? -1 : stream;
  int *lane = &lanes[stream][captured];
  if (!*lane && streams < WATCHED) *lane = ++streams;
  return *lane - 1;
}

uint32_t watch_node(int stream, int captured, WatchClock *clock, const char *what, int *lane) {
  *lane = watch_on() ? lane_of(stream, captured) : -1;
  if (stream < 0) return 0;
  works++;
  if (*lane >= 0) everything.at[*lane] = ++clock->at[*lane];
  trace("node %u %d %s\n", works, *lane, what);
  return works;
}

void watch_join(WatchClock *to, const WatchClock *from) { join(to, from); }

void watch_wait(int stream, WatchClock *clock, const WatchClock *mark, uint32_t record) {
  if (!watch_on()) return;
  waits++;
  if (stream < 0) return;
  trace("wait %u %d %u\n", waits, stream, record);
  join(clock, mark);
}

void watch_order(int stream, WatchClock *clock, int before, const WatchClock *other) {
  if (stream < 0 || before < 0) return;
  trace("order %d %d\n", stream, before);
  join(clock, other);
}

void watch_host(int stream, const WatchClock *clock, uint32_t record) {
  if (!watch_on() || stream < 0) return;
  if (record) trace("happened %u\n", record);
  else trace("idle %d\n", stream);
  join(&host, clock);
}

/* ---- touched memory */

static void add_range(Ranges *r, uint64_t begin, uint64_t end) {
  if (r->n && r->items[r->n - 1].end == begin) {
    r->items[r->n - 1].end = end;
    return;
  }
  if (r->n == r->capacity) {
    r->capacity = r->capacity ? 2 * r->capacity : 8;
    r->items = realloc(r->items, r->capacity * sizeof *r->items);
  }
  r->items[r->n++] = (Range){begin, end};
}

static Page *page_of(uint64_t number) {
  Page **bucket = &buckets[number % BUCKETS];
  if (last && last->number == number) return last;
  for (last = *bucket; last && last->number != number;) last = last->next;
  if (last) return last;
  last = calloc(1, sizeof *last);
  *last = (Page){.number = number, .next = *bucket, .all = pages};
  npages++;
  return *bucket = pages = last;
}

void watch_touch(const void *from, size_t bytes, int writes) {
  uint64_t at = (uint64_t)(uintptr_t)from - MEMORY_SHIFT;
  if (memory_device_of(at) < 0) return;
  for (uint64_t end = at + bytes; at < end; at++)
    page_of(at >> PAGE_BITS)->bits[writes != 0][at % PAGE / 64] |= UINT64_C(1) << at % 64;
}

static int by_number(const void *x, const void *y) {
  const Page *a = *(const Page *const *)x, *b = *(const Page *const *)y;
  return a->number < b->number ? -1 : a->number > b->number;
}

static void add_bits(Ranges *r, uint64_t at, const uint64_t *bits) {
  for (int w = 0; w < WORDS; w++)
    for (int i = 0; i < 64 && bits[w] >> i; i++) {
      if (!(bits[w] >> i & 1)) continue;
      uint64_t begin = at + (uint64_t)(64 * w + i);
      uint64_t rest = ~(bits[w] >> i);
      int n = rest ? __builtin_ctzll(rest) : 64;
      if (n > 64 - i) n = 64 - i;
      add_range(r, begin, begin + (uint64_t)n);
      if ((i += n) >= 64) break;
    }
}

static void take_pages(Ranges touched[2]) {
  Page **sorted = malloc((npages + 1) * sizeof *sorted);
  size_t n = 0;
  for (Page *p = pages; p; p = p->all) sorted[n++] = p;
  qsort(sorted, n, sizeof(Page *), by_number);
  for (size_t i = 0; i < n; i++) {
    for (int k = 0; k < 2; k++) add_bits(&touched[k], sorted[i]->number << PAGE_BITS, sorted[i]->bits[k]);
    buckets[sorted[i]->number % BUCKETS] = NULL;
    free(sorted[i]);
  }
  free(sorted);
  pages = last = NULL, npages = 0;
}

/* ---- races */

static const Range *overlap(const Ranges *x, const Ranges *y) {
  for (size_t i = 0, k = 0; i < x->n && k < y->n;) {
    const Range *a = &x->items[i], *b = &y->items[k];
    if (a->begin < b->end && b->begin < a->end) return a->begin > b->begin ? a : b;
    if (a->end <= b->begin) i++;
    else k++;
  }
  return NULL;
}

static void check(const Access *before, const Access *a) {
  static int reported;
  const Range *r = overlap(&before->touched[1], &a->touched[1]);
  if (!r) r = overlap(&before->touched[1], &a->touched[0]);
  if (!r) r = overlap(&before->touched[0], &a->touched[1]);
  if (!r || reported++ >= REPORTED) return;
  const MemoryPlace *p = memory_place(r->begin);
  double_violation("a race: %s and %s use byte %llu of %llu bytes of device %d, in no order", before->what, a->what,
                   (unsigned long long)(p ? r->begin - p->at : 0), (unsigned long long)(p ? p->bytes : 0),
                   p ? p->device : -1);
}

void watch_begin(int stream, const WatchClock *clock, uint32_t number) {
  now.stream = stream, now.number = number;
  if (stream >= 0) now.clock = *clock;
}

static int by_begin(const void *x, const void *y) {
  const Range *a = x, *b = y;
  return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static void add_described(void *context, uint64_t at, uint64_t bytes, bool writes) {
  Ranges *touched = context;
  if (bytes) add_range(&touched[writes], at, at + bytes);
}

static void trace_touched(const Access *a) {
  if (!getenv("DOUBLES_TRACE")) return;
  for (int k = 0; k < 2; k++)
    for (size_t i = 0; i < a->touched[k].n; i++)
      trace("%s %u %llu %llu\n", k ? "write" : "read", now.number, (unsigned long long)a->touched[k].items[i].begin,
            (unsigned long long)a->touched[k].items[i].end);
}

void watch_done(const DoubleWork *w) {
  if (!watch_on() || now.stream < 0) return;
  Access *a = calloc(1, sizeof *a);
  *a = (Access){.stream = now.stream, .epoch = now.clock.at[now.stream], .next = accesses};
  snprintf(a->what, sizeof a->what, "%s", w->what);
  if (w->kind->tells) take_pages(a->touched);
  else w->kind->ranges(w, add_described, a->touched);
  for (int k = 0; k < 2 && !w->kind->tells; k++)
    if (a->touched[k].n > 1) qsort(a->touched[k].items, a->touched[k].n, sizeof(Range), by_begin);
  for (const Access *b = accesses; b; b = b->next)
    if (b->stream != a->stream && b->epoch > now.clock.at[b->stream]) check(b, a);
  trace_touched(a);
  accesses = a;
}

/* ---- accesses that are no longer needed */

static bool known(const Access *a, const WatchClock *const *min, const int *of, int n) {
  for (int i = 0; i < n; i++)
    if (of[i] >= 0 && of[i] != a->stream && min[i]->at[a->stream] < a->epoch) return false;
  return true;
}

void watch_forget(const WatchClock *const *min, const int *of, int n) {
  for (Access **p = &accesses, *a; (a = *p);) {
    if (!known(a, min, of, n)) {
      p = &a->next;
      continue;
    }
    *p = a->next;
    free(a->touched[0].items), free(a->touched[1].items);
    free(a);
  }
}
