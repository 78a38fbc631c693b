#include "engine/tune/pack_sample.h"

#include <memory>
#include <vector>

#include "cli/terminal/signals.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/formats/subset.h"
#include "stoker/pack/pack.h"
#include "stoker/pipeline/recipe_data.h"

namespace stoker::cli {
namespace {

std::shared_ptr<const Dataset> part_of(std::shared_ptr<const Dataset> dataset, std::int64_t samples) {
    if (samples <= 0 || samples >= dataset->size()) {
        return dataset;
    }
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < samples; ++i) {
        indices.push_back(i * dataset->size() / samples);
    }
    return std::make_shared<Subset>(std::move(dataset), std::move(indices));
}

}  // namespace

std::optional<PackedPart> pack_part(const Recipe& recipe, const std::string& codec, std::int64_t samples,
                                    const std::filesystem::path& folder) {
    const auto dataset = part_of(open_dataset(recipe.data.train, Split::train, open_options(recipe.data)), samples);
    const PackOptions options{.fields = {.image = recipe.data.fields.image, .label = recipe.data.fields.label},
                              .transcode = {.codec = parse_pack_codec(codec)},
                              .workers = cpu_cores().usable,
                              .skip_bad = true,
                              .progress = [](const PackProgress&) { check_interrupt(); }};
    const PackResult packed = pack(*dataset, folder / (codec + ".stk"), options);
    const bool useless = codec == "dct" && !packed.codecs.contains("dct");
    if (useless || packed.samples == 0) {
        return std::nullopt;
    }
    return PackedPart{.path = packed.path,
                      .bytes_per_sample = static_cast<double>(packed.bytes_out) / static_cast<double>(packed.samples)};
}

}  // namespace stoker::cli
