# Embeds the preludes of generated kernels as strings in the compiler.
function(apc_embed name)
  set(joined "")
  foreach(source ${ARGN})
    file(READ ${CMAKE_CURRENT_SOURCE_DIR}/${source} text)
    string(APPEND joined "${text}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  endforeach()
  apc_embed_text(${name} "${joined}")
endfunction()

# The same for texts compiled without a C library: without includes, all functions are those of the first prelude.
function(apc_embed_freestanding name)
  set(joined "")
  foreach(source ${ARGN})
    file(READ ${CMAKE_CURRENT_SOURCE_DIR}/${source} text)
    if(NOT source MATCHES "prelude_device")
      string(REGEX REPLACE "#include <[a-z]*\\.h>\n" "" text "${text}")
      string(REPLACE "static inline " "FN " text "${text}")
    endif()
    string(APPEND joined "${text}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  endforeach()
  apc_embed_text(${name} "${joined}")
endfunction()

function(apc_embed_text name joined)
  string(REPLACE "\\" "\\\\" joined "${joined}")
  string(REPLACE "\"" "\\\"" joined "${joined}")
  string(REPLACE "\n" "\\n\"\n\"" joined "${joined}")
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/generated/${name}.c
       CONTENT "extern const char ${name}[];\nconst char ${name}[] =\n\"@joined@\";\n" @ONLY)
  target_sources(apc_codegen PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated/${name}.c)
endfunction()

apc_embed(kernel_prelude base/random.h codegen/cpu/kernel_elements.h codegen/cpu/kernel_small.h codegen/cpu/kernel_prelude.h codegen/cpu/kernel_templates.h
          codegen/cpu/kernel_attention.h codegen/cpu/kernel_attention_grad.h codegen/cpu/kernel_windows.h codegen/cpu/kernel_pools.h codegen/cpu/kernel_indexing.h codegen/cpu/kernel_grouped.h
          codegen/cpu/kernel_packed.h)
apc_embed(kernel_operators program/apc_operator.h codegen/cpu/kernel_operator.h)
apc_embed_freestanding(dialect_prelude codegen/cuda/prelude_device.h base/random.h codegen/cpu/kernel_elements.h codegen/cpu/kernel_small.h codegen/cuda/dialect.h codegen/cuda/dialect_templates.h
          codegen/cuda/dialect_attention.h codegen/cuda/dialect_attention_grad.h codegen/cuda/dialect_conv.h codegen/cuda/dialect_few.h codegen/cuda/dialect_indexing.h codegen/cuda/dialect_grouped.h
          codegen/cuda/dialect_packed.h)
