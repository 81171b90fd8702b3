/* passes/train/options.c - parses --optimizer and --train: NAME(KEY=VALUE,...), with the tables of optimizers.def and
 * losses.def. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "passes/train/train.h"

static const struct {
  const char *name;
  double lr, weight_decay;
} kinds[] = {
#define OPTIMIZER(name, moments, lr, weight_decay, meaning) {#name, lr, weight_decay},
#include "passes/train/optimizers.def"
};

static const struct Number {
  const char *name;
  size_t at;
  double value, least, below;
  const char *of;
} numbers[] = {
#define NUMBER(name, value, least, below, of, meaning) {#name, offsetof(Optimizer, name), value, least, below, of},
#include "passes/train/optimizers.def"
};

static const struct Word {
  const char *name;
  size_t at;
  const char *choices, *of;
} words[] = {
#define WORD(name, choices, of, meaning) {#name, offsetof(Optimizer, name), choices, of},
#include "passes/train/optimizers.def"
};

/* Settings that have an effect only with some schedules. */
static const struct {
  const char *name, *schedules;
} scheduled[] = {{"steps", "linear cosine wsd one_cycle"},
                 {"min_lr", "linear cosine wsd"},
                 {"cooldown", "wsd"},
                 {"div", "one_cycle"},
                 {"final_div", "one_cycle"}};

/* An optimizer whose settings are being read. */
typedef struct Reading {
  Optimizer *o;
  bool given[sizeof scheduled / sizeof *scheduled];
} Reading;

enum { NUMBERS = (int)(sizeof numbers / sizeof *numbers), WORDS = (int)(sizeof words / sizeof *words) };

static double *number_at(Optimizer *o, int i) { return (double *)((char *)o + numbers[i].at); }
static const char **word_at(Optimizer *o, int i) { return (const char **)((char *)o + words[i].at); }

/* True if the word of n characters is in a list separated by spaces. */
static bool listed(const char *list, const char *word, size_t n) {
  for (const char *at = list; *at; at += strspn(at, " ")) {
    size_t here = strcspn(at, " ");
    if (here == n && strncmp(at, word, n) == 0) return true;
    at += here;
  }
  return false;
}

static bool fail_of(Diags *d, const char *option, const char *text, const char *why, size_t n, const char *what) {
  return diag_error(d, DIAG_usage_value, (Loc){0}, "%s %s: %s '%.*s'", option, text, why, (int)n, what);
}

static bool fail(Diags *d, const char *text, const char *why, size_t n, const char *what) {
  return fail_of(d, "--optimizer", text, why, n, what);
}

/* ---- NAME(KEY=VALUE,...) */

/* Applies one setting; false after a diagnostic. */
typedef bool Set(Arena *a, const char *text, void *to, const char *key, size_t nkey, const char *value, size_t n,
                 Diags *d);

/* Applies all settings in `at`, which begins with '(' or is empty.  Spaces may stand before a setting. */
static bool each_setting(Arena *a, const char *option, const char *text, const char *at, Set *set, void *to, Diags *d) {
  if (!*at) return true;
  size_t length = strlen(at);
  if (length < 2 || at[length - 1] != ')') return fail_of(d, option, text, "expected ')' after", length, at);
  for (at++; at[0] != ')' || at[1];) {
    at += strspn(at, " ");
    size_t nkey = strcspn(at, "=,)"), nvalue;
    if (at[nkey] != '=') return fail_of(d, option, text, "expected KEY=VALUE, got", strcspn(at, ",)"), at);
    const char *value = at + nkey + 1;
    nvalue = strcspn(value, ",)");
    if (!set(a, text, to, at, nkey, value, nvalue, d)) return false;
    at = value + nvalue;
    if (*at == ',') at++;
    else if (at[1]) return fail_of(d, option, text, "expected ',' before", strlen(at + 1), at + 1);
  }
  return true;
}

/* ---- optimizers */

static void defaults(Arena *a, Optimizer *o) {
  for (int i = 0; i < NUMBERS; i++) *number_at(o, i) = numbers[i].value;
  for (int i = 0; i < WORDS; i++) {
    size_t n = strcspn(words[i].choices, " ");
    *word_at(o, i) = n ? arena_strndup(a, words[i].choices, n) : NULL;
  }
  o->lr = kinds[o->kind].lr, o->weight_decay = kinds[o->kind].weight_decay;
  o->beta2 = o->kind == OPTIMIZER_lion ? 0.99 : 0.999;
  o->momentum = o->kind == OPTIMIZER_muon ? 0.95 : 0;
}

/* True if the optimizer is one of `of`, the optimizers with the setting; "" is all. */
static bool has_setting(const char *text, const Optimizer *o, const char *name, const char *of, Diags *d) {
  const char *kind = kinds[o->kind].name;
  return !of[0] || listed(of, kind, strlen(kind)) || fail(d, text, "this optimizer has no setting", strlen(name), name);
}

