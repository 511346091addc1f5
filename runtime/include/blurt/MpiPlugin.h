//===- MpiPlugin.h - what the MPI plug-in gives the runtime ------*- C++
//-*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// libblurt-mpi.so is the only part of BluTrain that is linked with MPI. It is
// loaded when a program for several ranks starts under mpirun or srun, and
// exports one function, blurt_mpi_plugin, which returns the table below. All
// functions but `initialise` return at once; those that return an int return 0
// on success, or MPI's error.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_MPIPLUGIN_H
#define BLURT_MPIPLUGIN_H

#include <stdint.h>

extern "C" {

#define BLURT_MPI_PLUGIN_VERSION 1

struct blurt_mpi_table {
  int32_t version;
  const char *library; ///< "Open MPI v4.1.4, …"
  /// Joins the ranks that the launcher started.
  int (*initialise)(int32_t *rank, int32_t *size);
  /// Begins to send or receive; `*request` is freed when `test` finds it done.
  int (*send)(const void *from, uint64_t bytes, int32_t peer, int32_t tag,
              void **request);
  int (*receive)(void *to, uint64_t bytes, int32_t peer, int32_t tag,
                 void **request);
  int (*test)(void *request, int32_t *done);
  /// Leaves; every rank must.
  int (*finalise)();
};

typedef const blurt_mpi_table *(*blurt_mpi_plugin_function)();
}

#endif // BLURT_MPIPLUGIN_H
