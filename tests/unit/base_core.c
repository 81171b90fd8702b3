/* Arena, text and diagnostics. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/nearest.h"
#include "base/text.h"
#include "tests/test.h"

static void arena_gives_zeroed_aligned_memory(void) {
  Arena *a = arena_new();
  for (size_t n = 0; n < 3000; n += 7) {
    unsigned char *p = arena_alloc(a, n);
    CHECK((uintptr_t)p % 16 == 0);
    for (size_t i = 0; i < n; i++) CHECK(p[i] == 0);
    memset(p, 0xab, n);
  }
  unsigned char *large = arena_alloc(a, 1 << 20), *small = arena_alloc(a, 1);
  CHECK(large[(1 << 20) - 1] == 0 && small[0] == 0);
  CHECK(arena_used(a) > 1 << 20);
  arena_free(a);
  arena_free(NULL);
}

static void arena_copies_strings(void) {
  Arena *a = arena_new();
  CHECK_STR(arena_strndup(a, "abcdef", 3), "abc");
  CHECK_STR(arena_strdup(a, ""), "");
  CHECK_STR(arena_printf(a, "%d-%s", 7, "x"), "7-x");
  char *longer = arena_printf(a, "%0100000d", 5);
  CHECK(strlen(longer) == 100000 && longer[99999] == '5');
  arena_free(a);
}

static void arena_push_grows(void) {
  Arena *a = arena_new();
  struct {
    int *items;
    size_t n, cap;
  } list = {0};
  for (int i = 0; i < 10000; i++) ARENA_PUSH(a, &list, i * 3);
  CHECK(list.n == 10000);
  for (int i = 0; i < 10000; i++) CHECK(list.items[i] == i * 3);
  arena_free(a);
}

static const char *double_text(Arena *a, double v) {
  Text t = {.arena = a};
  text_double(&t, v);
  return text_str(&t);
}

static void text_doubles_read_back(void) {
  Arena *a = arena_new();
  CHECK_STR(double_text(a, 1), "1");
  CHECK_STR(double_text(a, 0.1), "0.1");
  CHECK_STR(double_text(a, 1e-5), "1e-05");
  CHECK_STR(double_text(a, -0.0), "-0");
  CHECK_STR(double_text(a, (double)INFINITY), "inf");
  CHECK_STR(double_text(a, (double)-INFINITY), "-inf");
  CHECK_STR(double_text(a, (double)NAN), "nan");
  uint64_t bits = 0x9e3779b97f4a7c15u;
  for (int i = 0; i < 20000; i++) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    double v;
    memcpy(&v, &bits, 8);
    if (isfinite(v)) CHECK(strtod(double_text(a, v), NULL) == v);
  }
  arena_free(a);
}

static void text_builds(void) {
  Arena *a = arena_new();
  Text t = {.arena = a};
  CHECK_STR(text_str(&t), "");
  text_quoted(&t, "a\"\\\n\t\x01\x7fz\xc3\xa9");
  CHECK_STR(text_str(&t), "\"a\\\"\\\\\\n\\t\\x01\\x7fz\xc3\xa9\"");
  Text u = {.arena = a};
  for (int i = 0; i < 1000; i++) text_printf(&u, "%d,", i);
  text_addn(&u, "end!", 3);
  CHECK(u.n == 3893 && strcmp(text_str(&u) + 3886, "999,end") == 0);
  arena_free(a);
}

static void utf8_is_checked(void) {
  static const char *const good[] = {"",
                                     "abc",
                                     "\xc2\x80",
                                     "\xdf\xbf",
                                     "\xe0\xa0\x80",
                                     "\xed\x9f\xbf",
                                     "\xee\x80\x80",
                                     "\xf0\x90\x80\x80",
                                     "\xf4\x8f\xbf\xbf"};
  static const char *const bad[] = {"\x80",
                                    "\xc0\x80",
                                    "\xc1\xbf",
                                    "\xc2",
                                    "\xe0\x80\x80",
                                    "\xe2\x82",
                                    "\xed\xa0\x80",
                                    "\xf0\x80\x80\x80",
                                    "\xf4\x90\x80\x80",
                                    "\xf5\x80\x80\x80",
                                    "\xff",
                                    "a\xc2z"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) CHECKF(text_is_utf8(good[i], strlen(good[i])), "%zu", i);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECKF(!text_is_utf8(bad[i], strlen(bad[i])), "%zu", i);
  Arena *a = arena_new();
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) CHECK_STR(text_utf8(a, good[i]), good[i]);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CHECKF(text_is_utf8(text_utf8(a, bad[i]), strlen(text_utf8(a, bad[i]))), "%zu", i);
  CHECK_STR(text_utf8(a, "a\xff\xc3\xa9\xe2\x82"), "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd");
  arena_free(a);
}

static const char *printed(Arena *a, const Diags *d) {
  char *bytes = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&bytes, &n);
  diags_print(d, f, false);
  fclose(f);
  const char *copy = arena_strndup(a, bytes, n);
  free(bytes);
  return copy;
}

static void diag_prints(void) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  diag_source(d, "m.apc", "first\n\tsecond line\n");
  CHECK(!diag_error(d, DIAG_ir_syntax, (Loc){.file = "m.apc", .line = 2, .col = 3}, "wrong %s", "word"));
  diag_note(d, (Loc){.node = "conv1"}, "because");
  diag_help(d, "try %d", 2);
  diag_warning(d, DIAG_npy, (Loc){.file = "x.npy"}, "odd");
  CHECK(d->errors == 1 && d->warnings == 1 && d->n == 4);
  CHECK_STR(printed(a, d),
            "error[APC0301]: wrong word\n  --> m.apc:2:3\n    2 | \tsecond line\n      | \t ^\n"
            "  = note: because\n  --> node \"conv1\"\n  = help: try 2\n"
            "warning[APC0010]: odd\n  --> x.npy\n");
  arena_free(a);
}

static void diag_codes_are_unique(void) {
  for (int i = 1; i < DIAG_COUNT; i++) {
    const char *name = diag_code_name((DiagCode)i);
    CHECKF(strlen(name) == 7 && strncmp(name, "APC", 3) == 0, "%s", name);
    CHECKF(diag_code_find(name) == (DiagCode)i, "%s is used twice", name);
    CHECK(*diag_brief((DiagCode)i) && *diag_text((DiagCode)i));
  }
  CHECK(diag_code_find("APC9999") == DIAG_NONE);
}

static const char *nearest_of(const char *name) {
  static const char *const known[] = {"--input", "--inputs", "Floor", "Softmax", "x", "w1", "w2", "batch"};
  Nearest n = nearest_to(name);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) nearest_try(&n, known[i]);
  return n.best ? n.best : "";
}

static void nearest_names_are_near(void) {
  CHECK_STR(nearest_of("--inptus"), "--inputs"); /* two swapped letters: nearer than --input */
  CHECK_STR(nearest_of("--inptu"), "--input");
  CHECK_STR(nearest_of("bacth"), "batch");
  CHECK_STR(nearest_of("BATCH"), "batch");
  CHECK_STR(nearest_of("softmaks"), "Softmax");
  CHECK_STR(nearest_of("w3"), "w1"); /* the first of several */
  CHECK_STR(nearest_of("xx"), "x");
  CHECK_STR(nearest_of("FooBar"), ""); /* Floor has three other letters of five */
  CHECK_STR(nearest_of("y"), "");      /* no letter of x is right */
  CHECK_STR(nearest_of(""), "");
}

int main(void) {
  RUN(arena_gives_zeroed_aligned_memory);
  RUN(arena_copies_strings);
  RUN(arena_push_grows);
  RUN(text_doubles_read_back);
  RUN(text_builds);
  RUN(utf8_is_checked);
  RUN(nearest_names_are_near);
  RUN(diag_prints);
  RUN(diag_codes_are_unique);
  return test_summary();
}
