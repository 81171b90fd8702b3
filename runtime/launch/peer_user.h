/* runtime/launch/peer_user.h - the user of the socket at the other end of a connection inside this machine.
 *
 * Any user of a machine can connect to its loopback, and listen there.  If ranks meet at such an address without a
 * secret, each checks the user of the socket at the other end.  The answer only proves that the user made that socket:
 * a process of theirs that forwards connections, such as a tunnel, lets in anyone who can reach it.
 */
#ifndef APC_RUNTIME_LAUNCH_PEER_USER_H
#define APC_RUNTIME_LAUNCH_PEER_USER_H

#include <stdbool.h>

/* True if the other end of a TCP connection, both ends on this machine, belongs to the user of this process.  A peer
 * that connected must have sent something before, so that its end has an owner.  False with errno: EPERM for another
 * user, ENOTCONN if no process holds it, others if the system does not report it. */
bool peer_user_is_own(int fd);

#endif
