#include "stoker/monitor/gpu_counters.h"

namespace stoker {
namespace {

struct Reason {
    std::uint64_t bit;
    const char* name;
    bool throttles;
};

// The bits of NVML's nvmlClocksEventReasons. "Slowdown" by hardware is also set with its two causes.
constexpr Reason kReasons[] = {
    {0x001, "idle", false},
    {0x002, "clocks set by a user", false},
    {kPowerLimitReason, "power limit", true},
    {0x008, "hardware slowdown", true},
    {0x010, "slowest GPU of a sync group", true},
    {0x020, "temperature", true},
    {0x040, "temperature (hardware)", true},
    {0x080, "power brake of the power supply", true},
    {0x100, "display clocks", false},
};

}  // namespace

std::vector<std::string> clock_reason_names(std::uint64_t reasons) {
    std::vector<std::string> names;
    for (const Reason& reason : kReasons) {
        if ((reasons & reason.bit) != 0) {
            names.emplace_back(reason.name);
            reasons &= ~reason.bit;
        }
    }
    if (reasons != 0) {
        names.emplace_back("a reason that this version of Stoker does not know");
    }
    return names;
}

std::uint64_t throttling_reasons(std::uint64_t reasons) {
    std::uint64_t found = 0;
    for (const Reason& reason : kReasons) {
        found |= reason.throttles ? reasons & reason.bit : 0;
    }
    return found;
}

}  // namespace stoker
