/* runtime/launch/peer_user.c - see peer_user.h.  Asks the kernel for one socket by its addresses (sock_diag(7)), as ss
 * does; /proc/net/tcp has the same information, but lists all sockets, which takes milliseconds.
 *
 * A socket that no process holds any more, or that was not accepted yet, counts as the superuser's: so only a socket
 * with an inode is trusted.
 */
#define _GNU_SOURCE
#include "runtime/launch/peer_user.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "runtime/net/sockets.h"

enum { WAIT_MS = 1000 };

typedef struct Question {
  struct nlmsghdr header;
  struct inet_diag_req_v2 request;
} Question;

static bool fail(int number) {
  errno = number;
  return false;
}

/* Writes an address as the kernel names sockets. */
static void name_end(const SocketAddress *a, __be16 *port, __be32 host[4]) {
  *port = htons(socket_port(a));
  if (a->storage.ss_family == AF_INET)
    memcpy(host, &((const struct sockaddr_in *)(const void *)&a->storage)->sin_addr, sizeof(struct in_addr));
  else memcpy(host, &((const struct sockaddr_in6 *)(const void *)&a->storage)->sin6_addr, sizeof(struct in6_addr));
}

/* Names the socket at the other end: it has this one's addresses, swapped. */
static bool name_socket(int fd, struct inet_diag_req_v2 *r) {
  SocketAddress here = {.bytes = sizeof here.storage}, there = {.bytes = sizeof there.storage};
  if (getsockname(fd, (struct sockaddr *)&here.storage, &here.bytes) != 0) return false;
  if (getpeername(fd, (struct sockaddr *)&there.storage, &there.bytes) != 0) return false;
  socket_unmap(&here);
  socket_unmap(&there);
  if (here.storage.ss_family != there.storage.ss_family) return fail(EPROTO);
  *r = (struct inet_diag_req_v2){
      .sdiag_family = (unsigned char)there.storage.ss_family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u};
  memset(r->id.idiag_cookie, -1, sizeof r->id.idiag_cookie); /* any */
  name_end(&there, &r->id.idiag_sport, r->id.idiag_src);
  name_end(&here, &r->id.idiag_dport, r->id.idiag_dst);
  return true;
}

static bool same_socket(const struct inet_diag_sockid *a, const struct inet_diag_sockid *b) {
  return a->idiag_sport == b->idiag_sport && a->idiag_dport == b->idiag_dport &&
         memcmp(a->idiag_src, b->idiag_src, sizeof a->idiag_src) == 0 &&
         memcmp(a->idiag_dst, b->idiag_dst, sizeof a->idiag_dst) == 0;
}

static bool judge(const struct nlmsghdr *h, ssize_t n, const struct inet_diag_req_v2 *asked) {
  struct nlmsgerr refusal;
  struct inet_diag_msg found;
  if (n < (ssize_t)sizeof *h || h->nlmsg_len > (size_t)n) return fail(EPROTO);
  if (h->nlmsg_type == NLMSG_ERROR && h->nlmsg_len >= NLMSG_LENGTH(sizeof refusal)) {
    memcpy(&refusal, NLMSG_DATA(h), sizeof refusal);
    return fail(-refusal.error);
  }
  if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY || h->nlmsg_len < NLMSG_LENGTH(sizeof found)) return fail(EPROTO);
  memcpy(&found, NLMSG_DATA(h), sizeof found);
  if (!found.idiag_inode || !same_socket(&found.id, &asked->id)) return fail(ENOTCONN);
  return found.idiag_uid == geteuid() ? true : fail(EPERM);
}

bool peer_user_is_own(int fd) {
  Question q = {.header = {.nlmsg_len = sizeof q, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST}};
  _Alignas(struct nlmsghdr) char answer[4096];
  if (!name_socket(fd, &q.request)) return false;
  int link = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
  if (link < 0) return false;
  ssize_t n = socket_send(link, &q, sizeof q, sockets_now() + WAIT_MS) ? recv(link, answer, sizeof answer, 0) : -1;
  bool own = n >= 0 && judge((const struct nlmsghdr *)(const void *)answer, n, &q.request);
  int number = errno;
  close(link);
  errno = number;
  return own;
}
