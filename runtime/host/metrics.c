/* runtime/host/metrics.c - a responder of HTTP/1.0 for Prometheus, in a thread of its own.
 *
 * In: numbers from the calls of metrics.h.  Out: the text format 0.0.4 of Prometheus, at / and /metrics.  The thread
 * waits in poll; no socket ever blocks.  At most CLIENTS connections are open, and a new one replaces the oldest.  A
 * request has at most REQUEST_BYTES and a connection CLIENT_MS, so clients that are slow or send anything else cost no
 * more than that.  Each answer is made from one copy of the numbers and closes the connection.
 *
 * libmicrohttpd could do this; it would bring GnuTLS and its libraries into every program, for one page without
 * parameters.  Deliberately left out: TLS, passwords, HTTP/1.1, compression.  No names of files or tensors appear.
 */
#define _GNU_SOURCE
#include "runtime/host/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/launch/addresses.h"

enum { CLIENTS = 16, LISTENERS = 4, REQUEST_BYTES = 4096, CLIENT_MS = 5000, BUCKETS = 13 };

static const double buckets[BUCKETS] = {1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1, 3, 10, 30, 100};

typedef struct Numbers {
  uint64_t requests, failed, in_bucket[BUCKETS];
  double request_s;
  uint64_t steps, samples, tokens;
  double steps_s, eval_loss;
  bool evaluated;
  MetricsStep last;
} Numbers;

typedef struct Client {
  int fd; /* -1: free */
  int64_t deadline;
  size_t n, sent; /* n: bytes of the request, then of the answer */
  char *answer;   /* NULL while the request arrives */
  char request[REQUEST_BYTES];
} Client;

struct Metrics {
  pthread_mutex_t lock; /* of numbers and memory */
  Numbers numbers;
  uint32_t ranks;
  uint64_t *memory, *copy; /* bytes per rank; copy: the thread's */
  pthread_t thread;
  int listeners[LISTENERS], n_listeners, end[2]; /* end: a pipe; a byte ends the thread */
  Client clients[CLIENTS];
};

/* ---- numbers */

void metrics_request(Metrics *s, double seconds, bool ok, void *io) {
  if (!s) return;
  pthread_mutex_lock(&s->lock);
  Numbers *n = &s->numbers;
  n->requests++;
  n->failed += !ok;
  n->request_s += seconds;
  for (int i = 0; i < BUCKETS; i++) n->in_bucket[i] += seconds <= buckets[i];
  for (uint32_t r = 0; ok && r < s->ranks; r++) {
    const RankReport *report = request_report(io, r);
    s->memory[r] = report->allocated[SPACE_PARAM] + report->allocated[SPACE_STATE] + report->allocated[SPACE_ARENA] +
                   report->allocated[SPACE_WINDOW] + report->allocated[SPACE_LIBRARY];
  }
  pthread_mutex_unlock(&s->lock);
}

void metrics_ranks(Metrics *s, uint32_t ranks) {
  if (!s) return;
  uint64_t *memory = calloc(ranks + 1u, sizeof *memory), *copy = calloc(ranks + 1u, sizeof *copy);
  pthread_mutex_lock(&s->lock);
  if (memory && copy) {
    uint64_t *old[] = {s->memory, s->copy};
    s->memory = memory, s->copy = copy, s->ranks = ranks;
    memory = old[0], copy = old[1];
  } else if (ranks < s->ranks) {
    s->ranks = ranks;
  }
  pthread_mutex_unlock(&s->lock);
  free(memory);
  free(copy);
}

void metrics_step(Metrics *s, const MetricsStep *step) {
  if (!s) return;
  pthread_mutex_lock(&s->lock);
  Numbers *n = &s->numbers;
  n->last = *step;
  n->steps++;
  n->steps_s += step->seconds;
  n->samples += (uint64_t)step->samples;
  n->tokens += (uint64_t)step->tokens;
  pthread_mutex_unlock(&s->lock);
}

void metrics_eval(Metrics *s, double loss) {
  if (!s) return;
  pthread_mutex_lock(&s->lock);
  s->numbers.eval_loss = loss;
  s->numbers.evaluated = true;
  pthread_mutex_unlock(&s->lock);
}

/* ---- the page */

