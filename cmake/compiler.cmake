find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

set(poolscope_warnings -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  list(APPEND poolscope_warnings -Wthread-safety)
endif()
if(POOLSCOPE_WERROR)
  list(APPEND poolscope_warnings -Werror)
endif()
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-psabi>)
if(POOLSCOPE_SANITIZE)
  add_compile_options($<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-fsanitize=${POOLSCOPE_SANITIZE}>
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${POOLSCOPE_SANITIZE})
  if(POOLSCOPE_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)  # it does not know fences; what they order is atomic too
  endif()
endif()

# The one way to make a library or program of this project: warnings on, includes from the root.
function(poolscope_target name)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:${poolscope_warnings}>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
  if(POOLSCOPE_WERROR)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  endif()
endfunction()
