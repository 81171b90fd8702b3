/* ir/training.c - see training.h. */
#include "ir/training.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

TrainingWish training_wish(const TrainingRules *r, const char *name) {
  for (size_t i = r ? r->globs.n : 0; i-- > 0;)
    if (fnmatch(r->globs.items[i].glob, name, 0) == 0)
      return r->globs.items[i].trained ? TRAINING_TRAINED : TRAINING_FROZEN;
  return TRAINING_UNSAID;
}

bool training_glob(const char *globs, const char *name) {
  for (const char *at = globs; *at;) {
    char glob[TRAINING_GLOB_MOST + 1];
    size_t n = strcspn(at, "|");
    snprintf(glob, sizeof glob, "%.*s", (int)(n < sizeof glob ? n : sizeof glob), at);
    if (n < sizeof glob && fnmatch(glob, name, 0) == 0) return true;
    at += n + (at[n] == '|');
  }
  return false;
}

bool training_unties(const TrainingRules *r, const char *name) {
  for (size_t i = 0; r && i < r->untied.n; i++)
    if (fnmatch(r->untied.items[i], name, 0) == 0) return true;
  return false;
}
