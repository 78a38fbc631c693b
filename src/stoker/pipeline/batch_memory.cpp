#include "stoker/pipeline/batch_memory.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/pluralize.h"

namespace stoker {
namespace {

constexpr std::uint64_t kMost = std::uint64_t{1} << 62;

// The bytes of a batch's fixed fields; at most kMost.
std::uint64_t batch_bytes(const std::vector<FieldSpec>& fields, std::int64_t capacity) {
    double bytes = 0;
    for (const FieldSpec& field : fields) {
        bytes += field.ragged ? 0 : static_cast<double>(capacity) * static_cast<double>(field.sample_bytes());
    }
    return static_cast<std::uint64_t>(std::min(bytes, static_cast<double>(kMost)));
}

std::uint64_t product(std::uint64_t bytes, std::uint64_t times) {
    return bytes > kMost / times ? kMost : times * bytes;
}

}  // namespace

BatchMemory::BatchMemory(const std::vector<FieldSpec>& fields, std::int64_t capacity, std::int64_t batches, bool twice,
                         Allocator& allocator)
    : fields_(fields),
      capacity_(capacity),
      allocator_(allocator),
      bytes_(batch_bytes(fields, capacity)),
      claim_(product(bytes_, static_cast<std::uint64_t>(batches) * (twice ? 2 : 1)), "data.batch_size",
             fmt::format("these are {} batches of {}: lower data.batch_size or data.prefetch", batches,
                         pluralize(capacity, "image"))) {
    claim_.shrink_to(claim_.bytes() / (twice ? 2 : 1));
}

std::unique_ptr<Batch> BatchMemory::make() {
    claim_.shrink_to(claim_.bytes() - std::min(claim_.bytes(), bytes_));
    return std::make_unique<Batch>(fields_, capacity_, allocator_);
}

}  // namespace stoker
