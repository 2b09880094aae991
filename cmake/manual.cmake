# The reference manual: man pages of section 3 and one HTML page, generated from the public headers if there is a python3.

find_program(PYTHON python3)
if(NOT PYTHON)
  message(STATUS "the reference manual is left out: there is no python3")
  return()
endif()
file(GLOB_RECURSE manual_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/*.h)
set(manual ${PROJECT_BINARY_DIR}/manual)
add_custom_command(OUTPUT ${manual}/manual.html
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${manual} # removes pages of functions that no longer exist
  COMMAND ${CMAKE_COMMAND} -E make_directory ${manual}
  COMMAND ${PYTHON} ${PROJECT_SOURCE_DIR}/tools/manual.py ${PROJECT_SOURCE_DIR} ${manual}
  DEPENDS ${manual_headers} ${PROJECT_SOURCE_DIR}/tools/manual.py ${PROJECT_SOURCE_DIR}/VERSION VERBATIM)
add_custom_target(manual ALL DEPENDS ${manual}/manual.html)
install(DIRECTORY ${manual}/man3 DESTINATION ${CMAKE_INSTALL_MANDIR})
install(FILES ${manual}/manual.html DESTINATION ${CMAKE_INSTALL_DOCDIR})
