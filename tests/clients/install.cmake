# Installs the pinned packages beside the tests, unless those of the lock file are there already.
file(SHA256 ${CMAKE_CURRENT_LIST_DIR}/package-lock.json wanted)
set(stamp ${CMAKE_CURRENT_LIST_DIR}/node_modules/.weir-lock)
set(have "")
if(EXISTS ${stamp})
  file(READ ${stamp} have)
endif()
if(have STREQUAL wanted)
  return()
endif()
find_program(npm npm REQUIRED)
execute_process(COMMAND ${npm} ci --ignore-scripts
                WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR} COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${stamp} ${wanted})
