/* frontend/topo/target.c - finds targets by name; see target.h. */
#include "frontend/topo/target.h"

#include <math.h>
#include <stdlib.h>
#include <ctype.h>
#include <string.h>

#include "base/file.h"
#include "base/nearest.h"
#include "base/text.h"
#include "frontend/topo/found.h"
#include "frontend/topo/target_build.h"
#include "frontend/topo/target_kinds.h"

/* A target that was found: its machines, the number of devices, and its name. */
typedef struct Found {
  TargetMachines machines;
  const char *name;
  int ranks;              /* 0: one machine */
  const TopoBlock *first; /* of the blocks of the file; NULL for a built-in target */
  const char *const *notes;
} Found;

/* ---- blocks to parts */

/* Follows the names of a block.  `ranks` is the number given with the name; 0 takes that of the block. */
static bool found(Diags *d, TopoLibrary *l, const TopoBlock *b, const char *name, int ranks, Found *out) {
  *out = (Found){.name = name, .ranks = ranks};
  if (b->kind == TOPO_target) {
    const TopoStatement *devices = topo_find(b, "devices", NULL);
    if (ranks <= 0 && devices) out->ranks = (int)devices->slots[0]->number;
    return topo_target_machines(d, l, b, &out->machines);
  }
  out->machines = (TargetMachines){.n = 1, .times = {1}};
  return topo_target_parts(d, l, b, &out->machines.parts[0]);
}

static bool is_target(const TopoBlock *b) { return b->kind == TOPO_machine || b->kind == TOPO_target; }

static bool check_blocks(Diags *d, Arena *a, TopoLibrary *l, TopoKind kind) {
  bool ok = true;
  for (const TopoBlock *b = l->own->first; b; b = b->next) {
    Found f;
    if (b->kind == kind)
      ok = found(d, l, b, b->name, 0, &f) && topo_target_build(d, a, &f.machines, f.name, f.ranks) && ok;
  }
  return ok;
}

/* Every machine of a file must be valid, not only the one it ends with; targets of the file do not repeat the faults
 * of its machines. */
static bool check_machines(Diags *d, Arena *a, TopoLibrary *l) {
  return check_blocks(d, a, l, TOPO_machine) && check_blocks(d, a, l, TOPO_target);
}

/* Returns the notes of the blocks from `b` to before `end`, with NULL at the end. */
static const char *const *notes_of(Arena *a, const TopoBlock *b, const TopoBlock *end) {
  struct {
    const char **items;
    size_t n, cap;
  } notes = {0};
  for (; b != end; b = b->next)
    for (const TopoStatement *s = NULL; (s = topo_find(b, "note", s));) ARENA_PUSH(a, &notes, s->slots[0]->text);
  ARENA_PUSH(a, &notes, NULL);
  return notes.items;
}

static bool find_in_text(Diags *d, Arena *a, const char *file, const char *text, const char *name, int ranks,
                         Found *out) {
  TopoFile *own = ARENA_NEW(a, TopoFile);
  const TopoBlock *last = NULL;
  file = arena_strdup(a, file);
  text = arena_strdup(a, text);
  diag_source(d, file, text);
  if (!topo_parse(d, a, file, text, own) || !topo_check(d, own)) return false;
  for (const TopoBlock *b = own->first; b; b = b->next)
    if (is_target(b)) last = b;
  if (!last)
    return diag_error(d, DIAG_target_syntax, (Loc){.file = file, .line = 1, .col = 1},
                      "the file has no machine and no target block");
  TopoLibrary l = library_new(a);
  l.own = own;
  if (!check_machines(d, a, &l) || !found(d, &l, last, name ? arena_strdup(a, name) : last->name, ranks, out))
    return false;
  out->first = own->first;
  return true;
}

/* ---- names */

static const TopoBlock *named(TopoLibrary *l, const char *name) {
  const TopoBlock *b = library_find(l, TOPO_target, name);
  return b ? b : library_find(l, TOPO_machine, name);
}

/* Keeps only letters and digits, in lower case: "H100-SXM" and "h100 sxm" are equal. */
static const char *plain(Arena *a, const char *s) {
  Text t = {.arena = a};
  for (; *s; s++)
    if (isalnum((unsigned char)*s)) text_printf(&t, "%c", tolower((unsigned char)*s));
  return text_str(&t);
}

