// Whether weights from elsewhere are a model's, and what to do where they are not: the names and shapes tell another
// architecture, another stem, other images, other classes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/models/model.h"

namespace stoker {

// Throws InvalidArgument, with `where` they come from, unless `given` has each of the model's tensors in its shape, and
// no others.
void require_weights(const Model& model, const std::vector<NamedTensor>& given, const std::string& where);

// Throws InvalidArgument, with `where` they come from, for a parameter that is not finite and a buffer with NaN. A
// buffer may be infinite: the mask of an attention is.
void require_finite(const Model& model, const std::string& where);

// Takes off what DataParallel, DistributedDataParallel ("module."), torch.compile ("_orig_mod.") and Lightning
// ("model.") put before every name, unless the model's own begin so.
void take_prefixes_off(std::vector<NamedTensor>& given, const Model& model);

// The parameters of the one layer whose shapes in `given` differ from the model's in the number of outputs alone, which
// is `classes` on the model's side. Empty where there is no such layer, or where others differ too.
std::vector<std::string> fresh_layer(const Model& model, const std::vector<NamedTensor>& given, std::int64_t classes);

}  // namespace stoker
