/* runtime/session/spawn.c - starts one rank process.
 *
 * It uses vfork, as posix_spawn does, since the host may be a large process with threads.  posix_spawn itself cannot
 * set the parent-death signal, and setting it after exec would leave a gap.  The child only makes system calls.  The
 * parent-death signal belongs to the thread that forks: that thread must live as long as the rank.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/session/shared.h"

/* The host's handlers must not run in a child that shares its memory; ignored signals stay ignored.  An interrupt from
 * the terminal is for the host, whose death ends the ranks.  If ranks pass signals to the host, they ignore SIGTERM and
 * SIGUSR1 until they can do so (session_rank_open). */
static void reset_signals(bool hands_on) {
  for (int i = 1; i < NSIG; i++) {
    struct sigaction action;
    if (sigaction(i, NULL, &action) != 0) continue;
    if (i != SIGINT && (action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL)) continue;
    bool hosts = i == SIGINT || (hands_on && (i == SIGTERM || i == SIGUSR1));
    action = (struct sigaction){.sa_handler = hosts ? SIG_IGN : SIG_DFL};
    sigaction(i, &action, NULL);
  }
}

static void close_on_exec_except(const int *kept, int n) {
#ifdef SYS_close_range
  enum { CLOSE_ON_EXEC = 4 };
  syscall(SYS_close_range, 3u, ~0u, CLOSE_ON_EXEC);
#endif
  for (int i = 0; i < n; i++) fcntl(kept[i], F_SETFD, 0);
}

static _Noreturn void child(const SpawnPlan *plan, volatile int *failure) {
  reset_signals(plan->hands_on);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != plan->host_pid) _exit(rt_exit_code(RT_FAILED));
  if (plan->cpus) sched_setaffinity(0, plan->cpu_bytes, plan->cpus); /* only the speed depends on it */
  close_on_exec_except(plan->kept, plan->n_kept);
  sigprocmask(SIG_SETMASK, &plan->signals, NULL);
  execve(plan->path, plan->argv, plan->envp);
  *failure = errno;
  _exit(127);
}

int session_spawn(const SpawnPlan *plan) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  volatile int failure = 0;
  pid_t pid = vfork();
  if (pid == 0) child(plan, &failure);
  int number = pid < 0 ? errno : failure;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (number == 0) return pid;
  if (pid > 0) waitpid(pid, NULL, 0);
  errno = number;
  return -1;
}
