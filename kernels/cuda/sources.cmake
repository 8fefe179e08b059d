# The CUDA backend's sources, for the library of a GPU and for the one that tests emulate.
set(WEIR_CUDA_SOURCES
  table.cpp

  # rows and state
  elementwise.cu

  # products and attention
  gemm.cu
  experts.cu
  experts_narrow.cu
  experts_sort.cu
  experts_wide.cu
  mla.cu
  mla_absorb.cu
  mla_attend.cu
  )
