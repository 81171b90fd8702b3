/* frontend/onnx/rules.h - the sharding rules that the user gives for operators (ir/opaque_rule.h). */
#ifndef APC_FRONTEND_ONNX_RULES_H
#define APC_FRONTEND_ONNX_RULES_H

#include "base/diag.h"

typedef struct OnnxRule {
  const char *kind; /* "my.Op"; of ONNX's own domain "Op" */
  const char *rule; /* a text that opaque_rule_parse accepts */
  Loc loc;          /* where it was given */
  bool asked;       /* an error if the model has no such operator */
  bool used;        /* result: the model has it */
} OnnxRule;

typedef struct OnnxRules {
  OnnxRule *items;
  size_t n, cap;
} OnnxRules;

/* The rule for nodes of that domain and type; NULL if there is none.  `rules` may be NULL. */
OnnxRule *onnx_rule_find(const OnnxRules *rules, const char *domain, const char *type);

/* The operator's name as rules and messages write it. */
const char *onnx_operator(Arena *a, const char *domain, const char *type);

#endif
