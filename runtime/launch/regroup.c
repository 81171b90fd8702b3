/* runtime/launch/regroup.c - see regroup.h.
 *
 *   elastic/alive.K      locked by rank 0 of round K, holds the run's number; the largest K counts, as an earlier
 *                        rank 0 may only be stopped
 *   elastic/wait.NAME    a process that waits, locked by it
 *   elastic/K/member.NAME, elastic/K/leader: processes of meeting K, locked; elastic/K/plan: names in the order of
 * ranks
 *
 * NAME is RANK-HOST-PID, with the rank that the launcher gave, so that ranks keep their order.
 */
#define _GNU_SOURCE
#include "runtime/launch/regroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "runtime/net/sockets.h"

#define ROUND "APC_ELASTIC_ROUND"
#define NAME "APC_ELASTIC_NAME"
#define RUN "APC_ELASTIC_RUN"     /* of the first round: later ones have no variables of the launcher */
#define TRIES "APC_ELASTIC_TRIES" /* "N:S.NS": rounds that lost ranks since the checkpoint of that time */

enum {
  LOOK_MS = 10,
  GRACE_MS = 2000,
  MEET_MS = 10000,
  LATE_MS = 3000,
  MOST_TRIES = 10,
  PATH = 4096,
  NAME_BYTES = 128,
  MOST = 4096
};

typedef char Name[NAME_BYTES];

/* A sorted list of names. */
typedef struct Names {
  Name *items;
  int n;
} Names;

static void nap(void) { nanosleep(&(struct timespec){0, LOOK_MS * 1000000L}, NULL); }

int regroup_round(void) {
  const char *text = getenv(ROUND);
  return text ? atoi(text) : 0;
}

static void path_of(const char *folder, int round, const char *name, char *path) {
  if (round < 0) snprintf(path, PATH, "%s/elastic/%s", folder, name);
  else snprintf(path, PATH, "%s/elastic/%d/%s", folder, round, name);
}

/* This process's name, the same in all rounds. */
static void own_name(const Regroup *r, char *name) {
  char host[64] = "";
  const char *given = getenv(NAME);
  gethostname(host, sizeof host - 1);
  for (char *c = host; *c; c++)
    if (*c == '/') *c = '_';
  if (given) snprintf(name, NAME_BYTES, "%s", given);
  else snprintf(name, NAME_BYTES, "%06d-%s-%d", r->rank, host, (int)getpid());
}

/* ---- locked files */

/* Makes the file if `make`, and locks it; -1 with errno. */
static int lock_file(const char *path, int how) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | how, 0600);
  if (fd < 0 || fcntl(fd, F_OFD_SETLK, &lock) == 0) return fd;
  int number = errno;
  close(fd);
  errno = number;
  return -1;
}

/* True if another process holds the lock of the file. */
static bool is_locked(const char *path) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  bool held = fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  if (fd >= 0) close(fd);
  return held;
}

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

/* Lists the names of locked files with that beginning, sorted; those that no process holds are not listed.  `own`
 * counts as locked. */
static Names list_names(const char *folder, int round, const char *begin, const char *own) {
  char path[PATH];
  Names names = {calloc(MOST, sizeof *names.items), 0};
  path_of(folder, round, "", path);
  DIR *d = names.items ? opendir(path) : NULL;
  for (struct dirent *e; d && names.n < MOST && (e = readdir(d));) {
    size_t n = strlen(begin);
    if (strncmp(e->d_name, begin, n) != 0 || strlen(e->d_name + n) >= NAME_BYTES) continue;
    path_of(folder, round, e->d_name, path);
    if (strcmp(e->d_name + n, own) != 0 && !is_locked(path)) continue;
    snprintf(names.items[names.n++], NAME_BYTES, "%s", e->d_name + n);
  }
  if (d) closedir(d);
  if (names.n) qsort(names.items, (size_t)names.n, sizeof *names.items, by_name);
  return names;
}

