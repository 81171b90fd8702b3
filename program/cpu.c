/* program/cpu.c - see cpu.h. */
#include "program/cpu.h"

#include <string.h>

static const char *const names[] = {
#define CPU_FEATURE(name) name,
#include "program/cpu.def"
#undef CPU_FEATURE
};
enum { N_NAMES = sizeof names / sizeof *names };

/* Fills has[N_NAMES]; all false on architectures other than x86-64. */
static void detect(bool *has) {
  int i = 0;
#if defined(__x86_64__)
  __builtin_cpu_init();
#define CPU_FEATURE(name) has[i++] = __builtin_cpu_supports(name) != 0;
#else
#define CPU_FEATURE(name) has[i++] = false;
#endif
#include "program/cpu.def"
#undef CPU_FEATURE
}

const char *program_cpu_features(void) {
  static char text[512];
  char fresh[sizeof text] = "";
  bool has[N_NAMES];
  detect(has);
  for (int i = 0; i < N_NAMES; i++)
    if (has[i]) {
      if (*fresh) strcat(fresh, " ");
      strcat(fresh, names[i]);
    }
  memcpy(text, fresh, sizeof text); /* every call writes the same bytes */
  return text;
}

/* True if a word of the list equals these n characters. */
static bool has_word(const char *list, const char *word, size_t n) {
  for (const char *p = list; *p;) {
    size_t length = strcspn(p, " ");
    if (length == n && memcmp(p, word, n) == 0) return true;
    p += length;
    p += *p == ' ';
  }
  return false;
}

bool program_cpu_list_has(const char *has, const char *needs, char *missing, size_t size) {
  for (const char *p = needs; *p;) {
    size_t n = strcspn(p, " ");
    if (n && !has_word(has, p, n)) {
      size_t k = n < size ? n : size - 1;
      if (size) memcpy(missing, p, k), missing[k] = 0;
      return false;
    }
    p += n;
    p += *p == ' ';
  }
  return true;
}
