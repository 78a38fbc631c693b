// The host: cores, memory, swap, throttling.
#include "stoker/diagnose/rules/rule_families.h"

namespace stoker {

std::span<const Rule> host_rules() {
    return {};
}

}  // namespace stoker
