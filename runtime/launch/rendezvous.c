/* runtime/launch/rendezvous.c - see rendezvous.h.
 *
 * The file (meeting_file.h) has the number of the run, a random key if there is no secret, and one address per line,
 * HOST PORT, for all addresses of rank 0's machine; the other ranks try them in turn.
 *
 * Not done: encryption.  Anyone who can read the network sees weights' names, inputs and outputs, and can take over an
 * admitted connection.
 */
#define _GNU_SOURCE
#include "runtime/launch/rendezvous.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "runtime/launch/meeting_file.h"
#include "runtime/launch/peer_user.h"

#define WELCOME_MAGIC UINT64_C(0x3354454d435450a1)
#define FILE_KEY "key "
#define FILE_END "end\n" /* absent while the file is being written */

enum { RETRY_MS = 50, ANSWER_MS = 2000, LOOK_MS = 200, LAST_MS = 200, TOLD = 4096 };

/* Rank 0's answer, the same to all.  If all have come, Meeting.addresses follows. */
typedef struct Welcome {
  uint64_t magic;
  uint32_t status, reserved;
  char text[RT_ERROR_TEXT];
  unsigned char key[SECRET_BYTES]; /* for the connections between pairs */
} Welcome;

/* Rank 0's data for the others before they connect: as a file, or through `spread`. */
typedef struct Announcement {
  char text[TOLD];                                     /* addresses */
  unsigned char key[SECRET_BYTES], run[ADMISSION_RUN]; /* for `spread`; a file has them in its text */
} Announcement;

static bool is_file(const Rendezvous *r) {
  return !r->spread && (strchr(r->address, '/') || !strrchr(r->address, ':'));
}

static void nap(void) { nanosleep(&(struct timespec){0, RETRY_MS * 1000000L}, NULL); }

static size_t address_bytes(const Meeting *m) { return sizeof *m->addresses * (size_t)m->world; }

static int64_t sooner(int64_t a, int64_t b) { return a < b ? a : b; }

static RtStatus no_place(const Rendezvous *r, RtError *error) {
  return rt_error(error, RT_USAGE, "'%s' is neither HOST:PORT nor a file where ranks can meet", r->address);
}

static RtStatus no_secret(const Rendezvous *r, RtError *error) {
  return rt_error(error, RT_USAGE,
                  "rank %d would meet the others at %s, over a network, without a secret; give every machine the same "
                  "one: head -c 32 "
                  "/dev/urandom | base64 >FILE; chmod 600 FILE; export " SECRET_VARIABLE
                  "=FILE (or use --insecure if no stranger can reach its ports)",
                  r->rank, r->address);
}

/* ---- rank 0: listening */

static bool add_listener(Meeting *m, const SocketAddress *a) {
  int fd = socket_listen(a);
  if (fd >= 0) m->listeners[m->n_listeners++] = fd;
  return fd >= 0;
}

/* Listens at the first address that this machine has, at a free port. */
static bool listen_first(Meeting *m, const AddressList *l) {
  for (int i = 0; i < l->n && m->n_listeners == 0; i++)
    if (!add_listener(m, &l->items[i]) && errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL) return false;
  return m->n_listeners > 0;
}

static bool listen_all(Meeting *m, const AddressList *l) {
  for (int i = 0; i < l->n; i++)
    if (!add_listener(m, &l->items[i]) && errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL) return false;
  return m->n_listeners > 0;
}

/* True if the host is the name of this machine.  Debian's /etc/hosts gives it an address in 127.0.0.0/8, while other
 * machines find another address under that name. */
static bool names_machine(const HostPort *h, const AddressList *l) {
  unsigned char bytes[sizeof(struct in6_addr)];
  AddressList loopback = *l;
  address_keep_loopback(&loopback);
  bool number =
      inet_pton(AF_INET, h->host, bytes) == 1 || inet_pton(AF_INET6, h->host, bytes) == 1 || strchr(h->host, '%');
  return !number && strncasecmp(h->host, "localhost", strlen("localhost")) != 0 && loopback.n == l->n;
}

