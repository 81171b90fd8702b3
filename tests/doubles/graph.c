/* tests/doubles/graph.c - see graph.h.
 *
 * A capturing stream keeps the nodes that its next node depends on (`tail`).  An event that is recorded there saves
 * them; a stream that waits for the event joins the capture with them.  At the end all nodes must be before the tail of
 * the stream where the capture began, else a stream was not joined again. */
#define _GNU_SOURCE
#include "tests/doubles/graph.h"

#include <stdlib.h>
#include <string.h>

#include "tests/doubles/memory.h"
#include "tests/doubles/queue.h"

enum { MOST_CAPTURES = 16, MOST_STREAMS = 64 };

struct GraphRun {
  CUgraph graph;
  int refs;
  bool *done;
  void **state;
  int left;
  int *missing, *ready, nready; /* per node: how many of its dependencies are not done; the nodes that miss none */
  WatchClock *clocks;           /* of nodes, with lanes and numbers; NULL if not watched */
  int *lanes;
  uint32_t *numbers;
  Mark *after, *finished; /* launches of one executable graph run in order */
};

struct CUgraphExec_st {
  CUgraph graph;
  Mark *last;
  struct CUgraphExec_st *next;
};

static CUgraph graphs;
static CUgraphExec execs;
static Capture *captures[MOST_CAPTURES];
static CUstream joined[MOST_STREAMS]; /* streams that capture */
static unsigned long long captured;

/* ---- sets of nodes */

static void set_add(NodeSet *s, int node) {
  for (int i = 0; i < s->n; i++)
    if (s->items[i] == node) return;
  s->items = realloc(s->items, sizeof *s->items * (size_t)(s->n + 1));
  s->items[s->n++] = node;
}
static void set_all(NodeSet *to, const NodeSet *from) {
  for (int i = 0; i < from->n; i++) set_add(to, from->items[i]);
}
static void set_clear(NodeSet *s) {
  free(s->items);
  *s = (NodeSet){0};
}

/* ---- graphs */

static void graph_drop(CUgraph g) {
  if (--g->refs) return;
  for (int i = 0; i < g->n; i++) {
    double_work_drop(g->nodes[i].work);
    free(g->nodes[i].before.items);
    free(g->nodes[i].after.items);
  }
  free(g->nodes);
  free(g);
}

static int add_node(CUstream s, DoubleWork *w, CUevent record) {
  CUgraph g = s->capture->graph;
  GraphNode *node;
  g->nodes = realloc(g->nodes, sizeof *g->nodes * (size_t)(g->n + 1));
  node = &g->nodes[g->n];
  *node = (GraphNode){.work = w, .record = record, .watched = s->watched};
  watch_captured_work(s->watched);
  set_all(&node->before, &s->tail);
  set_clear(&s->tail);
  set_add(&s->tail, g->n);
  return g->n++;
}

CUresult graph_destroy(CUgraph g) {
  CUgraph *p = &graphs;
  while (*p && *p != g) p = &(*p)->next;
  if (!*p) return CUDA_ERROR_INVALID_VALUE;
  *p = g->next;
  graph_drop(g);
  return CUDA_SUCCESS;
}

/* ---- capture */

static void join(CUstream s, Capture *c) {
  if (s->capture) return;
  s->capture = c;
  for (int i = 0; i < MOST_STREAMS; i++)
    if (!joined[i]) {
      joined[i] = s;
      return;
    }
  double_violation("more than %d streams capture", MOST_STREAMS);
}

static CUresult broken(Capture *c, CUresult why) {
  if (!c->broken) c->broken = why;
  return why;
}

