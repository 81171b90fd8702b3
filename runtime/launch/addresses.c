/* runtime/launch/addresses.c - see addresses.h. */
#define _GNU_SOURCE
#include "runtime/launch/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_PORT = 29500 }; /* torchrun's */

static const struct sockaddr_in6 *as_six(const SocketAddress *a) {
  return (const struct sockaddr_in6 *)(const void *)&a->storage;
}
static const struct sockaddr_in *as_four(const SocketAddress *a) {
  return (const struct sockaddr_in *)(const void *)&a->storage;
}

/* ---- texts */

/* Takes a host of n bytes, without brackets around them. */
static bool take_host(const char *text, size_t n, HostPort *out) {
  bool brackets = n > 2 && text[0] == '[' && text[n - 1] == ']';
  if (brackets) text++, n -= 2;
  if (n == 0 || n >= sizeof out->host) return false;
  memcpy(out->host, text, n);
  out->host[n] = 0;
  return true;
}

/* True for an IPv6 address alone, with or without the name of its link: its last colon begins no port. */
static bool is_six(const char *text, HostPort *out) {
  struct in6_addr bytes;
  char plain[INET6_ADDRSTRLEN];
  if (!take_host(text, strlen(text), out)) return false;
  size_t n = strcspn(out->host, "%");
  return snprintf(plain, sizeof plain, "%.*s", (int)n, out->host) == (int)n && n < sizeof plain &&
         inet_pton(AF_INET6, plain, &bytes) == 1;
}

bool address_host_port_split(const char *text, HostPort *out) {
  const char *colon = strrchr(text, ':');
  char *end;
  if (!colon) return false;
  snprintf(out->port, sizeof out->port, "%d", DEFAULT_PORT);
  if (is_six(text, out)) return true;
  long port = strtol(colon + 1, &end, 10);
  if (*end || end == colon + 1 || port < 1 || port > 65535) return false;
  snprintf(out->port, sizeof out->port, "%ld", port);
  return take_host(text, (size_t)(colon - text), out);
}

void address_text(const SocketAddress *a, char *text, size_t size) {
  if (getnameinfo((const struct sockaddr *)&a->storage, a->bytes, text, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
    snprintf(text, size, "?");
}

/* ---- resolving */

bool address_resolve(const HostPort *h, AddressList *out, const char **why, bool *soon) {
  static const struct addrinfo stream = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
  struct addrinfo *all;
  int code = getaddrinfo(h->host, h->port, &stream, &all);
  out->n = 0;
  *why = code ? gai_strerror(code) : "";
  *soon = code == EAI_AGAIN || code == EAI_SYSTEM;
  if (code) return false;
  for (const struct addrinfo *i = all; i && out->n < ADDRESS_LIST_MOST; i = i->ai_next) {
    if (i->ai_addrlen > sizeof out->items[0].storage) continue;
    SocketAddress *a = &out->items[out->n++];
    *a = (SocketAddress){.bytes = i->ai_addrlen};
    memcpy(&a->storage, i->ai_addr, i->ai_addrlen);
  }
  freeaddrinfo(all);
  return true;
}

bool address_is_loopback(const SocketAddress *a) {
  SocketAddress plain = *a;
  socket_unmap(&plain);
  if (plain.storage.ss_family == AF_INET) return ntohl(as_four(&plain)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  return plain.storage.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&as_six(&plain)->sin6_addr);
}

void address_keep_loopback(AddressList *l) {
  int n = 0;
  for (int i = 0; i < l->n; i++)
    if (address_is_loopback(&l->items[i])) l->items[n++] = l->items[i];
  l->n = n;
}

static SocketAddress four(in_addr_t host) {
  struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
  SocketAddress a = {.bytes = sizeof in};
  memcpy(&a.storage, &in, sizeof in);
  return a;
}

static SocketAddress six(struct in6_addr host) {
  struct sockaddr_in6 in = {.sin6_family = AF_INET6, .sin6_addr = host};
  SocketAddress a = {.bytes = sizeof in};
  memcpy(&a.storage, &in, sizeof in);
  return a;
}

AddressList address_any(bool loopback) {
  AddressList l = {.n = 2};
  l.items[0] = loopback ? four(INADDR_LOOPBACK) : six(in6addr_any);
  l.items[1] = loopback ? six(in6addr_loopback) : four(INADDR_ANY);
  return l;
}

bool address_beside(int fd, SocketAddress *out) {
  *out = (SocketAddress){.bytes = sizeof out->storage};
  if (getsockname(fd, (struct sockaddr *)&out->storage, &out->bytes) != 0) return false;
  socket_unmap(out);
  socket_set_port(out, 0);
  return true;
}

void address_take_scope(SocketAddress *a, const SocketAddress *first) {
  struct sockaddr_in6 *in = (struct sockaddr_in6 *)(void *)&a->storage;
  if (a->storage.ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in->sin6_addr) && first->storage.ss_family == AF_INET6)
    in->sin6_scope_id = as_six(first)->sin6_scope_id;
}

/* ---- this machine */

/* True if other machines can use this address of an interface (`loopback`: if it is a loopback address).  Link-local
 * addresses are excluded: the name of the link is valid only on this machine. */
static bool tells(const struct ifaddrs *i, bool loopback, SocketAddress *a) {
  int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
  if (family != AF_INET && family != AF_INET6) return false;
  *a = (SocketAddress){.bytes = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)};
  memcpy(&a->storage, i->ifa_addr, a->bytes);
  if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&as_six(a)->sin6_addr)) return false;
  return address_is_loopback(a) == loopback;
}

size_t address_list_own(uint16_t port, char *text, size_t size) {
  struct ifaddrs *all;
  size_t n = 0;
  if (getifaddrs(&all) != 0) return 0;
  for (int pass = 0; pass < 2; pass++)
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
      char host[NI_MAXHOST];
      SocketAddress a;
      if (!tells(i, pass == 1, &a)) continue;
      address_text(&a, host, sizeof host);
      size_t line = strlen(host) + sizeof " 65535\n";
      if (n + line < size) n += (size_t)snprintf(text + n, size - n, "%s %u\n", host, port);
    }
  freeifaddrs(all);
  return n;
}