/* The device in "8xh100", "4 h100", "h100:8", "h100". */
static const char *device_in(Arena *a, const char *base) {
  size_t digits = strspn(base, "0123456789");
  if (digits && base[digits] && strchr("x* ", base[digits])) base += digits + 1;
  return plain(a, arena_strndup(a, base, strcspn(base, ":*,")));
}

static bool digit(char c) { return c >= '0' && c <= '9'; }

/* True if the name contains the word; numbers must match as a whole: a10 is not in a100. */
static bool contains(Arena *a, const char *name, const char *word) {
  const char *all = plain(a, name);
  size_t n = strlen(word);
  for (const char *at = all; (at = strstr(at, word)); at++)
    if (!(digit(word[n - 1]) && digit(at[n])) && !(digit(*word) && at > all && digit(at[-1]))) return true;
  return false;
}

/* True if the machine has the word in its name (pass 0), or only in that of its part (pass 1). */
static bool has_word(Arena *a, const TopoBlock *b, const char *word, int pass) {
  const Target *t = is_target(b) ? topo_target_find(diags_new(a), a, b->name) : NULL;
  if (!t || t->device->shared_memory) return false; /* its ranks are not devices with their own names */
  bool named = contains(a, b->name, word);
  return pass == 0 ? named : !named && t->part && contains(a, t->part, word);
}

/* Suggests machines for a device that was given as a target; true if there are any. */
static bool suggest_machines(Diags *d, TopoLibrary *l, const char *word) {
  enum { MOST = 6 };
  Text list = {.arena = d->arena};
  const char *first = NULL;
  int n = 0;
  for (int pass = 0; strlen(word) >= 2 && pass < 2; pass++)
    for (int i = 0; i < l->nbuiltin; i++)
      for (const TopoBlock *b = l->builtin[i].first; b; b = b->next) {
        if (!has_word(d->arena, b, word, pass)) continue;
        if (n++ == 0) first = b->name;
        if (n <= MOST) text_printf(&list, "%s%s", n > 1 ? ", " : "", b->name);
      }
  if (n)
    diag_help(d, "a target is a machine, not a device; machines with it: %s%s", text_str(&list),
              n > MOST ? ", ..." : "");
  if (n) diag_help(d, "%sxN takes N of its devices, as in --target %sx1", first, first);
  return n > 0;
}

static bool unknown(Diags *d, TopoLibrary *l, const char *name, const char *base) {
  Nearest near = nearest_to(base);
  library_parse_all(l);
  for (int i = 0; i < l->nbuiltin; i++)
    for (const TopoBlock *b = l->builtin[i].first; b; b = b->next)
      if (is_target(b)) nearest_try(&near, b->name);
  diag_error(d, DIAG_target_name, (Loc){0}, "there is no target '%s'", name);
  if (suggest_machines(d, l, device_in(d->arena, base))) return false;
  if (near.best)
    diag_help(d, "the nearest name is '%s'; `apc targets` lists all, and a file must end in .topo", near.best);
  else diag_help(d, "`apc targets` lists all, and a file must end in .topo");
  return false;
}

/* Splits off xDIGITS; returns 0 if the name does not end so, -1 if the number is out of range. */
static int split_count(Arena *a, const char *name, const char **base) {
  size_t n = strlen(name), digits = n;
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') digits--;
  *base = name;
  if (digits == n || digits < 2 || name[digits - 1] != 'x') return 0;
  *base = arena_strndup(a, name, digits - 1);
  int count = n - digits > 6 ? 0 : atoi(name + digits);
  return count < 1 ? -1 : count;
}

static bool is_file(const char *name) {
  size_t n = strlen(name);
  return n > 5 && strcmp(name + n - 5, ".topo") == 0;
}

static bool bad_count(Diags *d, const char *name) {
  return diag_error(d, DIAG_target_ranks, (Loc){0}, "%s: the number after x must be from 1 to 999999", name);
}

/* Parses a file whose blocks take precedence over the built-in ones. */
static bool read_first(Diags *d, Arena *a, const char *path, TopoLibrary *l) {
  TopoFile *own = ARENA_NEW(a, TopoFile);
  const char *text = file_read_text(d, a, path, NULL);
  path = arena_strdup(a, path);
  if (!text) return false;
  diag_source(d, path, text);
  if (!topo_parse(d, a, path, text, own) || !topo_check(d, own)) return false;
  l->own = own;
  return check_machines(d, a, l);
}

