/* bench/iopddl/iopddl.c - the planner's solver on the problems of the IOPDDL contest (ASPLOS and EuroSys 2025).
 *
 * usage: bench_iopddl [-s SECONDS] [-r SEED] FILE.json[.gz] ...      (60, 0)
 *
 * Prints a row per problem: the cost found, the bound, the time of reading and the total time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/iopddl/search.h"
#include "solver/watch.h"

static void solve_file(const char *file, double seconds, uint64_t seed) {
  Arena *a = arena_new();
  double start = solve_watch_processor();
  const Instance *in = instance_read(file, a);
  const Groups *g = groups_of(in, a);
  double ready = solve_watch_processor() - start;
  const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
  int groups = 0;
  for (int i = 0; g && i < g->n; i++) groups += !g->items[i].gone;
  SearchResult r = {0};
  if (g) r = search_run(in, g, seconds - ready, seed, a);
  if (!r.feasible) printf("| %s | %d | %d | none | %.0f | |", base, in->n, groups, r.lower_bound);
  if (r.feasible) {
    int64_t cost = instance_cost(in, r.strategy), used = instance_usage(in, r.strategy, a);
    if (cost < 0 || used > in->limit) {
      fprintf(stderr, "error: %s: the choice that was found is not allowed\n", base);
      exit(1);
    }
    printf("| %s | %d | %d | %" PRId64 " | %.0f | %.2f %% |", base, in->n, groups, cost, r.lower_bound,
           100 * ((double)cost / r.lower_bound - 1));
  }
  printf(" %.1f | %.1f | %.1f | %ld | %ld |\n", ready, r.bound_seconds, solve_watch_processor() - start, r.rounds,
         r.moves);
  fflush(stdout);
  arena_free(a);
}

int main(int argc, char **argv) {
  double seconds = 60;
  uint64_t seed = 0;
  for (int c; (c = getopt(argc, argv, "s:r:")) != -1;) {
    if (c == 's') seconds = atof(optarg);
    else if (c == 'r') seed = strtoull(optarg, NULL, 10);
    else return 2;
  }
  puts(
      "| problem | nodes | groups | cost | bound | gap | s to read | s for prices | s | prices | moves |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
  for (int i = optind; i < argc; i++) solve_file(argv[i], seconds, seed);
  return 0;
}
