/* runtime/session/quota.h - how many cores' time the control groups of this process allow it (containers' limits). */
#ifndef APC_RUNTIME_SESSION_QUOTA_H
#define APC_RUNTIME_SESSION_QUOTA_H

/* Rounded up; 0: no limit.  Reads ROOT/proc/self/cgroup and ROOT/sys/fs/cgroup; root "" is the system's. */
int quota_cpus(const char *root);

#endif
