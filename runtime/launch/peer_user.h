/* runtime/launch/peer_user.h - whose socket is at the other end of a connection inside this machine?
 *
 * Any user of a machine can connect to its loopback, and listen there.  Where ranks meet at such an address without a
 * secret, each asks whom the socket at the other end belongs to.  What the answer is worth: the user made that socket.
 * A process of theirs that forwards connections, a tunnel for instance, lets in whoever reaches it.
 */
#ifndef APC_RUNTIME_LAUNCH_PEER_USER_H
#define APC_RUNTIME_LAUNCH_PEER_USER_H

#include <stdbool.h>

/* Does the other end of a TCP connection, both ends on this machine, belong to the user of this process?  Who was
 * accepted by it must have said something before, so that its end has an owner.  False with errno: EPERM for another's,
 * ENOTCONN when nobody holds it, others when the system does not say. */
bool peer_user_is_own(int fd);

#endif
