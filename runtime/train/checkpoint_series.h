/* runtime/train/checkpoint_series.h - the checkpoints of a run: when they are written, and which stay.
 *
 * The newest one is DIR/checkpoint.safetensors.  With `keep` the last K are also DIR/checkpoint-STEPS.safetensors, hard
 * links of what was the newest: so nothing is copied, and the newest one never misses.  With `keep_best` an evaluation
 * whose loss is the lowest so far is followed by a checkpoint, DIR/best.safetensors.
 *
 * A checkpoint is written beside the steps, from a copy that each rank has of its parts, at most one at a time: if the
 * next one is due before, it waits.  Its name appears when all of it is on the disk.
 */
#ifndef APC_RUNTIME_TRAIN_CHECKPOINT_SERIES_H
#define APC_RUNTIME_TRAIN_CHECKPOINT_SERIES_H

#include "runtime/train/checkpoint.h"

typedef struct Series {
  ApcModel *m;
  const Training *t;
  Dataset *data;
  int64_t begun;      /* steps of the last checkpoint that began; -1: none */
  double begun_s;     /* when it began, or the run did */
  double best;        /* the lowest evaluation loss so far */
  double eval_loss;   /* of an evaluation after the last step; NaN: none */
  bool due;           /* a best one has to be written */
  HostWrite *pending; /* being written; NULL: none */
  bool pending_best;  /* the last one that began is the best one, with the loss best_begun */
  double best_begun;
  struct {
    int64_t begun;
    double begun_s, best;
  } whole; /* the values above when the last checkpoint was whole */
} Series;

/* Begins the checkpoints of a run after `made` steps; without --checkpoint nothing is ever written. */
ApcStatus series_begin(Series *s, ApcModel *m, const Training *t, Dataset *data, int64_t made);
/* Notes the loss of an evaluation after the last step. */
void series_evaluated(Series *s, double loss);
/* After a step: ends a checkpoint that is written, and begins one that is due. */
ApcStatus series_step(Series *s, int64_t made);
/* Waits until no checkpoint is being written: before the run changes its ranks. */
ApcStatus series_wait(Series *s);
/* After ranks were lost, and the run goes on with others after `made` steps: a checkpoint that they were writing is
 * given up, the last whole one is the newest.  A best one that is not whole is due again while its step is the last. */
void series_lost(Series *s, int64_t made);
/* Waits for the checkpoint that is being written, and writes one of the last step unless there is one, or `last` is
 * false.  Called with an error of the run, which it returns, it only ends what is being written; if ranks were lost
 * that had not written their parts, that is given up. */
ApcStatus series_end(Series *s, int64_t made, bool last, ApcStatus code);

/* Checks that the folder takes what the rules ask for. */
ApcStatus series_can_write(ApcModel *m, const Training *t);

#endif