/* Opens a folder of meetings: elastic, or one of a round in it.  A link is not followed. */
static int open_folder(int at, const char *path) {
  return openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool begins(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

static bool is_number(const char *name) { return *name && strspn(name, "0123456789") == strlen(name); }

/* The beginnings of files in elastic, and in the folders of rounds; `numbered`: a number follows. */
typedef struct Own {
  const char *begin;
  bool numbered, round;
} Own;
static const Own own_files[] = {{"alive.", true, false},  {"checkpoint.", true, false}, {"wait.", false, false},
                                {"member.", false, true}, {"left.", false, true},       {"lead.", false, true},
                                {"leader", false, true},  {"plan", false, true},        {"meeting", false, true}};

/* True if meetings make files of that name there. */
static bool is_own(const char *name, bool round) {
  for (size_t i = 0; i < sizeof own_files / sizeof *own_files; i++) {
    const Own *o = &own_files[i];
    if (o->round != round || !begins(name, o->begin)) continue;
    const char *rest = name + strlen(o->begin);
    if (!o->numbered || (*rest >= '0' && *rest <= '9')) return true;
  }
  return false;
}

/* Removes a folder of meetings and the files that meetings make there.  Files of others stay, and so does their folder.
 */
static void remove_own(int at, const char *path, bool round) {
  int fd = open_folder(at, path);
  DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
  if (fd >= 0 && !d) close(fd);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (is_own(e->d_name, round)) unlinkat(fd, e->d_name, 0);
    else if (!round && is_number(e->d_name)) remove_own(fd, e->d_name, true);
  }
  if (!d) return;
  unlinkat(at, path, AT_REMOVEDIR);
  closedir(d);
}

/* Makes one folder, or finds it there: what a link points to belongs to others. */
static RtStatus make_folder(const char *path, RtError *error) {
  int fd = mkdir(path, 0700) != 0 && errno != EEXIST ? -1 : open_folder(AT_FDCWD, path);
  struct stat st;
  if (fd >= 0) return close(fd), RT_OK;
  if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
    return rt_error(error, RT_BAD_INPUT, "%s, where ranks meet again, is a symbolic link; it must be a folder", path);
  return rt_error_errno(error, RT_BAD_INPUT, "the folder %s, where ranks meet again", path);
}

static RtStatus make_folders(const char *folder, int round, RtError *error) {
  char path[PATH];
  snprintf(path, sizeof path, "%s/elastic", folder);
  RtStatus status = make_folder(path, error);
  if (status || round < 0) return status;
  snprintf(path, sizeof path, "%s/elastic/%d", folder, round);
  return make_folder(path, error);
}

/* ---- the present round */

/* Returns the round in "alive.K"; -1 for other names, and for numbers that no run reaches. */
static int round_in(const char *name) {
  enum { DIGITS = 9 };
  const size_t n = strlen("alive.");
  if (!begins(name, "alive.") || !is_number(name + n) || strlen(name + n) > DIGITS) return -1;
  return atoi(name + n);
}

/* Returns the round that is alive; -1 if there is none.  *any: the largest number of a file, even if no process holds
 * it.
 */
static int live_round(const char *folder, int *any) {
  char path[PATH];
  int live = -1, round;
  path_of(folder, -1, "", path);
  DIR *d = opendir(path);
  *any = -1;
  for (struct dirent *e; d && (e = readdir(d));) {
    if ((round = round_in(e->d_name)) < 0) continue;
    if (round > *any) *any = round;
    path_of(folder, -1, e->d_name, path);
    if (round > live && is_locked(path)) live = round;
  }
  if (d) closedir(d);
  return live;
}

uint64_t regroup_run(const char *name, uint64_t program) {
  const char *given = getenv(RUN);
  return given ? strtoull(given, NULL, 16) : hash64(name, strlen(name), program);
}

static RtStatus is_others(const char *folder, RtError *error) {
  return rt_error(error, RT_FAILED,
                  "elastic: another run trains in %s now; give this one a folder of its own (--checkpoint DIR)",
                  folder);
}

RtStatus regroup_alive(const char *folder, uint64_t run, RtError *error) {
  char path[PATH], name[32];
  int round = regroup_round(), any;
  snprintf(path, sizeof path, "%s/elastic", folder);
  if (round == 0 && live_round(folder, &any) >= 0) return is_others(folder, error);
  if (round == 0) remove_own(AT_FDCWD, path, false);
  RtStatus status = make_folders(folder, -1, error);
  if (status) return status;
  snprintf(name, sizeof name, "alive.%d", round);
  path_of(folder, -1, name, path);
  int fd = lock_file(path, O_CREAT); /* stays open until the process ends or begins the next round */
  if (fd < 0 || dprintf(fd, "%016" PRIx64 "\n", run) < 0)
    return rt_error_errno(error, RT_BAD_INPUT, "%s, which rank 0 holds", path);
  if (round == 0) return RT_OK;
  snprintf(name, sizeof name, "alive.%d", round - 1);
  path_of(folder, -1, name, path);
  unlink(path);
  snprintf(path, sizeof path, "%s/elastic/%d", folder, round - 1);
  remove_own(AT_FDCWD, path, true);
  return RT_OK;
}

void regroup_end(const char *folder) {
  char path[PATH];
  if (regroup_round() > 0 && snprintf(path, sizeof path, "%s/checkpoint.safetensors.part", folder) < PATH)
    unlink(path); /* of a round whose rank 0 was lost while it wrote */
  snprintf(path, sizeof path, "%s/elastic", folder);
  remove_own(AT_FDCWD, path, false);
}

/* Reads the number of the run whose round is alive; false if rank 0 has not written it yet. */
static bool read_run(const char *folder, int round, uint64_t *run) {
  char path[PATH], name[32], text[17] = "";
  snprintf(name, sizeof name, "alive.%d", round);
  path_of(folder, -1, name, path);
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
  const bool whole = fd >= 0 && read(fd, text, 16) == 16;
  if (fd >= 0) close(fd);
  *run = strtoull(text, NULL, 16);
  return whole;
}

/* Rank 0 of a round may just be starting: a file that no process holds yet is looked at for a while. */
RtStatus regroup_is_late(const char *folder, uint64_t run, bool *late, RtError *error) {
  int64_t limit = sockets_now() + LATE_MS;
  int any, live;
  *late = false;
  if (regroup_round() > 0) return RT_OK;
  do {
    uint64_t other;
    *late = (live = live_round(folder, &any)) >= 0;
    if (*late && read_run(folder, live, &other)) return other == run ? RT_OK : is_others(folder, error);
    if (any >= 0) nap();
  } while (any >= 0 && sockets_now() < limit);
  return RT_OK;
}

int regroup_waiting(const char *folder) {
  Names names = list_names(folder, -1, "wait.", "");
  free(names.items);
  return names.n;
}

/* ---- a meeting */

/* One process in a meeting. */
typedef struct Comer {
  const Regroup *r;
  int round;
  Name name;
  int member, leader; /* locked descriptors; leader -1: another process leads */
} Comer;

int regroup_world(const uint32_t *worlds, int n, int most) {
  int found = 0;
  for (int i = 0; i < n; i++)
    if ((int)worlds[i] <= most && (int)worlds[i] > found) found = (int)worlds[i];
  return found;
}

static int count_left(const char *folder, int round) {
  char path[PATH];
  int n = 0;
  path_of(folder, round, "", path);
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));) n += strncmp(e->d_name, "left.", 5) == 0;
  if (d) closedir(d);
  return n;
}

