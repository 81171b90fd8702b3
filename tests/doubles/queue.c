/* tests/doubles/queue.c - see queue.h. */
#define _GNU_SOURCE
#include "tests/doubles/queue.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/doubles/memory.h"

typedef enum Served { SERVED, WAITING, NOTHING } Served;

enum { REDRAW = 32, IDLE_NS = 10000000, NAP_NS = 2000000 };

static CUstream streams;
static CUevent events;
static CUresult errors[DOUBLE_DEVICES];
static int served; /* since weights were drawn */

/* ---- streams, events, marks */

CUstream queue_stream_new(int device, bool blocking) {
  CUstream s = calloc(1, sizeof *s);
  *s = (struct CUstream_st){.device = device, .blocking = blocking, .weight = 1, .next = streams};
  s->watched = watch_stream(&s->clock);
  return streams = s;
}

CUstream queue_default(int device) {
  for (CUstream s = streams; s; s = s->next)
    if (s->is_default && s->device == device) return s;
  CUstream s = queue_stream_new(device, false);
  s->is_default = true;
  return s;
}

bool queue_stream_exists(CUstream x) {
  for (CUstream s = streams; s; s = s->next)
    if (s == x && !s->is_default) return !s->destroyed;
  return false;
}

CUevent queue_event_new(int device, bool timing) {
  CUevent e = calloc(1, sizeof *e);
  *e = (struct CUevent_st){.device = device, .timing = timing, .next = events};
  return events = e;
}

bool queue_event_exists(CUevent x) {
  for (CUevent e = events; e; e = e->next)
    if (e == x) return true;
  return false;
}

CUresult queue_event_destroy(CUevent e) {
  CUevent *p = &events;
  while (*p != e) p = &(*p)->next;
  *p = e->next;
  queue_mark_drop(e->mark);
  free(e->tail.items);
  free(e);
  return CUDA_SUCCESS;
}

Mark *queue_mark_new(void) {
  Mark *m = calloc(1, sizeof *m);
  m->refs = 1;
  return m;
}
Mark *queue_mark_hold(Mark *m) {
  if (m) m->refs++;
  return m;
}
void queue_mark_drop(Mark *m) {
  if (m && --m->refs == 0) free(m);
}

void double_work_drop(DoubleWork *w) {
  if (w && --w->refs == 0) w->kind->drop(w);
}

/* ---- errors */

CUresult queue_error(int device) { return device >= 0 ? errors[device] : CUDA_SUCCESS; }

void double_device_error(int device, CUresult error, const char *format, ...) {
  char said[600];
  va_list list;
  va_start(list, format);
  vsnprintf(said, sizeof said, format, list);
  va_end(list);
  fprintf(stderr, "double: device %d fails with %d: %s\n", device, (int)error, said);
  if (!errors[device]) errors[device] = error;
}

/* ---- serving */

static int options(const Item *i) {
  if (!i) return 0;
  if (i->kind == ITEM_WAIT) return i->mark->done;
  return i->kind == ITEM_GRAPH ? graph_run_ready(i->run) : 1;
}

static void drop_item(Item *i, bool ran) {
  if (i->work && !ran && i->state && i->work->kind->forget) i->work->kind->forget(i->state);
  double_work_drop(i->work);
  queue_mark_drop(i->mark);
  if (i->run) graph_run_drop(i->run);
  free(i);
}

static void remove_first(CUstream s, bool ran) {
  Item *i = s->first;
  s->first = i->next;
  if (!s->first) s->last = NULL;
  drop_item(i, ran);
}

/* False if it waits for other work. */
static bool run_work(const DoubleWork *w, void *state) {
  memory_doing(w->what);
  bool done = w->kind->run(w, state);
  memory_doing(NULL);
  if (done) watch_done(w);
  if (done && report_fails_late())
    double_device_error(w->device, CUDA_ERROR_LAUNCH_FAILED, "%s, as asked for", w->what);
  return done;
}

static bool serve_first(CUstream s) {
  Item *i = s->first;
  if (watch_on() && i->kind == ITEM_WORK) watch_begin(s->watched, &i->clock, i->number);
  switch (i->kind) {
    case ITEM_WORK:
      if (!run_work(i->work, i->state)) return false;
      s->pretended += i->work->pretended;
      break;
    case ITEM_RECORD: i->mark->done = true, i->mark->when = double_pretended(0) ? s->pretended : report_now(); break;
    case ITEM_WAIT: break;
    case ITEM_GRAPH:
      if (graph_run_done(i->run)) break;
      if (!graph_run_serve(i->run, (int)(double_random() % (uint64_t)graph_run_ready(i->run)))) return false;
      if (!graph_run_done(i->run)) return true;
      break;
  }
  if (s->first == i) remove_first(s, true);
  return true;
}

