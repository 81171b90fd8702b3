/* bench/iopddl/instance.c - reads a problem; see instance.h. */
#include "bench/iopddl/instance.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

static void fail(const char *what, const char *why) {
  fprintf(stderr, "error: %s: %s\n", what, why);
  exit(1);
}

int64_t instance_forbidden(void) { return 1000000000000000000; }

static json_t *read_json(const char *file) {
  gzFile z = gzopen(file, "rb");
  if (!z) fail(file, "cannot be opened");
  size_t n = 0, cap = 1 << 20;
  char *text = NULL;
  for (int got = 1; got > 0; n += (size_t)got) {
    text = realloc(text, cap *= 2);
    if (!text) fail(file, "out of memory");
    got = gzread(z, text + n, (unsigned)(cap - n < 1 << 30 ? cap - n : 1 << 30));
    if (got < 0) fail(file, "cannot be read");
  }
  gzclose(z);
  json_error_t error;
  json_t *j = json_loadb(text, n, 0, &error);
  if (!j) fail(file, error.text);
  free(text);
  return j;
}

static json_t *member(json_t *of, const char *name) {
  json_t *j = json_object_get(of, name);
  if (!j) fail(name, "is missing");
  return j;
}

static int64_t number(const json_t *list, size_t i) {
  json_t *x = json_array_get(list, i);
  if (!json_is_integer(x)) fail("a number", "is missing");
  return json_integer_value(x);
}

static const int64_t *numbers(Arena *a, const json_t *list, size_t n) {
  int64_t *x = ARENA_ARRAY(a, int64_t, n + 1);
  if (json_array_size(list) != n) fail("a list", "has the wrong length");
  for (size_t i = 0; i < n; i++) x[i] = number(list, i);
  return x;
}

static int ascending(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static int find(const int64_t *list, int n, int64_t x) {
  int low = 0;
  for (int high = n; low < high;) {
    int middle = low + (high - low) / 2;
    if (list[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Usage changes only where an interval begins or ends. */
static void read_intervals(Instance *in, const json_t *list, Arena *a) {
  size_t n = 2 * (size_t)in->n;
  int64_t *times = ARENA_ARRAY(a, int64_t, n + 1);
  if (json_array_size(list) != (size_t)in->n) fail("intervals", "their number differs from that of nodes");
  for (size_t i = 0; i < n; i++) times[i] = number(json_array_get(list, i / 2), i % 2);
  qsort(times, n, sizeof *times, ascending);
  for (size_t i = 0; i < n; i++)
    if (i == 0 || times[i] != times[i - 1]) times[in->ntimes++] = times[i];
  for (size_t i = 0; i < (size_t)in->n; i++) {
    in->begin[i] = find(times, in->ntimes, number(json_array_get(list, i), 0));
    in->end[i] = find(times, in->ntimes, number(json_array_get(list, i), 1));
  }
}

static void read_nodes(Instance *in, json_t *nodes, Arena *a) {
  json_t *costs = member(nodes, "costs"), *usages = member(nodes, "usages");
  in->n = (int)json_array_size(costs);
  size_t n = (size_t)in->n + 1;
  in->domain = ARENA_ARRAY(a, int, n);
  in->begin = ARENA_ARRAY(a, int, n);
  in->end = ARENA_ARRAY(a, int, n);
  in->cost = ARENA_ARRAY(a, const int64_t *, n);
  in->usage = ARENA_ARRAY(a, const int64_t *, n);
  for (size_t i = 0; i < (size_t)in->n; i++) {
    size_t strategies = json_array_size(json_array_get(costs, i));
    in->domain[i] = (int)strategies;
    in->cost[i] = numbers(a, json_array_get(costs, i), strategies);
    in->usage[i] = numbers(a, json_array_get(usages, i), strategies);
  }
  read_intervals(in, member(nodes, "intervals"), a);
}

static void read_edges(Instance *in, json_t *edges, Arena *a) {
  json_t *nodes = member(edges, "nodes"), *costs = member(edges, "costs");
  in->nedges = json_array_size(nodes);
  in->edges = ARENA_ARRAY(a, InstanceEdge, in->nedges + 1);
  for (size_t e = 0; e < in->nedges; e++) {
    json_t *ends = json_array_get(nodes, e);
    size_t entries = 1;
    if (json_array_size(ends) != 2) fail("an edge", "must join two nodes");
    for (size_t k = 0; k < 2; k++) {
      int64_t node = number(ends, k);
      if (node < 0 || node >= in->n) fail("an edge", "names a node that does not exist");
      in->edges[e].of[k] = (int)node;
      entries *= (size_t)in->domain[node];
    }
    if (in->edges[e].of[0] == in->edges[e].of[1]) fail("an edge", "joins a node to itself");
    in->edges[e].cost = numbers(a, json_array_get(costs, e), entries);
  }
}

const Instance *instance_read(const char *file, Arena *a) {
  json_t *json = read_json(file), *problem = member(json, "problem"), *limit = json_object_get(problem, "usage_limit");
  Instance *in = ARENA_NEW(a, Instance);
  in->limit = json_is_integer(limit) ? json_integer_value(limit) : INT64_MAX;
  read_nodes(in, member(problem, "nodes"), a);
  read_edges(in, member(problem, "edges"), a);
  json_decref(json);
  return in;
}

int64_t instance_cost(const Instance *in, const int *strategy) {
  int64_t sum = 0;
  for (int i = 0; i < in->n; i++) {
    int64_t x = in->cost[i][strategy[i]];
    if (x >= instance_forbidden()) return -1;
    sum += x;
  }
  for (size_t e = 0; e < in->nedges; e++) {
    int a = in->edges[e].of[0], b = in->edges[e].of[1];
    int64_t x = in->edges[e].cost[strategy[a] * in->domain[b] + strategy[b]];
    if (x >= instance_forbidden()) return -1;
    sum += x;
  }
  return sum;
}

int64_t instance_usage(const Instance *in, const int *strategy, Arena *a) {
  int64_t *change = ARENA_ARRAY(a, int64_t, in->ntimes + 1), used = 0, most = 0;
  for (int i = 0; i < in->n; i++) {
    if (in->begin[i] >= in->end[i]) continue;
    change[in->begin[i]] += in->usage[i][strategy[i]];
    change[in->end[i]] -= in->usage[i][strategy[i]];
  }
  for (int t = 0; t < in->ntimes; t++) {
    used += change[t];
    if (used > most) most = used;
  }
  return most;
}