/* Waits until all processes have come that can be expected: if ranks were lost, all but one. */
static Names gather(const Comer *c, bool lost) {
  int64_t begun = sockets_now();
  int expected = lost ? c->r->world - 1 : c->r->world + regroup_waiting(c->r->folder);
  for (;;) {
    Names names = list_names(c->r->folder, c->round, "member.", c->name);
    int64_t waited = sockets_now() - begun;
    if (names.n + count_left(c->r->folder, c->round) >= expected || waited >= (lost ? GRACE_MS : MEET_MS)) return names;
    free(names.items);
    nap();
  }
}

/* Writes the plan: the names in the order of their ranks.  An empty one if there is no plan for so few. */
static RtStatus write_plan(const Comer *c, const Names *names, RtError *error) {
  char path[PATH], part[PATH];
  int world = regroup_world(c->r->worlds, c->r->n_worlds, names->n);
  path_of(c->r->folder, c->round, "plan", path);
  path_of(c->r->folder, c->round, "plan.part", part);
  unlink(part);
  int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
  for (int i = 0; f && i < world; i++) fprintf(f, "%s\n", names->items[i]);
  if (f) fprintf(f, "end %d\n", names->n);
  if (!f || fclose(f) != 0 || rename(part, path) != 0) return rt_error_errno(error, RT_BAD_INPUT, "%s", path);
  return RT_OK;
}

/* Opens a plan, which is a file of at most MOST names; NULL for anything else. */
static FILE *open_plan(const char *path) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return NULL;
  bool plain = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= (MOST + 1) * NAME_BYTES;
  FILE *f = plain ? fdopen(fd, "r") : NULL;
  if (!f) close(fd);
  return f;
}