static RtStatus listen_at(const Rendezvous *r, Meeting *m, RtError *error) {
  HostPort h;
  AddressList where;
  const char *why;
  bool soon;
  if (!address_host_port_split(r->address, &h)) return no_place(r, error);
  if (!address_resolve(&h, &where, &why, &soon))
    return rt_error(error, RT_USAGE, "rank 0 cannot look up its own host '%s': %s", h.host, why);
  AddressList loopback = where;
  address_keep_loopback(&loopback);
  if (!r->network && loopback.n < where.n) return no_secret(r, error);
  if (r->network && names_machine(&h, &where)) {
    where = address_any(false);
    for (int i = 0; i < where.n; i++) socket_set_port(&where.items[i], (uint16_t)atoi(h.port));
    if (listen_first(m, &where)) return RT_OK;
  } else if (listen_all(m, &where)) {
    return RT_OK;
  }
  if (errno == EADDRNOTAVAIL)
    return rt_error(error, RT_USAGE, "rank 0 cannot listen at %s: it is not an address of this machine", r->address);
  return rt_error_errno(error, RT_FAILED, "rank 0 cannot listen at %s", r->address);
}

/* Appends the address that this rank listens at; `text` has room for all addresses of a machine. */
static RtStatus list_places(const Meeting *m, bool all, char *text, RtError *error) {
  SocketAddress own;
  char host[256];
  uint16_t port = socket_own_port(m->listeners[0]);
  size_t used = strlen(text), n = 1;
  if (all) n = address_list_own(port, text + used, TOLD - used);
  else if (address_beside(m->listeners[0], &own)) {
    address_text(&own, host, sizeof host);
    snprintf(text + used, TOLD - used, "%s %u\n", host, port);
  }
  return n && text[used] ? RT_OK : rt_error(error, RT_FAILED, "this machine's addresses cannot be listed");
}

/* Appends a line: `word`, which ends in a space, and n bytes in hex. */
static void add_line(char *text, const char *word, const unsigned char *bytes, size_t n) {
  size_t used = strlen(text);
  used += (size_t)snprintf(text + used, TOLD - used, "%s", word);
  for (size_t i = 0; i < n; i++) used += (size_t)snprintf(text + used, TOLD - used, "%02x", bytes[i]);
  snprintf(text + used, TOLD - used, "\n");
}

static RtStatus announce(const Rendezvous *r, Meeting *m, const AdmissionKey *key, Announcement *a, RtError *error) {
  if (!r->spread) add_line(a->text, MEETING_FILE_BEGIN, key->run, sizeof key->run);
  if (!r->spread && !r->secret) add_line(a->text, FILE_KEY, key->key, sizeof key->key);
  memcpy(a->key, key->key, sizeof a->key);
  memcpy(a->run, key->run, sizeof a->run);
  RtStatus status = list_places(m, r->network && !r->here, a->text, error);
  size_t used = strlen(a->text);
  if (!status && !r->spread) snprintf(a->text + used, TOLD - used, FILE_END);
  if (!status)
    status = r->spread ? r->spread(r->context, a, sizeof *a, error)
                       : meeting_file_publish(r->address, a->text, !r->secret, &m->file, error);
  return status;
}

static RtStatus open_place(const Rendezvous *r, Meeting *m, AdmissionKey *key, Announcement *a, RtError *error) {
  RtStatus status = secret_random(key->run, sizeof key->run, error);
  if (!status && !r->secret && (r->spread || is_file(r))) status = secret_random(key->key, sizeof key->key, error);
  if (status) return status;
  if (!r->spread && !is_file(r)) return listen_at(r, m, error);
  AddressList where = address_any(!r->network || r->here);
  if (!listen_first(m, &where)) return rt_error_errno(error, RT_FAILED, "rank 0 cannot listen for %s", r->address);
  return announce(r, m, key, a, error);
}

