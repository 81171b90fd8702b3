/* runtime/comm/transport_mpi.h - MPI as a transport: a plug-in, because the binary interface of MPI differs between
 * implementations.
 *
 * mpicc, if there is one, compiles runtime/mpi/plugin.c, whose bytes become part of the runtime; loading them loads the
 * MPI library of the machine.  APC_MPI_PLUGIN names another file, for another MPI implementation than that of the
 * build.
 */
#ifndef APC_RUNTIME_COMM_TRANSPORT_MPI_H
#define APC_RUNTIME_COMM_TRANSPORT_MPI_H

#include "runtime/comm/transport.h"

#define TRANSPORT_MPI_SYMBOL "apc_transport_mpi_open"
#define TRANSPORT_MPI_VARIABLE "APC_MPI_PLUGIN"

enum { TRANSPORT_MPI_VERSION = 1 }; /* increases with every change of struct Transport or Transfer */

/* The function that the plug-in exports.  It initialises MPI; closing the transport finalises MPI, aborting it ends all
 * ranks with t->exit_code.  `world` must be the number of MPI's ranks, `rank` this one. */
typedef RtStatus TransportMpiOpen(int version, int rank, int world, Transport **out, RtError *error);

/* Loads the plug-in and opens it.  RT_UNSUPPORTED if there is no plug-in, or no MPI library. */
RtStatus transport_mpi_open(int rank, int world, Transport **out, RtError *error);

#endif
