/* passes/train/train.h - turns a model into one step of its training.
 *
 * A step is one flat level-1 function (D38 of docs/inside/decisions.md): forward pass, loss, gradients, update. Trained
 * weights are states that start as the weight (D39), as are the optimizer's moments, which start as 0; `step`, the
 * number of earlier steps, is an input (D40).  Later passes do not know about training.
 */
#ifndef APC_PASSES_TRAIN_TRAIN_H
#define APC_PASSES_TRAIN_TRAIN_H

#include "ir/training.h"
#include "passes/train/lora.h"

typedef enum OptimizerKind {
#define OPTIMIZER(name, ...) OPTIMIZER_##name,
#include "passes/train/optimizers.def"
  OPTIMIZERS
} OptimizerKind;

typedef struct Optimizer {
  OptimizerKind kind;
#define NUMBER(name, ...) double name;
#define WORD(name, ...) const char *name;
#include "passes/train/optimizers.def"
} Optimizer;

typedef enum LossKind {
#define LOSS(name, ...) LOSS_##name,
#include "passes/train/losses.def"
  LOSS_own /* an output of the model */
} LossKind;

typedef struct LossOptions {
  LossKind kind;
  const char *name; /* NULL for an output of the model */
  int least_rank;
#define SETTING(name, ...) double name;
#include "passes/train/losses.def"
} LossOptions;

/* The weights and elements that are trained, and how many could be. */
typedef struct TrainReport {
  int64_t weights, all, elements, all_elements;
  TrainingReasons left; /* weights that could be trained but are not, with reasons */
  struct {
    const char **items;
    size_t n, cap;
  } dropped;  /* sentences about --layer-drop */
  Val output; /* the model's first output, in the step */
} TrainReport;

typedef struct TrainOptions {
  bool scaled;      /* the loss is scaled for gradients in f16 */
  const char *loss; /* a loss of losses.def with settings, or an output of the model: a float scalar */
  Optimizer optimizer;
  const TrainingRules *rules; /* the user's rules for weights; NULL if none */
  const TrainingFacts *facts; /* facts that the front end found about weights; NULL if none */
  const LoraRules *lora;      /* the adapters that the model has; NULL if none */
  TrainReport *report;        /* filled; NULL if not needed */
} TrainOptions;

/* Turns the model into one step of its training; o NULL: leaves it unchanged.  False after diagnostics. */
bool train_step(Module *m, const TrainOptions *o, Diags *diags);

/* Parses e.g. "adamw(lr=3e-4,clip=1)"; NULL: adamw with defaults.  False after a diagnostic. */
bool optimizer_parse(Arena *a, const char *text, Optimizer *out, Diags *diags);

/* Parses e.g. "cross_entropy(ignore=-1)"; any other name is that of an output.  False after a diagnostic. */
bool train_loss_parse(Arena *a, const char *text, LossOptions *out, Diags *diags);

/* ---- between the files of this folder */

/* A trained weight: its state as read, and the gradient of the loss. */
typedef struct Trained {
  const char *name;
  size_t param; /* its index in the module's list */
  Val read, gradient;
} Trained;

typedef struct TrainedList {
  Trained *items;
  size_t n, cap;
} TrainedList;

/* Both are scalars of the type that the loss is computed in. */
typedef struct Loss {
  Val value;
  Val count; /* the number of labels or elements that the loss is averaged over; 1 for a loss of the model's own */
  /* for evaluation, with labels that are classes; else 0 */
  Val accuracy; /* the share of labels that count whose class has the largest logit */
  Val entropy;  /* the mean cross-entropy, if the loss smooths the labels */
} Loss;

/* loss.c: builds the loss of the forward pass's outputs, and adds the input `labels`; `evaluates`: more than the loss
 * is built.  False after a diagnostic. */
bool train_loss(Builder *b, const char *loss, size_t n, const Output *outputs, bool evaluates, Loss *out);

/* weights.c: how the weights of a model are trained: separately, tied to another, in part, or not at all. */
typedef struct TrainWeights {
  Module *m;
  const TrainOptions *o;
  Diags *diags;
} TrainWeights;

/* True if all weights named by the user exist; else false after a diagnostic. */
bool train_check_rules(const TrainWeights *w);
bool train_is_trained(const TrainWeights *w, const Param *p);
/* Marks the weights of the module whose gradients the step needs, those tied to others included. */
const bool *train_marks(Module *m, const TrainOptions *o, Diags *diags);
/* Returns the weight that `name` is tied to; NULL if it is not tied. */
const char *train_kept(const TrainWeights *w, const char *name);
/* Returns the weight at the end of the ties of `name`, itself if it is not tied; flips *transposed for each transposed
 * tie.
 */
const char *train_root(const TrainWeights *w, const char *name, bool *transposed);
/* Returns the value of that weight in the step: its state if it is trained, that of the weight it is tied to, or the
 * weight.  `op`: the operation that read it, NULL if none.  0 after a diagnostic. */
Val train_value(const TrainWeights *w, Builder *b, TrainedList *list, const Op *op, const char *name);
/* Returns the weight whose numbers are saved under that name; NULL if they follow from another weight's. */
const char *train_stored(const TrainWeights *w, const char *name);
/* The weight, or its state if it is trained. */
Val train_current(Builder *b, const char *weight);
void train_report(const TrainWeights *w);

/* backward.c: builds, after `loss`, the accumulated gradients of `seed` (0: 1) times `loss` for every value in `list`;
 * a gradient stays 0 if the loss does not depend on the value.  Padding rows of tables get no gradient from look-ups.
 * False after diagnostics, one for every operation without a derivative. */
bool train_backward(Builder *b, const TrainWeights *weights, Val loss, Val seed, TrainedList *list);

/* layer_drop.c: finds the additions whose residual branch the step drops: by operation, the probability (0: not
 * dropped) and the operand that is the branch.  Leaves both as they are without --layer-drop.  False after diagnostics.
 */
bool train_find_drops(const TrainWeights *w, const Func *f, double **rates, int **operands);
/* The branch of addition `name`, dropped in some rows of its first dimension; 0 after an error. */
Val train_drop_branch(Builder *b, const char *name, int64_t seed, double rate, Val branch, Val steps);

/* unroll.c: replaces the function by one without loops, whose rounds must be known.  False after a diagnostic. */
bool train_unroll(Module *m, const Func **f, Diags *diags);

/* pieces.c: returns the sum of two gradients of one value as a concatenation, if both are padded with zeros where the
 * other has elements; else 0. */
Val train_join_pieces(Builder *b, Val one, Val other);

/* update.c: adds the state of the scale of the loss, and reads it. */
bool train_scale(Builder *b, const Optimizer *o, Val *scale);
/* Builds the writes to the states, and the outputs `grad_norm` and `lr`.  `steps`: the number of earlier steps, an i64;
 * `scale`: that of the loss whose gradients the list has, 0 if there is none.  Sets *finite to whether the step counts;
 * 0: it does. */
bool train_update(Builder *b, const Optimizer *o, Val steps, Val scale, TrainedList *list, Val *finite);
/* `value` if the step counts, else `old`. */
Val train_if_counts(Builder *b, Val finite, Val value, Val old);

#endif