bool topo_target_is_read(Arena *a, const char *name) {
  const char *base;
  split_count(a, name, &base);
  return is_file(base) || topo_found_names(base);
}

static const TopoBlock *machine_in(const TopoFile *f, const char *name) {
  for (const TopoBlock *b = f->first; b; b = b->next)
    if (b->kind == TOPO_machine && strcmp(b->name, name) == 0) return b;
  return NULL;
}

/* True if the measured devices are those that were found: PART-measured, or PART. */
static bool same_devices(const TargetParts *measured, const TargetParts *as) {
  bool same = topo_machine_devices(measured->machine) == topo_machine_devices(as->machine) &&
              measured->ndevices == as->ndevices;
  for (int i = 0; i < as->ndevices && same; i++) {
    const char *part = as->devices[i]->name, *rest = measured->devices[i]->name + strlen(part);
    same = strncmp(measured->devices[i]->name, part, strlen(part)) == 0 && (!*rest || strcmp(rest, "-measured") == 0);
  }
  return same;
}

/* Replaces a machine that was found by that of a file of `apc calibrate`, if it has one: of the same name or, for this
 * machine's CPUs, `cpu`. */
static bool take_measured(Diags *d, Arena *a, const char *first, int ranks, Found *out) {
  TopoLibrary l = library_new(a);
  const TargetParts *as = &out->machines.parts[0];
  const char *name = as->machine->name;
  const bool cpu = as->devices[0]->kind == TOPO_cpu;
  Found f;
  if (!read_first(d, a, first, &l)) return false;
  const TopoBlock *b = machine_in(l.own, name);
  if (!b && cpu && strcmp(name, "local") == 0) b = machine_in(l.own, "cpu");
  if (!b) return true;
  if (!found(d, &l, b, out->name, ranks, &f)) return false;
  if (!cpu && !same_devices(&f.machines.parts[0], as))
    return diag_error(d, DIAG_target_found, (Loc){.file = first}, "it measured %d %s, but %s has %d %s",
                      topo_machine_devices(b), f.machines.parts[0].devices[0]->name, out->name,
                      topo_machine_devices(as->machine), as->devices[0]->name);
  f.notes = notes_of(a, b, b->next);
  *out = f;
  return true;
}

static bool find(Diags *d, Arena *a, const char *name, const char *first, Found *out) {
  const char *base;
  int ranks = split_count(a, name, &base);
  if (is_file(name) || topo_found_whole(name)) base = name, ranks = 0;
  if (topo_found_names(base)) {
    if (ranks < 0) return bad_count(d, name);
    const char *text = topo_found_text(d, a, base);
    if (!text || !find_in_text(d, a, base, text, name, ranks, out)) return false;
    out->notes = notes_of(a, out->first, NULL);
    return !first || take_measured(d, a, first, ranks, out);
  }
  if (is_file(base)) {
    if (ranks < 0) return bad_count(d, name);
    const char *text = file_read_text(d, a, base, NULL);
    return text && find_in_text(d, a, base, text, name, ranks, out);
  }
  TopoLibrary l = library_new(a);
  if (first && !read_first(d, a, first, &l)) return false;
  const TopoBlock *exact = named(&l, name), *b = exact ? exact : named(&l, base);
  if (!b) return unknown(d, &l, name, base);
  if (!exact && ranks < 0) return bad_count(d, name);
  return found(d, &l, b, arena_strdup(a, name), exact ? 0 : ranks, out);
}

const Target *topo_target_find(Diags *d, Arena *a, const char *name) { return topo_target_find_with(d, a, name, NULL); }

const Target *topo_target_find_with(Diags *d, Arena *a, const char *name, const char *file) {
  Found f;
  const Target *t = find(d, a, name, file, &f) ? topo_target_build(d, a, &f.machines, f.name, f.ranks) : NULL;
  if (!t || !f.notes) return t;
  Target *copy = ARENA_NEW(a, Target);
  *copy = *t;
  copy->notes = f.notes;
  return copy;
}

const Target *topo_target_parse(Diags *d, Arena *a, const char *file, const char *text, const char *name, int ranks) {
  Found f;
  return find_in_text(d, a, file, text, name, ranks, &f) ? topo_target_build(d, a, &f.machines, f.name, f.ranks) : NULL;
}

