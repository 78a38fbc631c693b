// Several data sets as one, sample after sample: what a mix of sources draws from.
#pragma once

#include <memory>
#include <vector>

#include "stoker/formats/source.h"

namespace stoker {

class Concat final : public Source {
  public:
    // All with the same classes. Throws InvalidArgument where they differ, or for no source at all.
    explicit Concat(std::vector<std::shared_ptr<const Source>> sources);

    std::int64_t size() const override { return begins_.back(); }
    void read(std::int64_t index, Sample& sample) const override;
    // "1:cat/001.jpg": the source's number from 0, since two sources may hold the same keys.
    std::string key(std::int64_t index) const override;
    void prefetch(std::span<const std::int64_t> indices) const override;
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::vector<std::int64_t> shard_sizes() const override;
    std::span<const std::string> classes() const override { return sources_.front()->classes(); }
    std::string_view format() const override { return "concat"; }
    std::string path() const override;  // all of them
    std::int64_t bytes() const override;

  private:
    struct Place {
        const Source& source;
        std::size_t number;
        std::int64_t index;
    };
    Place place(std::int64_t index) const;

    std::vector<std::shared_ptr<const Source>> sources_;
    std::vector<std::int64_t> begins_;  // of each source, and the end
};

}  // namespace stoker
