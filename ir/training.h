/* ir/training.h - facts about the training of weights that a model's file does not contain.
 *
 * TrainingRules are the user's options: --trainable, --freeze, --tie, --untie, --pad, --train-mode, --layer-drop.
 * TrainingFacts is the knowledge of the model's reader about weights, beyond the module; passes/train applies it. Names
 * are those of weights.
 */
#ifndef APC_IR_TRAINING_H
#define APC_IR_TRAINING_H

#include "ir/ir.h"

typedef struct TrainingGlob {
  const char *glob;
  bool trained; /* --trainable; else --freeze */
} TrainingGlob;

/* The weight `tied` equals `kept`, or its transpose.  Whether a tie of the user's is transposed follows from
 * TrainingFacts or the shapes. */
typedef struct TrainingTie {
  const char *kept, *tied;
  bool transposed;
} TrainingTie;

/* A row of a table without a gradient from lookups. */
typedef struct TrainingPad {
  const char *table;
  int64_t row; /* negative: counts from the end */
} TrainingPad;

/* Residual branches that the step drops, by row, with a probability. */
typedef struct TrainingDrop {
  const char *glob;
  double rate;
} TrainingDrop;

typedef struct TrainingRules {
  struct {
    TrainingGlob *items;
    size_t n, cap;
  } globs; /* in the order given */
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
  struct {
    const char **items;
    size_t n, cap;
  } modes; /* globs of operations that compute as in training */
  struct {
    TrainingDrop *items;
    size_t n, cap;
  } drops;      /* the last one that fits a branch counts */
  int64_t seed; /* of their random numbers */
} TrainingRules;

/* A weight whose slices along some dimensions are equal, because the file repeats a part of it. */
typedef struct TrainingRepeat {
  const char *name;
  unsigned dims; /* bit set */
} TrainingRepeat;

typedef struct TrainingReason {
  const char *name, *why;
} TrainingReason;

/* A weight that the model's file does not contain itself: node `node` of its graph reads it as that operand. */
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
  } apart; /* weights that share bytes with others, but are trained separately */
  TrainingReads reads;
  struct {
    const char **items;
    size_t n, cap;
  } said; /* sentences about changes that the file does not mention */
} TrainingFacts;

typedef enum TrainingWish { TRAINING_UNSAID, TRAINING_TRAINED, TRAINING_FROZEN } TrainingWish;

/* The last glob that matches the name decides; `r` may be NULL. */
TrainingWish training_wish(const TrainingRules *r, const char *name);
enum { TRAINING_GLOB_MOST = 511 };                       /* characters of a glob; passes/train/options.c refuses more */
bool training_glob(const char *globs, const char *name); /* one of the globs, with | between them, matches the name */
bool training_unties(const TrainingRules *r, const char *name); /* a glob of --untie matches the name */

#endif
