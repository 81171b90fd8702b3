/* runtime/stub/log.c - the log of a training run as CSV, as lines of JSON, or as an event file for TensorBoard.
 *
 * A row is one write where the disk takes it, so that readers see whole rows; a row that does not fit on the disk is
 * taken back.  Rows are in the order of their steps, and --resume cuts the file before the first row after the
 * checkpoint.  A folder gets a new event file for each run.  It begins with a SessionLog of START, by which TensorBoard
 * drops later steps of older files.
 *
 * An event file is a sequence of records (TensorFlow's record_writer.h): length, masked CRC-32C of the length, an
 * Event, masked CRC-32C of the Event.  The Event is a protocol buffer of a few fields (event.proto, summary.proto),
 * written by hand because the runtime links no library for it.
 */
#include "runtime/stub/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "runtime/stub/stub.h"

typedef enum LogKind { LOG_CSV, LOG_JSONL, LOG_EVENTS } LogKind;

struct StepLog {
  LogKind kind;
  char *path;
  int fd; /* -1: an event file that does not exist yet */
  bool resumes, warned;
  bool older; /* CSV whose head has no mfu: --resume continues it without */
  bool noise; /* rows have a noise scale */
  long lost;
};

#define CSV_OLDER "step,time,loss,lr,grad_norm,samples,tokens,step_ms,tokens_per_s,eval_loss,eval_rows"
static const char csv_older[] = CSV_OLDER "\n", csv_head[] = CSV_OLDER ",mfu\n",
                  csv_noise[] = CSV_OLDER ",mfu,noise_scale\n";

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- writing */

static void warn(StepLog *l, const char *what, int number) {
  char path[4096], shown[4096]; /* `what` may be a path too */
  text_show(l->path, path, sizeof path), text_show(what, shown, sizeof shown);
  if (!l->warned) fprintf(stderr, "warning: --log %s: %s: %s; the run continues\n", path, shown, strerror(number));
  l->warned = true;
}

/* Appends one row, or takes back what was written of it. */
static void append(StepLog *l, const void *data, size_t n) {
  off_t end = l->fd < 0 ? -1 : lseek(l->fd, 0, SEEK_END);
  size_t written = 0;
  ssize_t part = end < 0 ? -1 : 1;
  for (; part > 0 && written<n; written += part> 0 ? (size_t)part : 0)
    part = write(l->fd, (const char *)data + written, n - written); /* after a part the next write tells the reason */
  if (written == n) return;
  l->lost++;
  warn(l, "a row was not written", part < 0 ? errno : ENOSPC);
  if (written > 0 && ftruncate(l->fd, end) != 0) warn(l, "half a row remains", errno);
}

/* ---- event files */

typedef struct Bytes {
  uint8_t data[512];
  size_t n;
} Bytes;

static void put(Bytes *b, const void *data, size_t n) {
  memcpy(b->data + b->n, data, n);
  b->n += n;
}

static void put_varint(Bytes *b, uint64_t v) {
  for (; v > 127; v >>= 7) b->data[b->n++] = (uint8_t)(v | 128);
  b->data[b->n++] = (uint8_t)v;
}

/* Wire types of protocol buffers. */
enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 5 };

static void put_key(Bytes *b, uint32_t field, uint32_t wire) { put_varint(b, field << 3 | wire); }

static void put_bytes(Bytes *b, uint32_t field, const void *data, size_t n) {
  put_key(b, field, WIRE_BYTES);
  put_varint(b, n);
  put(b, data, n);
}

/* Fixed numbers are little-endian, as all machines that apc compiles for. */
static Bytes event_of(int64_t step) {
  Bytes b = {.n = 0};
  double time = now();
  put_key(&b, 1, WIRE_64), put(&b, &time, sizeof time);
  put_key(&b, 2, WIRE_VARINT), put_varint(&b, (uint64_t)step);
  return b;
}

/* Adds a value to a Summary. */
static void put_value(Bytes *summary, const char *tag, double value) {
  Bytes b = {.n = 0};
  float simple = (float)value;
  put_bytes(&b, 1, tag, strlen(tag));
  put_key(&b, 2, WIRE_32), put(&b, &simple, sizeof simple);
  put_bytes(summary, 1, b.data, b.n);
}

