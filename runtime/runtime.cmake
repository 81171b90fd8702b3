# The prebuilt runtime that becomes the head of every artifact, and the library for people who embed it.
add_executable(apcrt-stub runtime/stub/main.c)
target_link_libraries(apcrt-stub PRIVATE apc_warnings apc_runtime apc_base)

# Everything a user of apc_runtime.h needs; what to link besides is ${apc_link}, also in apc.pc and apcConfig.cmake.
set(apc_link -lz -ljansson -lpthread -ldl -lm)
add_library(apcrt STATIC $<TARGET_OBJECTS:apc_runtime> $<TARGET_OBJECTS:apc_base>)
set_target_properties(apcrt PROPERTIES LINKER_LANGUAGE C)
add_dependencies(apcrt apc_runtime apc_base)
