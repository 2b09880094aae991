# Tests under mpirun, for each MPI that is there.

find_program(TIMEOUT timeout REQUIRED)

# Where are the ranks of `ranks_on_mpi WHERE`, and how many?
set(mpi_settings "together 2" "together 3" "apart 2" "apart 3" "apart 4" "pairs 4")

function(reshard_mpi_tests mpi wrapper flags)
  string(REPLACE "mpicc" "mpirun" mpirun ${wrapper})
  execute_process(COMMAND ${mpirun} --version OUTPUT_VARIABLE version ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    message(STATUS "no tests with ${mpi}: ${mpirun} does not run")
    return()
  endif()
  set(many)
  if(version MATCHES "Open MPI|OpenRTE")
    set(many --oversubscribe)
  endif()
  set(program ranks-on-${mpi})
  add_executable(${program} ${tests}/mpi/ranks_on_mpi.c ${PROJECT_SOURCE_DIR}/src/mpi/comm_mpi.c)
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/mpi)
  target_link_libraries(${program} PRIVATE reshard-flags reshard ${flags})
  foreach(setting IN LISTS mpi_settings)
    separate_arguments(setting)
    list(GET setting 0 where)
    list(GET setting 1 n)
    set(name "mpi: ${mpi}, ${n} ranks ${where}")
    add_test(NAME ${name} COMMAND ${TIMEOUT} 120 ${mpirun} ${many} -n ${n} $<TARGET_FILE:${program}> ${where})
    set_tests_properties(${name} PROPERTIES LABELS mpi PROCESSORS 2
                         ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_btl_base_warn_component_unused=0")
  endforeach()
endfunction()

if(TARGET reshard-mpi)
  reshard_mpi_tests(default ${RESHARD_MPICC} reshard-mpi-flags)
  if(RESHARD_MPICH_MPICC AND NOT RESHARD_MPICH_MPICC STREQUAL RESHARD_MPICC)
    reshard_mpi_flags(reshard-mpich-flags ${RESHARD_MPICH_MPICC})
    reshard_mpi_tests(mpich ${RESHARD_MPICH_MPICC} reshard-mpich-flags)
    # The same engine for the command, loaded by name.
    add_library(reshard-mpich MODULE ${PROJECT_SOURCE_DIR}/src/mpi/comm_mpi.c)
    set_target_properties(reshard-mpich PROPERTIES OUTPUT_NAME reshard-mpi-mpich LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/mpi)
    target_link_libraries(reshard-mpich PRIVATE reshard reshard-flags reshard-mpich-flags)
  endif()
endif()
