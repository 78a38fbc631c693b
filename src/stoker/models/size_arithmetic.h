// Python's arithmetic on the sizes of an exported graph: whole numbers, real ones and truth values.
#pragma once

#include <ATen/core/ivalue.h>

#include <span>
#include <string_view>

namespace stoker {

using SizeFunction = c10::IValue (*)(std::span<const c10::IValue> operands);

// The function of a node's target, such as "_operator.add" or "torch.sym_max"; null if there is none. Functions throw
// DataError for another number of operands, operands that are not numbers, a division by 0 and results beyond 64 bits.
SizeFunction find_size_function(std::string_view target);

}  // namespace stoker
