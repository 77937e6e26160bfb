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
find_library(IBERTY_LIBRARY iberty REQUIRED)
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

# POOLSCOPE_CUDA: nvcc works here, so the cuda device of the reference trainer is built, for the GPUs
# of CMAKE_CUDA_ARCHITECTURES. Its libraries are loaded at run time. Set before any target.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90)
endif()
option(POOLSCOPE_CUDA "Build the reference trainer's cuda device where nvcc works" ON)
if(POOLSCOPE_CUDA)
  find_program(POOLSCOPE_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  if(POOLSCOPE_NVCC AND NOT DEFINED ENV{CUDACXX})
    set(ENV{CUDACXX} ${POOLSCOPE_NVCC})
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(POOLSCOPE_CUDA OFF)
  endif()
endif()
if(POOLSCOPE_CUDA)
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # which CMake 3.25 does not know of nvcc
  find_package(CUDAToolkit REQUIRED)
  message(STATUS "nvcc found: the cuda device is built for ${CMAKE_CUDA_ARCHITECTURES}")
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
else()
  message(STATUS "No nvcc: everything but the reference trainer's cuda device will be built")
endif()
find_path(CUPTI_INCLUDE_DIR cupti.h
          HINTS $ENV{CUDA_HOME}/include /usr/local/cuda/include
                /usr/local/cuda/extras/CUPTI/include)
if(CUPTI_INCLUDE_DIR)
  message(STATUS "CUDA Toolkit found: CUPTI headers in ${CUPTI_INCLUDE_DIR}")
else()
  message(STATUS "No CUPTI headers: everything but the agent's CUPTI source will be built")
endif()
