/* tools/cmd_cache.c - apc cache list|clear: the cache of earlier compiles (base/cache.h). */
#include <string.h>
#include <time.h>

#include "base/amount.h"
#include "base/cache.h"
#include "base/json_text.h"
#include "base/nearest.h"
#include "tools/tool.h"

static const char *age_text(Arena *a, const struct timespec *used, time_t now) {
  double seconds = now > used->tv_sec ? (double)(now - used->tv_sec) : 0;
  return seconds < 60 ? "now" : arena_printf(a, "%s ago", show_seconds(a, seconds));
}

static void list_for_people(Tool *t, const Cache *c, const CacheList *all) {
  time_t now = time(NULL);
  for (size_t i = 0; i < all->n; i++) {
    const CacheFile *f = &all->items[i];
    int kind = (int)strcspn(f->name, "-");
    printf("%-10.*s %.12s %12s   used %s\n", kind, f->name, f->name + kind + 1, show_bytes(t->arena, (double)f->bytes),
           age_text(t->arena, &f->used, now));
  }
  printf("%zu file%s, %s of at most %s in %s\n", all->n, all->n == 1 ? "" : "s",
         show_bytes(t->arena, (double)all->bytes), show_bytes(t->arena, (double)CACHE_BYTES), c->folder);
}

static json_t *list_json(const Cache *c, const CacheList *all) {
  json_t *files = json_array();
  for (size_t i = 0; i < all->n; i++) {
    const CacheFile *f = &all->items[i];
    size_t kind = strcspn(f->name, "-");
    json_array_append_new(files, json_pack("{s:s%, s:s, s:I, s:I}", "kind", f->name, kind, "key", f->name + kind + 1,
                                           "bytes", (json_int_t)f->bytes, "used_unix_s", (json_int_t)f->used.tv_sec));
  }
  return json_pack("{s:s, s:o, s:I, s:I, s:o}", "schema", "apc.cache/1", "folder", json_text(c->folder), "bytes",
                   (json_int_t)all->bytes, "most_bytes", (json_int_t)CACHE_BYTES, "files", files);
}

static int list(Tool *t, const Cache *c) {
  CacheList all;
  cache_list(c, t->arena, &all);
  if (option_given(&t->options, OPT_json)) tool_json(t, list_json(c, &all));
  else list_for_people(t, c, &all);
  return EXIT_OK;
}

static int clear(Tool *t, const Cache *c) {
  size_t n = cache_clear(c, t->arena);
  if (option_given(&t->options, OPT_json))
    tool_json(t, json_pack("{s:s, s:o, s:I}", "schema", "apc.cache/1", "folder", json_text(c->folder), "removed",
                           (json_int_t)n));
  else printf("removed %zu file%s from %s\n", n, n == 1 ? "" : "s", c->folder);
  return EXIT_OK;
}

/* There is no folder, or it is empty before the first compile. */
static int without_folder(Tool *t, const char *folder) {
  if (option_given(&t->options, OPT_json))
    tool_json(t, json_pack("{s:s, s:o, s:[]}", "schema", "apc.cache/1", "folder",
                           folder ? json_text(folder) : json_null(), "files"));
  else if (folder) printf("the cache is empty: %s\n", folder);
  else puts("there is no cache: APC_CACHE is off, or there is no home folder");
  return EXIT_OK;
}

static int unknown(Tool *t, const char *word) {
  diag_error(t->diags, DIAG_usage_command, (Loc){0}, "`apc cache` takes list or clear, not '%s'", word);
  Nearest near = nearest_to(word);
  nearest_try(&near, "list");
  nearest_try(&near, "clear");
  if (near.best) diag_help(t->diags, "the nearest is '%s'", near.best);
  return EXIT_USAGE;
}

int cmd_cache(Tool *t) {
  if (!tool_args(t, 1, 1)) return EXIT_USAGE;
  const char *word = t->options.args.items[0], *folder = cache_folder(t->arena);
  bool is_list = strcmp(word, "list") == 0;
  if (!is_list && strcmp(word, "clear") != 0) return unknown(t, word);
  const Cache *c = folder ? cache_open(t->arena, folder, false) : NULL;
  if (!c || c->why_not) return without_folder(t, folder);
  return is_list ? list(t, c) : clear(t, c);
}
