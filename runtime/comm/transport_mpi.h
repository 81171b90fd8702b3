/* runtime/comm/transport_mpi.h - MPI as a transport: a plug-in, because MPI's binary interface differs between
 * implementations.
 *
 * runtime/mpi/plugin.c is compiled with mpicc where there is one and becomes part of the runtime as bytes; loading them
 * loads the MPI library of the machine.  APC_MPI_PLUGIN names another file, for another implementation than the one
 * compiled against.
 */
#ifndef APC_RUNTIME_COMM_TRANSPORT_MPI_H
#define APC_RUNTIME_COMM_TRANSPORT_MPI_H

#include "runtime/comm/transport.h"

#define TRANSPORT_MPI_SYMBOL "apc_transport_mpi_open"
#define TRANSPORT_MPI_VARIABLE "APC_MPI_PLUGIN"

enum { TRANSPORT_MPI_VERSION = 1 }; /* grows with every change of struct Transport or Transfer */

/* What the plug-in exports.  Initialises MPI; closing the transport finalises it, aborting it ends all ranks with
 * t->exit_code.  `world` must be the number of MPI's ranks, `rank` this one. */
typedef RtStatus TransportMpiOpen(int version, int rank, int world, Transport **out, RtError *error);

/* Loads the plug-in and opens it.  RT_UNSUPPORTED when there is none, or no MPI library. */
RtStatus transport_mpi_open(int rank, int world, Transport **out, RtError *error);

#endif
