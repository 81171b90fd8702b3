/* passes/search/report.c - see report.h. */
#include "passes/search/report.h"

#include <math.h>

#include "passes/search/outer.h"

static int by_users(const SearchFan *a, const SearchFan *b) {
  return a->users != b->users ? b->users - a->users : b->choosing - a->choosing;
}

/* Keeps the SEARCH_FANS values with the most users, sorted. */
static void keep_fan(SearchReport *r, SearchFan fan) {
  int at = r->nfans < SEARCH_FANS ? r->nfans++ : SEARCH_FANS;
  for (; at > 0 && by_users(&fan, &r->fans[at - 1]) < 0; at--)
    if (at < SEARCH_FANS) r->fans[at] = r->fans[at - 1];
  if (at < SEARCH_FANS) r->fans[at] = fan;
}

static SearchJoin join_of(const Graph *g, const SolveJoin *j, Arena *arena) {
  const char **scope = ARENA_ARRAY(arena, const char *, j->nscope + 1);
  for (int i = 0; i < j->nscope; i++) scope[i] = graph_variable_name(g, j->scope[i], arena);
  return (SearchJoin){graph_variable_name(g, j->var, arena), j->nscope, scope, j->work};
}

void search_report_add(SearchReport *r, const Graph *g, const SolveResult *solved, Arena *arena) {
  r->solved++;
  r->order += solved->order_seconds;
  r->sums += solved->sum_seconds;
  if (r->most_work > solved->work) return;
  r->most_work = solved->work;
  r->variables = graph_problem(g)->nvars;
  r->width = solved->width;
  r->njoins = solved->njoins;
  for (int i = 0; i < solved->njoins; i++) r->joins[i] = join_of(g, &solved->joins[i], arena);
  r->nfans = 0;
  r->many = 0;
  SearchFan fan;
  for (size_t i = 0; graph_fan(g, i, &fan); i++) {
    if (fan.users < SEARCH_MANY_USERS) continue;
    r->many++;
    keep_fan(r, fan);
  }
}

static double seconds_left(const SolveWatch *w, const PlanProgress *p) {
  double now = solve_watch_now(), went = now - w->began;
  if (isfinite(w->deadline)) return fmax(w->deadline - now, 0);
  double left = p->done > 0 ? went * (p->candidates - p->done) / p->done : INFINITY;
  return w->most > 0 ? fmin(left, went * fmax(w->most / w->spent - 1, 0)) : left;
}

void search_report_progress(const SolveWatch *w) {
  const Search *s = w->context;
  PlanProgress p = s->progress;
  p.left = seconds_left(w, &p);
  s->show(s->show_context, &p);
}