static void draw_weights(void) {
  static const int weights[] = {1, 1, 8, 64};
  if (served++ % REDRAW == 0)
    for (CUstream s = streams; s; s = s->next) s->weight = weights[double_random() % 4];
}

static CUstream draw(const CUstream *blocked, int nblocked) {
  uint64_t sum = 0, at = 0;
  for (int pass = 0; pass < 2; pass++) {
    if (pass && !sum) return NULL;
    if (pass) at = double_random() % sum;
    for (CUstream s = streams; s; s = s->next) {
      bool out = errors[s->device] || !options(s->first);
      for (int k = 0; k < nblocked; k++) out = out || blocked[k] == s;
      if (out) continue;
      if (!pass) sum += (uint64_t)s->weight;
      else if (at < (uint64_t)s->weight) return s;
      else at -= (uint64_t)s->weight;
    }
  }
  return NULL;
}

static bool any_item(void) {
  for (CUstream s = streams; s; s = s->next)
    if (s->first && !errors[s->device]) return true;
  return false;
}

static void sweep(void) {
  for (CUstream *p = &streams, s; (s = *p);) {
    while (s->first && s->destroyed && errors[s->device]) remove_first(s, false);
    if (s->first || !s->destroyed) {
      p = &s->next;
      continue;
    }
    *p = s->next;
    free(s->tail.items);
    free(s);
  }
}

/* Stops watching memory that all pending work is ordered after. */
static void forget(void) {
  const WatchClock *min[512];
  int of[512], n = 0;
  for (CUstream s = streams; s && n < 510; s = s->next) {
    const Item *i = s->first;
    while (i && i->kind != ITEM_WORK && i->kind != ITEM_GRAPH) i = i->next;
    min[n] = i ? &i->clock : &s->clock, of[n++] = s->watched;
    if (i && i->kind == ITEM_GRAPH) min[n] = &i->clock, of[n++] = WATCHED; /* its nodes, compared with each other */
  }
  watch_forget(min, of, n);
}

/* Serves one piece of work, of any stream that may be served and does not wait for other processes. */
static Served serve_one(void) {
  CUstream blocked[256];
  int n = 0;
  static bool serving;
  if (serving) return NOTHING; /* a call from within work */
  sweep();
  if (report_stalls()) return any_item() ? WAITING : NOTHING;
  draw_weights();
  if (watch_on() && served % REDRAW == 0) forget();
  serving = true;
  for (CUstream s; n < 256 && (s = draw(blocked, n)); blocked[n++] = s)
    if (serve_first(s)) {
      serving = false;
      return SERVED;
    }
  serving = false;
  return n ? WAITING : NOTHING;
}

void double_serve(void) {
  static int mode = -2;
  if (mode < -1) mode = (int)(double_random() % 4) - 1;
  if (mode <= 0 || !streams || (mode == 1 && !double_chance(4))) return;
  for (int k = (int)(double_random() % 8); k >= 0; k--)
    if (serve_one() != SERVED) return;
}

void queue_poll(void) {
  for (int k = double_chance(4) ? (int)(double_random() % 16) : -1; k >= 0; k--)
    if (serve_one() != SERVED) return;
}

/* ---- while no call is made */

static void *serve_alone(void *unused) {
  for (;;) {
    report_lock();
    Served s = report_now() - report_last_call() > IDLE_NS ? serve_one() : NOTHING;
    if (s != SERVED) report_sleep(s == WAITING ? 50000 : NAP_NS);
    report_unlock();
  }
  return unused;
}

static void start_alone(void) {
  static bool started;
  pthread_t thread;
  if (started) return;
  started = true;
  if (pthread_create(&thread, NULL, serve_alone, NULL)) double_violation("no thread for the device");
  else pthread_detach(thread);
}

/* ---- adding */

static void append(CUstream s, Item item) {
  Item *i = malloc(sizeof *i);
  *i = item;
  i->next = NULL;
  if (s->last) s->last->next = i;
  else s->first = i;
  s->last = i;
}

static void order(CUstream first, CUstream then) {
  Mark *m = queue_mark_new();
  if (!first->first) {
    queue_mark_drop(m);
    return;
  }
  watch_order(then->watched, &then->clock, first->watched, &first->clock);
  append(first, (Item){.kind = ITEM_RECORD, .mark = queue_mark_hold(m)});
  append(then, (Item){.kind = ITEM_WAIT, .mark = m});
}

