# Reads tests/suite/table.txt: the runs of each test, and the rooms whose faults it finds.  apc_test() registers a test
# with its row as labels, by which test.sh selects:
#
#   fast, release, ci, sanitizers, threads   the runs that it is part of
#   the same with .0 to .3                   the runs that it is part of in that quarter only
#   room.NAME                                a room whose faults it finds; room.all: of all
#   quarter.0 to quarter.3                   the quarter in which it runs though none of its rooms was touched
#   its own name                             for a change of the test itself
#
# A test without a row, and a row without a test, stop the configuration.

add_executable(suite_cost ${CMAKE_CURRENT_LIST_DIR}/cost.c)
target_link_libraries(suite_cost PRIVATE apc_warnings)
target_compile_options(suite_cost PRIVATE -fno-sanitize=all)
target_link_options(suite_cost PRIVATE -fno-sanitize=all)
set_target_properties(suite_cost PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# Targets to build before any test of a run can start; the programs of its tests are added to it.
foreach(run fast sanitizers threads)
  add_custom_target(tests-${run} DEPENDS suite_cost apc apc-opt apcrt-stub apcrt apcrt_shared)
endforeach()

set(table ${CMAKE_CURRENT_LIST_DIR}/table.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table})
file(STRINGS ${table} rows REGEX "^[a-z]")
list(FILTER rows EXCLUDE REGEX "^room ")
set(suite_names)
foreach(row ${rows})
  if(NOT row MATCHES "^([^ ]+) +([a-z,/4]+) +([a-z,]+) *([0-9]*)$")
    message(FATAL_ERROR "${table}: not \"test runs rooms [seconds]\": ${row}")
  endif()
  set(name ${CMAKE_MATCH_1})
  set(seconds_of_${name} ${CMAKE_MATCH_4})
  set(runs ${CMAKE_MATCH_2})
  string(REGEX REPLACE "([a-z]+),?" "room.\\1;" rooms ${CMAKE_MATCH_3})
  list(LENGTH suite_names place)
  math(EXPR quarter "${place} % 4")
  list(APPEND suite_names ${name})
  string(REPLACE "," ";" labels ${runs})
  string(REPLACE "/4" ".${quarter}" labels "${labels}")
  string(REPLACE "/4" "" runs ${runs})
  string(REPLACE "," ";" runs_of_${name} ${runs})
  set(labels_of_${name} ${labels} ${rooms} quarter.${quarter} ${name})
endforeach()

# apc_test(NAME name COMMAND command... [WORKING_DIRECTORY folder] [NEEDS targets...])
# A command that is a target stands for its program.  Exit code 77 means that the test was skipped.  The time limit of
# half an hour is no measure of speed: it ends hangs.
function(apc_test)
  cmake_parse_arguments(PARSE_ARGV 0 t "" "NAME;WORKING_DIRECTORY" "COMMAND;NEEDS")
  if(NOT t_NAME IN_LIST suite_names)
    message(FATAL_ERROR "${table} has no row for the test ${t_NAME}")
  endif()
  list(GET t_COMMAND 0 program)
  if(TARGET ${program})
    list(REMOVE_AT t_COMMAND 0)
    list(PREPEND t_COMMAND $<TARGET_FILE:${program}>)
    list(APPEND t_NEEDS ${program})
  endif()
  string(REGEX MATCHALL "<TARGET_FILE:[^>]+" targets "${t_COMMAND}")
  list(TRANSFORM targets REPLACE "<TARGET_FILE:" "")
  list(APPEND t_NEEDS ${targets})
  set(runs ${runs_of_${t_NAME}})
  foreach(run fast sanitizers threads)
    if(run IN_LIST runs AND t_NEEDS)
      add_dependencies(tests-${run} ${t_NEEDS})
    endif()
  endforeach()
  set(limit)
  if("fast" IN_LIST runs AND NOT APC_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(limit --fast)
  endif()
  if(NOT t_WORKING_DIRECTORY)
    set(t_WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  endif()
  add_test(NAME ${t_NAME} COMMAND suite_cost ${limit} ${t_NAME} ${t_COMMAND} WORKING_DIRECTORY ${t_WORKING_DIRECTORY})
  set_tests_properties(${t_NAME} PROPERTIES LABELS "${labels_of_${t_NAME}}" TIMEOUT 900 SKIP_RETURN_CODE 77
                       COST ${seconds_of_${t_NAME}}0) # ctest begins with the most expensive
endfunction()

# Every row has its test; only some tests are not part of every build.
function(apc_suite_complete)
  get_property(all DIRECTORY PROPERTY TESTS)
  foreach(name ${suite_names})
    if(NOT name IN_LIST all AND NOT (APC_SANITIZE AND NOT runs_of_${name} MATCHES "sanitizers|threads"))
      message(FATAL_ERROR "${table}: there is no test ${name}")
    endif()
  endforeach()
endfunction()
