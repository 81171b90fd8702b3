/* runtime/train/evaluation.c - see evaluation.h. */
#include "runtime/train/evaluation.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/host/host.h"

ApcStatus trainer_result(ApcModel *m, const char *name, double *out) {
  int rank;
  int64_t dims[APC_MAX_RANK];
  size_t bytes;
  const void *data;
  ApcStatus status = apc_output_shape(m, name, &rank, dims, &bytes);
  if (!status) status = apc_output_data(m, name, &data);
  if (!status) *out = bytes == sizeof(double) ? *(const double *)data : (double)*(const float *)data;
  return status;
}

/* Selects the step again, even after an error, which remains the model's. */
static ApcStatus back_to(ApcModel *m, const char *entry, ApcStatus status) {
  const RtError error = m->error;
  ApcStatus selected = apc_select(m, entry);
  if (status) m->error = error;
  return status ? status : selected;
}

/* Sums over all batches, each loss weighted by the count that it is a mean of. */
typedef struct Sums {
  double loss, entropy, count, correct;
  bool has_entropy, has_accuracy; /* the entry has such an output */
} Sums;

bool trainer_has_output(ApcModel *m, const char *name) {
  ApcTensorInfo info;
  for (int i = 0; i < apc_outputs(m); i++)
    if (apc_output_info(m, i, &info) == APC_OK && strcmp(info.name, name) == 0) return true;
  return false;
}

static ApcStatus add_batch(ApcModel *m, Dataset *d, int64_t i, Sums *s) {
  double loss, count, entropy = 0, accuracy = 0;
  ApcStatus status = dataset_bind(m, d, i);
  if (!status) status = apc_run(m, NULL);
  if (!status) status = trainer_result(m, "loss", &loss);
  if (!status) status = trainer_result(m, "count", &count);
  if (!status && s->has_entropy) status = trainer_result(m, "entropy", &entropy);
  if (!status && s->has_accuracy) status = trainer_result(m, "accuracy", &accuracy);
  if (status || !(count > 0)) return status;
  s->loss += loss * count, s->entropy += entropy * count, s->count += count, s->correct += accuracy * count;
  return APC_OK;
}

static ApcStatus add_batches(ApcModel *m, Dataset *d, Sums *s) {
  ApcStatus status = APC_OK;
  s->has_entropy = trainer_has_output(m, "entropy"), s->has_accuracy = trainer_has_output(m, "accuracy");
  for (int64_t i = 0; i < dataset_steps(d) && !status; i++) status = add_batch(m, d, i, s);
  if (!status && s->count == 0) status = host_error(m, RT_BAD_INPUT, "--eval: all labels are ignored");
  return status;
}

static int64_t evaluated_rows(const Dataset *d) {
  return dataset_pads(d) ? dataset_rows(d) : dataset_steps(d) * dataset_batch(d);
}

ApcStatus evaluation_make(ApcModel *m, const Training *t, Dataset *d, int64_t step, double *loss) {
  const double begin = host_now();
  Sums s = {.loss = 0};
  const char *before = apc_entry_name(m, 0);
  ApcStatus status = apc_select(m, "eval");
  status = back_to(m, before, status ? status : add_batches(m, d, &s));
  if (status) return status;
  const double mean = *loss = s.loss / s.count;
  if (!isfinite(mean))
    return host_error(m, RT_FAILED, "eval after step %" PRId64 ": the loss is %g", step,
                      isnan(mean) ? (double)NAN : mean);
  const bool tokens = s.has_accuracy && dataset_tokens(d);
  const EvalMade e = {.step = step,
                      .rows = evaluated_rows(d),
                      .loss = mean,
                      .perplexity = tokens ? exp((s.has_entropy ? s.entropy : s.loss) / s.count) : NAN,
                      .accuracy = s.has_accuracy ? s.correct / s.count : NAN,
                      .us = (host_now() - begin) * 1e6};
  metrics_eval(m->metrics, mean);
  if (t->watch.eval) t->watch.eval(t->watch.context, &e);
  return APC_OK;
}

ApcStatus evaluation_open(ApcModel *m, const Training *t, Dataset **out) {
  const char *before = apc_entry_name(m, 0);
  ApcStatus status = apc_select(m, "eval");
  status = back_to(m, before, status ? status : dataset_open(m, &t->eval, out));
  if (status) return status;
  const int64_t rest = dataset_rows(*out) - evaluated_rows(*out);
  if (rest)
    trainer_say(&t->watch, false,
                "%" PRId64 " of %" PRId64 " rows are not evaluated: they do not fill a batch of %" PRId64
                ", and the loss cannot leave rows out",
                rest, dataset_rows(*out), dataset_batch(*out));
  return APC_OK;
}
