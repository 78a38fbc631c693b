// The switch of the account, of the workers' clocks and of the records of intervals, for `stoker bench overhead`, which
// measures what they cost. Nothing else switches them off.
#pragma once

#include <atomic>

namespace stoker {

inline std::atomic<bool> accounting_switch{true};

inline bool accounting() {
    return accounting_switch.load(std::memory_order_relaxed);
}

inline void set_accounting(bool on) {
    accounting_switch = on;
}

}  // namespace stoker
