# The engine `mpi`: libreshard-mpi, one file against an MPI.  The core library needs none.
#
# RESHARD_MPICC is an MPI's compiler wrapper; what it adds to a command line is asked of it (-show: Open MPI, MPICH and their kin).

set(RESHARD_MPI AUTO CACHE STRING "Build libreshard-mpi: ON, OFF, or AUTO: where there is an MPI")
set_property(CACHE RESHARD_MPI PROPERTY STRINGS AUTO ON OFF)
find_program(RESHARD_MPICC NAMES mpicc.openmpi mpicc DOC "An MPI's compiler wrapper")
find_program(RESHARD_MPICH_MPICC NAMES mpicc.mpich DOC "MPICH's compiler wrapper, for tests")

# An interface library `name` with what `wrapper` adds; <name>_FLAGS is the compiler's part.
function(reshard_mpi_flags name wrapper)
  execute_process(COMMAND ${wrapper} -show OUTPUT_VARIABLE shown RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(FATAL_ERROR "${wrapper} -show failed: it is not an MPI's compiler wrapper")
  endif()
  separate_arguments(words UNIX_COMMAND "${shown}")
  set(compile ${words})
  list(FILTER compile INCLUDE REGEX "^-[ID]")
  set(link ${words})
  list(FILTER link INCLUDE REGEX "^-([Ll]|Wl,)")
  add_library(${name} INTERFACE)
  string(REPLACE "-I" "" include "${compile}")
  target_include_directories(${name} SYSTEM INTERFACE ${include})
  target_link_options(${name} INTERFACE ${link})
  target_link_libraries(${name} INTERFACE ${link})
  string(JOIN " " compile ${compile})
  set(${name}_FLAGS "${compile}" PARENT_SCOPE)
endfunction()

set(mpi_wanted ${RESHARD_MPI})
if(RESHARD_MPI STREQUAL "AUTO")
  set(mpi_wanted OFF)
  if(PROJECT_IS_TOP_LEVEL AND RESHARD_MPICC AND NOT RESHARD_SANITIZE) # an MPI leaks and races on its own account
    set(mpi_wanted ON)
  endif()
elseif(RESHARD_MPI AND NOT RESHARD_MPICC)
  message(FATAL_ERROR "RESHARD_MPI is ON, but there is no MPI's compiler wrapper: set RESHARD_MPICC")
endif()

if(mpi_wanted)
  reshard_mpi_flags(reshard-mpi-flags ${RESHARD_MPICC})
  add_library(reshard-mpi SHARED ${PROJECT_SOURCE_DIR}/src/mpi/comm_mpi.c)
  add_library(reshard::mpi ALIAS reshard-mpi)
  set_target_properties(reshard-mpi PROPERTIES EXPORT_NAME mpi INSTALL_RPATH "$ORIGIN")
  reshard_abi(reshard-mpi)
  target_link_libraries(reshard-mpi PUBLIC reshard PRIVATE reshard-flags $<BUILD_INTERFACE:reshard-mpi-flags>)
endif()
