/* ir/training.h - what a file does not say about the training of its weights, and what its reader found out.
 *
 * TrainingRules is what somebody asked for: --trainable, --freeze, --tie, --untie, --pad.  TrainingFacts is what the
 * reader of a model knows of weights beside the module: passes/train obeys it.  Names are those of weights.
 */
#ifndef APC_IR_TRAINING_H
#define APC_IR_TRAINING_H

#include "ir/ir.h"

typedef struct TrainingGlob {
  const char *glob;
  bool trained; /* --trainable; else --freeze */
} TrainingGlob;

/* The weight `tied` is `kept`, or its transposed; of what somebody asked for, TrainingFacts or the shapes say which. */
typedef struct TrainingTie {
  const char *kept, *tied;
  bool transposed;
} TrainingTie;

/* A row of a table that gets no gradient where rows are taken from the table. */
typedef struct TrainingPad {
  const char *table;
  int64_t row; /* negative: from the end */
} TrainingPad;

typedef struct TrainingRules {
  struct {
    TrainingGlob *items;
    size_t n, cap;
  } globs; /* in the order they were given */
  struct {
    const char **items;
    size_t n, cap;
  } untied; /* globs */
  struct {
    TrainingTie *items;
    size_t n, cap;
  } ties;
  struct {
    TrainingPad *items;
    size_t n, cap;
  } pads;
} TrainingRules;

/* A weight whose slices along some dimensions are equal, since a part of it was written that often. */
typedef struct TrainingRepeat {
  const char *name;
  unsigned dims; /* bit set */
} TrainingRepeat;

typedef struct TrainingReason {
  const char *name, *why;
} TrainingReason;

/* A weight that the model's file does not have by itself: node `node` of its graph reads it as that operand. */
typedef struct TrainingRead {
  const char *name;
  size_t node, operand;
} TrainingRead;

typedef struct TrainingReads {
  TrainingRead *items;
  size_t n, cap;
} TrainingReads;

typedef struct TrainingReasons {
  TrainingReason *items;
  size_t n, cap;
} TrainingReasons;

typedef struct TrainingFacts {
  struct {
    TrainingTie *items;
    size_t n, cap;
  } ties;
  struct {
    TrainingRepeat *items;
    size_t n, cap;
  } repeats;
  struct {
    const char **items;
    size_t n, cap;
  } apart; /* weights that share bytes with others, and are trained apart from them */
  TrainingReads reads;
  struct {
    const char **items;
    size_t n, cap;
  } said; /* sentences: what was done that the file does not say */
} TrainingFacts;

typedef enum TrainingWish { TRAINING_UNSAID, TRAINING_TRAINED, TRAINING_FROZEN } TrainingWish;

/* By the last glob that fits the name.  `r` may be NULL. */
TrainingWish training_wish(const TrainingRules *r, const char *name);
bool training_unties(const TrainingRules *r, const char *name);

#endif