void queue_add(CUstream s, Item item) {
  start_alone();
  if (item.work)
    s->moves_host =
        strncmp(item.work->what, "cuMemcpyHtoD", 12) == 0 || strncmp(item.work->what, "cuMemcpyDtoH", 12) == 0;
  if (item.work || item.run) s->gives_host = item.run && graph_run_gives_host(item.run), s->asked = false;
  if (item.work && item.work->kind->launch) item.state = item.work->kind->launch(item.work);
  for (CUstream b = streams; b && s->is_default; b = b->next)
    if (b->blocking && b->device == s->device) order(b, s);
  if (item.kind == ITEM_RECORD)
    item.mark->stream = s->watched, item.mark->clock = s->clock,
    item.mark->number = watch_record(s->watched, &s->clock);
  if (item.kind == ITEM_WORK) item.number = watch_work(s->watched, &s->clock, item.work->what), item.clock = s->clock;
  if (item.kind == ITEM_GRAPH) graph_run_watch(item.run, s, &item.clock);
  append(s, item);
  for (CUstream b = streams; b && s->is_default; b = b->next)
    if (b->blocking && b->device == s->device) order(s, b);
}

void queue_wait(CUstream s, Mark *m) {
  watch_wait(s->watched, &s->clock, m ? &m->clock : &s->clock, m ? m->number : 0);
  if (m && !m->done) queue_add(s, (Item){.kind = ITEM_WAIT, .mark = queue_mark_hold(m)});
}

CUresult double_submit(CUstream stream, DoubleWork *w) {
  CUresult error = queue_error(w->device);
  int device = double_stream_device(stream);
  if (!error && device != w->device) {
    double_violation("%s: work of device %d on a stream of device %d", w->what, w->device, device);
    error = CUDA_ERROR_INVALID_HANDLE;
  }
  if (error) {
    double_work_drop(w);
    return error;
  }
  if (!stream) stream = queue_default(w->device);
  if (stream->capture) return graph_add_work(stream, w);
  queue_add(stream, (Item){.kind = ITEM_WORK, .work = w});
  return CUDA_SUCCESS;
}

int double_stream_device(CUstream s) { return !s ? double_current() : queue_stream_exists(s) ? s->device : -1; }

/* ---- waiting */

static CUresult until(bool (*done)(const void *), const void *what, int device) {
  for (;;) {
    if (queue_error(device)) return queue_error(device);
    if (done(what)) return CUDA_SUCCESS;
    Served s = serve_one();
    if (s == WAITING) double_nap();
    if (s == NOTHING && !queue_error(device) && !done(what)) {
      double_violation("device %d: the awaited work never ends", device);
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    }
  }
}

static bool is_empty(const void *s) { return !((CUstream)(uintptr_t)s)->first; }
static bool is_made(const void *m) { return ((const Mark *)m)->done; }
static bool is_idle(const void *device) { return queue_idle(*(const int *)device); }

bool queue_idle(int device) {
  for (CUstream s = streams; s; s = s->next)
    if (s->device == device && s->first) return false;
  return true;
}

void queue_seen(const Mark *m) {
  if (m) watch_host(m->stream, &m->clock, m->number);
}
void queue_seen_empty(CUstream s) { watch_host(s->watched, &s->clock, 0); }

CUresult queue_until_empty(CUstream s) {
  CUresult error = until(is_empty, s, s->device);
  if (!error) queue_seen_empty(s);
  return error;
}

CUresult queue_until_mark(const Mark *m, int device) {
  CUresult error = m ? until(is_made, m, device) : queue_error(device);
  if (!error) queue_seen(m);
  return error;
}

CUresult queue_until_idle(int device) {
  CUresult error = until(is_idle, &device, device);
  for (CUstream s = streams; !error && s; s = s->next)
    if (s->device == device) queue_seen_empty(s);
  return error;
}

/* As the driver does: returns at once; the stream is freed when it is empty. */
CUresult queue_stream_destroy(CUstream s) {
  s->destroyed = true;
  return queue_error(s->device);
}

/* ---- uses of memory */

typedef struct Use {
  uint64_t at, bytes;
  bool reads_only, found;
} Use;

static void look(void *context, uint64_t at, uint64_t bytes, bool writes) {
  Use *u = context;
  if (at < u->at + u->bytes && u->at < at + bytes && !(writes && u->reads_only)) u->found = true;
}

static void look_at(const Item *i, Use *u) {
  if (i->work) i->work->kind->ranges(i->work, look, u);
  int k = 0;
  const DoubleWork *w = i->run ? graph_run_work(i->run, &k) : NULL;
  for (; w; w = graph_run_work(i->run, &k)) w->kind->ranges(w, look, u);
}

bool queue_uses(uint64_t at, uint64_t bytes, bool reads_only) {
  Use u = {at, bytes, reads_only, false};
  for (CUstream s = streams; s; s = s->next)
    for (const Item *i = errors[s->device] ? NULL : s->first; i && !u.found; i = i->next) look_at(i, &u);
  return u.found;
}

void queue_leaks(int device) {
  int ns = 0, ne = 0;
  for (CUstream s = streams; s; s = s->next) ns += s->device == device && !s->is_default && !s->destroyed;
  for (CUevent e = events; e; e = e->next) ne += e->device == device;
  if (ns) double_violation("%d streams of device %d are not destroyed", ns, device);
  if (ne) double_violation("%d events of device %d are not destroyed", ne, device);
}
