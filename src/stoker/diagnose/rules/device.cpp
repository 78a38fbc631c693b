// The device is there and does not work: copies that block, syncs, launches, precision.
#include "stoker/diagnose/rules/rule_families.h"

namespace stoker {

std::span<const Rule> device_rules() {
    return {};
}

}  // namespace stoker
