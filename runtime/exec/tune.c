/* runtime/exec/tune.c - choices among the device's ways to compute the same (runtime/device/tuning.h), equal on all
 * ranks.
 *
 * After the first request of a size each rank times the calls of its bodies that its table lacks.  Then all ranks
 * exchange what they found, and of several choices for one key all take that of the first rank.  So ranks that compute
 * the same values compute the same bits.  Rank 0 writes the file.
 *
 * The exchange uses the host's engine: the device's own moves memory of the device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/internal.h"

/* ---- exchange */

static RtStatus make_group(Executor *e, RtError *error) {
  uint32_t ranks = e->p->ranks;
  int *members = malloc(ranks * sizeof *members);
  if (!members) return rt_error(error, RT_FAILED, "out of memory");
  for (uint32_t i = 0; i < ranks; i++) members[i] = (int)i;
  RtStatus status = comm_group(e->options.comm, members, (int)ranks, &e->tuning_group, error);
  free(members);
  return status;
}

/* Gives every rank the blocks of all, in the order of ranks; `all` has room for them. */
static RtStatus gather(Executor *e, uint64_t key, const void *mine, void *all, size_t bytes, RtError *error) {
  uint32_t ranks = e->p->ranks;
  CommBlock *send = calloc(2 * (size_t)ranks, sizeof *send), *recv = send + ranks;
  if (!send) return rt_error(error, RT_FAILED, "out of memory");
  for (uint32_t i = 0; i < ranks; i++) send[i] = comm_contiguous(0, bytes), recv[i] = comm_contiguous(i * bytes, bytes);
  CommOp op = {.kind = COMM_all_gather, .group = e->tuning_group, .src = mine, .dst = all, .send = send, .recv = recv};
  CommTicket ticket;
  RtStatus status = comm_enqueue(e->options.comm, key, &op, &ticket, error);
  if (!status) status = comm_wait(e->options.comm, ticket, error);
  free(send);
  return status;
}

/* ---- opening */

static void say(const Executor *e, const char *why, const char *other) {
  if (e->options.rank == 0)
    fprintf(stderr, "note: --tune %s is not used: %s %s\n", e->options.tuning->path, why, other);
}

/* Drops the table on all ranks if their devices or libraries differ. */
static RtStatus compare_devices(Executor *e, const char of[TUNING_OF], RtError *error) {
  uint32_t ranks = e->p->ranks, other = 0;
  if (ranks == 1) return RT_OK;
  char(*all)[TUNING_OF] = calloc(ranks, sizeof *all);
  if (!all) return rt_error(error, RT_FAILED, "out of memory");
  RtStatus status = make_group(e, error);
  if (!status) status = gather(e, 0, of, all, sizeof *all, error);
  while (!status && other < ranks && strcmp(all[other], all[0]) == 0) other++;
  if (!status && other < ranks) {
    say(e, "the ranks' devices or libraries differ, one has", all[other]);
    tuning_drop(e->options.tuning);
  }
  free(all);
  return status;
}

RtStatus exec_tune_open(Executor *e, RtError *error) {
  Tuning *t = e->options.tuning;
  char of[TUNING_OF] = "";
  if (!t) return RT_OK;
  if (!e->ops->tune) return rt_error(error, RT_UNSUPPORTED, "--tune: this kind of device has nothing to choose");
  e->ops->tuned_for(e->device, of);
  RtStatus status = compare_devices(e, of, error);
  if (status) return status;
  if (t->makes) memcpy(t->of, of, sizeof of);
  else if (t->n && strcmp(t->of, of) != 0) {
    say(e, "it is for", t->of);
    tuning_drop(t);
  }
  return RT_OK;
}

/* ---- timing */

static RtStatus time_calls(const Executor *e, RtError *error) {
  RtStatus status = RT_OK;
  for (uint32_t i = 0; i < e->p->n_bodies; i++) {
    const DeviceCalls *calls = &e->binding->bodies[i].calls;
    for (uint32_t k = 0; calls->items && k < calls->n && !status; k++) {
      const DeviceCall *c = &calls->items[k];
      RtError inner = {0};
      if (c->skipped || c->refused) continue;
      if (e->options.place) rank_place_step(e->options.place, exec_step(c->instr, 0)); /* a sign of life */
      status = e->ops->tune(e->device, c, &inner);
      if (status) return exec_error(e, c->instr, status, error, inner.text);
    }
  }
  return status;
}

/* Replaces the choices from `first` on by those of all ranks. */
static RtStatus agree(Executor *e, uint32_t first, RtError *error) {
  Tuning *t = e->options.tuning;
  uint32_t ranks = e->p->ranks, mine = t->n - first, most = 0;
  uint64_t key = exec_key_after(e->request);
  if (ranks == 1) return RT_OK;
  uint32_t *counts = calloc(ranks, sizeof *counts);
  RtStatus status =
      counts ? gather(e, key, &mine, counts, sizeof mine, error) : rt_error(error, RT_FAILED, "out of memory");
  for (uint32_t r = 0; r < ranks && !status; r++) most = counts[r] > most ? counts[r] : most;
  TuningChoice *own = calloc(most + 1u, sizeof *own), *all = calloc((size_t)most * ranks + 1, sizeof *all);
  if (!status && (!own || !all)) status = rt_error(error, RT_FAILED, "out of memory");
  if (!status && most) {
    memcpy(own, t->items + first, mine * sizeof *own);
    t->n = first;
    status = gather(e, key, own, all, most * sizeof *all, error);
  }
  for (uint32_t r = 0; r < ranks && !status; r++)
    for (uint32_t i = 0; i < counts[r] && !status; i++) {
      const TuningChoice *c = &all[(size_t)r * most + i];
      if (!tuning_find(t, c->key) && !tuning_add(t, c->key, c->choice))
        status = rt_error(error, RT_FAILED, "out of memory");
    }
  free(counts);
  free(own);
  free(all);
  return status;
}

/* Rank 0 writes the file, if there is a new choice, and tells what was done. */
static RtStatus finish(const Executor *e, uint32_t first, uint64_t begin, RtError *error) {
  const Tuning *t = e->options.tuning;
  char left[80] = "";
  bool some = t->n > first;
  if (e->options.rank != 0) return RT_OK;
  if (t->left)
    snprintf(left, sizeof left, "; %u%s not fit into the GPU's memory beside the program", t->left,
             some           ? t->left == 1 ? " more does" : " more do"
             : t->left == 1 ? " does"
                            : " do");
  RtStatus status = some ? tuning_write(t, error) : RT_OK;
  if (status) return status;
  fprintf(stderr, "tuned %u products and convolutions in %.1f s%s%s%s\n", t->n - first,
          (double)(exec_now() - begin) * 1e-9, some ? ", wrote " : "", some ? t->path : "", left);
  return RT_OK;
}

RtStatus exec_tune(Executor *e, RtError *error) {
  Tuning *t = e->options.tuning;
  if (!t || !t->makes || e->binding->tuned || e->p->entries[e->binding->entry].prepare) return RT_OK;
  uint64_t begin = exec_now();
  uint32_t first = t->n;
  t->left = 0;
  e->binding->tuned = true;
  RtStatus status = time_calls(e, error);
  if (!status) status = agree(e, first, error);
  if (!status) status = e->ops->tuned(e->device, error);
  if (!status && t->n > first) status = exec_bodies_again(e, e->binding, error);
  return status || (t->n == first && !t->left) ? status : finish(e, first, begin, error);
}
