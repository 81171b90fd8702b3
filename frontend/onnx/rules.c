/* frontend/onnx/rules.c - see rules.h. */
#include "frontend/onnx/rules.h"

#include <string.h>

static bool is_default(const char *domain) { return !domain || !*domain || strcmp(domain, "ai.onnx") == 0; }

/* A type has no dot, a domain may have several. */
static bool is_named(const char *kind, const char *domain, const char *type) {
  const char *dot = strrchr(kind, '.'), *last = dot ? dot + 1 : kind;
  if (strcmp(last, type) != 0) return false;
  size_t n = dot ? (size_t)(dot - kind) : 0;
  bool plain = n == 0 || (n == strlen("ai.onnx") && strncmp(kind, "ai.onnx", n) == 0);
  return is_default(domain) ? plain : strlen(domain) == n && strncmp(kind, domain, n) == 0;
}

OnnxRule *onnx_rule_find(const OnnxRules *rules, const char *domain, const char *type) {
  for (size_t i = 0; rules && i < rules->n; i++)
    if (is_named(rules->items[i].kind, domain, type ? type : "")) return &rules->items[i];
  return NULL;
}

const char *onnx_operator(Arena *a, const char *domain, const char *type) {
  return is_default(domain) ? arena_strdup(a, type ? type : "") : arena_printf(a, "%s.%s", domain, type ? type : "");
}
