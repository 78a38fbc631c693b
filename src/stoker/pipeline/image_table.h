// All samples of a data set, read once at the start: images in a block of memory, prepared up to the first random op,
// labels on the host. The loader then gives numbers and draws instead of pixels (IndexedImages).
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/pipeline/cache/image_memory.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

class ImageTable {
  public:
    ImageTable(std::shared_ptr<const ImageBlock> block, std::vector<std::int64_t> labels,
               std::unordered_map<std::int64_t, std::exception_ptr> bad)
        : block_(std::move(block)), labels_(std::move(labels)), bad_(std::move(bad)) {}

    const std::shared_ptr<const ImageBlock>& block() const { return block_; }
    std::int64_t size() const { return block_->count; }
    // Rethrows the error that the sample had when it was read; its image is zeros.
    std::int64_t label(std::int64_t index) const;

  private:
    std::shared_ptr<const ImageBlock> block_;
    std::vector<std::int64_t> labels_;
    std::unordered_map<std::int64_t, std::exception_ptr> bad_;
};

// `table` is null if the data set cannot be held so; `why_not` then has the reason.
struct LoadedImages {
    std::shared_ptr<const ImageTable> table;
    std::string why_not;
};

// Reads all samples with `threads` threads into at most `most` bytes. The transform's ops before the first random one
// must give all images one size; `why_not` may refuse that size with a reason. Errors of single samples are kept; those
// of the system, and of `memory`, are rethrown.
LoadedImages load_images(const Dataset& dataset, const Transform& transform, ImageMemory& memory, std::int64_t most,
                         int threads, const std::function<std::string(ImageSize)>& why_not = {});

}  // namespace stoker
