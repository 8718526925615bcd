# Warnings, linker and sanitizers for all of our code.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-comment)
find_program(LLD ld.lld-22 ld.lld)
if(LLD)
  add_link_options(-fuse-ld=lld)
  if(NOT EXISTS /usr/bin/ld.lld AND EXISTS /usr/lib/llvm-22/bin)
    add_link_options(-B/usr/lib/llvm-22/bin)
  endif()
endif()
if(TILERY_SANITIZE)
  # A finding ends the program, so that it fails the test.
  add_compile_options(-fsanitize=${TILERY_SANITIZE} -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${TILERY_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    # The runtime as a shared library: Python, which is not instrumented, loads it first.
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-runtime-dir
                    OUTPUT_VARIABLE TILERY_SANITIZER_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
    add_link_options(-shared-libsan -Wl,-rpath,${TILERY_SANITIZER_DIR})
    # The check reads the signature that clang writes before a function; the memory before a
    # kernel that was compiled at run time may not even be mapped.
    set(TILERY_CALLS_KERNELS -fno-sanitize=function)
  endif()
endif()
