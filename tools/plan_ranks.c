/* tools/plan_ranks.c - see plan_ranks.h.  Consecutive ranks with the same kind, stage and shares share one row. */
#include "tools/plan_ranks.h"

#include <string.h>

#include "base/json_text.h"
#include "ir/schedule.h"
#include "ir/shares.h"
#include "passes/cost/plan_price.h"
#include "passes/facts/derived.h"
#include "passes/plan/stage.h"

/* Ranks first to last, in one pipeline place. */
typedef struct Row {
  int first, last, place;
  const Target *kind;
  int at[MAX_AXES]; /* coordinates of the first rank */
} Row;

typedef struct Rows {
  Row *items;
  size_t n, cap;
  int *operations; /* by place: operations in its stages */
  double *busy;    /* by place: busy seconds of a step */
} Rows;

bool tool_ranks_differ(const Build *b) { return b->options.target->nkinds || mesh_has_shares(&b->plan->mesh); }

static bool same_row(const Mesh *mesh, const Row *x, const Row *y) {
  bool same = x->place == y->place && x->kind == y->kind;
  for (int a = 0; a < mesh->naxes && same; a++) {
    const int *shares = mesh->axes[a].shares;
    same = !shares || shares[x->at[a]] == shares[y->at[a]];
  }
  return same;
}

static Row row_of(const Target *g, const Mesh *mesh, int rank) {
  int inner = g->ranks / mesh_places(mesh), rest = rank % inner;
  Row x = {.first = rank, .last = rank, .place = rank / inner, .kind = target_of_rank(g, rank)};
  for (int a = mesh->naxes - 1; a >= 0; a--) {
    if (mesh->axes[a].temporal) continue;
    x.at[a] = rest % mesh->axes[a].size, rest /= mesh->axes[a].size;
  }
  return x;
}

static void find_work(const Build *b, Rows *rows) {
  Module *m = b->model.m;
  const Plan *p = b->plan;
  Arena *a = arena_new();
  StageCost *sums = ARENA_ARRAY(a, StageCost, p->mesh.stages);
  CostModel *c = cost_model_new(m, b->options.target);
  cost_plan_stages(c, m, b->l1, rules_of(m, b->l1), p->strategies, p->stages, sums, NULL);
  for (int s = 0; s < p->mesh.stages; s++)
    rows->busy[mesh_place_of(&p->mesh, s)] += p->micro_batches * sums[s].each + sums[s].once;
  const bool *derived = derived_ops(a, b->l1);
  for (size_t i = 0; i < b->l1->ops.n; i++)
    if (stages_is_placed(b->l1, derived, i)) rows->operations[mesh_place_of(&p->mesh, p->stages ? p->stages[i] : 0)]++;
  cost_model_free(c);
  arena_free(a);
}

static Rows rows_of(Tool *t, const Build *b) {
  const Mesh *mesh = &b->plan->mesh;
  const int places = mesh_places(mesh);
  Rows rows = {.operations = ARENA_ARRAY(t->arena, int, places), .busy = ARENA_ARRAY(t->arena, double, places)};
  for (int r = 0; r < b->options.target->ranks; r++) {
    const Row x = row_of(b->options.target, mesh, r);
    if (rows.n && same_row(mesh, &rows.items[rows.n - 1], &x)) rows.items[rows.n - 1].last = r;
    else ARENA_PUSH(t->arena, &rows, x);
  }
  find_work(b, &rows);
  return rows;
}

static SharePlace place_share(const Mesh *mesh, int axis, const Row *x) {
  return layout_place(mesh, &(DimLayout){.n = 1, .axes = {(uint8_t)axis}}, x->at);
}

/* Returns "cp 2/3, tp 1/4". */
static const char *shares_text(Arena *a, const Mesh *mesh, const Row *x) {
  Text text = {.arena = a};
  for (int i = 0; i < mesh->naxes; i++) {
    if (!mesh->axes[i].shares) continue;
    const SharePlace s = place_share(mesh, i, x);
    text_printf(&text, "%s%s %d/%d", text.n ? ", " : "", mesh->axes[i].name, (int)s.own, (int)s.all);
  }
  return text.n ? text_str(&text) : "equal parts";
}

void tool_ranks_show(Tool *t, const Build *b) {
  if (!tool_ranks_differ(b)) return;
  const Mesh *mesh = &b->plan->mesh;
  const Rows rows = rows_of(t, b);
  printf("\n  %-10s %-22s %-22s %10s  %10s\n", "ranks", "device", "parts", "operations", "busy");
  for (size_t i = 0; i < rows.n; i++) {
    const Row *x = &rows.items[i];
    const char *ranks = x->first == x->last ? arena_printf(t->arena, "%d", x->first)
                                            : arena_printf(t->arena, "%d-%d", x->first, x->last);
    printf("  %-10s %-22s %-22s %10d  %10s\n", ranks, x->kind->part, shares_text(t->arena, mesh, x),
           rows.operations[x->place], show_seconds(t->arena, rows.busy[x->place]));
  }
}

json_t *tool_ranks_json(Tool *t, const Build *b) {
  const Mesh *mesh = &b->plan->mesh;
  const Rows rows = rows_of(t, b);
  json_t *array = json_array();
  for (size_t i = 0; i < rows.n; i++) {
    const Row *x = &rows.items[i];
    json_t *shares = json_object();
    for (int k = 0; k < mesh->naxes; k++) {
      const SharePlace s = place_share(mesh, k, x);
      if (mesh->axes[k].shares) json_set_text(shares, mesh->axes[k].name, json_real((double)s.own / (double)s.all));
    }
    json_array_append_new(array,
                          json_pack("{s:i, s:i, s:o, s:i, s:o, s:i, s:f}", "first", x->first, "last", x->last, "device",
                                    json_text(x->kind->part), "place", x->place, "shares", shares, "operations",
                                    rows.operations[x->place], "busy_us", rows.busy[x->place] * 1e6));
  }
  return array;
}
