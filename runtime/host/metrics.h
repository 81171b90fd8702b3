/* runtime/host/metrics.h - numbers of a run for Prometheus (apc_metrics).
 *
 * The functions copy a few numbers under a lock, do nothing for NULL, and never wait for a client.
 */
#ifndef APC_RUNTIME_HOST_METRICS_H
#define APC_RUNTIME_HOST_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "program/status.h"
#include "runtime/exec/request.h"

typedef struct Metrics Metrics;

/* Numbers of a training step.  samples, tokens: that it took; tokens 0 if the data are no sequences of tokens; mfu NaN
 * if it is unknown. */
typedef struct MetricsStep {
  int64_t step;
  double loss, grad_norm, lr, seconds;
  int64_t samples, tokens;
  double mfu;
} MetricsStep;

/* Listens at "PORT", "HOST:PORT" or "[IPv6]:PORT", and serves from a thread.  RT_USAGE for another text; RT_BAD_INPUT
 * if the address cannot be used. */
RtStatus metrics_open(const char *address, uint32_t ranks, Metrics **out, RtError *error);
/* Ends the thread and frees everything. */
void metrics_close(Metrics *s);
/* In a forked child, which has no such thread: closes its copies of the listeners and connections, and frees
 * everything. */
void metrics_forget(Metrics *s);
/* From here on the program has that many ranks; without memory the numbers of ranks stay out. */
void metrics_ranks(Metrics *s, uint32_t ranks);
/* Adds a request that took so long; `io` holds the reports of the ranks if it succeeded. */
void metrics_request(Metrics *s, double seconds, bool ok, void *io);
/* Adds a step, and sets the loss of the last evaluation. */
void metrics_step(Metrics *s, const MetricsStep *step);
void metrics_eval(Metrics *s, double loss);

#endif
