/* frontend/onnx/import_scores.h - attention for operators with different forms of heads, masks and past.
 *
 * Without masks, capping or other changes of the scores it becomes the IR's attention.  Otherwise it is written as
 * primitive operations, as in models without such an operator; passes/rewrite/recognise_attention.c restores
 * attention where possible.
 */
#ifndef APC_FRONTEND_ONNX_IMPORT_SCORES_H
#define APC_FRONTEND_ONNX_IMPORT_SCORES_H

#include "frontend/onnx/import_private.h"

/* All as [batch, key heads, queries per key head, sequence, width]; keys and values lack the third dimension. */
typedef struct Heads {
  bool flat; /* operands and result are [batch, sequence, heads * width] */
  const Expr *batch, *heads, *groups, *per_group, *queries, *keys, *past, *width, *value_width;
  Val q, k, v;
} Heads;

/* The softmax and the keys that its rows may see. */
typedef struct Scores {
  double scale, softcap;
  bool causal;
  int64_t left, right; /* number of keys before and after its own position that a query sees; -1: all */
  int64_t shown;       /* the state of the scores that is the fourth output; -1: none */
  DType precision;     /* of the softmax, if `precise` */
  bool precise;
  Val mask, lengths; /* [.., keys], and the number of valid keys per batch as [batch, 1, 1, 1, 1]; 0 if absent */
  Val first;         /* position of the first query, [batch, 1, 1, 1, 1]; 0 if it follows from lengths or past */
  Val bias;          /* added to the scores; hides no key by itself, [.., keys]; 0 if none */
  Val sink;          /* score of a key without a value, [1, key heads, per key head, 1, 1]; 0 if none */
} Scores;

enum { SHOW_PRODUCT, SHOW_CAPPED, SHOW_BIASED, SHOW_SOFTMAX };

/* Returns scores without a window, a shown state or a mask. */
static inline Scores import_scores(void) { return (Scores){.left = -1, .right = -1, .shown = -1}; }

/* Splits x [batch, sequence, heads * width] to [batch, heads, sequence, width]; 0 after an error. */
Val import_split_heads(ImportNode *n, Val x, const Expr *heads);
/* Derives the other fields of h from its queries, keys and values [batch, heads, sequence, width] and the past. */
bool import_heads(ImportNode *n, Heads *h);
/* Reads the attribute; its default is 1 / sqrt(width). */
bool import_scale(ImportNode *n, const Heads *h, double *scale);
/* Returns the result of attention, in the layout of the operands. */
Val import_attend(ImportNode *n, const Heads *h, const Scores *s);

/* Rotates pairs of x [batch, heads, sequence, width], which are halves or neighbours, by angles [batch, sequence,
 * half]; elements after the pairs stay.  With `heads_behind`, x is [batch, sequence, heads, width]. */
Val import_rotated(ImportNode *n, Val x, Val cosine, Val sine, bool interleaved, bool heads_behind);

#endif
