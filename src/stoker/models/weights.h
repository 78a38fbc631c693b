// Checks of weights that are loaded into a model. Names and shapes show whether they belong to another architecture,
// stem, image size or number of classes, and the error says what to change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/models/model.h"

namespace stoker {

// Throws InvalidArgument, with `where` as the origin of `given`, unless `given` has exactly the model's tensors, with
// their shapes.
void require_weights(const Model& model, const std::vector<NamedTensor>& given, const std::string& where);

// Throws InvalidArgument, with `where` as the origin of the weights, for a parameter that is not finite and a buffer
// with NaN. A buffer may be infinite, as an attention mask is.
void require_finite(const Model& model, const std::string& where);

// Removes the prefixes that DataParallel, DistributedDataParallel ("module."), torch.compile ("_orig_mod.") and
// Lightning ("model.") put before every name, unless all names of the model also start with them.
void strip_prefixes(std::vector<NamedTensor>& given, const Model& model);

// Adds the counts of batches of the model's batch norms where files of before torch 0.4.1 lack them: 0, as torch does.
void add_batch_counts(std::vector<NamedTensor>& given, const Model& model);

// The names of the parameters of the one layer that differs from `given` in its number of outputs alone, which is
// `classes` in the model. Empty if no layer or several differ so, or if other parameters differ too.
std::vector<std::string> mismatched_classifier(const Model& model, const std::vector<NamedTensor>& given,
                                               std::int64_t classes);

// The names of the parameters of the last layer, which has `classes` outputs, if they are all that `given` lacks: it is
// a model whose classifier was removed. Empty otherwise.
std::vector<std::string> missing_classifier(const Model& model, const std::vector<NamedTensor>& given,
                                            std::int64_t classes);

}  // namespace stoker
