/* tests/doubles/child.h - tests of the doubles: each case is a process, which the parent starts with an environment;
 * the parent reads its exit code and standard error.
 *
 * The program is `NAME FOLDER` (the parent; FOLDER has the doubles) or `NAME FOLDER CASE` (a child).  A child reports
 * its finding as its exit code; RIGHT and WRONG are for the numbers that it computed. */
#ifndef APC_TESTS_DOUBLES_CHILD_H
#define APC_TESTS_DOUBLES_CHILD_H

#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/doubles/double.h"
#include "tests/temp.h"
#include "tests/test.h"

enum { RIGHT = 0, WRONG = 3, REFUSED = 4, SEEDS = 20 };

typedef struct ChildCase {
  const char *name;
  int (*run)(void);
} ChildCase;

static const char *child_program, *child_folder;
static char child_said[8192];

/* Starts `name` with settings "A=1", "B=2", ..., NULL added to the environment; returns its process id. */
static pid_t child_start(const char *name, const char *const *settings, const char *errors) {
  pid_t pid = fork();
  if (pid) return pid;
  int fd = open(errors, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  for (; settings && *settings; settings++) putenv((char *)(uintptr_t)*settings);
  dup2(fd, 2);
  execl(child_program, child_program, child_folder, name, NULL);
  _exit(127);
}

/* Returns its exit code, or minus the signal; child_said has its standard error. */
static int child_wait(pid_t pid, const char *errors) {
  int status = 0;
  waitpid(pid, &status, 0);
  FILE *f = fopen(errors, "r");
  child_said[f ? fread(child_said, 1, sizeof child_said - 1, f) : 0] = 0;
  if (f) fclose(f);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static inline int child(const char *name, const char *const *settings) {
  const char *errors = temp_path("errors");
  return child_wait(child_start(name, settings, errors), errors);
}

#define CHILD(name, ...) child(name, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

/* Checks that a case ends with this code and message. */
static inline void child_ends(const char *name, int code, const char *said, const char *setting) {
  int got = child(name, (const char *const[]){setting, NULL});
  CHECKF(got == code && (!said || strstr(child_said, said)), "%s ends with %d, not %d, and says: %s", name, got, code,
         child_said);
}

/* The number of seeds that give wrong numbers; all others give right ones. */
static inline int child_wrong(const char *name) {
  int wrong = 0;
  for (int seed = 1; seed <= SEEDS; seed++) {
    char setting[40];
    snprintf(setting, sizeof setting, "DOUBLES_SEED=%d", seed);
    int got = child(name, (const char *const[]){setting, NULL});
    CHECKF(got == RIGHT || got == WRONG, "%s, seed %d: %d, %s", name, seed, got, child_said);
    wrong += got == WRONG;
  }
  return wrong;
}

static inline bool child_is(int argc, char **argv, const ChildCase *cases, int *result) {
  child_program = argv[0], child_folder = argc > 1 ? argv[1] : ".";
  if (argc < 3) return false;
  *result = 126;
  for (; cases->name; cases++)
    if (strcmp(cases->name, argv[2]) == 0) *result = cases->run();
  return true;
}

/* In a child: the call must succeed. */
#define MUST(call) \
  do { \
    int code_ = (int)(call); \
    if (code_) { \
      fprintf(stderr, "%s: %d\n", #call, code_); \
      exit(REFUSED); \
    } \
  } while (0)

#endif