CUresult graph_begin(CUstream s, CUstreamCaptureMode mode) {
  int at = 0;
  if (!s) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (s->capture) return CUDA_ERROR_INVALID_VALUE;
  while (at < MOST_CAPTURES && captures[at]) at++;
  if (at == MOST_CAPTURES) return CUDA_ERROR_UNKNOWN;
  Capture *c = calloc(1, sizeof *c);
  *c = (Capture){
      .graph = calloc(1, sizeof *c->graph), .origin = s, .mode = mode, .thread = pthread_self(), .id = ++captured};
  c->graph->refs = 1, c->graph->id = c->id;
  watch_capture(c->id, s->watched);
  captures[at] = c;
  join(s, c);
  return CUDA_SUCCESS;
}

/* All nodes before those of a set, including the set. */
static int reach(CUgraph g, const NodeSet *from) {
  bool *seen = calloc((size_t)g->n + 1, sizeof *seen);
  int n = 0;
  for (int i = 0; i < from->n; i++) seen[from->items[i]] = true;
  for (int i = g->n - 1; i >= 0; i--) { /* nodes depend on earlier nodes only */
    if (!seen[i]) continue;
    n++;
    for (int k = 0; k < g->nodes[i].before.n; k++) seen[g->nodes[i].before.items[k]] = true;
  }
  free(seen);
  return n;
}

static void leave(Capture *c) {
  for (int i = 0; i < MOST_STREAMS; i++)
    if (joined[i] && joined[i]->capture == c) {
      joined[i]->capture = NULL;
      set_clear(&joined[i]->tail);
      joined[i] = NULL;
    }
  for (int i = 0; i < MOST_CAPTURES; i++)
    if (captures[i] == c) captures[i] = NULL;
}

static void link_after(CUgraph g) {
  for (int i = 0; i < g->n; i++)
    for (int k = 0; k < g->nodes[i].before.n; k++) set_add(&g->nodes[g->nodes[i].before.items[k]].after, i);
}

CUresult graph_end(CUstream s, CUgraph *out) {
  Capture *c = s ? s->capture : NULL;
  if (!c) return CUDA_ERROR_INVALID_VALUE;
  if (c->origin != s) return broken(c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self()))
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult error = c->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  if (!error && reach(c->graph, &s->tail) != c->graph->n) error = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  leave(c);
  if (!error) link_after(c->graph), watch_captured(c->id, s->watched);
  *out = NULL;
  if (error) graph_drop(c->graph);
  else c->graph->next = graphs, graphs = *out = c->graph;
  free(c);
  return error;
}

