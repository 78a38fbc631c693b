// Each worker reads pieces of the data set into a buffer, which goes to the block's memory in one copy.
#include "stoker/pipeline/image_table.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <mutex>
#include <numeric>
#include <optional>

#include "stoker/base/byte_text.h"
#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/base/parallel_for.h"
#include "stoker/formats/image_kind.h"
#include "stoker/pipeline/read_sample.h"

namespace stoker {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{8} << 20;

// The data set cannot be held; the reason.
struct NotHeld {
    std::string why;
};

std::string size_text(ConstImageView image) {
    return fmt::format("{} x {} x {}", image.channels, image.height, image.width);
}

std::int64_t bytes_of(ConstImageView image) {
    return static_cast<std::int64_t>(image.row_bytes()) * image.height;
}

// One thread's buffers.
class Reader {
  public:
    Reader(const Dataset& dataset, const Transform& transform) : dataset_(dataset), transform_(transform) {}

    // The sample's image after the ops before the first random one; valid until the next call.
    ConstImageView read(std::int64_t index) {
        StageClock clock(times_, /*on=*/false);
        read_sample(dataset_, index, sample_);
        if (!sample_.frames.empty() || (sample_.encoded && is_video(sample_.bytes))) {
            throw NotHeld{"its samples are clips"};
        }
        if (sample_.encoded && is_sound(sample_.bytes)) {
            throw NotHeld{"its samples are sounds"};
        }
        if (is_deep(sample_)) {
            throw NotHeld{"its images are not uint8 of up to 4 channels"};
        }
        return transform_.prepare(sample_, scratch_, clock);
    }
    std::int64_t label() const { return sample_.label; }

  private:
    const Dataset& dataset_;
    const Transform& transform_;
    Sample sample_;
    TransformScratch scratch_;
    StageTimes times_;
};

// Reads all samples into a block whose size the first good one gives.
class Load {
  public:
    Load(const Dataset& dataset, const Transform& transform, ImageMemory& memory)
        : dataset_(dataset), transform_(transform), memory_(memory) {}

    void allocate(std::int64_t most, const std::function<std::string(ImageSize)>& why_not) {
        Reader reader(dataset_, transform_);
        for (std::int64_t index = 0; index < dataset_.size(); ++index) {
            const std::optional<ConstImageView> good = try_read(reader, index);
            if (!good) {
                continue;
            }
            const ConstImageView image = *good;
            const std::int64_t bytes = bytes_of(image) * dataset_.size();
            if (bytes > most) {
                throw NotHeld{fmt::format("its images take {}, and data.cache_bytes leaves {} for them",
                                          byte_text(bytes), byte_text(most))};
            }
            const ImageSize size{image.height, image.width};
            for (std::string why : {why_not ? why_not(size) : "", memory_.why_too_small(bytes)}) {
                if (!why.empty()) {
                    throw NotHeld{std::move(why)};
                }
            }
            block_ = memory_.allocate(dataset_.size(), size, image.channels);
            labels_.resize(static_cast<std::size_t>(dataset_.size()), -1);
            return;
        }
        throw NotHeld{"none of its samples can be read"};
    }

    void read_all(int threads) {
        const std::int64_t piece = std::clamp<std::int64_t>(kPieceBytes / image_bytes(), 1, 4096);
        parallel_for(threads, dataset_.size(), piece, [this](std::int64_t begin, std::int64_t end) {
            with_checked_maps([&] { read_piece(begin, end); });
        });
    }

    std::shared_ptr<const ImageTable> table() {
        return std::make_shared<const ImageTable>(block_, std::move(labels_), std::move(bad_));
    }

  private:
    std::int64_t image_bytes() const {
        return std::int64_t{block_->size.height} * block_->size.width * block_->channels;
    }

    // Empty for a bad sample, whose error is kept.
    std::optional<ConstImageView> try_read(Reader& reader, std::int64_t index) {
        try {
            try {
                return reader.read(index);
            } catch (...) {
                rethrow_located(dataset_, index);
            }
        } catch (const DataError&) {
            const std::lock_guard lock(mutex_);
            bad_.emplace(index, std::current_exception());
            return std::nullopt;
        }
    }

    void read_piece(std::int64_t begin, std::int64_t end) {
        std::vector<std::int64_t> indices(static_cast<std::size_t>(end - begin));
        std::iota(indices.begin(), indices.end(), begin);
        dataset_.prefetch(indices);
        Reader reader(dataset_, transform_);
        Buffer images(static_cast<std::size_t>((end - begin) * image_bytes()));
        for (std::int64_t index = begin; index < end; ++index) {
            std::byte* const to = images.data() + (index - begin) * image_bytes();
            if (const std::optional<ConstImageView> image = try_read(reader, index)) {
                copy_image(index, *image, to);
                labels_[static_cast<std::size_t>(index)] = reader.label();
            } else {
                std::memset(to, 0, static_cast<std::size_t>(image_bytes()));
            }
        }
        memory_.write(begin, images.bytes());
    }

    void copy_image(std::int64_t index, ConstImageView image, std::byte* to) const {
        if (ImageSize{image.height, image.width} != block_->size || image.channels != block_->channels) {
            throw NotHeld{
                fmt::format("image {} has {} (channels, height, width) and others {} x {} x {} before the "
                            "first random op: begin the list with a resize",
                            index, size_text(image), block_->channels, block_->size.height, block_->size.width)};
        }
        const auto row = static_cast<std::ptrdiff_t>(image.row_bytes());
        copy_pixels(image, {reinterpret_cast<std::uint8_t*>(to), image.height, image.width, image.channels, row});
    }

    const Dataset& dataset_;
    const Transform& transform_;
    ImageMemory& memory_;
    std::shared_ptr<const ImageBlock> block_;
    std::vector<std::int64_t> labels_;
    std::mutex mutex_;  // guards bad_
    std::unordered_map<std::int64_t, std::exception_ptr> bad_;
};

}  // namespace

std::int64_t ImageTable::label(std::int64_t index) const {
    if (const auto bad = bad_.find(index); bad != bad_.end()) {
        std::rethrow_exception(bad->second);
    }
    return labels_[static_cast<std::size_t>(index)];
}

LoadedImages load_images(const Dataset& dataset, const Transform& transform, ImageMemory& memory, std::int64_t most,
                         int threads, const std::function<std::string(ImageSize)>& why_not) {
    if (!dataset.has_image()) {
        return {.table = nullptr, .why_not = "its samples have no image"};
    }
    if (!dataset.fields().empty()) {
        return {.table = nullptr, .why_not = "it has fields beside image and label: " + dataset.fields().front().name};
    }
    try {
        Load load(dataset, transform, memory);
        load.allocate(most, why_not);
        load.read_all(std::max(threads, 1));
        return {.table = load.table(), .why_not = ""};
    } catch (const NotHeld& reason) {
        return {.table = nullptr, .why_not = reason.why};
    }
}

}  // namespace stoker