/* Reads the plan.  *rank: -1 if this process is not in it.  False if there is none yet. */
static bool read_plan(const char *folder, int round, const char *name, int *rank, int *world, int *came) {
  char path[PATH], line[NAME_BYTES + 2];
  path_of(folder, round, "plan", path);
  FILE *f = open_plan(path);
  *rank = -1, *world = 0, *came = 0;
  if (!f) return false;
  while (fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "end %d", came) == 1) break;
    if (strcmp(line, name) == 0) *rank = *world;
    ++*world;
  }
  fclose(f);
  return true;
}

static void set_number(const char *variable, int n) {
  char text[16];
  snprintf(text, sizeof text, "%d", n);
  setenv(variable, text, 1);
}

/* The command line without the rank and the numbers of ranks of the first round. */
static char **arguments(char *const *argv) {
  static const char *const dropped[] = {"--rank", "--ranks", "--world", "--rendezvous"};
  size_t n = 0, k = 0;
  while (argv[n]) n++;
  char **out = calloc(n + 1, sizeof *out);
  for (size_t i = 0; out && i < n; i++) {
    bool drop = false;
    for (size_t d = 0; d < sizeof dropped / sizeof *dropped && !drop; d++) {
      size_t length = strlen(dropped[d]);
      drop = strncmp(argv[i], dropped[d], length) == 0 && (argv[i][length] == 0 || argv[i][length] == '=');
      if (drop && argv[i][length] == 0) i++; /* its value */
    }
    if (!drop) out[k++] = argv[i];
  }
  return out;
}

/* Starts the program again as that rank. */
static RtStatus begin_again(const Comer *c, int rank, int world, RtError *error) {
  char path[PATH], run[17];
  sigset_t none;
  char **argv = arguments(c->r->argv);
  path_of(c->r->folder, c->round, "meeting", path);
  set_number(ROUND, c->round);
  setenv(NAME, c->name, 1);
  snprintf(run, sizeof run, "%016" PRIx64, c->r->run);
  setenv(RUN, run, 1);
  setenv("APC_ADDR", path, 1);
  set_number("APC_RANK", rank);
  set_number("APC_WORLD_SIZE", world);
  set_number("APC_LOCAL_RANK", c->r->local_rank);
  set_number("APC_LOCAL_WORLD_SIZE", c->r->local_world < world ? c->r->local_world : world);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  if (argv) execv("/proc/self/exe", argv);
  return rt_error_errno(error, RT_FAILED, "starting the program again");
}

static RtStatus wait_for_place(const Regroup *r, const char *name, RtError *error);

/* Waits for the plan.  *again: the leader died before it wrote one. */
static RtStatus take_place(const Comer *c, bool *again, RtError *error) {
  char path[PATH];
  int rank, world, came;
  int64_t limit = sockets_now() + MEET_MS + GRACE_MS;
  path_of(c->r->folder, c->round, "leader", path);
  while (!read_plan(c->r->folder, c->round, c->name, &rank, &world, &came)) {
    bool leaderless = c->leader < 0 && !is_locked(path);
    if (leaderless && read_plan(c->r->folder, c->round, c->name, &rank, &world, &came)) break;
    if (leaderless) return *again = true, RT_OK;
    if (sockets_now() > limit)
      return rt_error(error, RT_LATE, "the ranks did not meet again within %d s", MEET_MS / 1000);
    nap();
  }
  if (!world)
    return rt_error(error, RT_FAILED, "%d process%s left, and the program has no plan for so few ranks", came,
                    came == 1 ? " is" : "es are");
  return rank >= 0 ? begin_again(c, rank, world, error) : wait_for_place(c->r, c->name, error);
}

/* Becomes the leader of the meeting unless there is one: the file appears with its lock.  Returns its descriptor, -1
 * without. */
static int lead(const Comer *c) {
  char own[PATH], path[PATH];
  snprintf(own, sizeof own, "%s/elastic/%d/lead.%s", c->r->folder, c->round, c->name);
  path_of(c->r->folder, c->round, "leader", path);
  int fd = lock_file(own, O_CREAT);
  bool leads = fd >= 0 && link(own, path) == 0;
  unlink(own);
  if (fd >= 0 && !leads) close(fd);
  return leads ? fd : -1;
}

