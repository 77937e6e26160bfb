# Every package Poolscope builds with. All come from the distribution; CUDA is optional.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(prometheus-cpp REQUIRED COMPONENTS core)
find_package(OpenSSL REQUIRED)
find_package(OpenGL REQUIRED COMPONENTS OpenGL EGL)
find_package(glfw3 REQUIRED)
find_package(PNG REQUIRED)
find_package(BLAS REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)
pkg_check_modules(imgui REQUIRED IMPORTED_TARGET imgui)

# The reference trainer's transport over processes.
find_package(MPI COMPONENTS C)
if(NOT MPI_C_FOUND)
  message(STATUS "No MPI: poolscope-trainer will be built without --transport mpi")
endif()

# NVTX's headers: the CUDA Toolkit's, else those that scripts/setup unpacked from PyPI.
find_path(NVTX_INCLUDE_DIR nvtx3/nvToolsExtPayload.h
          HINTS $ENV{POOLSCOPE_NVTX_INCLUDE} $ENV{CUDA_HOME}/include /usr/local/cuda/include
                ${PROJECT_SOURCE_DIR}/build/nvtx/include)
if(NOT NVTX_INCLUDE_DIR)
  message(FATAL_ERROR "NVTX headers not found: run scripts/setup, or set POOLSCOPE_NVTX_INCLUDE "
                      "to the folder that holds nvtx3/")
endif()
add_library(poolscope_nvtx INTERFACE)
target_include_directories(poolscope_nvtx SYSTEM INTERFACE ${NVTX_INCLUDE_DIR})
target_link_libraries(poolscope_nvtx INTERFACE ${CMAKE_DL_LIBS})

# POOLSCOPE_CUDA: what of the CUDA Toolkit can be used here. Set before any target.
find_path(CUPTI_INCLUDE_DIR cupti.h
          HINTS $ENV{CUDA_HOME}/include /usr/local/cuda/include
                /usr/local/cuda/extras/CUPTI/include)
if(CUPTI_INCLUDE_DIR)
  message(STATUS "CUDA Toolkit found: CUPTI headers in ${CUPTI_INCLUDE_DIR}")
else()
  message(STATUS "No CUDA Toolkit: everything but the cuda device, CUPTI and NCCL will be built")
endif()
