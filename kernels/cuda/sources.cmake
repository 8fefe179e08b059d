# The CUDA backend's sources, for the library of a GPU and for the one that tests emulate.
set(WEIR_CUDA_SOURCES
  table.cpp

  # rows and state
  elementwise.cu
  gather.cu
  kda.cu
  kda_chunk.cu
  kda_gate.cu
  mla_store.cu
  norm.cu
  residual.cu
  router.cu
  short_conv.cu

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

# How large products reach NVIDIA's library, and what stands there without it.
set(WEIR_CUDA_LIBRARY library_product.cpp)
set(WEIR_CUDA_NO_LIBRARY library_product_none.cpp)
