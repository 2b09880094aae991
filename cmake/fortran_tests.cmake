# Tests of the Fortran interface, if there is a Fortran compiler (Debian: gfortran).

find_program(RESHARD_FC NAMES gfortran DOC "A Fortran compiler, for tests")
if(RESHARD_FC AND PYTHON AND NOT RESHARD_SANITIZE)
  set(fortran_mpi)
  if(TARGET reshard-mpi)
    string(REPLACE "mpicc" "mpif90" mpifc ${RESHARD_MPICC})
    if(EXISTS ${mpifc})
      set(fortran_mpi ${mpifc} ${launcher})
    endif()
  endif()
  add_test(NAME "fortran: the examples run" COMMAND ${TIMEOUT} 200 sh ${tests}/fortran/fortran_examples.sh
           ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER} ${RESHARD_FC} ${fortran_mpi} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties("fortran: the examples run" PROPERTIES LABELS "examples;fortran" PROCESSORS 2 ENVIRONMENT "${mpi_root}")
else()
  message(STATUS "no tests of the Fortran interface: there is no gfortran")
endif()
