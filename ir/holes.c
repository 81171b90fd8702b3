/* ir/holes.c - see holes.h. */
#include "ir/holes.h"

#include <string.h>

/* The number of a hole "{12}" at *s, which moves past it; -1 if it is no hole. */
static int hole(const char **s, int limit) {
  const char *p = *s + 1;
  int n = 0;
  size_t digits = strspn(p, "0123456789");
  if (!digits || p[digits] != '}' || (*p == '0' && digits > 1)) return -1;
  for (size_t i = 0; i < digits && n < limit; i++) n = n * 10 + (p[i] - '0');
  *s = p + digits + 1;
  return n < limit ? n : -1;
}

const char *holes_fill(Arena *a, const char *name, int nlabels, const char *const *labels) {
  Text t = {.arena = a};
  while (*name) {
    if (*name != '{') {
      text_addn(&t, name++, 1);
    } else if (name[1] == '{') {
      text_addn(&t, name, 1);
      name += 2;
    } else {
      int n = hole(&name, nlabels);
      if (n < 0) return NULL;
      text_add(&t, labels[n]);
    }
  }
  return text_str(&t);
}

void holes_add_text(Text *t, const char *plain, size_t n) {
  for (size_t i = 0; i < n; i++) text_addn(t, plain[i] == '{' ? "{{" : plain + i, plain[i] == '{' ? 2 : 1);
}

void holes_add(Text *t, int label) { text_printf(t, "{%d}", label); }
