/* passes/train/update.h - what the files of the update share: update.c, schedule.c, muon.c, adafactor.c.
 *
 * Operations of an update follow the weight (D46): it is updated where it is stored.  Operations that need more than
 * their share of the weight, as a product with itself, get a variable of their own (update_apart).
 */
#ifndef APC_PASSES_TRAIN_UPDATE_H
#define APC_PASSES_TRAIN_UPDATE_H

#include "passes/train/train.h"

typedef struct Update {
  Builder *b;
  const Optimizer *o;
  const Type *scalar; /* f32 */
  Val steps;          /* the number of earlier steps, an i64 */
  Val now;            /* number of steps, including this one: of the schedule */
  Val t;              /* the same without skipped steps: of corrections */
  Val lr;             /* with schedule */
  Val correction[2];  /* adamw: 1 - beta^t for both moments */
  Val scale;          /* of gradients; 0: no scaling */
  Val finite;         /* bool: the step counts; 0 if every step does */
  Val ema_share;      /* the share of the new weight in its average; 0: no averages */
  Val agree;          /* sum of the products of gradients and earlier mean gradients; 0: none */
} Update;

/* Scalars, in f32. */
Val update_number(const Update *u, double value);
Val update_binary(const Update *u, OpKind k, Val x, Val y);    /* of scalars or of equal tensors */
Val update_times(const Update *u, Val x, double c);            /* of a scalar */
Val update_scaled(const Update *u, Val x, double by);          /* of a tensor */
Val update_spread(const Update *u, Val scalar, const Type *t); /* broadcast, and cast */
Val update_mixed(const Update *u, double part, Val x, Val y);  /* part x + (1 - part) y */
Val update_sum(const Update *u, Val x);                        /* of all elements, an f32 */

/* Reads a state of the weight, which starts as 0; f32 or f64 whatever its type.  0 after an error. */
Val update_read(const Update *u, const Trained *w, const char *what, const Type *t);
/* Writes it; `old`: the value that update_read returned, which stays in a step that does not count. */
void update_write(const Update *u, const Trained *w, const char *what, Val value, Val old);
/* Subtracts lr times `change` from the weight, and updates its average. */
void update_step(const Update *u, const Trained *w, Val change);
/* Sets the weight to `value`. */
void update_set(const Update *u, const Trained *w, Val value);
double update_decay(const Update *u, const Trained *w);
Val update_with_decay(const Update *u, const Trained *w, Val x);
/* The operations from `first` on get variables of their own. */
void update_apart(const Update *u, const Trained *w, size_t first);
/* Adds to the estimate of the gradient noise: `mean` is a mean of earlier gradients, and its weights sum to `part`. */
void update_agrees(Update *u, const Trained *w, Val mean, Val part);
/* 1 - b^t, for t or another number of steps */
Val update_correction(const Update *u, Val t, double b);

Val update_learning_rate(const Update *u); /* schedule.c */

/* Optimizers, of one weight and its gradient. */
void update_adamw(Update *u, const Trained *w, Val g);
void update_muon(Update *u, const Trained *w, Val g);      /* muon.c */
void update_adafactor(Update *u, const Trained *w, Val g); /* adafactor.c */

#endif
