/* passes/rewrite/kv_cache.h - caches that a model takes and returns become states (--kv-cache). */
#ifndef APC_PASSES_REWRITE_KV_CACHE_H
#define APC_PASSES_REWRITE_KV_CACHE_H

#include "ir/ir.h"

typedef struct KvCaches {
  size_t n;          /* number of caches */
  const char *input; /* the new input that says how many positions are in use; NULL: other inputs' sizes tell it */
  const char *past;  /* the dimension that counts them */
} KvCaches;

/* Makes states with `capacity` positions of all inputs that an output extends.  False after a diagnostic: also if
 * there is none. */
bool kv_caches_keep(Module *m, int64_t capacity, KvCaches *out, Diags *diags);

#endif