/* Prints each block once. */
static void print_parts(Text *out, const TargetMachines *m) {
  const TopoBlock *printed[TARGET_MACHINES * TARGET_PARTS + 1];
  int n = 0;
  for (int k = 0; k <= m->n; k++)
    for (int i = 0; i < (k < m->n ? m->parts[k].n : m->protocols != NULL); i++) {
      const TopoBlock *b = k < m->n ? m->parts[k].all[i] : m->protocols;
      bool seen = false;
      for (int j = 0; j < n; j++) seen |= printed[j] == b;
      if (seen) continue;
      printed[n++] = b;
      topo_print_block(out, b);
      text_add(out, "\n");
    }
}

const char *topo_target_text(Diags *d, Arena *a, const char *name, const char *file) {
  Found f;
  if (!find(d, a, name, file, &f)) return NULL;
  const Target *t = topo_target_build(d, a, &f.machines, f.name, f.ranks);
  if (!t) return NULL;
  Text text = {.arena = a};
  print_parts(&text, &f.machines);
  if (f.machines.n > 1) {
    topo_print_block(&text, f.machines.target);
    return text_str(&text);
  }
  const char *own = t->ranks == topo_machine_devices(f.machines.parts[0].machine)
                        ? t->machine
                        : arena_printf(a, "%sx%d", t->machine, t->ranks);
  text_printf(&text, "target %s {\n  machine %s;\n  devices %d;\n}\n", own, t->machine, t->ranks);
  return text_str(&text);
}

/* Applies a change to every kind of a target of several kinds. */
static const Target *with_each(Arena *a, const Target *t, const Target *(*change)(Arena *, const Target *, int),
                               int how) {
  const Target **kinds = ARENA_ARRAY(a, const Target *, t->nkinds);
  for (int i = 0; i < t->nkinds; i++) kinds[i] = change(a, t->kinds[i], how);
  return topo_target_with_kinds(a, t, kinds);
}

static const Target *computing(Arena *a, const Target *t, int type) {
  Target *copy = ARENA_NEW(a, Target);
  *copy = *t;
  copy->compute = (ComputeType)type;
  return copy;
}

const Target *topo_target_priced(Arena *a, const Target *t, PriceKind kind) {
  Target *copy = ARENA_NEW(a, Target);
  *copy = *t;
  copy->price = kind;
  return copy;
}

const Target *topo_target_costing(Arena *a, const Target *t, double usd_per_hour, const char *terms) {
  Target *copy = ARENA_NEW(a, Target);
  *copy = *t;
  copy->prices[copy->price] = (TargetPrice){.usd_per_hour = usd_per_hour * t->ranks / t->per_machine, .terms = terms};
  return copy;
}

static const Target *assuming(Arena *a, const Target *t, int trains) {
  if (!t->has_kernels) return t;
  Target *copy = ARENA_NEW(a, Target);
  *copy = *t;
  copy->assumes = true;
  copy->hidden = trains ? fmin(t->kernels.overlap, 0.99) : 0; /* some communication always remains visible */
  for (int i = 0; i < CT_COUNT && trains; i++)
    copy->kernels.sustained[i] = (isnan(t->kernels.sustained[i]) ? 1 : t->kernels.sustained[i]) * t->kernels.steady;
  if (!isnan(t->kernels.assumed)) copy->kernels.attention_half = t->kernels.assumed;
  return copy;
}

const Target *topo_target_computing_in(Arena *a, const Target *t, ComputeType type) {
  if (!(t->flops[type] > 0)) return NULL;
  return t->nkinds ? with_each(a, t, computing, (int)type) : computing(a, t, (int)type);
}

const Target *topo_target_assuming(Arena *a, const Target *t, bool trains) {
  return t->nkinds ? with_each(a, t, assuming, trains) : assuming(a, t, trains);
}

const char *const *topo_target_names(Arena *a) {
  struct {
    const char **items;
    size_t n, cap;
  } names = {0};
  TopoLibrary l = library_new(a);
  library_parse_all(&l);
  for (int i = 0; i < l.nbuiltin; i++)
    for (const TopoBlock *b = l.builtin[i].first; b; b = b->next)
      if (is_target(b)) ARENA_PUSH(a, &names, b->name);
  ARENA_PUSH(a, &names, NULL);
  return names.items;
}