CUresult graph_add_work(CUstream s, DoubleWork *w) {
  if (s->capture->broken) {
    double_work_drop(w);
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  add_node(s, w, NULL);
  return CUDA_SUCCESS;
}

CUresult graph_record(CUstream s, CUevent e, bool external) {
  if (s->capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (external) {
    add_node(s, NULL, e);
    return CUDA_SUCCESS;
  }
  e->capture = s->capture, e->capture_id = s->capture->id;
  e->number = watch_record(s->watched, &s->clock);
  set_clear(&e->tail);
  set_all(&e->tail, &s->tail);
  return CUDA_SUCCESS;
}

static bool captures_still(const struct CUevent_st *e) {
  for (int i = 0; i < MOST_CAPTURES; i++)
    if (captures[i] && captures[i] == e->capture && captures[i]->id == e->capture_id) return true;
  return false;
}

/* Called if the event was last recorded into a capture, or the stream captures. */
CUresult graph_wait(CUstream s, CUevent e) {
  watch_captured_wait(s->watched, e->capture ? e->number : 0);
  if (!captures_still(e))
    return s->capture ? broken(s->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION) : CUDA_ERROR_CAPTURED_EVENT;
  if (s->capture && s->capture != e->capture) return broken(s->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  join(s, e->capture);
  set_all(&s->tail, &e->tail);
  return CUDA_SUCCESS;
}

CUresult graph_forbidden(const char *what) {
  for (int i = 0; i < MOST_CAPTURES; i++) {
    Capture *c = captures[i];
    if (!c || c->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    if (c->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && !pthread_equal(c->thread, pthread_self())) continue;
    (void)what;
    return broken(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return CUDA_SUCCESS;
}

CUresult graph_forbidden_on(CUstream s) {
  return s && s->capture ? broken(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) : CUDA_SUCCESS;
}

/* ---- executable graphs */

CUresult graph_instantiate(CUgraph g, CUgraphExec *out) {
  CUgraphExec e = calloc(1, sizeof *e);
  e->graph = g, g->refs++;
  e->next = execs, execs = *out = e;
  return CUDA_SUCCESS;
}

static CUgraphExec *find_exec(CUgraphExec e) {
  CUgraphExec *p = &execs;
  while (*p && *p != e) p = &(*p)->next;
  return *p ? p : NULL;
}

/* Requires the same nodes in the same order with the same dependencies and kinds; then takes the new parameters. */
CUresult graph_exec_update(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo *why) {
  if (!find_exec(e)) return CUDA_ERROR_INVALID_HANDLE;
  bool same = e->graph->n == g->n;
  for (int i = 0; same && i < g->n; i++) {
    const GraphNode *a = &e->graph->nodes[i], *b = &g->nodes[i];
    same = !a->work == !b->work && (!a->work || a->work->kind == b->work->kind) && a->before.n == b->before.n &&
           (!a->before.n || memcmp(a->before.items, b->before.items, sizeof(int) * (size_t)a->before.n) == 0);
  }
  if (why) why->result = same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (!same) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  graph_drop(e->graph);
  e->graph = g, g->refs++;
  return CUDA_SUCCESS;
}

CUresult graph_exec_destroy(CUgraphExec e) {
  CUgraphExec *p = find_exec(e);
  if (!p) return CUDA_ERROR_INVALID_HANDLE;
  *p = e->next;
  queue_mark_drop(e->last);
  graph_drop(e->graph);
  free(e);
  return CUDA_SUCCESS;
}

CUresult graph_launch(CUgraphExec e, CUstream s) {
  if (!find_exec(e)) return CUDA_ERROR_INVALID_HANDLE;
  if (s->capture) return broken(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph g = e->graph;
  GraphRun *r = calloc(1, sizeof *r);
  *r = (GraphRun){.graph = g, .refs = 1, .left = g->n, .after = e->last, .finished = queue_mark_new()};
  g->refs++;
  r->done = calloc((size_t)g->n + 1, sizeof *r->done);
  r->state = calloc((size_t)g->n + 1, sizeof *r->state);
  r->missing = calloc((size_t)g->n + 1, sizeof *r->missing);
  r->ready = calloc((size_t)g->n + 1, sizeof *r->ready);
  for (int i = 0; i < g->n; i++)
    if (!(r->missing[i] = g->nodes[i].before.n)) r->ready[r->nready++] = i;
  e->last = queue_mark_hold(r->finished);
  if (!g->n) r->finished->done = true;
  queue_add(s, (Item){.kind = ITEM_GRAPH, .run = r});
  for (int i = 0; i < g->n; i++)
    if (g->nodes[i].work && g->nodes[i].work->kind->launch)
      r->state[i] = g->nodes[i].work->kind->launch(g->nodes[i].work);
  return CUDA_SUCCESS;
}

/* ---- runs */

int graph_run_ready(const GraphRun *r) {
  if (!r->graph->n) return 1;
  return r->after && !r->after->done ? 0 : r->nready;
}

void graph_run_watch(GraphRun *r, CUstream s, WatchClock *clock) {
  CUgraph g = r->graph;
  if (!watch_on()) return;
  watch_launch(g->id, s->watched, &s->clock, g->n);
  *clock = s->clock;
  r->clocks = calloc((size_t)g->n + 1, sizeof *r->clocks);
  r->lanes = calloc((size_t)g->n + 1, sizeof *r->lanes);
  r->numbers = calloc((size_t)g->n + 1, sizeof *r->numbers);
  for (int i = 0; i < g->n; i++) {
    const GraphNode *node = &g->nodes[i];
    r->clocks[i] = *clock;
    for (int k = 0; k < node->before.n; k++) watch_join(&r->clocks[i], &r->clocks[node->before.items[k]]);
    r->numbers[i] =
        watch_node(s->watched, node->watched, &r->clocks[i], node->work ? node->work->what : "an event", &r->lanes[i]);
    watch_join(&s->clock, &r->clocks[i]);
  }
}

bool graph_run_gives_host(const GraphRun *r) {
  for (int i = 0; i < r->graph->n; i++) {
    const DoubleWork *w = r->graph->nodes[i].work;
    if (w && strncmp(w->what, "cuMemcpyDtoH", 12) == 0) return true;
  }
  return false;
}

static bool serve_node(GraphRun *r, int i) {
  const GraphNode *node = &r->graph->nodes[i];
  if (r->clocks) watch_begin(r->lanes[i], &r->clocks[i], r->numbers[i]);
  if (node->work) {
    memory_doing(node->work->what);
    bool done = node->work->kind->run(node->work, r->state[i]);
    memory_doing(NULL);
    if (!done) return false;
    watch_done(node->work);
    if (report_fails_late())
      double_device_error(node->work->device, CUDA_ERROR_LAUNCH_FAILED, "%s, as asked for", node->work->what);
  } else if (queue_event_exists(node->record)) {
    queue_mark_drop(node->record->mark);
    node->record->mark = queue_mark_new();
    node->record->mark->done = true, node->record->mark->when = report_now();
  }
  r->done[i] = true, r->left--;
  for (int k = 0; k < node->after.n; k++)
    if (--r->missing[node->after.items[k]] == 0) r->ready[r->nready++] = node->after.items[k];
  if (!r->left) r->finished->done = true, r->finished->when = report_now();
  return true;
}

/* Serves the k-th ready node, or the first later one that does not wait for others. */
bool graph_run_serve(GraphRun *r, int k) {
  int n = r->nready;
  for (int i = 0; i < n; i++) {
    int at = (k + i) % n;
    if (!serve_node(r, r->ready[at])) continue;
    memmove(&r->ready[at], &r->ready[at + 1], sizeof *r->ready * (size_t)(--r->nready - at));
    return true;
  }
  return false;
}

bool graph_run_done(const GraphRun *r) { return r->left == 0; }

const DoubleWork *graph_run_work(const GraphRun *r, int *at) {
  while (*at < r->graph->n) {
    int i = (*at)++;
    if (!r->done[i] && r->graph->nodes[i].work) return r->graph->nodes[i].work;
  }
  return NULL;
}

void graph_run_drop(GraphRun *r) {
  for (int i = 0; i < r->graph->n; i++) {
    const DoubleWork *w = r->graph->nodes[i].work;
    if (!r->done[i] && r->state[i] && w->kind->forget) w->kind->forget(r->state[i]);
  }
  graph_drop(r->graph);
  queue_mark_drop(r->after);
  queue_mark_drop(r->finished);
  free(r->done), free(r->missing), free(r->ready);
  free(r->clocks), free(r->lanes), free(r->numbers);
  free(r->state);
  free(r);
}

/* ---- for other doubles */

bool double_captures(CUstream s) { return s && queue_stream_exists(s) && s->capture; }

bool double_in_graph(bool (*is)(const DoubleWork *w, const void *what), const void *what) {
  for (CUgraphExec e = execs; e; e = e->next)
    for (int i = 0; i < e->graph->n; i++)
      if (e->graph->nodes[i].work && is(e->graph->nodes[i].work, what)) return true;
  return false;
}

void graph_leaks(void) {
  int ng = 0, ne = 0;
  for (CUgraph g = graphs; g; g = g->next) ng++;
  for (CUgraphExec e = execs; e; e = e->next) ne++;
  if (ng) double_violation("%d graphs are not destroyed", ng);
  if (ne) double_violation("%d executable graphs are not destroyed", ne);
}
