// The loader: storage, decoding, workers, prefetch, cache.
#include "stoker/diagnose/rules/rule_families.h"

namespace stoker {

std::span<const Rule> input_rules() {
    return {};
}

}  // namespace stoker