/* Comes to a meeting. */
static RtStatus meet(const Regroup *r, int round, const char *name, bool lost, bool *again, RtError *error) {
  char path[PATH];
  Comer c = {.r = r, .round = round, .member = -1, .leader = -1};
  snprintf(c.name, sizeof c.name, "%s", name);
  RtStatus status = make_folders(r->folder, round, error);
  if (status) return status;
  snprintf(path, sizeof path, "%s/elastic/%d/member.%s", r->folder, round, name);
  c.member = lock_file(path, O_CREAT);
  if (c.member < 0) return rt_error_errno(error, RT_BAD_INPUT, "%s", path);
  c.leader = lead(&c);
  if (c.leader >= 0) {
    Names names = gather(&c, lost);
    status = write_plan(&c, &names, error);
    free(names.items);
  }
  if (!status) status = take_place(&c, again, error);
  close(c.member);
  if (c.leader >= 0) close(c.leader);
  return status;
}

void regroup_leave(const Regroup *r) {
  char path[PATH];
  Name name;
  RtError none = {0};
  int round = regroup_round() + 1;
  own_name(r, name);
  if (make_folders(r->folder, round, &none)) return;
  snprintf(path, sizeof path, "%s/elastic/%d/left.%s", r->folder, round, name);
  int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd >= 0) close(fd);
  if (count_left(r->folder, round) >= r->world) regroup_end(r->folder); /* the last of all */
}

/* Counts the rounds that lost ranks without a new checkpoint in between: a run that makes no progress ends. */
static RtStatus count_try(const Regroup *r, RtError *error) {
  char path[PATH], text[64];
  long long seconds = 0, nanoseconds = 0;
  struct stat st = {0};
  int tries = 0;
  snprintf(path, sizeof path, "%s/checkpoint.safetensors", r->folder);
  if (stat(path, &st) != 0) st = (struct stat){0};
  if (getenv(TRIES)) sscanf(getenv(TRIES), "%d:%lld.%lld", &tries, &seconds, &nanoseconds);
  bool same = seconds == st.st_mtim.tv_sec && nanoseconds == st.st_mtim.tv_nsec;
  tries = same ? tries + 1 : 1;
  snprintf(text, sizeof text, "%d:%lld.%lld", tries, (long long)st.st_mtim.tv_sec, (long long)st.st_mtim.tv_nsec);
  setenv(TRIES, text, 1);
  if (tries <= MOST_TRIES) return RT_OK;
  return rt_error(error, RT_FAILED, "ranks were lost %d times with no checkpoint in between; the run ends", MOST_TRIES);
}

RtStatus regroup_next(const Regroup *r, bool lost, RtError *error) {
  Name name;
  RtStatus status = lost ? count_try(r, error) : RT_OK;
  own_name(r, name);
  bool again = true;
  for (int round = regroup_round() + 1; again && !status; round++) {
    again = false;
    status = meet(r, round, name, lost, &again, error);
    lost = true;
  }
  return status;
}

/* Waits until the live round ends: rank 0 no longer holds its file, and a meeting begins.  RT_OK: the run has ended. */
static RtStatus wait_for_place(const Regroup *r, const char *name, RtError *error) {
  char path[PATH];
  int last = -1; /* the last round that was alive */
  RtStatus status = make_folders(r->folder, -1, error);
  if (status) return status;
  snprintf(path, sizeof path, "%s/elastic/wait.%s", r->folder, name);
  int fd = lock_file(path, O_CREAT);
  if (fd < 0) return rt_error_errno(error, RT_BAD_INPUT, "%s", path);
  for (int64_t gone = 0; !status;) {
    char next[PATH];
    int any, live = live_round(r->folder, &any), round = last = live >= 0 ? live : any > last ? any : last;
    path_of(r->folder, round + 1, "leader", next);
    bool meets = round >= 0 && access(next, F_OK) == 0, again = false;
    path_of(r->folder, round + 1, "plan", next);
    if (meets && access(next, F_OK) != 0) {
      unlink(path);
      close(fd);
      status = meet(r, round + 1, name, true, &again, error);
      return status || !again ? status : wait_for_place(r, name, error);
    }
    if (access(path, F_OK) != 0) break; /* rank 0 has removed it at the end of the run */
    gone = live >= 0 ? 0 : gone ? gone : sockets_now();
    if (gone && sockets_now() - gone > MEET_MS) status = rt_error(error, RT_FAILED, "the run has ended");
    nap();
  }
  unlink(path);
  close(fd);
  return status;
}

RtStatus regroup_wait(const Regroup *r, RtError *error) {
  Name name;
  own_name(r, name);
  return wait_for_place(r, name, error);
}
