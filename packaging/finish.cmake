# Run by cpack between staging and packing: gives every package its copyright file and changelog, and compresses manual
# pages, as Debian's policy asks.
foreach(pair compiler=apc runtime=apc-runtime development=apc-dev)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  set(stage ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/share)
  file(MAKE_DIRECTORY ${stage}/doc/${package})
  file(COPY_FILE ${CMAKE_CURRENT_LIST_DIR}/../LICENSE ${stage}/doc/${package}/copyright)
  file(COPY_FILE ${CPACK_APC_CHANGELOG} ${stage}/doc/${package}/changelog)
  file(GLOB_RECURSE pages ${stage}/man/*.[1-9])
  execute_process(COMMAND gzip -9nf ${stage}/doc/${package}/changelog ${pages} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
