/* tools/plan_why.c - see plan_why.h. */
#include "tools/plan_why.h"

#include "base/json_text.h"

enum { SHOWN_CHOICES = 4 };

bool tool_why(Tool *t, const Build *b, Whys *out) {
  size_t at = 0;
  *out = (Whys){0};
  for (const OptionUse *u; (u = option_next(&t->options, OPT_why, &at));) {
    Why x;
    if (!search_why(b->model.m, b->l1, b->options.target, b->plan, u->value, &x, t->diags)) return false;
    ARENA_PUSH(t->arena, out, x);
  }
  return true;
}

static const char *op_name_of(const Build *b, size_t op) { return b->l1->ops.items[op].name; }

static const char *strategy_text(const Tool *t, const Build *b, const Why *x, const Strategy *s) {
  Text text = {.arena = t->arena};
  strategy_print(&b->model.m->mesh, &text, rule_of(b->model.m, b->l1, &b->l1->ops.items[x->head]), s);
  return text_str(&text);
}

static const char *layout_text(const Tool *t, const Build *b, const Layout *l) {
  Text text = {.arena = t->arena};
  layout_print(b->model.m, &text, l);
  return text_str(&text);
}

/* Returns "1.2 ms for the operation and 7 that follow it, 35.0 us for conversions". */
static const char *parts_text(const Tool *t, const Why *x, const WhyChoice *c) {
  const char *with = x->nfollowers ? arena_printf(t->arena, " and %d that follow it", x->nfollowers) : "";
  return arena_printf(t->arena, "%s for the operation%s, %s for conversions", show_seconds(t->arena, c->own), with,
                      c->moved > 0 ? show_seconds(t->arena, c->moved) : "nothing");
}

static void show_moves(const Tool *t, const Build *b, const WhyChoice *c) {
  for (int i = 0; i < c->nmoves; i++) {
    const WhyMove *y = &c->moves[i];
    printf("      %s %s: %s -> %s, %s\n", y->reads ? "reads" : "is read by", op_name_of(b, y->other),
           layout_text(t, b, y->from), layout_text(t, b, y->to), show_seconds(t->arena, y->seconds));
  }
}

static void show_other(const Tool *t, const Build *b, const Why *x, int i) {
  const WhyChoice *own = &x->choices[0], *c = &x->choices[i];
  const double seconds = own->price.time.total, more = c->price.time.total - seconds,
               bytes = c->price.memory.total - own->price.memory.total;
  printf("    %-9s %s: %s%s a step (%+.1f %%), %s%s per rank\n", i == 1 ? "next best" : "",
         strategy_text(t, b, x, &c->strategy), more < 0 ? "-" : "+", show_seconds(t->arena, more < 0 ? -more : more),
         100 * more / seconds, bytes < 0 ? "-" : "+", show_bytes(t->arena, bytes < 0 ? -bytes : bytes));
  if (i > 1) return;
  printf("              %s\n", parts_text(t, x, c));
  show_moves(t, b, c);
}

static void show_why(const Tool *t, const Build *b, const Why *x) {
  const Op *op = &b->l1->ops.items[x->op], *head = &b->l1->ops.items[x->head];
  const WhyChoice *own = &x->choices[0];
  printf("\n  why %s (%s)\n", op->name, op_name(op->kind));
  if (x->head != x->op) printf("    follows %s (%s)\n", head->name, op_name(head->kind));
  printf("    %-9s %s of %d: %s\n", "chosen", strategy_text(t, b, x, &own->strategy), x->possible,
         parts_text(t, x, own));
  show_moves(t, b, own);
  for (int i = 1; i < x->n && i < SHOWN_CHOICES; i++) show_other(t, b, x, i);
  if (x->n == 1) printf("    no other choice is possible with the rest of the plan unchanged\n");
}

void tool_why_show(const Tool *t, const Build *b, const Whys *x) {
  for (size_t i = 0; i < x->n; i++) show_why(t, b, &x->items[i]);
}

static json_t *moves_json(const Tool *t, const Build *b, const WhyChoice *c) {
  json_t *list = json_array();
  for (int i = 0; i < c->nmoves; i++) {
    const WhyMove *y = &c->moves[i];
    json_array_append_new(list, json_pack("{s:o, s:b, s:o, s:o, s:f}", "other", json_text(op_name_of(b, y->other)),
                                          "reads", y->reads, "from", json_text(layout_text(t, b, y->from)), "to",
                                          json_text(layout_text(t, b, y->to)), "time_us", y->seconds * 1e6));
  }
  return list;
}

static json_t *why_json(const Tool *t, const Build *b, const Why *x) {
  json_t *choices = json_array();
  for (int i = 0; i < x->n; i++) {
    const WhyChoice *c = &x->choices[i];
    json_array_append_new(
        choices,
        json_pack("{s:o, s:f, s:f, s:o, s:f, s:f}", "strategy", json_text(strategy_text(t, b, x, &c->strategy)),
                  "operation_us", c->own * 1e6, "conversions_us", c->moved * 1e6, "moves", moves_json(t, b, c),
                  "step_us", c->price.time.total * 1e6, "counted_bytes", c->price.memory.total));
  }
  return json_pack("{s:o, s:o, s:i, s:i, s:o}", "name", json_text(op_name_of(b, x->op)), "follows",
                   x->head == x->op ? json_null() : json_text(op_name_of(b, x->head)), "followers", x->nfollowers,
                   "possible", x->possible, "choices", choices);
}

json_t *tool_why_json(const Tool *t, const Build *b, const Whys *x) {
  json_t *list = json_array();
  for (size_t i = 0; i < x->n; i++) json_array_append_new(list, why_json(t, b, &x->items[i]));
  return list;
}
