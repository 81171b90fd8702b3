/* program/cpu.c - see cpu.h. */
#include "program/cpu.h"

#include <string.h>

static const char *const names[] = {
#define CPU_FEATURE(name) name,
#include "program/cpu.def"
#undef CPU_FEATURE
};
enum { N_NAMES = sizeof names / sizeof *names };

/* Fills has[N_NAMES]; on other architectures no set is known. */
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
  memcpy(text, fresh, sizeof text); /* the same bytes every time */
  return text;
}

bool program_cpu_supports(const char *list, char *missing, size_t size) {
  bool has[N_NAMES];
  detect(has);
  for (const char *p = list; *p;) {
    size_t n = strcspn(p, " ");
    bool found = n == 0;
    for (int i = 0; i < N_NAMES && !found; i++) found = has[i] && strlen(names[i]) == n && memcmp(names[i], p, n) == 0;
    if (!found) {
      if (size) {
        size_t k = n < size - 1 ? n : size - 1;
        memcpy(missing, p, k);
        missing[k] = 0;
      }
      return false;
    }
    p += n;
    p += *p == ' ';
  }
  return true;
}
