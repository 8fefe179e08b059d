// How the process keeps and returns memory. A request body of megabytes that is taken from the system and
// given back each time costs more in page faults than in everything else that is done with it, so freed
// memory is kept while there is work, and returned when there has been none for a while.
#pragma once

namespace weir::gateway {

// REQUIRES: before the first thread.
void keep_freed_memory();

// Called at a steady pace by one thread.
class idle_trim final {
 public:
  // Returns freed memory once per idle period, after k_idle_ticks calls in a row with busy false.
  void tick(bool busy);

 private:
  static constexpr int k_idle_ticks = 10;
  int idle_ticks_ = 0;
};

}  // namespace weir::gateway
