/* tools/plan_times.c - see plan_times.h. */
#include "tools/plan_times.h"

#include <math.h>
#include <string.h>

/* Prints only changes.  The remaining time always changes; alone, it is printed only on a terminal, which rewrites the
 * line. */
void tool_times_show(void *tool, const PlanProgress *p) {
  Tool *t = tool;
  if (!tool_progress_due(t)) return;
  const char *best = "no plan yet", *left = "";
  if (isfinite(p->best))
    best = arena_printf(t->arena, "best %s, gap at most %.1f %%", show_seconds(t->arena, p->best),
                        100 * plan_gap(p->best, p->bound));
  const char *said = arena_printf(t->arena, "%d of %d candidates done, %s", p->done, p->candidates, best);
  if (t->said && strcmp(t->said, said) == 0 && !t->terminal) return;
  t->said = said;
  if (isfinite(p->left)) left = arena_printf(t->arena, ", about %.0f s left", ceil(p->left));
  tool_progress(t, "Planning", "%s%s", said, left);
}

static void show_join(Tool *t, const SearchJoin *j, bool first) {
  Text others = {.arena = t->arena};
  for (int i = 0; i < j->nscope; i++) text_printf(&others, "%s%s", i ? ", " : "", j->scope[i]);
  fprintf(stderr, "%12s  %s with %d other%s, %.2g sums: %s\n", first ? "joins" : "", j->name, j->nscope,
          j->nscope == 1 ? "" : "s", j->sums, j->nscope ? text_str(&others) : "-");
}

static void show_fan(const SearchFan *f, bool first) {
  fprintf(stderr, "%12s  %s: %d users, %d may choose a layout", first ? "users" : "", f->name, f->users, f->choosing);
  if (f->sets) fprintf(stderr, ", %d sets of layouts", f->sets);
  fputc('\n', stderr);
}

void tool_times_report(Tool *t, const SearchReport *r) {
  fprintf(stderr, "%12s  %d candidates, %d graphs, %d solutions\n", "search", r->candidates, r->graphs, r->solved);
  fprintf(stderr, "%12s  domains %.3f s, tables %.3f s, order %.3f s, sums %.3f s of processor time\n", "", r->domains,
          r->tables, r->order, r->sums);
  if (!r->solved) return;
  fprintf(stderr, "%12s  %d variables, width %d, %.2g sums\n", "most work", r->variables, r->width, r->most_work);
  for (int i = 0; i < r->njoins; i++) show_join(t, &r->joins[i], i == 0);
  for (int i = 0; i < r->nfans; i++) show_fan(&r->fans[i], i == 0);
  if (r->many > r->nfans)
    fprintf(stderr, "%12s  and %d more with %d users or more\n", "", r->many - r->nfans, SEARCH_MANY_USERS);
}
