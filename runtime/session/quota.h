/* runtime/session/quota.h - the CPU time that this process's control groups allow (containers' limits), in cores. */
#ifndef APC_RUNTIME_SESSION_QUOTA_H
#define APC_RUNTIME_SESSION_QUOTA_H

/* Returns the limit in cores, rounded up; 0: no limit.  Reads ROOT/proc/self/cgroup and ROOT/sys/fs/cgroup; root "" is
 * the system's. */
int quota_cpus(const char *root);

#endif
