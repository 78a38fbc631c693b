// Makes a loader's batches. Their memory is claimed at once and allocated when it is needed, so that too many batches
// are refused at the start, and a cache does not take the memory of a loader that begins later.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "stoker/base/memory_limit.h"
#include "stoker/pipeline/batch.h"

namespace stoker {

class BatchMemory {
  public:
    // Claims memory for `batches` of `capacity` samples; with `twice`, only if as much again stays free. Throws
    // MemoryError if there is less.
    BatchMemory(const std::vector<FieldSpec>& fields, std::int64_t capacity, std::int64_t batches, bool twice,
                Allocator& allocator);

    // Allocates a batch, which the claim no longer covers.
    std::unique_ptr<Batch> make();
    // No more batches of the claim are needed.
    void release() { claim_.shrink_to(0); }

  private:
    std::vector<FieldSpec> fields_;
    std::int64_t capacity_;
    Allocator& allocator_;
    std::uint64_t bytes_;  // of a batch
    MemoryClaim claim_;
};

}  // namespace stoker