/* Returns the CRC-32C, masked as in record files. */
static uint32_t masked_crc(const void *data, size_t n) {
  uint32_t crc = ~0u;
  for (const uint8_t *c = data; n-- > 0; c++) {
    crc ^= *c;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static void append_event(StepLog *l, const Bytes *event) {
  Bytes b = {.n = 0};
  uint64_t length = event->n;
  uint32_t sum = masked_crc(&length, sizeof length);
  put(&b, &length, sizeof length), put(&b, &sum, sizeof sum);
  put(&b, event->data, event->n);
  sum = masked_crc(event->data, event->n);
  put(&b, &sum, sizeof sum);
  append(l, b.data, b.n);
}

static void append_summary(StepLog *l, int64_t step, const Bytes *summary) {
  Bytes b = event_of(step);
  put_bytes(&b, 5, summary->data, summary->n);
  append_event(l, &b);
}

/* Creates the file of this run; its name has the time, as TensorBoard expects, and is no other run's. */
static void begin_events(StepLog *l, int64_t made) {
  static const char version[] = "brain.Event:2";
  char file[4096], host[65] = "host";
  gethostname(host, sizeof host - 1);
  snprintf(file, sizeof file, "%s/events.out.tfevents.%010lld.%s.%d", l->path, (long long)time(NULL), host,
           (int)getpid());
  l->fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (l->fd < 0) {
    warn(l, file, errno);
    return;
  }
  Bytes first = event_of(0), start = event_of(made + 1), session = {.n = 0};
  put_bytes(&first, 3, version, sizeof version - 1);
  append_event(l, &first);
  put_key(&session, 1, WIRE_VARINT), put_varint(&session, 1); /* SessionLog.START */
  put_bytes(&start, 7, session.data, session.n);
  append_event(l, &start);
}

/* ---- opening */

static int64_t step_of(const StepLog *l, const char *row) {
  static const char key[] = "{\"step\":";
  if (l->kind == LOG_JSONL && strncmp(row, key, sizeof key - 1) != 0) return -1;
  return strtoll(l->kind == LOG_JSONL ? row + sizeof key - 1 : row, NULL, 10);
}

/* Finds the end of the last whole row up to step `made`; -1 if the file is no such log. */
static off_t end_of(StepLog *l, int64_t made) {
  FILE *f = fopen(l->path, "r");
  char *row = NULL;
  size_t room = 0;
  ssize_t n;
  off_t end = 0;
  if (!f) return -1;
  while ((n = getline(&row, &room, f)) > 0 && row[n - 1] == '\n') {
    bool top = l->kind == LOG_CSV && end == 0;
    int64_t step = top ? 0 : step_of(l, row);
    if (top) l->older = strcmp(row, csv_older) == 0, l->noise = strcmp(row, csv_noise) == 0;
    if ((top && !l->older && !l->noise && strcmp(row, csv_head) != 0) || (!top && step < 1)) {
      end = -1;
      break;
    }
    if (step > made) break;
    end += n;
  }
  free(row);
  fclose(f);
  return end;
}

static int open_file(StepLog *l) {
  l->fd = open(l->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (l->fd < 0) return stub_fail(APC_BAD_INPUT, "--log %s: %s", l->path, strerror(errno));
  struct stat s;
  if (fstat(l->fd, &s) != 0 || !S_ISREG(s.st_mode))
    return stub_fail(APC_USAGE, "--log %s: it is not a regular file", l->path);
  if (l->resumes && s.st_size && end_of(l, INT64_MAX) < 0)
    return stub_fail(APC_BAD_INPUT, "--log %s: it is not a log of this kind, so --resume cannot continue it", l->path);
  return 0;
}

static int open_folder(StepLog *l) {
  if (mkdir(l->path, 0777) != 0 && errno != EEXIST)
    return stub_fail(APC_BAD_INPUT, "--log %s: %s", l->path, strerror(errno));
  if (access(l->path, W_OK | X_OK) != 0) return stub_fail(APC_BAD_INPUT, "--log %s: %s", l->path, strerror(errno));
  return 0;
}

int stub_log_open(const char *path, bool resumes, StepLog **out) {
  struct stat s;
  bool folder = text_ends_with(path, "/") || (stat(path, &s) == 0 && S_ISDIR(s.st_mode));
  if (!folder && !text_ends_with(path, ".csv") && !text_ends_with(path, ".jsonl"))
    return stub_fail(APC_USAGE, "--log %s: expected FILE.csv, FILE.jsonl, or DIR/ for TensorBoard", path);
  StepLog *l = *out = calloc(1, sizeof *l);
  char *copy = strdup(path);
  if (!l || !copy) {
    free(copy);
    return stub_fail(APC_FAILED, "out of memory");
  }
  *l = (StepLog){.kind = folder                         ? LOG_EVENTS
                         : text_ends_with(path, ".csv") ? LOG_CSV
                                                        : LOG_JSONL,
                 .path = copy,
                 .fd = -1};
  l->resumes = resumes;
  return folder ? open_folder(l) : open_file(l);
}

void stub_log_begin(StepLog *l, int64_t made, bool noise) {
  if (!l) return;
  l->noise = noise;
  if (l->kind == LOG_EVENTS) {
    begin_events(l, made);
    return;
  }
  off_t end = l->resumes ? end_of(l, made) : 0;
  if (end == 0) l->older = false, l->noise = noise;
  if (end < 0 || ftruncate(l->fd, end) != 0) warn(l, "rows of later steps were not removed", errno);
  if (end == 0 && l->kind == LOG_CSV) append(l, noise ? csv_noise : csv_head, strlen(noise ? csv_noise : csv_head));
}

/* ---- rows */

void stub_log_step(StepLog *l, const StepMade *s) {
  char row[512];
  if (!l) return;
  double ms = s->us * 1e-3, rate = (double)s->tokens / s->us * 1e6, samples = (double)s->samples / s->us * 1e6;
  if (l->kind == LOG_EVENTS) {
    Bytes b = {.n = 0};
    put_value(&b, "train/loss", s->loss);
    put_value(&b, "train/grad_norm", s->grad_norm);
    put_value(&b, "train/learning_rate", s->lr);
    put_value(&b, "time/step_ms", ms);
    put_value(&b, "time/samples_per_s", samples);
    if (s->tokens) put_value(&b, "time/tokens_per_s", rate);
    if (!isnan(s->mfu)) put_value(&b, "time/mfu", s->mfu);
    if (!isnan(s->noise)) put_value(&b, "train/noise_scale", s->noise);
    append_summary(l, s->step, &b);
    return;
  }
  const bool csv = l->kind == LOG_CSV;
  const char *format = csv ? "%" PRId64 ",%.3f,%.9g,%.9g,%.9g,%" PRId64 ",%" PRId64 ",%.3f,%.1f,,"
                           : "{\"step\":%" PRId64
                             ",\"time\":%.3f,\"loss\":%.9g,\"lr\":%.9g,\"grad_norm\":%.9g,\"samples\":%" PRId64
                             ",\"tokens\":%" PRId64 ",\"step_ms\":%.3f,\"tokens_per_s\":%.1f";
  char mfu[40] = "", noise[40] = "";
  if (l->noise && !isnan(s->noise)) snprintf(noise, sizeof noise, csv ? "%.6g" : ",\"noise_scale\":%.6g", s->noise);
  if (!isnan(s->mfu)) snprintf(mfu, sizeof mfu, csv ? "%.5g" : ",\"mfu\":%.5g", s->mfu);
  int n =
      snprintf(row, sizeof row, format, s->step, now(), s->loss, s->lr, s->grad_norm, s->samples, s->tokens, ms, rate);
  n += snprintf(row + n, sizeof row - (size_t)n, "%s%s%s%s%s\n", csv && !l->older ? "," : "", l->older ? "" : mfu,
                csv && l->noise ? "," : "", noise, csv ? "" : "}");
  append(l, row, (size_t)n);
}

void stub_log_eval(StepLog *l, const EvalMade *e) {
  char row[256];
  if (!l) return;
  if (l->kind == LOG_EVENTS) {
    Bytes b = {.n = 0};
    put_value(&b, "eval/loss", e->loss);
    if (isfinite(e->perplexity)) put_value(&b, "eval/perplexity", e->perplexity);
    if (isfinite(e->accuracy)) put_value(&b, "eval/accuracy", e->accuracy);
    append_summary(l, e->step, &b);
    return;
  }
  const char *format = l->older                         ? "%" PRId64 ",%.3f,,,,,,,,%.9g,%" PRId64 "\n"
                       : l->kind == LOG_CSV && l->noise ? "%" PRId64 ",%.3f,,,,,,,,%.9g,%" PRId64 ",,\n"
                       : l->kind == LOG_CSV             ? "%" PRId64 ",%.3f,,,,,,,,%.9g,%" PRId64 ",\n"
                                                        : "{\"step\":%" PRId64
                                              ",\"time\":%.3f,\"eval_loss\":%.9g,\"eval_rows\":%" PRId64;
  size_t n = (size_t)snprintf(row, sizeof row, format, e->step, now(), e->loss, e->rows);
  const bool lines = l->kind == LOG_JSONL;
  if (lines && isfinite(e->perplexity))
    n += (size_t)snprintf(row + n, sizeof row - n, ",\"eval_perplexity\":%.9g", e->perplexity);
  if (lines && isfinite(e->accuracy))
    n += (size_t)snprintf(row + n, sizeof row - n, ",\"eval_accuracy\":%.9g", e->accuracy);
  if (lines) n += (size_t)snprintf(row + n, sizeof row - n, "}\n");
  append(l, row, n);
}

void stub_log_close(StepLog *l) {
  if (!l) return;
  char path[4096];
  text_show(l->path, path, sizeof path);
  if (l->lost) fprintf(stderr, "warning: --log %s: %ld rows are missing\n", path, l->lost);
  if (l->fd >= 0) close(l->fd);
  free(l->path);
  free(l);
}