/* ---- rank 0: admitting the others */

/* Lists missing ranks: "1, 2 and 3 more". */
static void missing_ranks(const Rendezvous *r, const Meeting *m, char *text, size_t size) {
  int n = 0, used = 0;
  for (int i = 1; i < r->world; i++) {
    if (m->controls[i] >= 0) continue;
    if (n++ < 4) used += snprintf(text + used, size - (size_t)used, "%s%d", n > 1 ? ", " : "", i);
  }
  if (n > 4) snprintf(text + used, size - (size_t)used, " and %d more", n - 4);
}

/* Fails if a rank left.  Ranks that have come send nothing more, so a readable connection has ended. */
static RtStatus check_present(const Rendezvous *r, const Meeting *m, RtError *error) {
  for (int i = 1; i < r->world; i++) {
    char byte;
    if (m->controls[i] < 0) continue;
    ssize_t n = recv(m->controls[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
      return rt_error(error, RT_FAILED, "rank %d was lost while rank 0 waited for the others: its process ended", i);
  }
  return RT_OK;
}

static RtStatus too_late(const Rendezvous *r, const Meeting *m, const Lobby *l, RtError *error) {
  LobbyCounts c = lobby_counts(l);
  char missing[64] = "", strangers[160] = "", last[RT_ERROR_TEXT] = "";
  missing_ranks(r, m, missing, sizeof missing);
  if (c.silent + c.strange + c.refused)
    snprintf(strangers, sizeof strangers,
             "; refused: %u with another secret, run or version of apc, %u that sent nothing, %u that are not ranks",
             c.refused, c.silent, c.strange);
  if (m->last.status) snprintf(last, sizeof last, "; last refused: %.900s", m->last.text);
  return rt_error(error, RT_LATE, "rank %s of %d did not connect to %s within %.1f s%s%s", missing, r->world,
                  r->address, r->timeout_ms / 1000.0, strangers, last);
}

/* Closes the refused connections once their ranks have read why. */
static void close_refused(Meeting *m) {
  int64_t until = sockets_now() + LAST_MS;
  for (int i = 0; i < MEETING_REFUSED; i++) {
    if (m->refused[i] < 0) continue;
    char byte;
    socket_receive(m->refused[i], &byte, 1, -1, until);
    close(m->refused[i]);
    m->refused[i] = -1;
  }
}

/* Informs a rank that it cannot take part.  The rank checks the user of this end before it trusts the reason, so this
 * end stays open for a while. */
static void refuse(Meeting *m, int fd, const RtError *why) {
  int *place = &m->refused[m->n_refused++ % MEETING_REFUSED];
  Welcome w = {.magic = WELCOME_MAGIC, .status = (uint32_t)why->status};
  memcpy(w.text, why->text, sizeof w.text);
  socket_send(fd, &w, sizeof w, 0); /* it fits into the buffer of a new connection */
  if (*place >= 0) close(*place);
  *place = fd;
}

/* Gives the address at which the peer can be reached. */
static void note_address(int fd, uint16_t port, SocketAddress *a) {
  a->bytes = sizeof a->storage;
  getpeername(fd, (struct sockaddr *)&a->storage, &a->bytes);
  socket_unmap(a);
  socket_set_port(a, port);
}

/* True if only the user of the other end counts: every process on the machine knows the key of no secret. */
static bool is_users(const Rendezvous *r) { return !r->network && !r->spread && !is_file(r); }

/* Checks whether a rank that knows the key may take part; the error is the reason why not. */
static RtStatus judge(const Rendezvous *r, const AdmissionClaim *c, const Meeting *m, RtError *why) {
  if (c->world != r->world || c->rank < 1 || c->rank >= r->world)
    return rt_error(why, RT_BAD_INPUT, "rank %d of %d connected to %s, where %d ranks meet", c->rank, c->world,
                    r->address, r->world);
  if (m->all_came || m->controls[c->rank] >= 0)
    return rt_error(why, RT_USAGE,
                    "two processes have rank %d at %s; give runs that share an address different values of APC_RUN_ID",
                    c->rank, r->address);
  return RT_OK;
}

/* Takes a rank in, or refuses it; after all ranks have come (`came` is then not used) refuses all. */
static void let_in(const Rendezvous *r, int fd, const AdmissionClaim *c, Meeting *m, int *came) {
  RtError why = {0};
  bool own = !is_users(r) || peer_user_is_own(fd);
  if (!own && errno == EPERM) rt_error(&m->last, RT_BAD_INPUT, "a process of another user");
  else if (!own && errno != ENOTCONN)
    rt_error_errno(&m->last, RT_BAD_INPUT,
                   "a process whose user this system does not report; use a secret, " SECRET_VARIABLE);
  if (!own || judge(r, c, m, &why)) {
    m->last = why.status ? why : m->last;
    if (own) refuse(m, fd, &why);
    else close(fd);
    return;
  }
  note_address(fd, (uint16_t)c->port, &m->addresses[c->rank]);
  m->controls[c->rank] = fd;
  ++*came;
}

static RtStatus take_all_in(const Rendezvous *r, Lobby *l, int64_t deadline, Meeting *m, RtError *error) {
  RtStatus status = RT_OK;
  for (int came = 1; came < r->world && !status;) {
    AdmissionClaim claim;
    int fd = lobby_next(l, -1, sooner(sockets_now() + LOOK_MS, deadline), &claim);
    if (fd >= 0) let_in(r, fd, &claim, m, &came);
    else if (errno != ETIMEDOUT)
      status = rt_error_errno(error, RT_FAILED, "waiting for the other ranks at %s", r->address);
    if (!status && fd < 0) status = check_present(r, m, error);
    if (!status && came < r->world && sockets_now() >= deadline) status = too_late(r, m, l, error);
  }
  return status;
}

static RtStatus meet_as_first(const Rendezvous *r, int64_t deadline, Meeting *m, Welcome *w, RtError *error) {
  m->lobby = lobby_open(&m->first, ADMISSION_CONTROL, 0, m->listeners, m->n_listeners);
  RtStatus status =
      m->lobby ? secret_random(w->key, sizeof w->key, error) : rt_error(error, RT_FAILED, "out of memory");
  if (!status) status = take_all_in(r, m->lobby, deadline, m, error);
  m->all_came = !status;
  w->magic = WELCOME_MAGIC;
  w->status = (uint32_t)status;
  if (status) snprintf(w->text, sizeof w->text, "%s", error->text);
  for (int i = 1; i < r->world; i++) {
    int64_t until = sockets_now() + ANSWER_MS;
    if (m->controls[i] >= 0 && socket_send(m->controls[i], w, sizeof *w, until) && !status)
      socket_send(m->controls[i], m->addresses, address_bytes(m), until);
  }
  return status;
}

/* ---- the others */

/* The search for rank 0. */
typedef struct Search {
  const Rendezvous *r;
  Meeting *m;
  AdmissionKey *key;
  Announcement told;
  int64_t deadline;
  bool taken;  /* a connection succeeded in this round */
  int wrong;   /* EACCES, EPROTO: the listener was not rank 0 of this run */
  int foreign; /* EPERM: the listener belongs to another user; others: the system does not report whose it is */
} Search;

/* Listens on the interface that reaches rank 0. */
static bool listen_beside(Meeting *m, int fd) {
  SocketAddress a;
  while (m->n_listeners > 0) close(m->listeners[--m->n_listeners]);
  return address_beside(fd, &a) && add_listener(m, &a);
}

/* Returns a connection on which both ranks have proved that they belong together; -1 with errno. */
static int try_address(Search *s, const SocketAddress *a, bool known) {
  int64_t soon = sooner(sockets_now() + COMER_MS, s->deadline);
  int fd = socket_connect(a, -1, soon);
  if (fd < 0) return -1;
  s->taken = true;
  bool ours = listen_beside(s->m, fd);
  if (ours) {
    AdmissionClaim claim = {.role = ADMISSION_CONTROL,
                            .rank = s->r->rank,
                            .world = s->r->world,
                            .port = socket_own_port(s->m->listeners[0])};
    ours = admission_ask(fd, s->key, known, &claim, 0, -1, soon);
  }
  if (ours && is_users(s->r) && !peer_user_is_own(fd)) {
    if (errno != ENOTCONN) s->foreign = errno;
    return socket_close_with(fd, ECONNREFUSED);
  }
  if (ours) return fd;
  if (errno == EACCES || errno == EPROTO) s->wrong = errno;
  return socket_close_with(fd, errno);
}

static int try_list(Search *s, AddressList *l, bool known) {
  int fd = -1;
  if (!s->r->network) address_keep_loopback(l);
  errno = EADDRNOTAVAIL;
  for (int i = 0; i < l->n && fd < 0; i++) fd = try_address(s, &l->items[i], known);
  return fd;
}

/* Reads a line of add_line, and advances *text after it. */
static bool take_line(const char **text, const char *word, unsigned char *bytes, size_t n) {
  const char *p = *text;
  if (strncmp(p, word, strlen(word)) != 0) return false;
  p += strlen(word);
  for (size_t i = 0; i < n; i++, p += 2) {
    unsigned byte;
    if (!isxdigit((unsigned char)p[0]) || !isxdigit((unsigned char)p[1]) || sscanf(p, "%2x", &byte) != 1) return false;
    bytes[i] = (unsigned char)byte;
  }
  if (*p++ != '\n') return false;
  *text = p;
  return true;
}

/* Tries the addresses in rank 0's text. */
static int try_told(Search *s, const char *text) {
  HostPort h;
  AddressList l;
  const char *why;
  bool soon;
  int fd = -1;
  for (int n; fd < 0 && sscanf(text, "%255s %7s%n", h.host, h.port, &n) == 2; text += n)
    if (address_resolve(&h, &l, &why, &soon)) fd = try_list(s, &l, true);
  return fd;
}

static int try_file(Search *s, RtError *error) {
  const char *text = s->told.text;
  unsigned char key[SECRET_BYTES];
  if (meeting_file_read(s->r->address, s->told.text, TOLD, error) || !*text) return -1;
  size_t n = strlen(text), end = strlen(FILE_END);
  errno = EINVAL;
  if (n < end || strcmp(text + n - end, FILE_END) != 0) return -1;
  s->told.text[n - end] = 0;
  if (!take_line(&text, MEETING_FILE_BEGIN, s->key->run, sizeof s->key->run)) return -1;
  bool has_key = take_line(&text, FILE_KEY, key, sizeof key);
  if (has_key && !s->r->secret) memcpy(s->key->key, key, sizeof key);
  return try_told(s, text);
}

/* Tries a host.  An unknown host is an error at once; a failed lookup only when the time is up. */
static int try_host(Search *s, const HostPort *h, RtError *error) {
  AddressList l;
  const char *why;
  bool soon, late = sockets_now() + RETRY_MS >= s->deadline;
  if (!address_resolve(h, &l, &why, &soon)) {
    if (!soon || late)
      rt_error(error, soon ? RT_LATE : RT_USAGE, "rank %d cannot look up the host '%s' of rank 0: %s", s->r->rank,
               h->host, why);
    errno = EADDRNOTAVAIL;
    return -1;
  }
  int all = l.n;
  int fd = try_list(s, &l, false);
  if (!s->r->network && all > 0 && l.n == 0) no_secret(s->r, error);
  return fd;
}

static RtStatus not_found(const Search *s, RtError *error) {
  const Rendezvous *r = s->r;
  double seconds = r->timeout_ms / 1000.0;
  if (s->wrong == EACCES)
    return rt_error(error, RT_BAD_INPUT,
                    "rank %d was refused at %s for %.1f s: the listener has another secret (" SECRET_VARIABLE
                    "), another run or another "
                    "version of apc",
                    r->rank, r->address, seconds);
  if (s->foreign == EPERM)
    return rt_error(
        error, RT_BAD_INPUT,
        "the listener at %s belongs to another user (waited %.1f s); rank %d does not join it without a secret "
        "(" SECRET_VARIABLE ")",
        r->address, seconds, r->rank);
  if (s->foreign) {
    errno = s->foreign;
    return rt_error_errno(error, RT_BAD_INPUT,
                          "this system does not report which user listens at %s; use a secret (" SECRET_VARIABLE ")",
                          r->address);
  }
  if (s->wrong == EPROTO)
    return rt_error(error, RT_BAD_INPUT, "the listener at %s is not rank 0 of rank %d's run (waited %.1f s)",
                    r->address, r->rank, seconds);
  return rt_error_errno(error, RT_LATE, "rank %d did not find rank 0 at %s within %.1f s", r->rank, r->address,
                        seconds);
}

/* Finds rank 0, which may start later. */
static RtStatus reach_first(Search *s, int *fd, RtError *error) {
  const Rendezvous *r = s->r;
  HostPort host = {.host = ""};
  bool file = is_file(r);
  if (!r->spread && !file && !address_host_port_split(r->address, &host)) return no_place(r, error);
  RtStatus status = r->spread ? r->spread(r->context, &s->told, sizeof s->told, error) : RT_OK;
  if (status) return status;
  if (r->spread) {
    s->told.text[TOLD - 1] = 0;
    memcpy(s->key->key, s->told.key, sizeof s->key->key);
    memcpy(s->key->run, s->told.run, sizeof s->key->run);
  }
  for (;;) {
    RtError wrong = {0};
    s->taken = false;
    *fd = r->spread ? try_told(s, s->told.text) : file ? try_file(s, &wrong) : try_host(s, &host, &wrong);
    if (*fd >= 0) return RT_OK;
    if (wrong.status) return rt_error(error, wrong.status, "%s", wrong.text);
    /* The connection is now refused: the listener that broke off an answer may have been rank 0, which died. */
    if (!s->taken && errno != ETIMEDOUT && s->wrong == EPROTO) s->wrong = 0;
    if (sockets_now() + RETRY_MS >= s->deadline) return not_found(s, error);
    nap();
  }
}

static RtStatus unheard(const Rendezvous *r, RtError *error) {
  if (errno == ETIMEDOUT)
    return rt_error(error, RT_LATE, "rank 0 is late: it did not answer rank %d at %s within %.1f s", r->rank,
                    r->address, (r->timeout_ms + ANSWER_MS) / 1000.0);
  return rt_error_errno(error, RT_FAILED, "rank 0 was lost at %s", r->address);
}

static RtStatus take_welcome(const Rendezvous *r, Meeting *m, Welcome *w, RtError *error) {
  /* Rank 0 waits for others as long as this rank waited for it, and a little longer so that its reason arrives. */
  int64_t deadline = sockets_now() + r->timeout_ms + ANSWER_MS;
  if (!socket_receive(m->controls[0], w, sizeof *w, -1, deadline)) return unheard(r, error);
  if (w->magic != WELCOME_MAGIC)
    return rt_error(error, RT_BAD_INPUT, "the listener at %s is not rank 0 of this program", r->address);
  w->text[RT_ERROR_TEXT - 1] = 0;
  if (w->status != RT_OK)
    return rt_error(error, w->status < RT_STATUS_COUNT ? (RtStatus)w->status : RT_FAILED, "%s",
                    *w->text ? w->text : "rank 0 refused this rank without a reason");
  return socket_receive(m->controls[0], m->addresses, address_bytes(m), -1, deadline) ? RT_OK : unheard(r, error);
}

/* Checks that rank 0 sent addresses that this rank may use. */
static RtStatus check_addresses(const Rendezvous *r, Meeting *m, const SocketAddress *first, RtError *error) {
  for (int i = 1; i < r->rank; i++) {
    SocketAddress *a = &m->addresses[i];
    int family = a->storage.ss_family;
    if (a->bytes != (family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) ||
        (family != AF_INET && family != AF_INET6))
      return rt_error(error, RT_INTERNAL, "rank 0 sent an invalid address of rank %d", i);
    address_take_scope(a, first);
    if (!r->network && !address_is_loopback(a)) return no_secret(r, error);
  }
  return RT_OK;
}

static RtStatus meet_as_other(const Rendezvous *r, AdmissionKey *key, int64_t deadline, Meeting *m, Welcome *w,
                              RtError *error) {
  Search s = {.r = r, .m = m, .key = key, .deadline = deadline};
  RtStatus status = reach_first(&s, &m->controls[0], error);
  if (status) return status;
  SocketAddress first = {.bytes = sizeof first.storage};
  getpeername(m->controls[0], (struct sockaddr *)&first.storage, &first.bytes);
  status = take_welcome(r, m, w, error);
  if (!status) status = check_addresses(r, m, &first, error);
  m->addresses[0] = first; /* the address where it was found */
  return status;
}

/* ---- pairs */

static RtStatus lost_pair(const Rendezvous *r, int peer, RtError *error) {
  if (errno == ECANCELED)
    return rt_error(error, RT_ABORTED, "rank %d was stopped because another rank failed", r->rank);
  if (errno == EACCES || errno == EPROTO)
    return rt_error(error, RT_FAILED,
                    "rank %d cannot connect to rank %d: the listener at its port is not part of this run", r->rank,
                    peer);
  return rt_error_errno(error, errno == ETIMEDOUT ? RT_LATE : RT_FAILED, "rank %d cannot connect to rank %d", r->rank,
                        peer);
}

static int next_missing(const Rendezvous *r, const Meeting *m) {
  int i = r->rank + 1;
  while (i < r->world && m->data[i] >= 0) i++;
  return i;
}

/* Connects to a lower rank; tries again if it refused this connection because too many were waiting. */
static RtStatus connect_pair(const Rendezvous *r, Meeting *m, int peer, int stop, int64_t deadline, RtError *error) {
  AdmissionClaim claim = {.role = ADMISSION_DATA, .rank = r->rank, .world = r->world};
  for (;;) {
    int fd = socket_connect(&m->addresses[peer], stop, deadline);
    if (fd < 0) return lost_pair(r, peer, error);
    if (admission_ask(fd, &m->pairs, true, &claim, peer, stop, deadline)) {
      m->data[peer] = fd;
      return RT_OK;
    }
    socket_close_with(fd, errno);
    bool again = errno == EACCES || errno == EPROTO || errno == ECONNRESET;
    if (!again || sockets_now() + RETRY_MS >= deadline) return lost_pair(r, peer, error);
    nap();
  }
}

/* Rank 0 also keeps serving ranks that look for it. */
static Lobby *lobby_of_pairs(const Rendezvous *r, Meeting *m) {
  if (m->lobby) lobby_take_also(m->lobby, &m->pairs, ADMISSION_DATA);
  else m->lobby = lobby_open(&m->pairs, ADMISSION_DATA, r->rank, m->listeners, m->n_listeners);
  return m->lobby;
}

/* After this rank 0 stops listening; refuses surplus ranks that have connected already. */
static void send_rest_away(const Rendezvous *r, Meeting *m, int stop) {
  int64_t until = sockets_now() + LAST_MS, now;
  do {
    AdmissionClaim c;
    now = sockets_now();
    int fd = lobby_next(m->lobby, stop, sooner(now + LAST_MS / 10, until), &c);
    if (fd >= 0 && c.role == ADMISSION_CONTROL) let_in(r, fd, &c, m, NULL);
    else if (fd >= 0) close(fd);
    else if (errno != ETIMEDOUT) break; /* a rank has failed */
  } while (lobby_waiting(m->lobby) > 0 && now < until);
}

static RtStatus take_pairs_in(const Rendezvous *r, Meeting *m, int stop, int64_t deadline, RtError *error) {
  Lobby *l = lobby_of_pairs(r, m);
  if (!l) return rt_error(error, RT_FAILED, "out of memory");
  RtStatus status = RT_OK;
  while (!status && next_missing(r, m) < r->world) {
    AdmissionClaim c;
    int fd = lobby_next(l, stop, deadline, &c);
    if (fd < 0) status = lost_pair(r, next_missing(r, m), error);
    else if (c.role == ADMISSION_CONTROL) let_in(r, fd, &c, m, NULL);
    else if (c.world == r->world && c.rank > r->rank && c.rank < r->world && m->data[c.rank] < 0) m->data[c.rank] = fd;
    else close(fd);
  }
  if (!status && r->rank == 0) send_rest_away(r, m, stop);
  return status;
}

/* Connects to the lower ranks, which listen already, and waits for the higher ones. */
RtStatus rendezvous_connect(const Rendezvous *r, Meeting *m, int stop, RtError *error) {
  int64_t deadline = sockets_now() + r->timeout_ms;
  RtStatus status = RT_OK;
  for (int i = 0; i < r->rank && !status; i++) status = connect_pair(r, m, i, stop, deadline, error);
  return status ? status : take_pairs_in(r, m, stop, deadline, error);
}

void rendezvous_give(const Meeting *m, int *connections) {
  for (int i = 0; i < m->world; i++) connections[i] = -1;
}

static void close_connections(const Meeting *m, int *connections) {
  for (int i = 0; i < m->world && connections; i++)
    if (connections[i] >= 0) close(connections[i]);
  free(connections);
}

static void empty_meeting(Meeting *m) {
  *m = (Meeting){.file = -1};
  memset(m->refused, -1, sizeof m->refused);
}

void rendezvous_close(Meeting *m) {
  close_refused(m);
  lobby_close(m->lobby);
  close_connections(m, m->controls);
  close_connections(m, m->data);
  free(m->addresses);
  while (m->n_listeners > 0) close(m->listeners[--m->n_listeners]);
  empty_meeting(m);
}

static RtStatus open_meeting(Meeting *m, int world, RtError *error) {
  size_t n = (size_t)world;
  empty_meeting(m);
  m->world = world;
  m->controls = malloc(n * sizeof *m->controls);
  m->data = malloc(n * sizeof *m->data);
  m->addresses = calloc(n, sizeof *m->addresses);
  if (m->controls) rendezvous_give(m, m->controls);
  if (m->data) rendezvous_give(m, m->data);
  return m->controls && m->data && m->addresses ? RT_OK : rt_error(error, RT_FAILED, "out of memory");
}

RtStatus rendezvous_meet(const Rendezvous *r, Meeting *m, RtError *error) {
  int64_t deadline = sockets_now() + r->timeout_ms;
  Welcome w = {0};
  Announcement told = {0};
  RtStatus status = open_meeting(m, r->world, error);
  if (status) return status;
  m->first = r->key;
  if (r->rank == 0) status = open_place(r, m, &m->first, &told, error);
  if (!status)
    status =
        r->rank == 0 ? meet_as_first(r, deadline, m, &w, error) : meet_as_other(r, &m->first, deadline, m, &w, error);
  close_refused(m);
  if (m->file >= 0) meeting_file_withdraw(r->address, m->file);
  m->file = -1;
  for (int i = 0; i < r->world; i++)
    if (m->controls[i] >= 0) socket_notice_loss(m->controls[i]);
  m->pairs = m->first;
  memcpy(m->pairs.key, w.key, sizeof w.key);
  return status;
}
