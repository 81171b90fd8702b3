# The prelude of generated CPU kernels, as a string in the compiler.
set(prelude_sources ${CMAKE_CURRENT_SOURCE_DIR}/base/random.h ${CMAKE_CURRENT_SOURCE_DIR}/codegen/kernel_prelude.h
    ${CMAKE_CURRENT_SOURCE_DIR}/codegen/kernel_templates.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${prelude_sources})
set(prelude_text "")
foreach(source ${prelude_sources})
  file(READ ${source} text)
  string(APPEND prelude_text "${text}")
endforeach()
string(REPLACE "\\" "\\\\" prelude_text "${prelude_text}")
string(REPLACE "\"" "\\\"" prelude_text "${prelude_text}")
string(REPLACE "\n" "\\n\"\n\"" prelude_text "${prelude_text}")
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/generated/kernel_prelude.c
     CONTENT "extern const char kernel_prelude[];\nconst char kernel_prelude[] =\n\"@prelude_text@\";\n" @ONLY)
target_sources(apc_codegen PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated/kernel_prelude.c)
