/* tools/inspect.h - the parts of `apc inspect`, one per kind of file. */
#ifndef APC_TOOLS_INSPECT_H
#define APC_TOOLS_INSPECT_H

#include "passes/plan/file.h"
#include "tools/build.h"

int inspect_model(Tool *t, const char *path);       /* tools/inspect_model.c */
int inspect_unsupported(Tool *t, const char *path); /* tools/inspect_unsupported.c */
int inspect_program(Tool *t, const char *path);     /* tools/inspect_program.c */

int inspect_plan(Tool *t, const char *path); /* tools/inspect_plan.c */
bool begins_like_plan(const char *path);     /* true if its first word is apc.plan */
/* tools/inspect_plans.c: compares two plan files */
int inspect_plans(Tool *t, const char *path, const char *other);

/* A comment of a plan file with predicted time or memory. */
typedef struct PredictedShare {
  const char *name;
  double value;
} PredictedShare;

typedef struct Prediction {
  bool given, estimate;
  double total; /* milliseconds or bytes */
  struct {
    PredictedShare *items;
    size_t n, cap;
  } shares;
} Prediction;

/* Returns the first prediction that begins so: "predicted " or "bytes per rank ". */
Prediction inspect_prediction(Tool *t, const PlanFile *f, const char *begin);

/* tools/inspect_trace.c: events in the Trace Event Format */
int inspect_trace(Tool *t, const char *path);

#endif
