/* frontend/onnx/import_scores.h - attention, however an operator is given its heads, masks and past.
 *
 * Without mask, capping and what else the scores may have it is the IR's attention, else it is spelled out, as models
 * have it that know no such operator: passes/rewrite/recognise_attention.c makes it one again where it is one.
 */
#ifndef APC_FRONTEND_ONNX_IMPORT_SCORES_H
#define APC_FRONTEND_ONNX_IMPORT_SCORES_H

#include "frontend/onnx/import_private.h"

/* Everything as [batch, key heads, queries per key head, sequence, width], keys and values without the third. */
typedef struct Heads {
  bool flat; /* operands and result are [batch, sequence, heads * width] */
  const Expr *batch, *heads, *groups, *per_group, *queries, *keys, *past, *width, *value_width;
  Val q, k, v;
} Heads;

/* How softmax is taken and what its rows may see. */
typedef struct Scores {
  double scale, softcap;
  bool causal;
  int64_t left, right; /* how many keys before and after its own position a query sees; -1: all */
  int64_t shown;       /* which state of the scores is the fourth output; -1: none */
  DType precision;     /* of the softmax, when `precise` */
  bool precise;
  Val mask, lengths; /* [.., keys], and the valid keys of each batch as [batch, 1, 1, 1, 1]; 0: absent */
  Val first;         /* position of the first query, [batch, 1, 1, 1, 1]; 0: it follows from lengths or past */
  Val bias;          /* is added, and hides nothing by itself, [.., keys]; 0: nothing */
  Val sink;          /* a key without a value that all see, by its score, [1, key heads, per key head, 1, 1]; 0: none */
} Scores;

enum { SHOW_PRODUCT, SHOW_CAPPED, SHOW_BIASED, SHOW_SOFTMAX };

static inline Scores import_scores(void) { return (Scores){.left = -1, .right = -1, .shown = -1}; }

/* x [batch, sequence, heads * width] as [batch, heads, sequence, width]; 0 after an error. */
Val import_split_heads(ImportNode *n, Val x, const Expr *heads);
/* The rest of h, from its queries, keys and values [batch, heads, sequence, width]; the past is set. */
bool import_heads(ImportNode *n, Heads *h);
/* The attribute, or 1 / sqrt(width). */
bool import_scale(ImportNode *n, const Heads *h, double *scale);
/* What it gives, as the operands are laid out. */
Val import_attend(ImportNode *n, const Heads *h, const Scores *s);

/* [batch, sequence, half] of pairs that are halves of x [batch, heads, sequence, width], or neighbours, rotated by the
 * angles; what is behind them stays.  With `heads_behind` x is [batch, sequence, heads, width]. */
Val import_rotated(ImportNode *n, Val x, Val cosine, Val sine, bool interleaved, bool heads_behind);

#endif