static void head(FILE *f, const char *name, const char *type, const char *help) {
  fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void gauge(FILE *f, const char *name, const char *help, double value) {
  head(f, name, "gauge", help);
  fprintf(f, "%s %.9g\n", name, value);
}

static void counter(FILE *f, const char *name, const char *help, uint64_t value) {
  head(f, name, "counter", help);
  fprintf(f, "%s %" PRIu64 "\n", name, value);
}

static void write_training(FILE *f, const Numbers *n) {
  const MetricsStep *s = &n->last;
  counter(f, "apc_steps_total", "Training steps made by this process.", n->steps);
  gauge(f, "apc_step", "Number of the last training step, counted from the beginning of the training.",
        (double)s->step);
  gauge(f, "apc_loss", "Loss of the last training step.", s->loss);
  gauge(f, "apc_gradient_norm", "Norm of all gradients of the last training step, before clipping.", s->grad_norm);
  gauge(f, "apc_learning_rate", "Learning rate of the last training step.", s->lr);
  head(f, "apc_step_seconds", "summary", "Time of training steps.");
  fprintf(f, "apc_step_seconds_sum %.9g\napc_step_seconds_count %" PRIu64 "\n", n->steps_s, n->steps);
  gauge(f, "apc_last_step_seconds", "Time of the last training step.", s->seconds);
  if (!isnan(s->mfu))
    gauge(f, "apc_mfu_ratio", "Model FLOPs of the last training step relative to the peak of all devices.", s->mfu);
  counter(f, "apc_samples_total", "Rows of data that the steps of this process took.", n->samples);
  if (n->tokens) counter(f, "apc_tokens_total", "Tokens that the steps of this process took.", n->tokens);
  if (n->evaluated) gauge(f, "apc_evaluation_loss", "Loss of the last evaluation.", n->eval_loss);
}

static void write_page(FILE *f, const Numbers *n, const uint64_t *memory, uint32_t ranks) {
  counter(f, "apc_requests_total", "Runs of the program, steps and evaluations among them.", n->requests);
  counter(f, "apc_request_failures_total", "Runs of the program that failed.", n->failed);
  head(f, "apc_request_seconds", "histogram", "Time of runs of the program.");
  for (int i = 0; i < BUCKETS; i++)
    fprintf(f, "apc_request_seconds_bucket{le=\"%g\"} %" PRIu64 "\n", buckets[i], n->in_bucket[i]);
  fprintf(f, "apc_request_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n", n->requests);
  fprintf(f, "apc_request_seconds_sum %.9g\napc_request_seconds_count %" PRIu64 "\n", n->request_s, n->requests);
  head(f, "apc_rank_memory_bytes", "gauge", "Memory that a rank has allocated.");
  for (uint32_t r = 0; r < ranks; r++) fprintf(f, "apc_rank_memory_bytes{rank=\"%u\"} %" PRIu64 "\n", r, memory[r]);
  if (n->steps) write_training(f, n);
}

/* Returns the page as text from malloc; NULL without memory. */
static char *page(Metrics *s, size_t *bytes) {
  char *text = NULL;
  pthread_mutex_lock(&s->lock);
  const Numbers n = s->numbers;
  memcpy(s->copy, s->memory, sizeof *s->copy * s->ranks);
  pthread_mutex_unlock(&s->lock);
  FILE *f = open_memstream(&text, bytes);
  if (!f) return NULL;
  write_page(f, &n, s->copy, s->ranks);
  if (fclose(f) == 0) return text;
  free(text);
  return NULL;
}

/* ---- connections */

/* A fork at any point of this leaves the child nothing that it would close or free twice. */
static void leave(Client *c) {
  const int fd = c->fd;
  char *answer = c->answer;
  c->fd = -1;
  c->answer = NULL;
  close(fd);
  free(answer);
}

static void answer(Client *c, const char *status, const char *headers, const char *body, size_t bytes, bool with_body) {
  size_t n = 0;
  char *text = NULL;
  FILE *f = open_memstream(&text, &n);
  if (f)
    fprintf(f,
            "HTTP/1.0 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: %zu\r\n"
            "Connection: close\r\n%s\r\n",
            status, bytes, headers);
  if (f && with_body) fwrite(body, 1, bytes, f);
  if (!f || fclose(f) != 0) {
    free(text);
    leave(c);
    return;
  }
  c->answer = text;
  c->n = n;
}

static void refuse(Client *c, const char *status, const char *headers) {
  answer(c, status, headers, status, strlen(status), true);
}

/* Answers a whole request, which ends with 0. */
static void serve(Metrics *s, Client *c) {
  char method[8], path[REQUEST_BYTES], version[16];
  size_t bytes = 0;
  if (sscanf(c->request, "%7[A-Z] %4095[^ \r\n] %15[^ \r\n]", method, path, version) != 3 ||
      strncmp(version, "HTTP/", 5) != 0) {
    refuse(c, "400 Bad Request", "");
    return;
  }
  bool get = strcmp(method, "GET") == 0, top = strcmp(method, "HEAD") == 0;
  path[strcspn(path, "?")] = 0;
  if (!get && !top) {
    refuse(c, "405 Method Not Allowed", "Allow: GET, HEAD\r\n");
  } else if (strcmp(path, "/metrics") != 0 && strcmp(path, "/") != 0) {
    refuse(c, "404 Not Found", "");
  } else {
    char *text = page(s, &bytes);
    if (text) answer(c, "200 OK", "", text, bytes, get);
    else leave(c);
    free(text);
  }
}

static void receive(Metrics *s, Client *c) {
  ssize_t n = socket_receive_now(c->fd, c->request + c->n, sizeof c->request - 1 - c->n);
  if (n < 0) {
    leave(c);
    return;
  }
  c->n += (size_t)n;
  c->request[c->n] = 0;
  if (strlen(c->request) < c->n) refuse(c, "400 Bad Request", "");
  else if (strstr(c->request, "\r\n\r\n") || strstr(c->request, "\n\n")) serve(s, c);
  else if (c->n == sizeof c->request - 1) refuse(c, "431 Request Header Fields Too Large", "");
}

/* Reads on after the answer until the client closes: a close with unread bytes could destroy the answer. */
static void drain(Client *c) {
  if (socket_receive_now(c->fd, c->request, sizeof c->request) < 0) leave(c);
}

static void give(Client *c) {
  ssize_t n = send(c->fd, c->answer + c->sent, c->n - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n > 0) c->sent += (size_t)n;
  bool waits = n < 0 && (errno == EAGAIN || errno == EINTR);
  if (n < 0 && !waits) leave(c);
  else if (c->sent == c->n) shutdown(c->fd, SHUT_WR);
}

static bool is_answering(const Client *c) { return c->answer && c->sent < c->n; }

/* Accepts a connection, which replaces the oldest one if all places are taken. */
static void admit(Metrics *s, int listener) {
  int fd = socket_accept_now(listener);
  if (fd < 0) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) poll(NULL, 0, 100); /* later there may be descriptors */
    return;
  }
  Client *to = &s->clients[0];
  for (Client *c = s->clients; c < s->clients + CLIENTS; c++)
    if (to->fd >= 0 && (c->fd < 0 || c->deadline < to->deadline)) to = c;
  if (to->fd >= 0) leave(to);
  to->fd = fd;
  to->deadline = sockets_now() + CLIENT_MS;
  to->n = to->sent = 0;
}

