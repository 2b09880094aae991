# libreshard-scalapack: ScaLAPACK's redistribution routines, implemented with reshard.  It links no MPI and no ScaLAPACK,
# because it uses those of the program.

set(RESHARD_SCALAPACK AUTO CACHE STRING "Build libreshard-scalapack: ON, OFF, or AUTO: with libreshard-mpi")
set_property(CACHE RESHARD_SCALAPACK PROPERTY STRINGS AUTO ON OFF)

if(TARGET reshard-mpi AND NOT RESHARD_SCALAPACK STREQUAL "OFF")
  file(GLOB scalapack_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/scalapack/*.c)
  add_library(reshard-scalapack SHARED ${scalapack_sources})
  add_library(reshard::scalapack ALIAS reshard-scalapack)
  set_target_properties(reshard-scalapack PROPERTIES EXPORT_NAME scalapack INSTALL_RPATH "$ORIGIN" VERSION ${PROJECT_VERSION} SOVERSION ${RESHARD_ABI})
  target_include_directories(reshard-scalapack PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_options(reshard-scalapack PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/scalapack.map)
  target_link_libraries(reshard-scalapack PUBLIC reshard PRIVATE reshard-flags reshard-mpi ${CMAKE_DL_LIBS})
elseif(RESHARD_SCALAPACK STREQUAL "ON")
  message(FATAL_ERROR "RESHARD_SCALAPACK is ON, but libreshard-mpi is not built: set RESHARD_MPI and RESHARD_MPICC")
endif()
