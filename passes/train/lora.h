/* passes/train/lora.h - low-rank adapters (Hu et al., 2021): x W becomes x W + scale (x A) B.
 *
 * In: a flat module and rules for its weights.  Out: every product of a matched weight has an adapter: two weights, A
 * [rank, in ..] and B [out .., rank], named as in PEFT: "q.lora_A.weight" for "q.weight", "w.lora_A" for "w".  A starts
 * random, B as 0, or both as a file has them.  In training only adapters are trained (weights.c).
 *
 * Not done: tables of which rows are looked up, convolutions, weights of experts, weights that are also used other than
 * by products, or by products that sum over different dimensions of them.  A rule for such a weight is an error.
 */
#ifndef APC_PASSES_TRAIN_LORA_H
#define APC_PASSES_TRAIN_LORA_H

#include "ir/ir.h"

/* An adapter for each weight that the glob matches; or for one weight, with the numbers of a file. */
typedef struct LoraRule {
  const char *glob;
  int64_t rank;
  double scale;
  const char *path;          /* of the file; NULL: none */
  uint64_t bytes, offset[2]; /* of the file, and in it of A and B, in f32 */
  int ranks[2];
  int64_t dims[2][MAX_RANK]; /* of A and B in it */
} LoraRule;

/* An adapter of the module. */
typedef struct LoraMade {
  const char *weight, *a, *b;
  double scale;
  int64_t rank;
  uint32_t summed;   /* dimensions of the weight that its products sum over, a bit set */
  const char *merge; /* spec of the product of B and A that has the form of the weight */
} LoraMade;

typedef struct LoraRules {
  struct {
    LoraRule *items;
    size_t n, cap;
  } rules; /* the last one that matches counts */
  struct {
    LoraMade *items;
    size_t n, cap;
  } made; /* set by lora_apply */
} LoraRules;

/* Adds the adapters; l NULL: none.  False after a diagnostic. */
bool lora_apply(Module *m, LoraRules *l, Diags *diags);
/* The adapter that the weight has; NULL if none. */
const LoraMade *lora_of(const LoraRules *l, const char *weight);
/* True if the weight is A or B of an adapter. */
bool lora_is_part(const LoraRules *l, const char *weight);
/* Adds entry `adapter`, which returns A, B and scale of all adapters. */
void lora_entry(Module *m, const LoraRules *l, Diags *diags);
/* Returns the weight with its adapter added; `v` is the weight. */
Val lora_merged(Builder *b, const LoraMade *made, Val v, Val a, Val w);

#endif