static void *run(void *context) {
  Metrics *s = context;
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* a point in numbers; glibc's own object, not freed */
  if (plain) uselocale(plain);
  for (;;) {
    struct pollfd p[1 + LISTENERS + CLIENTS];
    p[0] = (struct pollfd){s->end[0], POLLIN, 0};
    for (int i = 0; i < LISTENERS; i++)
      p[1 + i] = (struct pollfd){i < s->n_listeners ? s->listeners[i] : -1, POLLIN, 0};
    bool open = false;
    for (int i = 0; i < CLIENTS; i++) {
      const Client *c = &s->clients[i];
      p[1 + LISTENERS + i] = (struct pollfd){c->fd, is_answering(c) ? POLLOUT : POLLIN, 0};
      open |= c->fd >= 0;
    }
    if (poll(p, 1 + LISTENERS + CLIENTS, open ? 200 : -1) < 0 && errno != EINTR) return NULL;
    if (p[0].revents) return NULL;
    for (int i = 0; i < CLIENTS; i++) {
      Client *c = &s->clients[i];
      if (c->fd < 0) continue;
      if (p[1 + LISTENERS + i].revents && !c->answer) receive(s, c);
      else if (p[1 + LISTENERS + i].revents && is_answering(c)) give(c);
      else if (p[1 + LISTENERS + i].revents) drain(c);
      if (c->fd >= 0 && sockets_now() > c->deadline) leave(c);
    }
    for (int i = 0; i < s->n_listeners; i++)
      if (p[1 + i].revents) admit(s, s->listeners[i]);
  }
}

