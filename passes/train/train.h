/* passes/train/train.h - a model becomes one step of its training.
 *
 * A step is one flat level-1 function (D38 of docs/decisions.md): forward pass, loss, gradients, update.  Trained
 * weights are states that start as the weight (D39), as are the optimizer's moments, which start as 0; `step`, how many
 * steps were made before, is an input (D40).  Nothing behind this pass knows of training.
 */
#ifndef APC_PASSES_TRAIN_TRAIN_H
#define APC_PASSES_TRAIN_TRAIN_H

#include "ir/training.h"

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
  const char *name; /* NULL: an output's */
  int least_rank;
#define SETTING(name, ...) double name;
#include "passes/train/losses.def"
} LossOptions;

/* What is trained: weights and their elements, of all that could be. */
typedef struct TrainReport {
  int64_t weights, all, elements, all_elements;
  TrainingReasons left; /* those that could be and are not, and why */
  Val output;           /* the model's first output, in the step */
} TrainReport;

typedef struct TrainOptions {
  const char *loss; /* one of losses.def, with what is set of it, or an output of the model: a float scalar */
  Optimizer optimizer;
  const TrainingRules *rules; /* what somebody says of the weights; NULL */
  const TrainingFacts *facts; /* what the reader of the model found out of them; NULL */
  TrainReport *report;        /* filled; NULL: nobody asks */
} TrainOptions;

/* The model becomes one step of its training; NULL: it stays as it is.  False after diagnostics. */
bool train_step(Module *m, const TrainOptions *o, Diags *diags);

/* "adamw(lr=3e-4,clip=1)"; NULL: adamw as it is.  False after a diagnostic. */
bool optimizer_parse(Arena *a, const char *text, Optimizer *out, Diags *diags);

/* "cross_entropy(ignore=-1)"; what is none of losses.def is an output's name.  False after a diagnostic. */
bool train_loss_parse(Arena *a, const char *text, LossOptions *out, Diags *diags);

/* ---- between the files of this folder */

/* A trained weight: its state as read, and the gradient of the loss. */
typedef struct Trained {
  const char *name;
  size_t param; /* its place in the module's list */
  Val read, gradient;
} Trained;

typedef struct TrainedList {
  Trained *items;
  size_t n, cap;
} TrainedList;

/* Both are scalars of the type that the loss is computed in. */
typedef struct Loss {
  Val value;
  Val count; /* what the loss is a mean of: labels or elements; 1 for a loss of the model's own */
} Loss;

/* loss.c: builds the loss of the function's outputs, adding what it is measured against as input `labels`.  `outputs`:
 * of the forward pass.  False after a diagnostic. */
bool train_loss(Builder *b, const char *loss, size_t n, const Output *outputs, Loss *out);

/* weights.c: how the weights of a model are trained: apart, as one with another, in part, or not at all. */
typedef struct TrainWeights {
  Module *m;
  const TrainOptions *o;
  Diags *diags;
} TrainWeights;

/* Whether all names that somebody gave are weights; false after a diagnostic. */
bool train_check_rules(const TrainWeights *w);
bool train_is_trained(const TrainWeights *w, const Param *p);
/* The weight that `name` is tied to; NULL: it is one of its own. */
const char *train_kept(const TrainWeights *w, const char *name);
/* The weight that has its numbers in the end, itself if it is not tied; changes *transposed if it is that transposed.
 */
const char *train_root(const TrainWeights *w, const char *name, bool *transposed);
/* The weight of that name as it is computed with: its state if it is trained, that of the weight it is tied to ...
 * `op`: the operation that read it, NULL.  0 after a diagnostic. */
Val train_value(const TrainWeights *w, Builder *b, TrainedList *list, const Op *op, const char *name);
/* The weight whose numbers are saved under that name; NULL: none, since they follow from another's. */
const char *train_stored(const TrainWeights *w, const char *name);
void train_report(const TrainWeights *w);

/* backward.c: the gradients of `loss` for every value in `list`, accumulated, built behind it; a gradient stays 0 when
 * the loss does not depend on the value.  Rows of tables that are padding get none where they are taken.  False after
 * diagnostics: every operation that has no derivative is named. */
bool train_backward(Builder *b, const TrainWeights *weights, Val loss, TrainedList *list);

/* update.c: builds what is written to the states, and the outputs `grad_norm` and `lr`.  `steps`: how many were made
 * before, an i64. */
bool train_update(Builder *b, const Optimizer *o, Val steps, const TrainedList *list);

#endif
