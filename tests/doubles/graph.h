/* tests/doubles/graph.h - capture of streams, graphs, and their launches. */
#ifndef APC_TESTS_DOUBLES_GRAPH_H
#define APC_TESTS_DOUBLES_GRAPH_H

#include <pthread.h>

#include "tests/doubles/double.h"
#include "tests/doubles/watch.h"

/* Nodes by number, ascending. */
typedef struct NodeSet {
  int *items, n;
} NodeSet;

typedef struct GraphNode {
  DoubleWork *work; /* NULL for an event's node */
  CUevent record;   /* an event that the node records; NULL if none */
  NodeSet before, after;
  int watched; /* the stream that it was captured from, among clocks */
} GraphNode;

struct CUgraph_st {
  GraphNode *nodes;
  int n, refs;
  unsigned long long id;
  bool instance;
  struct CUgraph_st *next;
};

typedef struct Capture {
  CUgraph graph;
  CUstream origin;
  CUstreamCaptureMode mode;
  pthread_t thread;
  unsigned long long id;
  CUresult broken; /* why it is invalid; CUDA_SUCCESS if it is not */
} Capture;

/* An unfinished launch. */
typedef struct GraphRun GraphRun;

CUresult graph_begin(CUstream s, CUstreamCaptureMode mode);
CUresult graph_end(CUstream s, CUgraph *out);

/* For streams that capture: work, records and waits. */
CUresult graph_add_work(CUstream s, DoubleWork *w);
CUresult graph_record(CUstream s, CUevent e, bool external);
CUresult graph_wait(CUstream s, CUevent e);

/* A call that is forbidden while this thread, or any, captures: makes the capture invalid. */
CUresult graph_forbidden(const char *what);
CUresult graph_forbidden_on(CUstream s);

CUresult graph_destroy(CUgraph g);
CUresult graph_instantiate(CUgraph g, CUgraphExec *out);
CUresult graph_exec_update(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo *why);
CUresult graph_exec_destroy(CUgraphExec e);
CUresult graph_launch(CUgraphExec e, CUstream s);

/* A run: the number of nodes that may be served now; serving the k-th of them (false if it must wait); whether all are
 * done. */
int graph_run_ready(const GraphRun *r);
bool graph_run_serve(GraphRun *r, int k);
bool graph_run_done(const GraphRun *r);
void graph_run_drop(GraphRun *r);
/* Gives its nodes clocks, and the stream that it is added to a clock after all of them; `clock`: the one before. */
void graph_run_watch(GraphRun *r, CUstream s, WatchClock *clock);
bool graph_run_gives_host(const GraphRun *r); /* it copies to the host */
/* The works of its unfinished nodes: the next one after *at. */
const DoubleWork *graph_run_work(const GraphRun *r, int *at);

void graph_leaks(void);

#endif