/* ---- opening */

/* Splits the address; without a host it is the loopback. */
static bool split(const char *text, HostPort *out) {
  char whole[300];
  const char *port = *text == ':' ? text + 1 : text, *colon = strchr(text, ':'), *bracket = strstr(text, "]:");
  if (strlen(text) >= sizeof whole - 16) return false;
  if (*port && strspn(port, "0123456789") == strlen(port)) {
    snprintf(whole, sizeof whole, "127.0.0.1:%s", port);
    return address_host_port_split(whole, out);
  }
  bool has_port = bracket ? !strchr(bracket + 2, ':') : colon && colon == strrchr(text, ':');
  return has_port && address_host_port_split(text, out);
}

static RtStatus listen_at(Metrics *s, const char *address, RtError *error) {
  HostPort place;
  AddressList list;
  const char *why;
  bool soon;
  if (!split(address, &place))
    return rt_error(error, RT_USAGE, "metrics: %s: expected PORT, HOST:PORT or [IPv6 address]:PORT", address);
  if (!address_resolve(&place, &list, &why, &soon))
    return rt_error(error, RT_BAD_INPUT, "metrics: %s: %s", address, why);
  int number = EADDRNOTAVAIL;
  for (int i = 0; i < list.n && s->n_listeners < LISTENERS; i++) {
    int fd = socket_listen(&list.items[i]);
    if (fd >= 0) s->listeners[s->n_listeners++] = fd;
    else number = errno;
    bool off = number == EADDRNOTAVAIL || number == EAFNOSUPPORT; /* "localhost" may have a family that is off here */
    if (fd < 0 && !off) break;
  }
  if (s->n_listeners && (number == EADDRNOTAVAIL || number == EAFNOSUPPORT)) return RT_OK;
  return rt_error(error, RT_BAD_INPUT, "metrics: cannot listen at %s: %s", address, strerror(number));
}

/* Starts the thread, which takes no signals of the program. */
static RtStatus begin(Metrics *s, RtError *error) {
  sigset_t all, before;
  if (pipe2(s->end, O_CLOEXEC) != 0) return rt_error(error, RT_FAILED, "metrics: no pipe: %s", strerror(errno));
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int code = pthread_create(&s->thread, NULL, run, s);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!code) return RT_OK;
  close(s->end[0]), close(s->end[1]);
  return rt_error(error, RT_FAILED, "metrics: no thread: %s", strerror(code));
}

static void free_all(Metrics *s) {
  for (int i = 0; i < CLIENTS; i++)
    if (s->clients[i].fd >= 0) leave(&s->clients[i]);
  for (int i = 0; i < s->n_listeners; i++) close(s->listeners[i]);
  free(s->memory);
  free(s->copy);
  free(s);
}

RtStatus metrics_open(const char *address, uint32_t ranks, Metrics **out, RtError *error) {
  Metrics *s = calloc(1, sizeof *s);
  if (!s) return rt_error(error, RT_FAILED, "out of memory");
  pthread_mutex_init(&s->lock, NULL);
  s->ranks = ranks;
  for (int i = 0; i < CLIENTS; i++) s->clients[i].fd = -1;
  s->memory = calloc(ranks + 1u, sizeof *s->memory);
  s->copy = calloc(ranks + 1u, sizeof *s->copy);
  RtStatus status = s->memory && s->copy ? listen_at(s, address, error) : rt_error(error, RT_FAILED, "out of memory");
  if (!status) status = begin(s, error);
  if (status) free_all(s);
  else *out = s;
  return status;
}

/* A forked child may hold the pipe open, so a byte ends the thread, not the pipe's end; and the listeners are shut
 * down, in the child too. */
void metrics_close(Metrics *s) {
  while (write(s->end[1], "", 1) < 0 && errno == EINTR) continue;
  pthread_join(s->thread, NULL);
  close(s->end[0]), close(s->end[1]);
  for (int i = 0; i < s->n_listeners; i++) shutdown(s->listeners[i], SHUT_RDWR);
  free_all(s);
}

void metrics_forget(Metrics *s) {
  close(s->end[0]), close(s->end[1]);
  free_all(s);
}
