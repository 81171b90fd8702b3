/* passes/search/report.h - progress of a running search, and the breakdown of its time for --time-report (D58).
 */
#ifndef APC_PASSES_SEARCH_REPORT_H
#define APC_PASSES_SEARCH_REPORT_H

#include "passes/plan/plan.h"
#include "passes/search/graph.h"
#include "solver/watch.h"

/* Adds one solution of a graph.  Keeps the large parts of the graph that took the most sums; names and lists are in the
 * arena. */
void search_report_add(SearchReport *r, const Graph *g, const SolveResult *solved, Arena *arena);

/* Shows the progress of the search, which is the watch's context. */
void search_report_progress(const SolveWatch *w);

#endif
