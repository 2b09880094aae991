# Loader: makes the dynamic loader find the installed library, or prints how to do that.
#
# Runs in `cmake --install`.  A staged install (DESTDIR) is for a package or
# another machine, whose loader must not be changed here.

if(NOT "$ENV{DESTDIR}" STREQUAL "")
  return()
endif()
cmake_path(ABSOLUTE_PATH reshard_libdir BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE)
find_program(ldconfig NAMES ldconfig PATHS /sbin /usr/sbin NO_CACHE)
set(known)
if(ldconfig)
  execute_process(COMMAND id -u OUTPUT_VARIABLE user OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(user STREQUAL "0" AND CMAKE_INSTALL_PREFIX MATCHES "^/usr(/local)?/?$")
    execute_process(COMMAND ${ldconfig} ERROR_QUIET)
  endif()
  execute_process(COMMAND ${ldconfig} -p OUTPUT_VARIABLE known ERROR_QUIET)
endif()
string(FIND "${known}" "${reshard_libdir}/libreshard.so" found)
if(found EQUAL -1)
  message(STATUS "The loader does not know ${reshard_libdir} yet.  For programs that link to libreshard.so, run ldconfig as root "
                 "(where that folder is in /etc/ld.so.conf), or set LD_LIBRARY_PATH=${reshard_libdir}")
endif()