static void note_given(Reading *r, const char *name) {
  for (size_t i = 0; i < sizeof scheduled / sizeof *scheduled; i++) r->given[i] |= strcmp(scheduled[i].name, name) == 0;
}

static bool set_number(const char *text, Reading *r, int i, const char *value, size_t n, Diags *d) {
  char *end;
  double x = strtod(value, &end);
  const char *name = numbers[i].name;
  Optimizer *o = r->o;
  if (!has_setting(text, o, name, numbers[i].of, d)) return false;
  note_given(r, name);
  if (!n || end != value + n || !(x >= numbers[i].least && x < numbers[i].below))
    return diag_error(d, DIAG_usage_value, (Loc){0},
                      isinf(numbers[i].below) ? "--optimizer %s: %s must be a number, at least %g"
                                              : "--optimizer %s: %s must be a number, at least %g and below %g",
                      text, name, numbers[i].least, numbers[i].below);
  return *number_at(o, i) = x, true;
}

/* Checks the length of each glob in `value`, with | between them. */
static bool check_globs(const char *name, const char *value, size_t n, Diags *d) {
  for (size_t i = 0, length = 0; i < n; i++) {
    length = value[i] == '|' ? 0 : length + 1;
    if (length > TRAINING_GLOB_MOST)
      return diag_error(d, DIAG_usage_value, (Loc){0}, "--optimizer: a glob of %s has more than %d characters", name,
                        TRAINING_GLOB_MOST);
  }
  return true;
}

static bool set(Arena *a, const char *text, void *reading, const char *key, size_t nkey, const char *value, size_t n,
                Diags *d) {
  Optimizer *o = ((Reading *)reading)->o;
  for (int i = 0; i < NUMBERS; i++)
    if (strlen(numbers[i].name) == nkey && strncmp(numbers[i].name, key, nkey) == 0)
      return set_number(text, reading, i, value, n, d);
  for (int i = 0; i < WORDS; i++) {
    if (strlen(words[i].name) != nkey || strncmp(words[i].name, key, nkey) != 0) continue;
    if (!has_setting(text, o, words[i].name, words[i].of, d)) return false;
    if (!n || (words[i].choices[0] && !listed(words[i].choices, value, n)))
      return diag_error(d, DIAG_usage_value, (Loc){0}, "--optimizer %s: %s must be one of: %s", text, words[i].name,
                        words[i].choices[0] ? words[i].choices : "any glob");
    if (!words[i].choices[0] && !check_globs(words[i].name, value, n, d)) return false;
    return *word_at(o, i) = arena_strndup(a, value, n), true;
  }
  fail(d, text, "unknown setting", nkey, key);
  Nearest near = nearest_to(arena_strndup(a, key, nkey));
  for (int i = 0; i < NUMBERS; i++) nearest_try(&near, numbers[i].name);
  for (int i = 0; i < WORDS; i++) nearest_try(&near, words[i].name);
  if (near.best) diag_help(d, "the nearest is '%s'", near.best);
  return false;
}

static bool find_kind(const char *text, size_t n, Optimizer *o, Diags *d) {
  for (int i = 0; i < OPTIMIZERS; i++)
    if (strlen(kinds[i].name) == n && strncmp(kinds[i].name, text, n) == 0) return o->kind = (OptimizerKind)i, true;
  fail(d, text, "unknown optimizer", n, text);
  diag_help(d, "optimizers are "
#define OPTIMIZER(name, ...) " " #name
#include "passes/train/optimizers.def"
  );
  return false;
}

/* Sets what other settings imply: the cooldown of wsd, the rise of one_cycle. */
static void complete(Optimizer *o) {
  if (isnan(o->cooldown)) o->cooldown = fmax(1, floor(o->steps / 10));
  if (strcmp(o->schedule, "one_cycle") == 0 && o->warmup == 0) o->warmup = 0.3 * o->steps;
}

/* A learning rate that moves needs to know its last step. */
static bool check_together(const char *text, const Optimizer *o, Diags *d) {
  const char *needs = NULL;
  if (strcmp(o->schedule, "constant") != 0 && o->steps <= o->warmup) needs = "steps=N, more than warmup";
  else if (strcmp(o->schedule, "wsd") == 0 && o->warmup + o->cooldown > o->steps)
    needs = "warmup and cooldown in steps";
  else if (strcmp(o->schedule, "one_cycle") == 0 && o->warmup <= 1) needs = "a warmup of more than one step";
  else if (strcmp(o->schedule, "one_cycle") == 0 && o->min_lr > 0) needs = "final_div in place of min_lr";
  if (needs)
    return diag_error(d, DIAG_usage_value, (Loc){0}, "--optimizer %s: schedule=%s needs %s", text, o->schedule, needs);
  if (o->kind == OPTIMIZER_muon && o->lr == 0)
    return diag_error(d, DIAG_usage_value, (Loc){0}, "--optimizer %s: lr must be above 0", text);
  if (o->ns_steps != rint(o->ns_steps))
    return diag_error(d, DIAG_usage_value, (Loc){0}, "--optimizer %s: ns_steps must be a whole number", text);
  if (strcmp(o->noise, "yes") == 0 && (o->kind == OPTIMIZER_sgd || o->kind == OPTIMIZER_adafactor))
    return diag_error(d, DIAG_usage_value, (Loc){0},
                      "--optimizer %s: noise=yes needs the mean gradient of adamw, lion or muon", text);
  if (o->min_lr > o->lr) return diag_error(d, DIAG_usage_value, (Loc){0}, "--optimizer %s: min_lr is above lr", text);
  return true;
}

/* Refuses settings that would change nothing. */
static bool check_effects(const char *text, const Reading *r, Diags *d) {
  const char *schedule = r->o->schedule;
  for (size_t i = 0; i < sizeof scheduled / sizeof *scheduled; i++)
    if (r->given[i] && !listed(scheduled[i].schedules, schedule, strlen(schedule)))
      return diag_error(d, DIAG_usage_value, (Loc){0},
                        "--optimizer %s: %s has no effect with schedule=%s, only with: %s", text, scheduled[i].name,
                        schedule, scheduled[i].schedules);
  return true;
}

bool optimizer_parse(Arena *a, const char *text, Optimizer *o, Diags *d) {
  *o = (Optimizer){.kind = OPTIMIZER_adamw};
  const char *at = text ? text : "adamw";
  text = at;
  size_t n = strcspn(at, "(");
  if (!find_kind(text, n, o, d)) return false;
  defaults(a, o);
  Reading reading = {.o = o};
  if (!each_setting(a, "--optimizer", text, at + n, set, &reading, d)) return false;
  complete(o);
  return check_together(text, o, d) && check_effects(text, &reading, d);
}

/* ---- losses */

static const struct {
  const char *name;
  int least_rank;
} losses[] = {
#define LOSS(name, least_rank, meaning) {#name, least_rank},
#include "passes/train/losses.def"
};

static const struct Setting {
  const char *name;
  size_t at;
  double value, least, most;
  bool whole;
  const char *of;
} settings[] = {
#define SETTING(name, value, least, most, whole, of, meaning) \
  {#name, offsetof(LossOptions, name), value, least, most, whole, of},
#include "passes/train/losses.def"
};

enum { SETTINGS = (int)(sizeof settings / sizeof *settings) };

static bool set_of_loss(Arena *a, const char *text, void *loss, const char *key, size_t nkey, const char *value,
                        size_t n, Diags *d) {
  const LossOptions *o = loss;
  const char *name = losses[o->kind].name, *given = arena_strndup(a, key, nkey);
  for (int i = 0; i < SETTINGS; i++) {
    const struct Setting *s = &settings[i];
    if (strcmp(s->name, given) != 0) continue;
    if (!listed(s->of, name, strlen(name))) return fail_of(d, "--train", text, "this loss has no setting", nkey, key);
    char *end;
    double x = strtod(value, &end);
    if (!n || end != value + n || !(x >= s->least && x <= s->most) || (s->whole && x != rint(x)))
      return diag_error(d, DIAG_usage_value, (Loc){0}, "--train %s: %s must be a %snumber, %g to %g", text, s->name,
                        s->whole ? "whole " : "", s->least, s->most);
    return *(double *)((char *)loss + s->at) = x, true;
  }
  fail_of(d, "--train", text, "unknown setting", nkey, key);
  Nearest near = nearest_to(given);
  for (int i = 0; i < SETTINGS; i++) nearest_try(&near, settings[i].name);
  if (near.best) diag_help(d, "the nearest is '%s'", near.best);
  return false;
}

bool train_loss_parse(Arena *a, const char *text, LossOptions *o, Diags *d) {
  size_t n = strcspn(text, "(");
  *o = (LossOptions){.kind = LOSS_own};
  for (int i = 0; i < SETTINGS; i++) *(double *)((char *)o + settings[i].at) = settings[i].value;
  for (int i = 0; i < LOSS_own; i++)
    if (strlen(losses[i].name) == n && strncmp(losses[i].name, text, n) == 0)
      o->kind = (LossKind)i, o->name = losses[i].name, o->least_rank = losses[i].least_rank;
  return o->kind == LOSS_own || each_setting(a, "--train", text, text + n, set_of_loss, o, d);
}
